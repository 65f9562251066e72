"""What became of sources and rules, the plan and the tokens: pictures with their figures, and who may see and do it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import insert, text

from proxyd.api.web.page_texts import part
from proxyd.base.ports import Message
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.notify.channels.message_forms import sent_text
from proxyd.store.databases import tables
from proxyd.store.history import intervals_of_rule
from tests.contract.test_store import ENDPOINT
from tests.fakes import FakeClock
from tests.fleets import changed, item, unchanged
from tests.integration.api_world import T0, Running, running_api, told
from tests.integration.dashboard_world import HOSTILE, OWN, Browser, live

DAY_S = 86400.0
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


@pytest.fixture
def browser(running: Running) -> Browser:
    return Browser(running)


def count_of(page: str, kind: str) -> int:
    """Return how many points a path of a picture goes to."""
    paths = re.findall(rf'<path class="{kind}" d="([^"]*)"/>', page)
    return sum(path.count("M") for path in paths if "M7 " not in path and "M3 " not in path and "M0 " not in path)


async def probe(api: Running, at_s: float, *published_s: float, fails: bool = False) -> None:
    """Probe the source; it shows an item for each time."""
    await cast("FakeClock", api.control.resources.clock).advance(at_s - api.control.queries.clock.time_s())
    outcome = unchanged("s", at_s)
    if fails:
        outcome = ProbeOutcome("s", OutcomeKind.TIMEOUT, at_s, at_s)
    elif published_s:
        outcome = changed("s", [item(str(time_s), time_s) for time_s in published_s], at_s)
    made = Probe("s", int(at_s / 10), Reason.DETECTION, "r", 1.0)
    assert await api.control.loops.observer.take_in(outcome, probe=made)


async def past(api: Running, today: int = 2) -> None:
    """Let a source have a seed, an item four days ago seen after two hours, and some today seen after a minute."""
    await probe(api, T0 + 10.0, T0)
    await probe(api, T0 + DAY_S, T0 + DAY_S - 7200.0, T0)
    await probe(api, T0 + 2 * DAY_S)
    await probe(api, T0 + 3 * DAY_S, fails=True)
    old = (T0 + DAY_S - 7200.0, T0)
    await probe(api, T0 + 5 * DAY_S, *(T0 + 5 * DAY_S - each for each in range(61, 61 + today)), *old)
    await cast("FakeClock", api.control.resources.clock).advance(600.0)


# -- a source


async def test_a_source_shows_its_items_beside_its_probes(browser: Browser) -> None:
    await past(browser.api, today=5)
    await browser.sign_in("read")
    status, week = await browser.get("/sources/s")
    assert status == 200
    assert [count_of(week, kind) for kind in ("item", "found", "unchanged", "failed")] == [6, 2, 2, 1]
    assert count_of(week, "delay") == 6
    assert "Half of 6 items were seen within 63 s (median), nine in ten within 2 h (p90)." in week
    classes = re.findall(r'<th scope="row">([^<]* (?:s|min|h))</th><td class="n">(\d+)</td>', week)
    assert (classes[0], len(classes)) == (("60 s to 5 min", "5"), 4)
    assert week.count('data-label="Delay" class="n">2 h</td>') == 1
    _, today = await browser.get("/sources/s?days=1")
    assert [count_of(today, kind) for kind in ("item", "found", "unchanged", "failed")] == [5, 1, 0, 0]
    assert "Half of 5 items" in today
    assert 'href="/sources/s?days=7"' in today
    assert (await browser.get("/sources/s?days=8"))[0] == 400
    assert (await browser.get("/sources/s?week=1"))[0] == 400


async def test_a_source_without_any_probe_has_a_page(browser: Browser) -> None:
    await browser.sign_in("read")
    status, page = await browser.get("/sources/s")
    assert status == 200
    assert [count_of(page, kind) for kind in ("item", "found", "unchanged", "failed")] == [0, 0, 0, 0]
    assert "No item yet: they appear with the first probe that shows some." in page
    assert "median" not in page


async def test_an_item_of_last_month_is_the_newest(browser: Browser) -> None:
    await probe(browser.api, T0 + 60.0, T0 - 40 * DAY_S)
    await browser.sign_in()
    _, page = await browser.get("/sources")
    assert f'<time datetime="{iso_time(T0 - 40 * DAY_S)}"' in page


async def test_what_is_only_checked_for_failures_is_not_said_to_learn(browser: Browser) -> None:
    await browser.api.control.declarations.declare("WATCH 'https://status.example/' OF PAGE AS \"up\" ON FAILURE;")
    await browser.sign_in()
    for path in ("/sources?q=status.example", "/sources/status.example"):
        status, page = await browser.get(path)
        assert status == 200
        assert "learning" not in page


async def test_a_source_is_probed_now_and_a_rule_is_no_source(browser: Browser) -> None:
    await past(browser.api)
    await browser.sign_in("write")
    assert (await browser.post("/sources/s/probe"))[0].status == 303
    _, page = await browser.get("/sources/s")
    assert "It is probed" in page
    assert ".." not in page.partition("It is probed")[2].partition("<")[0]
    assert (await browser.post("/sources/r/probe"))[0].status == 404


async def test_the_lists_of_a_source_are_bounded(browser: Browser) -> None:
    times_s = [T0 + 60.0 * k for k in range(1, 151)]
    await probe(browser.api, T0 + 10.0, T0)
    for at_s in times_s:
        await probe(browser.api, at_s + 10.0, at_s)
    await browser.sign_in("read")
    _, page = await browser.get("/sources/s")
    assert [count_of(page, kind) for kind in ("item", "found")] == [150, 150]
    assert page.count('data-label="Item"') == 100
    assert "90 earlier items" in page
    assert "70 earlier probes" in page
    assert page.count('data-label="Started"') == 100


async def test_the_why_page_gives_the_reason_and_its_numbers(browser: Browser) -> None:
    await past(browser.api)
    await browser.sign_in("read")
    found = browser.api.control.queries.plans.explain("s")
    assert found is not None
    assert found.chance is not None
    status, page = await browser.get("/sources/s/why")
    reason = f"{found.chance * 100:.0f} % chance of an item by then, which must be seen within 3 hours"
    assert (status, reason in page) == (200, True)
    assert reason in (await browser.get("/sources/s"))[1]
    promises = page.split('id="promises"')[1].split("</table>")[0]
    assert "90 % within 3 hours" in promises
    (kept,) = await browser.api.control.queries.reports.kept("s")
    assert f"{kept.kept * 100:.0f}" in promises.split('data-label="In the last 7 days"')[1]
    numbers = page.split('id="numbers"')[1].split("</table>")[0]
    assert f"at least one with {found.chance * 100:.3g} %" in numbers
    assert (await browser.get("/sources/nowhere/why"))[0] == 404


# -- a rule


async def test_the_list_of_rules_says_what_each_tells_and_whom(browser: Browser) -> None:
    watch = "WATCH 'https://a.example/feed' AS \"w\" WHERE title ILIKE '%cve%' TELL MAIL 'me@example.org';"
    await browser.api.control.declarations.declare(watch)
    await browser.sign_in("read")
    page = unescape((await browser.get("/rules"))[1])
    assert "new items WHERE title ILIKE '%cve%'" in page
    assert "me@example.org" in page


async def test_a_rule_shows_the_fates_of_its_intervals(browser: Browser) -> None:
    await past(browser.api)
    await browser.sign_in("read")
    status, page = await browser.get("/rules/r")
    assert status == 200
    found = await browser.api.control.queries.past.intervals("r", days=7.0, limit=500)
    captured = sum(each.captured for each in found)
    assert f"{captured} in time; {len(found) - captured} too late; 0 never" in page
    assert [count_of(page, kind) for kind in ("captured", "late", "missed")] == [captured, len(found) - captured, 0]
    assert len(found) >= 3
    assert page.split('id="intervals"')[1].count('data-label="Result"') == len(found)
    _, today = await browser.get("/rules/r?days=1")
    assert today.split('id="intervals"')[1].count('data-label="Result"') < len(found)
    assert (await browser.get("/rules/r?days=31"))[0] == 400


def interval(source: str, at_s: float, **facts: Any) -> dict[str, Any]:
    its = {
        "rule": "r",
        "source_id": source,
        "seq": 1,
        "start_s": at_s,
        "deadline_s": at_s + 60.0,
        "probed_s": at_s + 30,
    }
    return its | {"captured": True, "exact": True, "delay_s": 30.0, "utility": 1.0, "seen": True} | facts


async def test_intervals_say_their_fate_and_are_the_newest(running: Running) -> None:
    late = {"captured": False, "probed_s": T0 - 20000.0, "utility": 0.0, "delay_s": 100.0}
    kept = [
        interval("s", T0 - 300.0),
        interval("s", T0 - 50000.0, **late),
        interval("t", T0 - 60000.0, **late | {"seen": False, "probed_s": T0 - 40000.0}),
        interval("s", T0 - 8 * DAY_S),
        interval("s", T0 - 100.0, rule="other"),
    ]
    await running.control.resources.store.writer.submit(lambda c: c.execute(insert(tables.intervals), kept))
    headers = await running.token("read")
    async with running.client.get("/api/v1/rules/r/intervals", headers=headers) as answer:
        found = (await answer.json())["items"]
    assert [(each["source"], each["fate"], each["delay_s"]) for each in found] == [
        ("s", "captured", 30.0),
        ("s", "late", 100.0),
        ("t", "missed", None),
    ]
    assert found[2]["probed"] is None
    async with running.client.get("/api/v1/rules/r/intervals?limit=1&days=30", headers=headers) as answer:
        assert [each["fate"] for each in (await answer.json())["items"]] == ["captured"]
    async with running.client.get("/api/v1/rules/nowhere/intervals", headers=headers) as answer:
        assert answer.status == 404
    async with running.client.get("/api/v1/rules/r/intervals?limit=501", headers=headers) as answer:
        assert answer.status == 400
    browser = Browser(running)
    await browser.sign_in("write")
    _, page = await browser.get("/rules/r")
    assert "1 in time; 1 too late; 1 never. Mean delay 65 s, over 2 with a time of their own." in page
    assert [count_of(page, kind) for kind in ("captured", "late", "missed", "lag")] == [1, 1, 1, 1]


async def test_a_page_that_no_probe_saw_is_not_shown_as_probed(browser: Browser) -> None:
    control = browser.api.control
    await browser.api.tell(told("n1"))
    unseen = interval("s", T0, captured=False, probed_s=T0, utility=0.0, seen=False)
    await control.resources.store.writer.submit(lambda c: c.execute(insert(tables.intervals), [unseen]))
    async with browser.api.client.get("/api/v1/notifications/n1", headers=await browser.api.token("read")) as answer:
        found = await answer.json()
    assert found["intervals"][0]["probed"] is None
    assert "missed, never probed in time" in "".join(found["summary"])
    await browser.sign_in()
    _, page = await browser.get("/notifications/n1")
    assert '<td data-label="Probed"><span class="none">—</span></td>' in re.sub(r">\s+<", "><", page)
    assert '<td data-label="Delay" class="n"><span class="none">—</span></td>' in page


async def test_the_newest_intervals_are_found_by_an_index(running: Running) -> None:
    query = intervals_of_rule("r", T0).limit(500).compile(compile_kwargs={"literal_binds": True})
    plan = await running.control.resources.store.writer.submit(
        lambda c: [row[3] for row in c.execute(text(f"EXPLAIN QUERY PLAN {query}"))]
    )
    assert plan == ["SEARCH intervals USING INDEX ix_intervals_rule (rule=? AND probed_s>?)"]


async def test_a_test_message_is_sent_and_what_came_of_it_shown(browser: Browser) -> None:
    await browser.sign_in("read")
    assert "Send a test message" not in (await browser.get("/rules/r"))[1]
    await browser.post("/sign-out")
    await browser.sign_in("write")
    assert "Send a test message" in (await browser.get("/rules/r"))[1]
    answer, page = await browser.post("/rules/r/test")
    assert answer.status == 200
    assert "A test message was sent" in page
    assert "status 500" in page
    assert "data-live" not in page
    assert (await browser.post("/rules/nowhere/test"))[0].status == 404
    await browser.api.control.declarations.declare(OWN)
    assert "This rule tells nobody" in (await browser.post("/rules/q/test"))[1]


class _Mailbox:
    """A channel that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def deliver(self, message: Message) -> str:
        self.messages.append(message)
        return "accepted"


async def test_a_test_message_says_so_and_shows_the_real_wording(running: Running) -> None:
    mailed = OWN.replace("SET UTILITY", "SET DELIVERY MAIL 'me@example.org' SET UTILITY")
    await running.control.declarations.declare(mailed)
    mailbox = _Mailbox()
    deliveries = replace(running.control.queries.deliveries, channel=mailbox)
    assert [each.error for each in await deliveries.test_deliveries("q")] == [None]
    wording = {"title": "Rain", "rows": ["Rain https://example.org/rain"], "is_set": False}
    await running.tell(told("n1", rule_name="q", message=wording))
    await deliveries.test_deliveries("q")
    first, second = (sent_text("t", "q", each.body, kind="mail", form="", version=1) for each in mailbox.messages)
    assert first[0] == "Test from proxyd: rule q will tell you here"
    assert second[0] == "Test from proxyd: Rain"
    assert second[1].startswith("Test from proxyd: Rain https://example.org/rain\n")


# -- the plan and the profiles


async def test_the_plan_says_why_each_probe_comes(browser: Browser) -> None:
    await live(browser.api, days=1.0)
    await browser.sign_in("read", expires_in_s=None)
    _, page = await browser.get("/plan")
    planned = await browser.api.control.queries.plans.plan(limit=100)
    assert page.count('data-label="Reason"') == len(planned) == 100
    assert "Reload the profiles" not in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


async def test_profiles_are_reloaded_or_what_is_wrong_is_said(browser: Browser) -> None:
    await browser.sign_in()
    assert "Reload the profiles" in (await browser.get("/plan"))[1]
    answer, _ = await browser.post("/reload")
    assert (answer.status, answer.headers["Location"]) == (303, "/plan")
    assert "Reloaded" in (await browser.get("/plan"))[1]
    (browser.api.folder / "a.profile").write_text("CREATE")
    answer, page = await browser.post("/reload")
    assert answer.status == 422
    assert "The profiles have errors" in page


# -- tokens


async def test_tokens_are_listed_made_and_dropped_and_shown_once(browser: Browser) -> None:
    await browser.sign_in("admin")
    _, page = await browser.get("/tokens")
    assert page.count("this session") == 1
    answer, page = await browser.post("/tokens", {"name": "feed reader", "scope": "read", "days": "30"})
    assert (answer.status, answer.headers["Cache-Control"]) == (201, "no-store")
    (shown,) = re.findall(r"pxd_[0-9a-f]{12}_[\w-]{43}", page)
    assert shown not in (await browser.get("/tokens"))[1]
    made = next(each for each in await browser.api.control.queries.access.tokens() if each.name == "feed reader")
    assert (made.scope, made.expires_s) == ("read", T0 + 30 * DAY_S)
    async with browser.api.client.get("/api/v1/plan", headers={"Authorization": f"Bearer {shown}"}) as opened:
        assert opened.status == 200
    answer, _ = await browser.post("/tokens/feed%20reader/drop")
    assert answer.headers["Location"] == "/tokens"
    async with browser.api.client.get("/api/v1/plan", headers={"Authorization": f"Bearer {shown}"}) as opened:
        assert opened.status == 401


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"name": "admin None"}, 409, "already exists"),
        ({"name": ""}, 422, "1 to 100 printable"),
        ({"name": "x\u202e"}, 422, "1 to 100 printable"),
        ({"name": "x", "scope": "root"}, 422, "scope must be one of"),
        ({"name": "x", "days": "<b>"}, 422, "a number of days"),
        ({"name": "x", "days": "nan"}, 422, "a number of days"),
        ({"name": "x", "days": "-1"}, 422, "a number of days"),
        ({"name": "x", "days": "1_0"}, 422, "a number of days"),
    ],
)
async def test_a_wrong_token_is_not_made(browser: Browser, form: dict[str, str], status: int, said: str) -> None:
    await browser.sign_in("admin")
    answer, page = await browser.post("/tokens", form)
    assert answer.status == status
    assert said in unescape(page)
    assert "pxd_" not in page
    assert len(await browser.api.control.queries.access.tokens()) == 1


async def test_who_drops_the_token_of_the_session_is_signed_out(browser: Browser) -> None:
    await browser.sign_in("admin")
    assert "Drop it and sign out" in (await browser.get("/tokens"))[1]
    await browser.post("/tokens/admin%20None/drop")
    assert "Sign in" in (await browser.get("/tokens"))[1]


@pytest.mark.parametrize("scope", ["read", "write"])
async def test_others_see_nothing_of_tokens(browser: Browser, scope: Any) -> None:
    await browser.sign_in(scope)
    assert 'href="/tokens"' not in (await browser.get("/"))[1]
    status, page = await browser.get("/tokens")
    assert status == 403
    above, main = page.split("<main ")
    assert f"{scope} None" in above  # whose session this is
    assert f"{scope} None" not in main


# -- addresses that are none


@pytest.mark.parametrize("path", ["/nowhere", "/sources/a/b", "/Sources", "/%2e%2e/x", "/<script>"])
async def test_a_browser_that_is_lost_gets_a_page(browser: Browser, path: str) -> None:
    for is_signed in (False, True):
        if is_signed:
            await browser.sign_in("read")
        async with browser.api.client.get(path, headers={"Accept": HTML}) as answer:
            assert (answer.status, answer.content_type) == (404, "text/html")
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            page = await answer.text()
            assert ("To the news" in page) == is_signed
            assert "<script>" not in page
        async with browser.api.client.get(path) as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_a_method_that_is_none_is_said_on_a_page(browser: Browser) -> None:
    async with browser.api.client.delete("/sources", headers={"Accept": HTML}) as answer:
        assert (answer.status, answer.content_type) == (405, "text/html")
        assert "GET" in answer.headers["Allow"]


@pytest.mark.parametrize(
    "path", ["/api/v1/nowhere", "/api", "/metrics/x", "/healthz/x", "/readyz/x", "/websub/a/b", "/static/a/b"]
)
async def test_programs_get_no_pages(browser: Browser, path: str) -> None:
    async with browser.api.client.get(path, headers={"Accept": HTML}) as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_hostile_names_stay_text_in_pictures(browser: Browser) -> None:
    await live(browser.api, days=1.0)
    await browser.sign_in("read", expires_in_s=None)
    for path in ("/rules/every-item", f"/sources/{part(HOSTILE)}"):
        status, page = await browser.get(path)
        assert status == 200
        assert "&lt;script&gt;alert" in page
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "\u0007" not in page


# -- paused and muted


def _said(page: str) -> str:
    """Return the texts of a page without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


async def test_a_source_is_paused_and_resumed_by_a_button(browser: Browser) -> None:
    await browser.sign_in("write")
    assert "Pause" in (await browser.get("/sources/s"))[1]
    answer, _ = await browser.post("/sources/s/pause")
    assert (answer.status, answer.headers["Location"]) == (303, "/sources/s")
    page = _said((await browser.get("/sources/s"))[1])
    assert "Source s is paused: it is not probed until it is resumed." in page
    assert "by token write None : it is not probed." in page
    assert "none it is paused" in page
    assert "paused" in (await browser.get("/sources"))[1]
    await browser.post("/sources/s/resume")
    page = _said((await browser.get("/sources/s"))[1])
    assert "Source s is probed again." in page
    assert "not probed" not in page


async def test_a_suspended_rule_says_why_and_is_resumed_by_a_button(browser: Browser) -> None:
    await browser.sign_in("write")
    declared = browser.api.control.declarations.declaration.rules["r"]
    failure = RuleFailure("r", "s", "it takes <b>10</b> steps")
    failing = browser.api.control.decider.known.failing
    failing.count([(declared, [failure])], T0)
    page = (await browser.get("/rules/r"))[1]
    assert "It failed the last time, last" in _said(page)
    assert "it takes &lt;b&gt;10&lt;/b&gt; steps" in page
    assert "Evaluate it again" not in page
    assert '<span class="state bad">failing</span>' in (await browser.get("/rules"))[1]
    for _ in range(4):
        failing.count([(declared, [failure])], T0)
    assert "it failed 5 times in a row and is not evaluated." in _said((await browser.get("/rules/r"))[1])
    assert '<span class="state bad">suspended</span>' in (await browser.get("/rules"))[1]
    answer, _ = await browser.post("/rules/r/resume")
    assert (answer.status, answer.headers["Location"]) == (303, "/rules/r")
    page = _said((await browser.get("/rules/r"))[1])
    assert "Rule r is evaluated again, on what its sources show from now on." in page
    assert "It failed" not in page


@pytest.mark.parametrize(("path", "listed"), [("/rules/r", "/rules"), ("/profiles/P", "/profiles")])
async def test_a_rule_or_a_profile_is_muted_and_unmuted_by_a_button(browser: Browser, path: str, listed: str) -> None:
    await browser.sign_in("write")
    assert "muted" not in (await browser.get(listed))[1]
    answer, _ = await browser.post(f"{path}/mute", {"for": "8 hours"})
    assert (answer.status, answer.headers["Location"]) == (303, path)
    page = _said((await browser.get(path))[1])
    assert "Muted since" in page
    assert "notifications are made and kept, not sent. Drop what was kept Unmute" in page
    assert '<span class="state warn">muted</span>' in (await browser.get(listed))[1]
    await browser.api.tell(told("n1"))
    assert '<span class="state warn">muted</span>' in (await browser.get("/notifications"))[1]
    assert "made while muted" in (await browser.get("/notifications/n1"))[1]
    await browser.post(f"{path}/unmute", {"drop": "1"})
    page = _said((await browser.get(path))[1])
    assert "is no longer muted; 0 kept notifications are dropped." in page
    answer, body = await browser.post(f"{path}/mute", {"for": "ever"})
    assert (answer.status, "choose one of the times" in body) == (400, True)


async def test_what_was_sent_after_a_mute_is_no_longer_called_muted(browser: Browser) -> None:
    await browser.sign_in("write")
    await browser.post("/rules/r/mute", {"for": "8 hours"})
    sent = replace(told("n1"), deliveries=(ENDPOINT,))
    await browser.api.tell(sent)
    for path in ("/notifications", "/"):
        assert '<span class="state warn">muted</span>' in (await browser.get(path))[1]
    await browser.post("/rules/r/unmute", {})
    for path in ("/notifications", "/"):
        page = (await browser.get(path))[1]
        assert '<span class="state warn">muted</span>' not in page
        assert "made while muted" in page


async def test_a_rule_that_its_profile_mutes_says_so(browser: Browser) -> None:
    await browser.sign_in("write")
    await browser.post("/profiles/P/mute", {"for": "until I unmute it"})
    page = _said((await browser.get("/rules/r"))[1])
    assert "until it is unmuted, with profile P : notifications are made and kept, not sent. Mute it for" in page
    assert "muted with profile P" in _said((await browser.get("/rules"))[1])


async def test_who_may_only_read_sees_what_is_suspended_without_buttons(browser: Browser) -> None:
    await browser.api.control.queries.suspensions.pause("s", "token x")
    await browser.api.control.queries.suspensions.mute("r", "token x")
    await browser.sign_in("read")
    source_page, rule_page = (await browser.get("/sources/s"))[1], (await browser.get("/rules/r"))[1]
    assert "by <bdi>token x</bdi>: it is not probed" in source_page
    assert "Resume" not in source_page
    assert "Muted since" in rule_page
    assert "Unmute" not in rule_page
    assert (await browser.post("/sources/s/resume"))[0].status == 403


async def test_hosts_that_ask_for_fewer_requests_are_shown_with_the_time(browser: Browser) -> None:
    await browser.sign_in()
    throttled = ProbeOutcome("s", OutcomeKind.THROTTLED, T0, T0 + 1.0, status=429, retry_after_s=600.0)
    await browser.api.control.loops.observer.take_in(throttled)
    _, page = await browser.get("/hosts")
    assert "as it asked, at" in page
    assert iso_time(T0 + 601.0) in page
