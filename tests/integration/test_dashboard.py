"""The dashboard without its scripts: who may see and do what, and that what comes from outside stays text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from html import unescape
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiohttp.test_utils import TestClient, TestServer

from proxyd.api.listings import Listings
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.api.web import pages
from proxyd.api.web.dashboard import Dashboard
from proxyd.api.web.sessions import SESSION_S, Sessions
from proxyd.app.server import make_app
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import ChannelDelivery, MailDelivery, SecretRef, WebhookDelivery
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import Item
from proxyd.core.planning.allocation.week_plan import TradePoint
from proxyd.core.rules.answers.advice import Advice
from proxyd.core.rules.programs.stream_state import Spell
from proxyd.daemon.discovery import Discovered, FeedDiscovery
from proxyd.store.api_rows import Scope
from tests.fakes import FakeClock, no_queries
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api, told
from tests.integration.dashboard_world import HOSTILE, OWN, Browser, field, live


async def described() -> dict[str, Any]:
    return {}


STREAMS = Streams(no_queries(), StreamSettings())
ROUTES: list[Any] = [
    route
    for route in Dashboard(no_queries(), Listings(no_queries()), STREAMS, described).routes()
    if route.scope is not None and route.path != "/live"
]
LEVELS = ("read", "write", "admin")
PAGES = ["/", "/read", "/read?view=all", "/search", "/search?q=news", "/more", "/add", "/state", "/plan", "/hosts",
         "/sites", "/sources",
         "/sources/a%2Fb%20c", "/sources/a%2Fb%20c/why", "/rules", "/rules/r", "/notifications", "/profiles",
         "/profiles/P", "/profiles/new", "/budget", "/docs", "/audit"]  # fmt: skip
GONE = {"/sources/a%2Fb%20c", "/sources/a%2Fb%20c/why", "/rules/r", "/profiles/P"}  # without a declaration


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


@pytest.fixture
def browser(running: Running) -> Browser:
    return Browser(running)


# -- who is let in


async def test_a_token_opens_a_session_in_a_guarded_cookie(browser: Browser) -> None:
    answer, _ = await browser.sign_in(next="/sources?limit=5")
    assert (answer.status, answer.headers["Location"]) == (303, "/sources?limit=5")
    cookie = answer.cookies["proxyd_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")
    assert not cookie["secure"]
    assert len(cookie.value) >= 40
    assert (await browser.get("/"))[0] == 200


async def test_the_cookie_is_secure_where_the_browser_came_by_https(browser: Browser) -> None:
    shown = (await browser.api.token("read"))["Authorization"][7:]
    mark = field(await browser.get("/sign-in"), "mark")
    answer, _ = await browser.post("/sign-in", {"mark": mark, "token": shown}, **{"X-Forwarded-Proto": "https"})
    assert answer.cookies["proxyd_session"]["secure"]


async def test_a_wrong_token_opens_nothing(browser: Browser) -> None:
    for number, token in enumerate(("", "x", "pxd_000000000000_" + "x" * 43, "\u202e")):
        answer, page = await browser.sign_in(expires_in_s=60.0 + number, token=token)
        assert (answer.status, "proxyd_session" in answer.cookies) == (401, False), token
        assert "The token is wrong, expired or revoked, or reads only some profiles." in page, token
        assert '"pxd_' not in page, token


async def test_an_expired_token_opens_nothing(browser: Browser) -> None:
    answer, _ = await browser.sign_in(expires_in_s=0.0)
    assert answer.status == 401


async def test_signing_in_needs_the_form_of_ours(browser: Browser) -> None:
    answer, _ = await browser.sign_in(mark="x")
    assert (answer.status, "proxyd_session" in answer.cookies) == (403, False)


async def test_signing_in_leads_to_no_other_site(browser: Browser) -> None:
    for number, place in enumerate(("//evil.example", "https://evil.example", "/\\evil.example", "/\u202e", "x")):
        browser.api.client.session.cookie_jar.clear()
        answer, _ = await browser.sign_in(expires_in_s=60.0 + number, next=place)
        assert answer.headers["Location"] == "/", place


async def signed_out(browser: Browser) -> bool:
    async with browser.api.client.get("/sources", allow_redirects=False) as answer:
        return answer.status == 303 and answer.headers["Location"] == "/sign-in?next=/sources"


async def test_nobody_sees_anything_before_signing_in(browser: Browser) -> None:
    assert await signed_out(browser)


async def test_signing_out_ends_the_session_and_its_streams(browser: Browser) -> None:
    await browser.sign_in()
    cookie = {c.key: c.value for c in browser.api.client.session.cookie_jar}["proxyd_session"]
    async with browser.api.client.get("/live") as stream:
        await stream.content.readline()
        answer, _ = await browser.post("/sign-out")
        assert answer.headers["Location"] == "/sign-in"
        async with asyncio.timeout(60):
            with pytest.raises(Exception, match=r"(?i)payload|closed|connection"):
                await stream.content.read()
    browser.api.client.session.cookie_jar.update_cookies({"proxyd_session": cookie})
    assert await signed_out(browser)


async def test_a_session_ends_after_some_hours(browser: Browser) -> None:
    await browser.sign_in()
    clock = cast("FakeClock", browser.api.control.resources.clock)
    await clock.advance(SESSION_S - 1)
    assert not await signed_out(browser)
    await clock.advance(2)
    assert await signed_out(browser)


async def test_a_session_ends_with_its_token(browser: Browser) -> None:
    await browser.sign_in(expires_in_s=60.0)
    assert not await signed_out(browser)
    await cast("FakeClock", browser.api.control.resources.clock).advance(61)
    assert await signed_out(browser)


async def test_a_session_ends_when_its_token_is_removed(browser: Browser) -> None:
    await browser.sign_in("read")
    await browser.api.control.queries.access.drop_token("read None", T0)
    assert await signed_out(browser)


async def test_sessions_are_bounded(running: Running) -> None:
    await running.token("read")
    (token,) = await running.control.queries.access.tokens()
    sessions = Sessions(running.control.queries)
    first = sessions.begin(token)
    for _ in range(1000):
        last = sessions.begin(token)
    assert await sessions.find(first.session_id) is None
    assert await sessions.find(last.session_id) is not None


# -- what a scope opens


@pytest.mark.parametrize("held", ["", *LEVELS])
async def test_every_route_asks_for_its_scope(running: Running, held: str) -> None:
    browser = Browser(running)
    if held:
        await browser.sign_in(cast("Scope", held))
    for route in sorted(ROUTES, key=lambda route: route.path == "/sign-out"):  # which is the end
        async with running.client.request(route.method, route.path.format(name="P", id="x", position=1),
                                          data={"csrf": browser.csrf} if route.method == "POST" else None,
                                          allow_redirects=False) as answer:  # fmt: skip
            said = await answer.text()
        if not held:
            assert answer.status == (303 if route.method == "GET" else 401), route
            assert answer.headers.get("Location", "/sign-in").startswith("/sign-in"), route
        else:
            assert (answer.status == 403) == (LEVELS.index(held) < LEVELS.index(route.scope)), (route, said)


async def test_a_reader_sees_no_buttons(browser: Browser) -> None:
    await browser.api.tell(told("n1"))
    await browser.api.control.declarations.declare(OWN)
    await browser.sign_in("read")
    for page in (*(each for each in PAGES[:15] if each != "/add"), "/profiles/Q", "/notifications/n1"):
        status, text = await browser.get(page)
        assert status == 200
        posts = re.findall(r'<form[^>]*method="post" action="([^"]*)"', text)
        assert posts == ["/sign-out"], page
        assert "<textarea" not in text


FORGED = (
    {"csrf": ""},
    {"csrf": "x" * 43},
    {"csrf": "ü\u202e"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://["},
)


async def test_a_forged_form_does_nothing(browser: Browser) -> None:
    await browser.api.control.declarations.declare(OWN)
    await browser.sign_in()
    paths = ("/profiles", "/profiles/check", "/profiles/Q/drop", "/notifications/n1/replay", "/replay-dead",
             "/sign-out", "/reload", "/rules/r/test", "/tokens", "/tokens/ada/drop", "/rules/q/change",
             "/rules/q/remove", "/removed/x/restore", "/sources", "/rules", "/profiles/Q/quiet")  # fmt: skip
    for path, forged in product(paths, FORGED):
        answer, _ = await browser.post(path, {"text": "x", "confirmed": "1"}, **forged)
        assert answer.status == 403, (path, forged)
        assert "Q" in browser.api.control.declarations.declaration.profiles, (path, forged)
        assert not await signed_out(browser), (path, forged)


async def test_a_form_of_ours_is_taken_with_the_origin_that_browsers_say(browser: Browser) -> None:
    await browser.sign_in()
    host = f"{browser.api.client.host}:{browser.api.client.port}"
    for headers in ({"Origin": f"http://{host}"}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"}):
        answer, _ = await browser.post("/profiles/check", {"text": OWN}, **headers)
        assert answer.status == 200


async def test_the_session_opens_nothing_of_the_rest_api(browser: Browser) -> None:
    await browser.sign_in("admin")
    for method, path in (("GET", "sources"), ("POST", "profiles"), ("POST", "tokens"), ("GET", "stream")):
        async with browser.api.client.request(method, f"/api/v1/{path}", data=b"x") as answer:
            assert answer.status == 401


# -- what pages say


async def test_every_answer_says_what_browsers_may_do_with_it(browser: Browser) -> None:
    policy = ("default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
              "form-action 'self'; frame-ancestors 'none'; base-uri 'none'")  # fmt: skip
    await browser.sign_in()
    for path in [*PAGES, "/sign-in", "/sources/nowhere", "/notifications?x=1", "/static/style.css", "/static/x"]:
        async with browser.api.client.get(path) as answer:
            text = await answer.text()
            assert answer.headers["Content-Security-Policy"] == policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            if not path.startswith("/static/style"):
                assert answer.headers["Cache-Control"] == "no-store"
            if answer.content_type == "text/html":
                assert not re.search(r"<[^>]*\s(style|on[a-z]+)\s*=|<style|<script(?! src=\"/static/)", text), path
                led_out = re.findall(r'(?:src|href|action)="(?!/|#)[^"]*"[^>]*>', text)
                assert all(re.fullmatch(r'href="https?://[^"]*" rel="noopener noreferrer">', e) for e in led_out), path


async def test_an_empty_daemon_has_every_page(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        (tmp_path / "profiles" / "a.profile").write_text("")
        assert await api.control.declarations.reload() == ()
        browser = Browser(api)
        await browser.sign_in()
        for path in PAGES:
            status, text = await browser.get(path)
            assert status == (404 if path in GONE else 200), path
            assert "</html>" in text, path
        status, text = await browser.get("/reading")
        assert (status, "nothing has this address" in text, "/api/" in text) == (404, True, False)


async def test_a_daemon_that_lived_shows_what_the_api_says(browser: Browser) -> None:
    await live(browser.api, days=3.0)
    await browser.sign_in(expires_in_s=None)
    _, news = await browser.get("/")
    told = news[news.index('<ol class="news">') : news.index("<h2>Needs your attention</h2>")]
    assert told.count("<li>") == 12
    assert re.search(r"[\d.]+ % of \d+ items of the last 7 days were seen in time", news)
    _, fleet = await browser.get("/state")
    fates = browser.api.control.queries.plans.capture_counts(["every-item", "warnings"])
    assert (
        f"{fates.captured} events seen before the next came or, with WITHIN, in that time; {fates.missed} not" in fleet
    )
    assert fleet.count("<polyline") >= 6
    _, source = await browser.get("/sources/evening-news/why")
    assert "of waiting, over all items that it finds; one that is not seen in time counts as 7 d" in source
    assert len(re.findall(r'<rect class="l\d"', source)) == 168
    assert len(re.findall(r'<tr><th scope="row">\d\d:00</th>(<td class="n">[^<]+</td>){7}</tr>', source)) == 24
    planned = await browser.api.control.queries.plans.plan_of("evening-news", limit=1000)
    assert sum(int(each) for each in re.findall(r"\((\d+)\)</td>", source)) == len(planned) > 5
    for path in [*PAGES, "/rules/every-item", "/profiles/Town%20news", "/notifications?source=evening-news"]:
        status, text = await browser.get(path)
        assert (status, "</html>" in text) == (200, True)
    _, budget = await browser.get("/budget")
    assert "(now)" in budget
    assert budget.count("probes an hour would do") + budget.count(">met<") >= 2
    for path in ("/sources", "/notifications", "/"):
        _, text = await browser.get(path)
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "\u0007" not in text


async def test_what_comes_from_outside_stays_text(browser: Browser) -> None:
    row = {"channel.item.title": HOSTILE, "</td><script>": "\ud800" + "x" * 5000, "list": None}
    await browser.api.tell(told('"><script>', items=[row], profiles=[HOSTILE], url="javascript:alert(1)"))
    await browser.sign_in()
    for path in ("/notifications", "/notifications/%22%3E%3Cscript%3E", "/rules/r"):
        status, text = await browser.get(path)
        assert status == 200
        assert "<script>" not in text
        assert "<img" not in text
        assert "javascript:" not in re.sub(r">[^<]*<", "><", text)
        assert "&lt;script&gt;alert" in text
        assert "⟨U+202E⟩" in text
        assert "\u202e" not in text
    assert "(5,001 characters)" in (await browser.get("/notifications/%22%3E%3Cscript%3E"))[1]


async def test_filters_and_cursors_lead_through_the_notifications(browser: Browser) -> None:
    await browser.api.tell(*(told(f"n{k:02d}") for k in range(7)), told("other", rule_name="gone"))
    await browser.sign_in()
    _, text = await browser.get("/notifications?rule=r&source=&limit=5")
    assert re.findall(r">(n\d\d)<", text) == ["n06", "n05", "n04", "n03", "n02"]
    assert "other" not in text
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following is not None
    _, text = await browser.get(unescape(following[1]))
    assert re.findall(r">(n\d\d)<", text) == ["n01", "n00"]
    assert (await browser.get("/notifications?cursor=x"))[0] == 400


async def test_sources_come_in_parts(browser: Browser) -> None:
    await browser.sign_in()
    _, text = await browser.get("/sources?limit=1")
    assert ">a/b c<" in text
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following is not None
    assert ">s<" in (await browser.get(unescape(following[1])))[1]


async def test_failing_sources_are_counted_and_shown_with_what_is_wrong(browser: Browser) -> None:
    await browser.sign_in()
    assert "Failing sources</dt><dd>0</dd>" in (await browser.get("/state"))[1]
    assert "failing</span>" not in (await browser.get("/"))[1]
    assert "No source is like that." in (await browser.get("/sources?failing=true"))[1]
    decider = browser.api.control.decider
    state = decider.known.state(decider.known.compiled.declaration.sources["s"])
    decider.known.estimates.keep(replace(state, failures=2, last_detail="status 404"))
    assert '<dd>1</dd><dd class="sub"><a href="/sources?failing=true">' in (await browser.get("/state"))[1]
    assert '<span class="state bad">failing</span> <a href="/sources/s">' in (await browser.get("/"))[1]
    _, failing = await browser.get("/sources?failing=true")
    assert "status 404" in failing
    assert ">a/b c<" not in failing


async def test_silent_sources_do_not_look_healthy(browser: Browser) -> None:
    await browser.sign_in()
    assert "Quiet sources</dt><dd>0</dd>" in (await browser.get("/state"))[1]
    assert "No source is like that." in (await browser.get("/sources?silent=true"))[1]
    decider = browser.api.control.decider
    state = decider.known.state(decider.known.compiled.declaration.sources["s"])
    silent = {"price": Spell(5, T0 - 600.0, T0), "items": Spell(1, T0, T0)}
    health = replace(state.health, silent=silent)
    decider.known.estimates.keep(replace(state, health=health, last_outcome="not_modified"))
    assert '<dd>1</dd><dd class="sub"><a href="/sources?silent=true">' in (await browser.get("/state"))[1]
    assert '<span class="state warn">quiet</span> <a href="/sources/s">' in (await browser.get("/"))[1]
    _, text = await browser.get("/sources?silent=true")
    assert '<span class="state warn">no <bdi>price</bdi></span>' in text
    _, text = await browser.get("/sources/s")
    assert '<span class="state warn">not modified</span>' in text
    assert '<span class="state good">not modified</span>' not in text
    assert "price</bdi> has shown no value since" in text
    assert "It has shown no items since" in text


async def test_the_budget_of_a_slow_fleet_is_shown_too(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    await browser.sign_in()
    for per_s in (0.0, 1e-7, 1.0):
        trade = tuple(TradePoint(per_s * times, 9.0, 60.0, 0.5) for times in (0.0625, 1.0, 16.0))
        advise = AsyncMock(return_value=Advice(1.0, per_s, trade, 3600.0, (), (), None))
        monkeypatch.setattr(browser.api.control.queries.plans, "advise", advise)
        status, page = await browser.get("/budget")
        assert (status, "</html>" in page) == (200, True), per_s
        assert ("Mean delay against" in page) is (per_s > 0.0), per_s


async def test_what_takes_seconds_in_a_large_fleet_appears_by_itself(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in()
    monkeypatch.setattr(pages, "_LARGE_FLEET", 0)
    monkeypatch.setattr(pages, "_SHOWN_WITHIN_S", 0.0)
    may_end, asked = asyncio.Event(), 0

    async def advise() -> Advice:
        nonlocal asked
        asked += 1
        await may_end.wait()
        return Advice(1.0, 0.0, (), 3600.0, (), (), None)

    monkeypatch.setattr(browser.api.control.queries.plans, "advise", advise)
    for _ in range(2):
        answer, page = await browser.answer("/budget")
        assert (answer.headers["Refresh"], "this takes some seconds" in page) == ("2", True)
    may_end.set()
    while "this takes some seconds" in page:
        answer, page = await browser.answer("/budget")
    assert ("Refresh" in answer.headers, "<h1>Budget</h1>" in page, asked) == (False, True, 1)


async def test_an_answer_whose_reader_has_left_is_not_shown_to_a_later_one(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in()
    for name, value in (("_LARGE_FLEET", 0), ("_SHOWN_WITHIN_S", 30.0), ("_KEPT_S", 0.0)):
        monkeypatch.setattr(pages, name, value)
    asked = 0

    async def advise() -> Advice:
        nonlocal asked
        asked += 1
        return Advice(1.0, 0.0, (), 3600.0, (), (), None)

    monkeypatch.setattr(browser.api.control.queries.plans, "advise", advise)
    for number in (1, 2):
        assert "<h1>Budget</h1>" in (await browser.get("/budget"))[1]
        assert asked == number


# -- what can be done


async def test_an_address_that_an_import_follows_is_not_added_again_without_a_word(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(_self: FeedDiscovery, url: str, *_: object, **__: object) -> Discovered:
        return Discovered(changed(url, [item("A", T0)], T0), "FEED")

    monkeypatch.setattr(FeedDiscovery, "look", look)
    await browser.api.control.declarations.declare("CREATE SOURCE \"News\" OF RSS AT 'https://n.example/feed';")
    await browser.sign_in()
    _, page = await browser.get("/add?url=https://n.example/feed")
    assert "is read at this address already" in page
    assert 'href="/read?source=News"' in page
    assert "The page links to" not in page
    assert "watching it here makes a second source" in page
    await browser.api.control.declarations.declare("CREATE SOURCE \"Own\" OF FEED AT 'https://n.example/feed';")
    _, page = await browser.get("/add?url=https://n.example/feed")
    assert 'href="/read?source=Own"' in page
    assert "watching it here makes a second source" not in page
    assert "is read at this address already" not in (await browser.get("/add?url=https://other.example/feed"))[1]


async def test_what_is_watched_already_is_edited_and_said_so(browser: Browser) -> None:
    await browser.sign_in()
    form = {"url": "https://example.org/feed", "kind": "items", "words": "kernel", "to": "me@example.org", "watch": "1"}
    answer, _ = await browser.post("/add", form)
    assert answer.status == 303
    profiles = browser.api.control.declarations
    assert "ILIKE '%kernel%'" in profiles.texts.text_of("default")
    await browser.get("/")
    answer, _ = await browser.post("/add", form | {"words": "rust, go", "to": ""})
    assert answer.status == 303
    text = profiles.texts.text_of("default")
    assert "'%rust%'" in text
    assert "'%kernel%'" not in text
    assert "TELL MAIL 'me@example.org'" in text
    _, page = await browser.get("/sources")
    assert "In place of: WATCH &#39;https://example.org/feed&#39; WHERE title ILIKE &#39;%kernel%&#39;" in page
    assert 'class="said warn" role="status"><bdi>DELIVERY MAIL waits' in page


async def test_a_form_with_an_error_still_offers_what_the_page_holds(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(_self: FeedDiscovery, url: str, *_: object, **__: object) -> Discovered:
        page = Item("", {"text": "In stock: 3"}, None, "x")
        return Discovered(changed(url, [page], T0), "PAGE", preview="<p>In stock: <b>3</b></p>")

    monkeypatch.setattr(FeedDiscovery, "look", look)
    await browser.sign_in()
    form = {"url": "https://shop.example/lamp", "kind": "value", "to": "me@example.org"}
    unread = {"headers": "no colon", "selector": "b"}
    for wrong, status, said in (({}, 400, "choose the value"), (unread, 422, "no header")):
        answer, page = await browser.post("/add", form | wrong)
        assert (answer.status, said in page) == (status, True), page
        assert ("a value: click on it below" in page, "<b>3</b>" in page) == (not wrong, not wrong)
        assert 'value="me@example.org"' in page


async def test_a_value_is_not_read_at_what_is_no_address(browser: Browser) -> None:
    await browser.sign_in()
    for url, more in product(("http://[", "no address", "javascript:alert(1)"), ({}, {"show": "1"})):
        answer, page = await browser.post("/add", {"url": url, "kind": "value", "selector": "b"} | more)
        assert answer.status == 400, (url, more)
        assert "is no address: it starts with https:// or http://" in page, (url, more)


async def test_a_list_is_added_for_a_word_and_a_receiver(browser: Browser) -> None:
    await browser.sign_in()
    form = {"list": "https://example.org/feed-1\n", "match": "cve", "to": "me@example.org, you@example.org"}
    answer, _ = await browser.post("/add/list", form)
    assert answer.status == 303
    rule = browser.api.control.declarations.declaration.rules["Imported: new items"]
    assert [each.endpoint for each in rule.deliveries] == ["me@example.org", "you@example.org"]
    assert "title ILIKE '%cve%'" in browser.api.control.declarations.texts.text_of("Imported")
    answer, page = await browser.post(
        "/add/list", form | {"name": "Other", "list": "https://a.example/", "to": "https://r.example/"}
    )
    assert answer.status == 400
    assert "a webhook is signed" in page


async def upload(browser: Browser, body: bytes) -> int:
    """Send a body with parts between ``x``; return the status of the answer."""
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    sent = BytesIO(body)
    async with browser.api.client.post("/add/list", data=sent, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_an_upload_is_read_as_utf_8_whatever_charset_it_names(browser: Browser) -> None:
    await browser.sign_in()
    for charset in ("punycode", "utf-7", "utf-16", "nosuch"):
        fields = {"csrf": browser.csrf, "name": f"Fünf {charset}", "list": f"https://example.org/{charset}\n"}
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"{"; filename=a" * (name == "list")}\r\n'
            f"Content-Type: text/plain; charset={charset}\r\n\r\n{text}\r\n"
            for name, text in fields.items()
        ]
        body = "".join([*parts, "--x--\r\n"]).encode()
        assert await upload(browser, body) == 303, charset
        assert f"Fünf {charset}" in browser.api.control.declarations.declaration.profiles
        assert await upload(browser, body.replace(browser.csrf.encode(), b"+2AA-")) == 403, charset


async def test_an_upload_that_is_no_form_of_ours_is_refused(browser: Browser) -> None:
    await browser.sign_in()
    mixed = b"--x\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n--y\r\n\r\na\r\n--y--\r\n--x--\r\n"
    named = b"--x\r\nContent-Disposition: form-data; name="
    assert await upload(browser, b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n") == 400
    assert await upload(browser, mixed) == 400
    assert await upload(browser, (named + b"a\r\n\r\na\r\n") * 200 + b"--x--\r\n") == 403
    assert await upload(browser, named + b"csrf\r\n\r\n" + b"a" * 9_000_000 + b"\r\n--x--\r\n") == 413


async def test_a_client_that_opens_no_page_gathers_few_notes(browser: Browser) -> None:
    await browser.sign_in()
    for _ in range(40):
        await browser.post("/reload")
    _, page = await browser.get("/")
    assert page.count('class="said good"') == 30


async def test_a_message_is_shown_for_each_of_its_receivers(browser: Browser) -> None:
    hook = WebhookDelivery("https://r.example/hook", SecretRef("env", "SECRET_A"))
    mails = [MailDelivery("a@example.org"), MailDelivery("b@example.org")]
    chat = ChannelDelivery("tgram://token/chat")
    await browser.api.tell(replace(told("n1"), deliveries=(hook, *mails, chat)))
    await browser.sign_in("read")
    _, text = await browser.get("/notifications/n1")
    summaries = [re.sub(r"<[^>]*>", "", each) for each in re.findall(r"<summary>(.*?)</summary>", text)]
    assert summaries[:3] == ["To https://r.example/hook", "To a@example.org, b@example.org", "To tgram://[hidden]"]
    assert text.count("<details open>") == 1
    assert text.index("Message to each receiver") < text.index("Deliveries") < text.index("What led to it")
    assert "&#34;type&#34;: &#34;proxyd.notification&#34;" in text
    assert "Source: s" in text
    assert "token/chat" not in text


async def test_news_of_a_page_say_what_changed(browser: Browser) -> None:
    rows = ["shop.example/lamp changed\n- 30 <b>\n+ 25 <b>"]
    event = {"kind": "update", "time": iso_time(T0), "seen": iso_time(T0)}
    await browser.api.tell(
        told("n1", event=event, message={"title": "shop.example/lamp changed", "rows": rows}),
        told("n2", message={"title": "an item", "rows": ["an item\nnot shown"]}),
    )
    await browser.sign_in("read")
    _, page = await browser.get("/")
    assert '<p class="text"><bdi>30 → 25 &lt;b&gt;</bdi></p>' in page
    assert "not shown" not in page


async def test_what_several_rules_told_of_an_item_is_one_line(browser: Browser) -> None:
    items = [{"channel.item.title": "an item"}]
    await browser.api.tell(
        told("n1", rule_name="r", items=items),
        told("n2", rule_name="r", items=items),  # again, at the same time
        told("n3", rule_name="q", items=items),
        told("n4", rule_name="q", at_s=T0 + 60.0, items=items),
    )
    await browser.sign_in("read")
    _, page = await browser.get("/")
    lines = re.findall(r'<p class="sub">.*?(rules?) .*?</p>', page)
    assert lines == ["rule", "rules", "rule"]
    assert re.search(r'rules <a href="/rules/q">.*?</a>, <a href="/rules/r">', page)


async def test_only_what_was_sent_can_be_sent_again(browser: Browser) -> None:
    await browser.api.tell(told("n1"))
    await browser.sign_in()
    assert "Send it again" not in (await browser.get("/notifications/n1"))[1]
    answer, _ = await browser.post("/notifications/n1/replay")
    assert answer.status == 404
    assert (await browser.post("/notifications/none/replay"))[0].status == 404


async def test_a_text_is_checked_with_each_error_below_its_line(browser: Browser) -> None:
    await browser.sign_in()
    wrong = OWN.replace("SELECT title", "SELECT titel")
    answer, text = await browser.post("/profiles/check", {"text": wrong.replace("\n", "\r\n")})
    assert answer.status == 200
    assert f"Line 2, column {wrong.splitlines()[1].index('titel') + 1}" in text
    assert 'data-line="2"' in text
    assert "Did you mean title?" in text
    _, part = await browser.post("/profiles/check", {"text": wrong, "part": "1"})
    assert part.startswith('<section id="verdict"')
    assert "Q" not in browser.api.control.declarations.declaration.profiles


async def test_a_text_is_checked_saved_and_dropped(browser: Browser) -> None:
    await browser.sign_in()
    _, text = await browser.post("/profiles/check", {"text": OWN})
    assert "Cost in probes an hour" in text
    answer, _ = await browser.post("/profiles", {"text": OWN})
    assert (answer.status, answer.headers["Location"]) == (303, "/profiles/Q")
    page = await browser.get("/profiles/Q")
    assert "Saved." in page[1]
    assert "Saved." not in (await browser.get("/profiles/Q"))[1]
    tag = field(page, "tag")
    assert (await browser.post("/profiles/Q/drop", {"tag": tag}))[0].status == 400
    answer, _ = await browser.post("/profiles/Q/drop", {"tag": tag, "confirmed": "1"})
    assert answer.status == 303
    assert "Q" not in browser.api.control.declarations.declaration.profiles


async def test_a_profile_is_given_quiet_hours_and_loses_them_by_a_form(browser: Browser) -> None:
    await browser.api.control.declarations.declare(OWN, "WATCH 'https://a.example' OF PAGE INTO \"Mine\";")
    await browser.sign_in()

    def quiet(name: str) -> QuietHours | None:
        return browser.api.control.declarations.declaration.profiles[name].quiet

    for name in ("Q", "Mine"):
        answer, _ = await browser.post(f"/profiles/{name}/quiet", {"during": " 22:00-07:00", "zone": "Europe/Berlin"})
        assert answer.status == 303
        assert quiet(name) == QuietHours("22:00-07:00", "Europe/Berlin")
    assert browser.api.control.declarations.declaration.profiles["Q"].users == ("v",)
    _, page = await browser.get("/profiles/Q")
    assert 'value="22:00-07:00"' in page
    assert 'value="Europe/Berlin"' in page
    for wrong, said in (("nights", "QUIET DURING takes days and hours"), ("Mon-Sun", "QUIET leaves no time")):
        answer, page = await browser.post("/profiles/Q/quiet", {"during": wrong, "zone": ""})
        assert (answer.status, said in unescape(page)) == (422, True), page
    answer, page = await browser.post("/profiles/Q/quiet", {"during": "22:00-07:00", "zone": "Berlin"})
    assert (answer.status, "Berlin" in page) == (422, True)
    assert quiet("Q") == QuietHours("22:00-07:00", "Europe/Berlin")
    for name in ("Q", "Mine"):
        await browser.post(f"/profiles/{name}/quiet", {"during": "", "zone": "UTC"})
        assert quiet(name) is None


async def test_quiet_hours_of_a_profile_in_a_file_are_changed_there(browser: Browser) -> None:
    await browser.sign_in()
    assert "Quiet hours" not in (await browser.get("/profiles/P"))[1]
    answer, page = await browser.post("/profiles/P/quiet", {"during": "22:00-07:00", "zone": "UTC"})
    assert (answer.status, "declares this profile; change it there" in page) == (400, True)
    assert (await browser.post("/profiles/none/quiet", {"during": ""}))[0].status == 404


async def test_nobody_overwrites_what_somebody_else_changed(browser: Browser) -> None:
    await browser.api.control.declarations.declare(OWN)
    await browser.sign_in()
    tag = field(await browser.get("/profiles/Q"), "tag")
    theirs = OWN.replace('USER "v"', 'USER "w"')
    await browser.api.control.declarations.declare(theirs)
    answer, text = await browser.post("/profiles", {"text": OWN, "name": "Q", "tag": tag})
    assert answer.status == 412
    assert "Somebody changed this profile" in text
    assert browser.api.control.declarations.declaration.profiles["Q"].users == ("w",)
    assert (await browser.post("/profiles/Q/drop", {"tag": tag, "confirmed": "1"}))[0].status == 412
    tag = field(await browser.get("/profiles/Q"), "tag")
    assert (await browser.post("/profiles", {"text": OWN, "name": "Q", "tag": tag}))[0].status == 303


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated", "ignore:.*:DeprecationWarning:apprise")
async def test_an_address_with_tokens_is_on_no_page_and_outlives_an_edit(browser: Browser) -> None:
    secret = "tgram://123456789:s3cretAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/12315544/"
    delivered = f"SET DELIVERY CHANNEL '{secret}' SET UTILITY"
    await browser.api.control.declarations.declare(OWN.replace("SET UTILITY", delivered))
    await browser.sign_in()
    _, page = opened = await browser.get("/profiles/Q")
    shown = unescape(page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
    form = {"text": shown.replace('"v"', '"w"'), "name": "Q", "tag": field(opened, "tag")}
    _, checked = await browser.post("/profiles/check", form | {"text": f"{shown} DROP"})
    assert "s3cret" not in page + checked
    assert "tgram://[hidden 1]" in shown
    assert (await browser.post("/profiles", form))[0].status == 303
    saved = browser.api.control.declarations.texts.text_of("Q")
    assert secret in saved
    assert 'USER "w"' in saved
    answer, page = await browser.post("/profiles", {"text": form["text"].replace('"Q"', '"other"')})
    assert answer.status == 400
    assert "write an address in place of each" in page


async def test_of_two_who_save_at_once_one_is_told(browser: Browser) -> None:
    await browser.api.control.declarations.declare(OWN)
    await browser.sign_in()
    tag = field(await browser.get("/profiles/Q"), "tag")
    texts = [OWN.replace('USER "v"', f'USER "{user}"') for user in "wx"]
    saved = await asyncio.gather(
        *(browser.post("/profiles", {"text": text, "name": "Q", "tag": tag}) for text in texts)
    )
    assert sorted(answer.status for answer, _ in saved) == [303, 412]


WATCHED = "WATCH 'https://w.example/feed' AS \"w\" WHERE title LIKE '%x%';"


def rules_of(browser: Browser) -> set[str]:
    return {name for name in browser.api.control.declarations.declaration.rules if name.startswith("w")}


async def test_a_rule_is_changed_renamed_and_copied_where_it_is_seen(browser: Browser) -> None:
    await browser.api.control.declarations.declare(WATCHED)
    await browser.sign_in()
    assert 'href="/rules/w/change"' in (await browser.get("/rules/w"))[1]
    page = await browser.get("/rules/w/change")
    text = unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page[1], re.DOTALL)[0])
    assert "title LIKE '%x%'" in text
    tag = field(page, "tag")
    answer, _ = await browser.post("/rules/w/change", {"text": text.replace("%x%", "%y%"), "tag": tag})
    assert (answer.status, answer.headers["Location"]) == (303, "/rules/w")
    answer, told = await browser.post("/rules/w/change", {"text": text, "tag": tag})
    assert answer.status == 412
    assert "somebody has changed it since you opened it" in told
    page = await browser.get("/rules/w/change")
    tag, text = field(page, "tag"), text.replace('"w"', '"w2"').replace("%x%", "%z%")
    answer, told = await browser.post("/rules/w/change", {"text": text.replace("title", "titel"), "tag": tag})
    assert answer.status == 422
    assert "Did you mean title?" in told
    assert "titel" in told
    answer, told = await browser.post("/rules/w/change", {"text": " ", "tag": tag})
    assert answer.status == 400
    assert "to remove it, use the button below" in told
    answer, told = await browser.post("/rules/w/change", {"text": text.replace("w2", "w"), "tag": tag, "copy": "1"})
    assert answer.status == 400
    assert "a copy needs a name of its own" in told
    assert rules_of(browser) == {"w"}
    answer, _ = await browser.post("/rules/w/change", {"text": text, "tag": tag, "copy": "1"})
    assert (answer.status, answer.headers["Location"]) == (303, "/rules/w2")
    assert rules_of(browser) == {"w", "w2"}
    answer, _ = await browser.post("/rules/w/change", {"text": text.replace("w2", "w3"), "tag": tag})
    assert answer.status == 303
    assert rules_of(browser) == {"w2", "w3"}


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated", "ignore:.*:DeprecationWarning:apprise")
async def test_the_token_of_a_chat_is_hidden_where_a_rule_is_changed_and_stays(browser: Browser) -> None:
    secret = "tgram://123456789:s3cretAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/12315544/"
    await browser.api.control.declarations.declare(WATCHED.replace(";", f" TELL CHANNEL '{secret}';"))
    await browser.sign_in()
    page = await browser.get("/rules/w/change")
    text = unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page[1], re.DOTALL)[0])
    assert "s3cret" not in page[1]
    wrong = text.replace("hidden 1", "hidden 7")
    answer, _ = await browser.post("/rules/w/change", {"text": wrong, "tag": field(page, "tag")})
    assert answer.status == 400
    changed = text.replace("%x%", "%y%")
    answer, _ = await browser.post("/rules/w/change", {"text": changed, "tag": field(page, "tag")})
    assert answer.status == 303
    (delivery,) = browser.api.control.declarations.declaration.rules["w"].deliveries
    assert delivery == ChannelDelivery(secret)
    page = await browser.get("/rules/w/change")
    await browser.post("/rules/w/remove", {"tag": field(page, "tag")})
    assert "s3cret" not in (await browser.get("/removed"))[1]


@pytest.mark.parametrize("path", ["/rules/w", "/sources/w.example%2Ffeed"])
async def test_what_is_removed_where_it_is_seen_can_be_had_back_for_a_day(browser: Browser, path: str) -> None:
    await browser.api.control.declarations.declare(WATCHED)
    await browser.sign_in()
    page = await browser.get(f"{path}/change")
    assert ("one line declares both" in page[1]) == path.startswith("/sources")
    answer, _ = await browser.post(f"{path}/remove", {"tag": "old"})
    assert answer.status == 412
    answer, _ = await browser.post(f"{path}/remove", {"tag": field(page, "tag")})
    assert (answer.status, answer.headers["Location"]) == (303, "/removed")
    assert rules_of(browser) == set()
    assert (await browser.get(f"{path}/change"))[0] == 404
    _, shown = await browser.get("/removed")
    assert "title LIKE &#39;%x%&#39;" in shown
    (restore,) = re.findall(r'action="(/removed/[^"]+)"', shown)
    answer, _ = await browser.post(restore)
    assert (answer.status, answer.headers["Location"]) == (303, "/rules")
    assert rules_of(browser) == {"w"}
    assert (await browser.post(restore))[0].status == 404
    page = await browser.get(f"{path}/change")
    await browser.post(f"{path}/remove", {"tag": field(page, "tag")})
    (restore,) = re.findall(r'action="(/removed/[^"]+)"', (await browser.get("/removed"))[1])
    cast("FakeClock", browser.api.control.resources.clock).jump(86_401.0)
    await browser.sign_in("admin")  # the session has ended, too
    assert restore not in (await browser.get("/removed"))[1]


async def test_what_a_file_declares_names_the_file_and_the_line(browser: Browser) -> None:
    await browser.sign_in()
    name, rule_of_file = next(iter(browser.api.control.declarations.declaration.rules.items()))
    written = (browser.api.folder / "a.profile").read_text()
    line = written[: written.index(f'INSERT NOTIFICATION "{name}"')].count("\n") + 1
    page = await browser.get(f"/rules/{name}/change")
    assert f"/a.profile</bdi> declares it, from line {line} on" in page[1]
    assert "<textarea" not in page[1]
    assert rule_of_file.file.endswith("a.profile")
    answer, _ = await browser.post(f"/rules/{name}/remove", {"tag": "x"})
    assert answer.status in {409, 412}
    assert name in browser.api.control.declarations.declaration.rules


async def test_a_profile_of_a_file_is_shown_with_the_reason_why_it_stays(browser: Browser) -> None:
    await browser.sign_in()
    _, text = await browser.get("/profiles/P")
    assert "a.profile" in text
    assert "<textarea" not in text
    answer, text = await browser.post("/profiles", {"text": 'CREATE PROFILE "P" AS (DOMAIN "D", USER "u");'})
    assert answer.status == 409
    assert "change it there" in text


async def test_a_profile_may_be_called_new(browser: Browser) -> None:
    await browser.sign_in()
    answer, _ = await browser.post("/profiles", {"text": OWN.replace('"Q"', '"new"')})
    assert answer.headers["Location"] == "/profiles/new/"
    assert "INSERT NOTIFICATION &#34;q&#34;" in (await browser.get("/profiles/new/"))[1]


async def test_the_stream_of_pages_brings_what_is_told(browser: Browser) -> None:
    await browser.sign_in("read")
    async with browser.api.client.get("/live?rule=r") as stream:
        assert stream.content_type == "text/event-stream"
        await stream.content.readuntil(b"\n\n")
        await browser.api.tell(told("n1"))
        assert b'"n1"' in await stream.content.readuntil(b"\n\n")
    async with browser.api.client.get("/live?rule=none") as answer:
        assert answer.status == 404


async def test_the_unix_socket_has_no_dashboard(running: Running) -> None:
    async with (
        TestClient(TestServer(make_app(running.control.queries, None))) as client,
        client.get("/") as answer,
    ):
        assert answer.status == 404
