"""What people are told of a notification: in every form of delivery only of what matched, in the rule's words."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from proxyd.base.ports import Gathered, Message
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.item import Item
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.programs.message_program import heading
from proxyd.daemon.feed_documents import entry
from proxyd.notify.channels.mail import compose
from proxyd.notify.channels.message_forms import chat_text, cloudevent, digest, html_text, payload, plain_text, subject
from proxyd.store.listed_rows import StoredNotification
from tests.fleets import Drive, changed, decider

T0 = 1_000_000_000.0
SCHEMA = json.loads((Path(__file__).parents[4] / "docs" / "payload-2.schema.json").read_text(encoding="utf-8"))
WISH = "WATCH 'https://example.org/feed' WHERE title LIKE '%cve%' AS \"cves\""
QUOTE = """CREATE DOMAIN "Markets" AS CLASS::QUOTE(name:String FROM JSON '$.n', last:Decimal FROM JSON '$.l',
note:String FROM JSON '$.t');
"""


def driven(text: str) -> Drive:
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return Drive(decider(checked.declaration, now_s=T0))


def entry_of(title: str, at_s: float) -> Item:
    values = {"channel.item.title": title, "channel.item.link": f"https://example.org/{title.replace(' ', '-')}"}
    return Item(title, values, at_s, f"hash {title}")


async def news(text: str, *titles: str) -> list[Notification]:
    """Return the notifications of a feed that had one item, and now has these too, oldest first."""
    drive = driven(text)
    old = entry_of("an old cve", T0 - 100)
    await drive.see(changed("example.org/feed", [old], T0))
    items = [entry_of(title, T0 + n) for n, title in enumerate(titles, 1)]
    seen = await drive.see(changed("example.org/feed", [*reversed(items), old], T0 + 60))
    return list(seen.rules.notifications)


async def updated(rule: str, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the data of the notification that a change of a page gives."""
    drive = driven(QUOTE + f"WATCH 'https://example.org/q' OF {rule}")
    for at_s, fields in ((T0, before), (T0 + 60, after)):
        await drive.see(changed("example.org/q", [Item("page", fields, None, repr(fields))], at_s))
    (observation,) = [each for each in drive.memory.observations if each.rules.notifications]
    data: dict[str, Any] = json.loads(observation.rules.notifications[0].body)["data"]
    return data


async def one(text: str = WISH, *titles: str) -> Notification:
    (found,) = await news(f"{text};", *(titles or ("nothing", "a cve", "in between", "nothing else")))
    return found


async def test_the_payload_holds_only_what_matches() -> None:
    body = (await one()).body
    first, second = (json.loads(payload(body, version))["data"] for version in (1, 2))
    assert [item["channel.item.title"] for item in first["items"]] == ["a cve"]
    assert second["items"][0]["title"] == "a cve"
    assert len(second["items"]) == 1
    for form in (payload(body, 1), payload(body, 2), cloudevent("ntf_1", "cves", payload(body, 2))):
        assert b"nothing" not in form
        assert b"between" not in form


async def test_the_mail_names_only_what_matches() -> None:
    found = await one()
    mail = compose(Message("ntf_1", found.rule, "a@example.org", found.body, T0, "mail"), "me@example.org")
    assert mail["Subject"] == "a cve"
    text, html = (part.get_content() for part in mail.iter_parts())
    for form in (text, html):
        assert "a cve" in form
        assert "nothing" not in form
    assert '<a href="https://example.org/a-cve">' in html


async def test_the_chat_names_only_what_matches() -> None:
    title, text = chat_text((await one()).body)
    assert (title, text) == ("cves", "a cve https://example.org/a-cve")


async def test_the_feed_and_the_dashboard_name_only_what_matches() -> None:
    found = await one()
    stored = StoredNotification(1, found.notification_id, found.rule, found.source_id, T0, T0, False, found.body)
    assert entry(stored).title == "a cve"
    assert "nothing" not in entry(stored).content
    assert heading(json.loads(found.body)["data"]) == "a cve", "the dashboard's title"


async def test_a_message_has_the_words_of_its_rule_in_every_form() -> None:
    found = await one(f"{WISH} MESSAGE '{{{{!}}}} {{title}} at {{source}} by {{rule}} {{author}}'")
    words = "{!} a cve at example.org/feed by cves"
    assert chat_text(found.body) == ("", words)
    assert subject("cves", found.body) == words
    assert json.loads(payload(found.body, 2))["data"]["text"] == words
    assert plain_text("cves", found.body).startswith(words)
    assert "{!} a cve at example.org/feed" in html_text("cves", found.body)


async def test_several_rows_are_named_by_the_first() -> None:
    text = "WATCH 'https://example.org/feed' AS \"all\";"
    bodies = [each.body for each in await news(text, "one", "two", "three")]
    assert [subject("all", body) for body in bodies] == ["one", "two", "three"]
    grouped = (
        'CREATE PROFILE "P"; CREATE SOURCE "example.org/feed" OF FEED AT \'https://example.org/feed\';'
        'INSERT NOTIFICATION "by three" INTO "P" SET QUERY "SELECT title, link FROM FEED"'
        " SET TRIGGER \"ON INSERT TO FEED WHEN COUNT(*) % 3 = 0\" SET MESSAGE 'new: {title}';"
    )
    (found,) = await news(grouped, "one", "two", "three")
    assert subject("by three", found.body) == "new: one and 2 more"
    assert chat_text(found.body) == ("", "new: one\nnew: two\nnew: three")
    gathered = Gathered("dgs_1", "by three", ("1",), (found.body,), 2, T0)
    assert chat_text(digest(gathered))[1].splitlines()[:2] == ["new: one", "new: two"]
    assert json.loads(payload(digest(gathered), 2))["data"]["title"] == "new: one and 1 more"


@pytest.mark.parametrize(
    ("selected", "on", "told"),
    [
        pytest.param("name", "UPDATE", "Tea", id="one column, by its value"),
        pytest.param("*", "UPDATE", "Tea: last: 24.9 → 19.9", id="all columns, by title and change"),
        pytest.param("name, note, last", "UPDATE", "Tea · note: x · last: 24.9 → 19.9", id="an update"),
        pytest.param("last, name", "UPDATE", "last: 24.9 → 19.9 · Tea", id="in the order of the query"),
        pytest.param("name, OLD.last, NEW.last", "UPDATE", "Tea · last: 24.9 → 19.9", id="the old value once"),
        pytest.param("name, last AS price, note", "UPDATE", "Tea · price: 24.9 → 19.9 · note: x", id="by its alias"),
    ],
)
async def test_a_chat_shows_the_columns_that_a_query_names(selected: str, on: str, told: str) -> None:
    rule = (
        "CREATE SOURCE \"q\" OF QUOTE AT 'https://example.org/q';"
        f'INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT {selected} FROM QUOTE" SET TRIGGER "ON {on} TO QUOTE";'
    )
    drive = driven(f'CREATE PROFILE "P";{QUOTE}{rule}')
    before: dict[str, Any] = {"name": "Tea", "last": 24.9, "note": "x"}
    for at_s, fields in ((T0, before), (T0 + 60, before | {"last": 19.9})):
        seen = await drive.see(changed("q", [Item("page", fields, None, repr(fields))], at_s))
    assert chat_text(seen.rules.notifications[0].body) == ("r", told)


async def test_a_chat_shows_the_columns_of_each_row_with_its_link() -> None:
    rule = (
        'CREATE PROFILE "P"; CREATE SOURCE "example.org/feed" OF FEED AT \'https://example.org/feed\';'
        'INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT title, link, author FROM FEED"'
        ' SET TRIGGER "ON INSERT TO FEED WHEN COUNT(*) % 2 = 0";'
    )
    (found,) = await news(rule, "one", "two")
    assert [line.partition(" · ")[0] for line in chat_text(found.body)[1].split("\n")] == [
        "one https://example.org/one",
        "two https://example.org/two",
    ]


async def test_an_update_tells_what_changed() -> None:
    before = {"name": "Tea", "last": 24.9, "note": "x"}
    data = await updated("QUOTE;", before, before | {"last": 19.9})
    assert data["message"]["rows"] == ["Tea: last: 24.9 → 19.9"]
    assert data["changes"] == [{"last": {"from": 24.9, "to": 19.9}}]
    assert heading(data) == "Tea: last: 24.9 → 19.9"


async def test_an_update_of_a_long_text_shows_the_difference() -> None:
    kept = "The same paragraph as ever, which nobody has touched in all these years, nor ever will.\n\n"
    data = await updated("QUOTE;", {"note": kept + "Closed today."}, {"note": kept + "Open today."})
    assert data["changes"] == [{"note": {"difference": "- Closed today.\n+ Open today."}}]
    assert heading(data) == "example.org/q changed"
    assert data["message"]["rows"] == ["example.org/q changed\n- Closed today.\n+ Open today."]


async def test_a_text_that_changed_in_very_many_places_changed_as_a_whole() -> None:
    """Comparing it on the event loop would take seconds."""
    before, after = ("\n\n".join(f"{n} {word}\n\nkept" for n in range(60)) for word in ("old", "new"))
    data = await updated("QUOTE;", {"note": before}, {"note": after})
    (changes,) = data["changes"]
    assert changes["note"]["difference"].startswith("- 0 old\n- kept\n- 1 old\n")
    fewer = await updated("QUOTE;", {"note": before[:200]}, {"note": after[:200]})
    assert fewer["changes"][0]["note"]["difference"].startswith("- 0 old\n+ 0 new\n- 1 old\n+ 1 new\n")


async def test_a_message_that_comes_out_empty_is_worded_as_usual() -> None:
    found = await one(f"{WISH} MESSAGE '{{author}}'")
    assert chat_text(found.body) == ("", "a cve https://example.org/a-cve")
    assert subject("cves", found.body) == "a cve https://example.org/a-cve"


async def test_html_links_the_address_where_the_rule_has_put_it() -> None:
    found = await one(f"{WISH} MESSAGE 'Read {{link}}/comments or {{link}}. {{title}}'")
    link = '<a href="https://example.org/a-cve">https://example.org/a-cve</a>'
    assert f"Read https://example.org/a-cve/comments or {link}. a cve<" in html_text("cves", found.body)


async def test_a_value_that_occurs_in_the_title_is_told_all_the_same() -> None:
    data = {"rule": "r", "items": [{"title": "Python 3.12", "stars": 3}], "id": "ntf_1", "timestamp": ""}
    assert plain_text("r", json.dumps({"data": data}).encode()).startswith("Python 3.12\nstars: 3\n")


async def test_a_column_can_have_the_name_of_a_place() -> None:
    text = (
        'CREATE PROFILE "P"; CREATE SOURCE "example.org/feed" OF FEED AT \'https://example.org/feed\';'
        'INSERT NOTIFICATION "n" INTO "P" SET QUERY "SELECT title AS source FROM FEED"'
        " SET TRIGGER \"ON INSERT TO FEED\" SET MESSAGE '{source} by {rule}{{}}{{}}';"
    )
    (found,) = await news(text, "one")
    assert subject("n", found.body) == "one by n{}{}"


async def test_a_message_can_name_the_old_value() -> None:
    wish = "QUOTE MESSAGE '{name}: {OLD.last} is now {NEW.last}{note}';"
    data = await updated(wish, {"name": "Tea", "last": 2}, {"name": "Tea", "last": 3})
    assert heading(data) == "Tea: 2 is now 3"
    assert data["changes"] == [{"last": {"from": 2, "to": 3}}]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{titel}", "FEED has no field titel. Did you mean title?"),
        ("{OLD.title}", "ON INSERT has no OLD"),
        ("{title", "{ in SET MESSAGE stands alone: write {field}, or {{"),
        ("{}", "{} in SET MESSAGE stands alone: write {field}, or {{}}"),
        ("a } b", "} in SET MESSAGE stands alone: write {field}, or }}"),
        ("{title}" * 51, "SET MESSAGE may hold 50 values at most"),
    ],
)
def test_a_template_that_cannot_be_filled_is_an_error(message: str, said: str) -> None:
    checked = check([SourceText("t", f"{WISH} MESSAGE '{message}';")], CheckSettings())
    assert [error.message for error in checked.errors] == [said]


def test_a_query_that_groups_rows_can_name_only_its_columns() -> None:
    rule = (
        'CREATE PROFILE "P"; INSERT NOTIFICATION "n" INTO "P" SET QUERY "SELECT author, COUNT(*) AS n'
        ' FROM FEED GROUP BY author"'
        " SET TRIGGER \"ON INSERT TO FEED\" SET MESSAGE '{}';"
    )
    assert check([SourceText("t", rule.replace("{}", "{author}: {n}"))]).errors == ()
    (error,) = check([SourceText("t", rule.replace("{}", "{title}"))]).errors
    assert error.message == (
        "SET MESSAGE: {title} is no column of this query, which groups rows. It has channel.item.author, n."
    )


def is_valid(body: bytes) -> bool:
    import jsonschema  # slow to load

    validator = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
    return not list(validator.iter_errors(json.loads(body)))


async def test_version_2_is_as_its_schema_says() -> None:
    found = await one()
    assert is_valid(payload(found.body, 2))
    assert is_valid(payload(digest(Gathered("dgs_1", "r", ("1",), (found.body,), None, T0)), 2))
    assert not is_valid(payload(found.body, 1))
    data = await updated(
        "QUOTE;", {"name": "a", "last": 1, "note": "x" * 100}, {"name": "b", "last": 2, "note": "y" * 100}
    )
    body = json.dumps({"type": "proxyd.notification", "timestamp": "2026-03-01T12:00:00.000Z", "data": data}).encode()
    assert is_valid(payload(body, 2))
    datetime.fromisoformat(json.loads(payload(body, 2))["timestamp"])


async def test_version_1_is_as_it_was_before_there_were_texts() -> None:
    body = (await one()).body
    message = json.loads(body)
    del message["data"]["message"]
    recorded = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    assert payload(body, 1) == recorded
    assert payload(recorded, 1) == recorded, "a body that was recorded before keeps its bytes"
    spaced = json.dumps(message).encode()
    assert payload(spaced, 1) == spaced
    assert payload(b'{"type":"proxyd.ping","data":{}}', 2) == b'{"type":"proxyd.ping","data":{}}'
    assert json.loads(payload(recorded, 2))["data"]["title"] == "a cve"
