"""Texts that the tests of the language share."""

from __future__ import annotations

from proxyd.core.language import Checked, SourceText, check
from proxyd.core.model.profile import Declaration, NotificationRule

PAPER = """CREATE DOMAIN "RSS_Feeds" AS
CLASS::RSS(channel.item.title:String,
channel.item.description:String,
channel.item.pubDate:String);
CREATE PROFILE "RSS_Monitoring" AS
(DOMAIN "RSS_Feeds",
LANGUAGE "SQL",
USER "u025487");
INSERT NOTIFICATION "Num_Update_Watch"
INTO "RSS_Monitoring"
SET QUERY "SELECT channel.item.title,channel.item.description
FROM RSS"
SET TRIGGER "ON INSERT TO RSS
WHEN COUNT(*) % 3 =0"
START NOW
END "30 days" + NOW
SET UTILITY STRICT
"""

FEEDS = """CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE SOURCE "python" OF RSS AT 'https://www.python.org/feed';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1")
DELIVER TO WEBHOOK 'https://example.org/hook' SECRET ENV 'SECRET_HOOK';
"""


def rule(
    *,
    query: str = "SELECT title FROM RSS",
    condition: str = "TRUE",
    conditions: str | None = None,
    more: str = "",
    name: str = "Watch",
) -> str:
    """Return a rule over FEEDS; ``conditions`` is the text of its trigger after the class, instead of a WHEN."""
    written = f"WHEN {condition}" if conditions is None else conditions
    return f"""INSERT NOTIFICATION "{name}" INTO "Reading"
SET QUERY "{query}"
SET TRIGGER "ON INSERT TO RSS {written}"
START NOW END "30 days" + NOW
SET UTILITY STRICT
{more};
"""


def check_all(*texts: str) -> Checked:
    """Check texts as one declaration; they are called a, b, c."""
    return check([SourceText(name, text) for name, text in zip("abcdef", texts, strict=False)])


def declare(*texts: str) -> Declaration:
    """Return the declaration of texts without errors."""
    checked = check_all(*texts)
    assert checked.errors == ()
    assert checked.declaration is not None
    return checked.declaration


def the_rule(
    *,
    query: str = "SELECT title FROM RSS",
    condition: str = "TRUE",
    conditions: str | None = None,
    more: str = "",
) -> NotificationRule:
    """Return the checked rule over FEEDS."""
    return declare(FEEDS + rule(query=query, condition=condition, conditions=conditions, more=more)).rules["Watch"]


def messages(*texts: str) -> list[str]:
    """Return the messages of the errors in texts."""
    return [error.message for error in check_all(*texts).errors]
