"""The everyday tasks of docs/how-to.md: what their few lines tell."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.notify.channels.message_forms import chat_text, plain_text, subject
from tests.fleets import Drive, changed, decider
from tests.pages import ROOT, blocks

T0 = 1_000_000_000.0
SETTINGS = CheckSettings(can_mail=True, channel_schemes=frozenset({"tgram"}))


def task(heading: str) -> str:
    """Return the profile that a task of the page shows; it has at most three lines."""
    page = ROOT / "docs" / "how-to.md"
    above, _, _ = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    (text, *_) = [each.text for each in blocks(page) if each.language == "profile" and each.line > above.count("\n")]
    assert text.count("\n") <= 3
    return text


async def told(profile: str, before: list[Item], after: list[Item]) -> list[bytes]:
    """Return the bodies of the notifications when the only source of a profile changes."""
    checked = check([SourceText("t", profile)], SETTINGS)
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    (name,) = checked.declaration.sources
    drive = Drive(decider(checked.declaration, now_s=T0))
    await drive.see(changed(name, before, T0))
    seen = await drive.see(changed(name, after, T0 + 60))
    return [each.body for each in seen.rules.notifications]


def entry(title: str) -> Item:
    return Item(title, {"channel.item.title": title, "channel.item.link": "https://example.org/1"}, None, title)


@pytest.mark.parametrize(("title", "count"), [("v3.16.1", 1), ("v3.17.0a3", 0), ("v3.17.0rc1", 0)])
async def test_stable_releases_only(title: str, count: int) -> None:
    bodies = await told(task("Hear of stable releases only"), [entry("v3.16.0")], [entry(title), entry("v3.16.0")])
    assert [subject("", body) for body in bodies] == [title] * count


async def test_a_chat_message_in_own_words() -> None:
    before = [entry("All is well")]
    (body,) = await told(task("Word a chat message yourself"), before, [entry("Outage"), *before])
    assert chat_text(body) == ("", "Status page: Outage. See https://example.org/1")


async def test_an_event_after_another_names_both() -> None:
    profile = task("Hear of one event after another")
    (body,) = await told_of_both(profile)
    assert subject("", body) == "Deploy 4711, then db1 is slow"
    assert chat_text(body)[1] == "DEPLOY.title: Deploy 4711 · ALERT.title: db1 is slow"
    own = "SET MESSAGE '{ALERT.title} after {DEPLOY.title}' SET TRIGGER"
    (body,) = await told_of_both(profile.replace("SET TRIGGER", own))
    assert subject("", body) == "db1 is slow after Deploy 4711"


async def told_of_both(profile: str) -> list[bytes]:
    checked = check([SourceText("t", profile)], SETTINGS)
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    drive = Drive(decider(checked.declaration, now_s=T0))
    for name in ("deploys", "alerts"):
        await drive.see(changed(name, [entry("old")], T0))
    await drive.see(changed("deploys", [entry("Deploy 4711"), entry("old")], T0 + 60))
    seen = await drive.see(changed("alerts", [entry("db1 is slow"), entry("old")], T0 + 120))
    return [each.body for each in seen.rules.notifications]


async def test_an_event_after_another_of_one_class_names_both() -> None:
    profile = """CREATE PROFILE P; CREATE SOURCE s OF FEED AT 'https://a.example/';
    INSERT NOTIFICATION r INTO P SET QUERY "SELECT title, link FROM FEED"
    SET TRIGGER "ON INSERT TO FEED WHERE title LIKE 'D%' THEN INSERT TO FEED WHERE title LIKE 'A%' WITHIN 1 HOUR";"""
    checked = check([SourceText("t", profile)], SETTINGS)
    assert checked.declaration is not None
    drive = Drive(decider(checked.declaration, now_s=T0))
    await drive.see(changed("s", [entry("old")], T0))
    await drive.see(changed("s", [entry("Deploy"), entry("old")], T0 + 60))
    seen = await drive.see(changed("s", [entry("Alert"), entry("Deploy"), entry("old")], T0 + 120))
    (body,) = [each.body for each in seen.rules.notifications]
    assert subject("", body) == "Deploy, then Alert"
    assert chat_text(body)[1].split("\n") == ["Deploy https://example.org/1", "Alert https://example.org/1"]


async def test_the_difference_of_a_page() -> None:
    kept = "\n\n".join(f"Paragraph {number} of the terms, as long as such paragraphs are." for number in range(9))
    before, after = (Item("page", {"text": f"{kept}\n\n{last}"}, None, last) for last in ("30 days.", "14 days."))
    (body,) = await told(task("See what changed on a page"), [before], [after])
    assert subject("", body) == "shop.example.org/terms changed"
    assert plain_text("", body).startswith("shop.example.org/terms changed\n- 30 days.\n+ 14 days.\n\nRule: ")
    assert json.loads(body)["data"]["rule"] == "shop.example.org/terms"


@pytest.mark.parametrize(
    ("option", "after", "count"),
    [
        ("OVER 3 WORDS", "You have 14 days.", 0),
        ("OVER 3 WORDS", "You have a fortnight to send it back.", 1),
        ("WITHOUT 'cookies'", "You have 30 days.\n\nWe use\nCookies.", 0),
        ("WITHOUT 'days', 'cookies'", "You have a fortnight.", 1),  # what went away does not count
    ],
)
async def test_changes_of_a_page_that_are_left_out(option: str, after: str, count: int) -> None:
    before, changed_to = (Item("page", {"text": text}, None, text) for text in ("You have 30 days.", after))
    profile = f"WATCH 'https://shop.example.org/terms' OF PAGE {option};"
    assert len(await told(profile, [before], [changed_to])) == count


async def course(
    profile: str,
    seen: Callable[[float], OutcomeKind],
    *,
    until_s: float,
    took_s: float = 0.1,
    chronon_s: float = 10.0,
) -> list[tuple[float, bytes]]:
    """Return what is told, and when, while the only source of a profile is probed as planned; times from the start."""
    checked = check([SourceText("t", profile)], SETTINGS)
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    found = decider(checked.declaration, now_s=T0, chronon_s=chronon_s)
    drive, grid = Drive(found), found.settings.grid
    sent: list[tuple[float, bytes]] = []
    for now in range(grid.chronon_at(T0), grid.chronon_at(T0 + until_s)):
        for planned in found.choose(now).probes:
            at_s = grid.start_s(now) + took_s
            kind = seen(at_s - T0)
            status = 200 if kind.is_success else 500
            name, detail = planned.probe.source_id, f"HTTP {status}"
            outcome = ProbeOutcome(name, kind, at_s - took_s, at_s, status, detail=detail, body_hash="h")
            observation = await drive.see(outcome)
            sent += [(at_s - T0, each.body) for each in observation.rules.notifications]
    return sent


def down(begin_s: float, end_s: float) -> Callable[[float], OutcomeKind]:
    """Return how probes end over time if a site is down for a while."""

    def seen(at_s: float) -> OutcomeKind:
        return OutcomeKind.HTTP_ERROR if begin_s <= at_s < end_s else OutcomeKind.CHANGED

    return seen


async def test_a_site_that_is_down_and_up_within_a_minute() -> None:
    text = task("Hear within a minute that your site is down, or up again")
    (fell, first), (rose, last) = await course(text, down(1000.0, 3000.0), until_s=4000.0)
    assert 1000.0 <= fell <= 1060.0
    assert 3000.0 <= rose <= 3060.0
    assert subject("", first).startswith("shop.example.org is down since 2001-09-09 02:0")
    assert subject("", first).endswith(": HTTP 500")
    assert subject("", last).startswith("shop.example.org is up again")


async def test_a_site_is_told_of_by_its_name() -> None:
    text = "WATCH 'https://shop.example.org' OF SITE AS \"The shop\" TELL MAIL 'me@example.org';"
    (_, first), (_, last) = await course(text, down(1000.0, 3000.0), until_s=4000.0)
    assert subject("", first).startswith("The shop is down since 2001-09-09 02:0")
    assert subject("", last).startswith("The shop is up again after")


def test_only_what_becomes_of_a_site_is_told_by_its_name() -> None:
    text = "WATCH 'https://shop.example.org' OF SITE AS \"The shop\" ON PROBE;"
    checked = check([SourceText("t", text)], SETTINGS)
    assert checked.declaration is not None
    assert checked.declaration.rules["The shop"].message is None


async def test_a_dead_feed_tells() -> None:
    text = "WATCH 'https://example.org/feed' AS \"news\";\n" + task("Hear of feeds that died")
    told = await course(text, down(86400.0, 5 * 86400.0), until_s=7 * 86400.0, chronon_s=60.0)
    assert [subject("", body) for _, body in told] == [
        "example.org/feed has shown no items since 2001-09-09 01:46 UTC",
        "example.org/feed has failed since 2001-09-10 01:53 UTC: HTTP 500",
        "example.org/feed answers again after failing since 2001-09-10 01:53 UTC",
    ]


@pytest.mark.parametrize(
    ("end", "subjects"), [("Uploads fail: resolved", []), ("Logins fail", ["Uploads fail", "Logins fail"])]
)
async def test_an_incident_that_is_not_resolved(end: str, subjects: list[str]) -> None:
    checked = check([SourceText("t", task("Hear when nothing followed"))], SETTINGS)
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    drive = Drive(decider(checked.declaration, now_s=T0))
    old, fails, after = Item("0", {}, T0 - 9.0, "0"), entry("Uploads fail"), entry(end)
    await drive.see(changed("status", [old], T0))
    await drive.see(changed("status", [fails, old], T0 + 60.0))
    await drive.see(changed("status", [after, fails, old], T0 + 3600.0))
    seen = await drive.see(changed("status", [after, fails, old], T0 + 3 * 3600.0))
    assert [subject("", each.body) for each in seen.rules.notifications] == subjects


async def test_latency_and_failures() -> None:
    text = 'CREATE PROFILE "default";\n' + task("Watch uptime and latency")
    slow = await course(text, lambda _: OutcomeKind.CHANGED, until_s=600.0, took_s=3.0)
    assert [round(json.loads(body)["data"]["items"][0]["seconds"], 3) for _, body in slow] == [3.0]
    assert await course(text, lambda _: OutcomeKind.CHANGED, until_s=600.0) == []
    (_, fell), (_, rose) = await course(text, down(100.0, 400.0), until_s=600.0)
    assert subject("", fell).endswith(": HTTP 500")
    assert subject("", rose).startswith("shop.example.org is up again")
