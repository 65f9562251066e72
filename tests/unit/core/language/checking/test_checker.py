from __future__ import annotations

from decimal import Decimal

import pytest

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.language.syntax.expression_printer import format_expression
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.expression import Binary, Column, Literal
from proxyd.core.model.profile import Anchor, PolicyName, TimePoint, UtilityKind
from tests.unit.core.language.texts import FEEDS, PAPER, check_all, declare, messages, rule, the_rule


def test_the_statements_of_the_paper_keep_their_meaning() -> None:
    checked = check([SourceText("paper", PAPER)])
    assert checked.errors == ()
    assert checked.declaration is not None
    found = checked.declaration.rules["Num_Update_Watch"]
    assert found.profiles == ("RSS_Monitoring",)
    assert [column.expression for column in found.query.columns] == [
        Column("channel.item.title"),
        Column("channel.item.description"),
    ]
    assert found.start == TimePoint(Anchor.NOW)
    assert found.end.resolve(0.0, chronon_s=10.0) == 30 * 86400
    assert found.utility.kind is UtilityKind.STRICT
    assert found.policy.name is PolicyName.AUTO
    assert [warning.message for warning in checked.warnings] == [
        "the notification 'Num_Update_Watch' has no source of class RSS yet"
    ]


def test_a_directory_is_one_declaration_whatever_the_order_of_its_files() -> None:
    assert declare(rule(), FEEDS).rules.keys() == {"Watch"}


def test_a_name_declared_in_two_files_is_an_error_that_names_the_other_place() -> None:
    (error,) = check_all(FEEDS, '\nCREATE DOMAIN "Feeds" AS CLASS::A').errors
    assert (error.file, error.line) == ("b", 2)
    assert error.message == "the domain 'Feeds' is declared twice; the first is at a:1:15"


def test_errors_come_by_file_and_then_by_position() -> None:
    errors = check_all(
        "CREATE DOMAIN x AS CLASS::A(channel.b:URL, channel.c:Srting)\nDROP DOMAIN y", "DROP DOMAIN z"
    ).errors
    assert [(error.file, error.line) for error in errors] == [("a", 1), ("a", 2), ("b", 1)]


def test_a_statement_with_errors_does_not_make_its_name_unknown() -> None:
    broken = FEEDS.replace('DOMAIN "Feeds", LANGUAGE', 'DOMAIN "Feeds" LANGUAGE').replace(":URL", ":Url2")
    assert [message.partition(";")[0] for message in messages(broken + rule())] == [
        "expected one of: Boolean, Decimal, Integer, String, Timestamp, URL",
        "expected one of: ')', ','",
    ]


def test_fields_are_found_by_their_last_part_in_any_case_and_spelled_as_declared() -> None:
    found = the_rule(query="SELECT TITLE, item.LINK, RSS.pubdate FROM rss")
    assert [column.expression for column in found.query.columns] == [
        Column("channel.item.title"),
        Column("channel.item.link"),
        Column("channel.item.pubDate"),
    ]
    assert found.query.sources[0].page_class.name == "RSS"
    assert found.query.sources[0].page_class.domain == "Feeds"


def test_a_join_keeps_which_class_a_column_is_of() -> None:
    found = the_rule(query="SELECT a.title FROM RSS a JOIN RSS AS b ON a.link = b.link AND b.ttl > 3")
    assert found.query.columns[0].expression == Column("channel.item.title", "a")


def test_a_text_compared_with_a_time_becomes_unix_seconds() -> None:
    condition = the_rule(condition="pubDate >= '2026-01-01T00:00:00Z'").trigger.where
    assert condition == Binary(">=", Column("channel.item.pubDate"), Literal(Decimal("1767225600.0")))


@pytest.mark.parametrize(
    ("written", "where", "when"),
    [
        ("WHEN title = 'a'", "title = 'a'", None),
        ("WHERE title = 'a'", "title = 'a'", None),
        ("WHERE title = 'a' WHEN link = 'b'", "title = 'a' AND link = 'b'", None),
        ("WHERE title = 'a' WHEN COUNT(*) > 1", "title = 'a'", "COUNT(*) > 1"),
        ("WHEN COUNT(*) > 1", None, "COUNT(*) > 1"),
        ("", None, None),
    ],
)
def test_a_when_without_an_aggregate_is_a_where(written: str, where: str | None, when: str | None) -> None:
    found = the_rule(conditions=written).trigger
    shown = [None if each is None else format_expression(each) for each in (found.where, found.condition)]
    assert shown == [
        each and each.replace("title", "channel.item.title").replace("link", "channel.item.link")
        for each in (where, when)
    ]


@pytest.mark.parametrize(
    ("condition", "better"),
    [
        ("title = 'a' AND COUNT(*) > 1", "ON INSERT TO RSS WHERE title = 'a' WHEN COUNT(*) > 1"),
        ("COUNT(*) % 2 = 0 AND title = 'a' AND link = 'b'", "WHERE title = 'a' AND link = 'b' WHEN COUNT(*) % 2 = 0"),
        ("COUNT(*) > 1 OR title = 'a'", "put these conditions into WHERE, or into COUNT(*) FILTER (WHERE ...)"),
        ("LENGTH(title) > COUNT(*)", "put these conditions into WHERE"),
        ("COUNT(*) FILTER (WHERE title = 'a') > 1", None),
        ("COUNT(*) > 1 AND 1 = 1", None),
        ("MAX(LENGTH(title)) > 1", None),
    ],
)
def test_a_when_that_mixes_is_warned_of_with_the_better_text(condition: str, better: str | None) -> None:
    checked = check([SourceText("a", FEEDS + rule(condition=condition))])
    assert checked.errors == ()
    told = [one.message for one in checked.warnings if "counts all events" in one.message]
    assert (told == []) if better is None else (len(told) == 1 and better in told[0])


@pytest.mark.parametrize("written", ["WHERE COUNT(*) > 1", "WHERE SUM(1) = 1 WHEN COUNT(*) > 1"])
def test_a_where_takes_no_aggregates(written: str) -> None:
    checked = check([SourceText("a", FEEDS + rule(conditions=written))])
    assert ["is not allowed in the WHERE of a trigger" in one.message for one in checked.errors] == [True]


def test_order_by_takes_names_and_numbers_of_columns() -> None:
    found = the_rule(query="SELECT LOWER(title) AS t, link FROM RSS ORDER BY t, 2 DESC")
    assert [term.expression for term in found.query.order_by] == [
        found.query.columns[0].expression,
        Column("channel.item.link"),
    ]


def test_a_rule_watches_every_source_of_its_class_unless_it_names_some() -> None:
    assert the_rule().source_ids == ("kernel", "python")
    assert the_rule(more='FROM SOURCES "python"').source_ids == ("python",)


def test_a_rule_delivers_as_its_profile_says_unless_it_says_otherwise() -> None:
    (default,) = the_rule().deliveries
    assert isinstance(default, WebhookDelivery)
    assert default.url == "https://example.org/hook"
    (own,) = the_rule(more="SET DELIVERY WEBHOOK 'https://a.example' SECRET FILE 'b'").deliveries
    assert isinstance(own, WebhookDelivery)
    assert own.url == "https://a.example"
    assert the_rule(more="SET DELIVERY NONE").deliveries == ()


def test_the_fingerprint_ignores_spelling_query_and_options() -> None:
    first = the_rule(condition="title = 'a'")
    again = the_rule(
        condition="channel.item.TITLE='a' /* same */", query="SELECT link FROM RSS", more="SET LIFE WINDOW(3)"
    )
    assert first.fingerprint == again.fingerprint
    assert len(first.fingerprint) == 16


@pytest.mark.parametrize(
    "change", [{"condition": "title = 'b'"}, {"condition": "title = 'a'", "more": 'FROM SOURCES "python"'}]
)
def test_the_fingerprint_changes_with_the_condition_and_the_sources(change: dict[str, str]) -> None:
    assert the_rule(condition="title = 'a'").fingerprint != the_rule(**change).fingerprint


def test_drop_is_allowed_in_texts_sent_over_the_api() -> None:
    checked = check([SourceText("api", 'DROP PROFILE "x"')], CheckSettings(from_api=True))
    assert checked.errors == ()


def test_only_variables_with_the_prefix_are_secrets() -> None:
    delivery = "SET DELIVERY WEBHOOK 'https://a.example' SECRET ENV 'HOOK_A'"
    text = SourceText("a", FEEDS.replace("SECRET_HOOK", "HOOK_B") + rule(more=delivery))
    assert len(check([text], CheckSettings()).errors) == 2


@pytest.mark.parametrize(
    ("delivery", "settings", "warning"),
    [
        ("MAIL 'a@b.example'", CheckSettings(), None),
        ("MAIL 'a@b.example'", CheckSettings(can_mail=False), "waits while the settings smtp and mail_from are empty"),
        ("CHANNEL 'ours://x'", CheckSettings(channel_schemes=frozenset({"ours"})), None),
        (
            "CHANNEL 'ours://x'",
            CheckSettings(channel_schemes=frozenset(), accepted_before=True),
            "while the setting channel_schemes",
        ),
        (
            "CHANNEL 'ours://x'",
            CheckSettings(channel_problem=lambda _url: "refused by the guard", accepted_before=True),
            "refused by the guard",
        ),
        (
            "CHANNEL 'ours://x'",
            CheckSettings(chats=frozenset({"tgram"})),
            "nothing is sent to ours:// while proxyd[apprise] is not installed",
        ),
    ],
)
def test_a_delivery_that_cannot_be_made_for_now_is_warned_of(
    delivery: str, settings: CheckSettings, warning: str | None
) -> None:
    checked = check([SourceText("a", FEEDS + rule(more=f"SET DELIVERY {delivery}"))], settings)
    assert checked.errors == ()
    found = [one.message for one in checked.warnings]
    assert (found == []) if warning is None else (len(found) == 1 and warning in found[0])


@pytest.mark.parametrize(
    ("url", "settings", "error"),
    [
        ("topic", CheckSettings(), "exactly one address"),
        ("://topic", CheckSettings(), "exactly one address"),
        ("ours://a, theirs://b", CheckSettings(), "exactly one address"),
        ("ours://a;theirs://b", CheckSettings(), "exactly one address"),
        ("ours://a theirs", CheckSettings(), "exactly one address"),
        ("ours://a\ntheirs://b", CheckSettings(), "exactly one address"),
        ("theirs://x", CheckSettings(channel_schemes=frozenset({"ours"})), "while the setting channel_schemes"),
        ("ours://x", CheckSettings(channel_problem=lambda url: f"{url} is odd"), "ours://x is odd"),
    ],
)
def test_a_channel_is_exactly_one_allowed_address(url: str, settings: CheckSettings, error: str) -> None:
    text = FEEDS + rule(more=f"SET DELIVERY CHANNEL '{url}'")
    checked = check([SourceText("a", text)], settings)
    assert checked.declaration is None
    assert [error in one.message for one in checked.errors] == [True]


@pytest.mark.parametrize(
    "address", ["a@b.example,c", "a,b@c.example", "a<b@c.example>", "a;b@c.example", "a b@c.example"]
)
def test_mail_goes_to_exactly_one_address(address: str) -> None:
    checked = check([SourceText("a", FEEDS + rule(more=f"SET DELIVERY MAIL '{address}'"))])
    assert ["is not a mail address" in one.message for one in checked.errors] == [True]


def test_no_text_declares_nothing_and_is_fine() -> None:
    checked = check([])
    assert checked.declaration is not None
    assert checked.declaration.rules == {}


@pytest.mark.parametrize(
    ("start", "end", "fits"),
    [
        ("NOW", "NEVER", True),
        ("NOW", "NOW", False),
        ('NOW - "1 day"', "NOW", True),
        ('"1 day" + NOW', '"23 hours" + NOW', False),
        ("NOW", "'1990-01-01'", True),
        ("'2026-01-01'", "'2026-01-02T00:00:00Z'", True),
        ("'2026-01-02'", "'2026-01-01'", False),
    ],
)
def test_end_must_follow_start_where_that_can_be_told(start: str, end: str, fits: bool) -> None:
    text = rule().replace("START NOW", f"START {start}").replace('END "30 days" + NOW', f"END {end}")
    assert (messages(FEEDS + text) == []) == fits


@pytest.mark.parametrize(
    "condition",
    [
        "title LIKE 'a%' ESCAPE '!' AND link NOT LIKE '%b'",
        "COALESCE(title, 'x') || SUBSTR(link, 1, 3) = REPLACE(TRIM(title), 'a', 'b')",
        "NULLIF(ttl, 0) IS NULL OR ABS(-ttl) BETWEEN 1 AND ROUND(2.5, 0)",
        "pubDate - '2026-01-01' > 3600 AND pubDate + 60 < '2027-01-01'",
        "title IN ('a', NULL) OR NOT (ttl = NULL)",
        "title REGEXP '^v[0-9]+' AND title NOT REGEXP 'rc'",
        "COUNT(*) FILTER (WHERE title LIKE 'a%') % 2 = 0",
    ],
)
def test_well_typed_conditions_are_accepted(condition: str) -> None:
    assert messages(FEEDS + rule(condition=condition)) == []


def test_two_profiles_give_a_rule_the_classes_of_both() -> None:
    other = 'CREATE DOMAIN "D" AS CLASS::NEWS(channel.title:String); CREATE PROFILE "Second" AS (DOMAIN "D");'
    text = rule(query="SELECT channel.title FROM NEWS").replace('INTO "Reading"', 'INTO "Reading", "Second"')
    assert declare(FEEDS, other, text).rules["Watch"].profiles == ("Reading", "Second")


def test_an_address_that_a_rule_names_twice_is_warned_of_and_delivered_to_once() -> None:
    hook = "SET DELIVERY WEBHOOK 'https://r.example/hook' SECRET ENV 'SECRET_A'"
    checked = check_all(FEEDS, rule(more=f"{hook} {hook} FORM GITHUB"))
    assert checked.declaration is not None
    assert [one.message for one in checked.warnings][-1:] == ["this address is listed twice; only the first is used"]
    (delivery,) = checked.declaration.rules["Watch"].deliveries
    assert delivery == WebhookDelivery("https://r.example/hook", SecretRef("env", "SECRET_A"))


def test_a_profile_has_one_language() -> None:
    twice = FEEDS.replace('LANGUAGE "SQL"', 'LANGUAGE "SQL", LANGUAGE "SQL"')
    assert messages(twice) == ["LANGUAGE is given twice"]


def test_a_pattern_has_a_length_limit() -> None:
    assert messages(FEEDS + rule(condition=f"title REGEXP '{'a' * 1000}'")) == []
    too_long = messages(FEEDS + rule(condition=f"title REGEXP '{'a' * 1001}'"))
    assert too_long == ["a pattern may have 1000 characters at most"]


def test_a_number_of_seconds_can_be_subtracted_from_a_time_but_no_time_from_a_number() -> None:
    assert messages(FEEDS + rule(condition="pubDate - 60 > '2026-01-01T00:00:00Z'")) == []
    assert messages(FEEDS + rule(condition="60 - pubDate > 0")) == ["- cannot combine a time and a number"]


def test_an_address_that_cannot_be_taken_apart_is_refused() -> None:
    (message,) = messages(FEEDS.replace("https://www.python.org/feed", "http://[::1/feed"))
    assert message.startswith("'http://[::1/feed' is not an address: expected an address such as ")


def test_websub_without_a_public_url_is_allowed_with_a_warning() -> None:
    text = FEEDS.replace("feed';", "feed' WEBSUB ON;")
    unreachable = check([SourceText("a", text)], CheckSettings(can_subscribe=False))
    assert unreachable.errors == ()
    warned = [each.message for each in unreachable.warnings if "WEBSUB" in each.message]
    assert warned == ["WEBSUB ON has no effect while the setting public_url is empty"]
    assert not any("WEBSUB" in each.message for each in check([SourceText("a", text)]).warnings)


def test_old_of_an_unknown_class_is_reported_once_for_the_class() -> None:
    text = rule(condition="TRUE").replace("ON INSERT TO RSS WHEN TRUE", "ON UPDATE TO RSSS WHEN OLD.title = 'a'")
    (message,) = messages(FEEDS + text)
    assert message.startswith("there is no class")


def test_on_trouble_watches_what_the_rules_of_its_profile_watch() -> None:
    text = """CREATE PROFILE "P" DIGEST DAILY AT '08:00' ON TROUBLE TELL LOG 'me';
    WATCH 'https://example.org/a' INTO "P" AS "a"; WATCH 'https://example.org/b' AS "b";"""
    found = declare(text).rules["P: trouble"]
    assert (found.source_ids, found.digest) == (("example.org/a",), None)
    assert [each.endpoint for each in found.deliveries] == ["log:me"]
    text = FEEDS + "CREATE PROFILE \"alone\" ON TROUBLE TELL LOG 'me';"
    alone = declare(text)
    assert alone.rules["alone: trouble"].source_ids == tuple(alone.sources)
    warned = f"no other rule is in this profile, so ON TROUBLE watches all {len(alone.sources)} sources"
    assert warned in warnings_of(text)


def test_on_trouble_needs_its_name_for_itself() -> None:
    text = """CREATE PROFILE "P" ON TROUBLE TELL LOG 'me'; WATCH 'https://example.org/a' INTO "P" AS "P: trouble";"""
    assert messages(text) == ["ON TROUBLE makes the notification 'P: trouble'; rename the other one of this name"]


def test_fetch_browser_is_warned_of_while_there_is_no_browser() -> None:
    text = SourceText("a", "WATCH 'https://a.example/p' OF PAGE\n  FETCH BROWSER;")
    assert check([text], CheckSettings()).warnings == ()
    checked = check([text], CheckSettings(browser_missing="the setting browser is empty"))
    assert (checked.errors, len(checked.warnings)) == ((), 1)
    warning = checked.warnings[0]
    assert warning.message == "FETCH BROWSER reads nothing while the setting browser is empty"
    assert warning.source_line.strip() == "FETCH BROWSER;"


def warnings_of(text: str) -> list[str]:
    checked = check([SourceText("a", text)])
    assert checked.errors == ()
    return [warning.message for warning in checked.warnings]


PAGES = "".join(f"CREATE SOURCE {name} OF PAGE AT 'https://a.example/{name}'; " for name in "abc")
CHANGES = (
    'CREATE PROFILE P; INSERT NOTIFICATION w INTO P SET TRIGGER "ON UPDATE TO PAGE" SET QUERY "SELECT text FROM PAGE"'
)
UPTIME = 'INSERT NOTIFICATION up INTO P SET TRIGGER "ON FAILURE TO SOURCE" SET QUERY "SELECT name FROM SOURCE"'


def test_sources_that_no_rule_reads_are_warned_of_once_a_file() -> None:
    assert warnings_of(f"{PAGES}{CHANGES} FROM SOURCES a;") == [
        "no rule here reads the source 'b' and 1 more, so nothing asks for it"
    ]
    assert warnings_of(f"{PAGES}{CHANGES};") == []
    broken = check([SourceText("a", f"{PAGES}{CHANGES} FROM SOURCES a; INSERT NOTIFICATION;")])
    assert (len(broken.errors), broken.warnings) == (1, ())


@pytest.mark.parametrize("often", ["SET LIFE WINDOW(5 MINUTES)", "SET POLICY UNIFORM(5 MINUTES)"])
def test_a_rule_on_the_source_is_warned_of_if_it_alone_has_others_asked_often(often: str) -> None:
    some = f"{PAGES}{CHANGES} FROM SOURCES a; "
    assert warnings_of(f"{some}{UPTIME} {often};") == [
        "this rule alone has 'b' and 1 more asked; to leave others out, name sources with FROM SOURCES"
    ]
    for harmless in (
        f"{some}{UPTIME};",
        f"{some}{UPTIME} FROM SOURCES a, b, c {often};",
        f"{PAGES}CREATE PROFILE P; {UPTIME} {often};",
    ):
        assert warnings_of(harmless) == []


def test_what_the_settings_lack_is_said_once_a_file() -> None:
    text = "WATCH 'https://a.example/a' TELL MAIL 'me@a.example'; WATCH 'https://a.example/b' TELL MAIL 'me@a.example';"
    checked = check(
        [SourceText("a", text), SourceText("b", text.replace("a.example/", "b.example/"))],
        CheckSettings(can_mail=False),
    )
    assert [(each.file, each.column) for each in checked.warnings] == [("a", 34), ("b", 34)]


def test_a_screenshot_of_a_source_that_no_browser_opens_is_warned_of() -> None:
    shown = "CREATE SOURCE shown OF PAGE AT 'https://a.example/shown' FETCH BROWSER;"
    plain = "CREATE SOURCE plain OF PAGE AT 'https://a.example/plain';"
    watched = "WATCH 'https://a.example/shown' OF PAGE SCREENSHOT;\nWATCH 'https://a.example/plain' OF PAGE SCREENSHOT;"
    (warning,) = check([SourceText("a", f"{shown}\n{plain}\n{watched}")]).warnings
    assert (warning.file, warning.line, warning.column) == ("a", 4, 41)
    assert warning.message.startswith("SCREENSHOT keeps no picture of the source 'plain', because no browser opens it")
    assert warning.message.endswith(": add FETCH BROWSER to the source")


def test_a_screenshot_is_warned_of_once_for_all_sources_of_a_rule() -> None:
    plain = "".join(f"CREATE SOURCE p{n} OF PAGE AT 'https://a.example/{n}';" for n in range(3))
    profile = 'CREATE PROFILE "p"; '
    asked = 'INSERT NOTIFICATION "n" INTO "p" SET QUERY "SELECT text FROM PAGE" SET TRIGGER "ON UPDATE TO PAGE"'
    options = " START NOW END NEVER SET UTILITY STRICT SET SCREENSHOT;"
    (warning,) = check([SourceText("a", plain + profile + asked + options)]).warnings
    assert "source 'p0' and 2 more, because" in warning.message


def test_a_profile_whose_trouble_is_told_warns_of_a_site_that_nobody_hears_of() -> None:
    trouble = "CREATE PROFILE \"shops\" {} ON TROUBLE TELL LOG 'l';"
    site = "WATCH 'https://a.example' OF SITE INTO \"shops\" {};"
    warned = "ON TROUBLE leaves sites out, so nobody is told of 'a.example': write TELL at its WATCH"
    for default, tell, expected in (("", "", [warned]), ("", "TELL LOG 's'", []), ("DELIVER TO LOG 'd'", "", [])):
        checked = check([SourceText("t", trouble.format(default) + site.format(tell))])
        assert [each.message for each in checked.warnings if "leaves sites out" in each.message] == expected


def test_a_secret_that_the_daemon_does_not_have_is_warned_of_once() -> None:
    known = CheckSettings(is_secret_set=lambda secret: secret.name == "SECRET_B")
    watches = (
        f"WATCH 'https://{name}.example/' TELL WEBHOOK 'https://r.example/' SECRET ENV 'SECRET_{secret}';"
        for name, secret in (("a", "A"), ("b", "A"), ("c", "B"))
    )
    checked = check([SourceText("a.profile", "\n".join(watches))], known)
    told = [str(one).splitlines()[0] for one in checked.warnings]
    assert told == ["a.profile:1:33: SECRET_A is not set: set it where the daemon runs, and restart"]


ASKED_OFTEN = "CREATE SOURCE \"a.example\" OF PAGE AT 'https://a.example/' POLITENESS SPACING 1 MINUTE;"


@pytest.mark.parametrize(
    ("text", "is_warned"),
    [
        ("WATCH 'https://a.example/' OF PAGE EVERY 1 MINUTE;", True),
        ("WATCH 'https://a.example/' OF PAGE EVERY 5 MINUTES;", False),
        (f"{ASKED_OFTEN} WATCH 'https://a.example/' OF PAGE EVERY 1 MINUTE;", False),
    ],
)
def test_a_gap_that_is_shorter_than_the_spacing_is_warned_of(text: str, is_warned: bool) -> None:
    checked = check([SourceText("a.profile", text)], CheckSettings(spacing_s=300.0))
    assert checked.errors == ()
    assert ["asked every 5 min at most" in one.message for one in checked.warnings] == [True] * is_warned


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (
            "WITHIN 1 MINUTE",
            "it can see at most 20 % of its items in time, because the source 'example.org/f' is asked",
        ),
        ("WITHIN 4 MINUTES FOR 95 %", "it can see at most 80 % of its items in time"),
        ("WITHIN 4 MINUTES FOR 70 %", None),
        ("WITHIN 10 MINUTES", None),
        ("EVERY 1 MINUTE", "the source 'example.org/f' is asked every 5 min at most, as source_spacing says"),
        ("EVERY 5 MINUTES", None),
    ],
)
def test_what_the_usual_spacing_of_probes_prevents_is_told(wish: str, told: str | None) -> None:
    text = f"WATCH 'https://example.org/f' {wish};"
    found = check([SourceText("a", text)], CheckSettings(spacing_s=300.0))
    assert found.errors == ()
    assert [each.message.startswith(told or "") for each in found.warnings] == [True] * (told is not None)
    assert check([SourceText("a", text)], CheckSettings(spacing_s=0.0)).warnings == ()
