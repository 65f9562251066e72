"""People sign in by name and password, which they choose by a link, or because a reverse proxy says who they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from proxyd.api.auth import new_token
from proxyd.api.passwords import invite, remove
from proxyd.api.problems import BadRequestError
from proxyd.api.web.page_gate import HeaderSignIn
from proxyd.app.server import PublicFront, make_app
from proxyd.store.api_rows import Scope
from proxyd.store.item_rows import Shelf, View
from tests.fakes import FakeClock
from tests.fleets import changed, item
from tests.integration.api_world import Running, running_api, told
from tests.integration.dashboard_world import Browser, field
from tests.integration.test_dashboard import ROUTES
from tests.integration.test_google_reader import STARRED

DAY_S = 86400.0
PASSWORD = "a long night in May"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as running:
        yield running


@pytest.fixture
def browser(api: Running) -> Browser:
    return Browser(api)


async def link(api: Running, name: str = "ann", scope: Scope = "write") -> str:
    return await invite(api.control.queries, name, scope)


async def choose(browser: Browser, path: str, password: str = PASSWORD) -> int:
    """Follow a link; return the status of the answer to the form."""
    mark = field(await browser.get(path), "mark")
    answer, _ = await browser.post(path, {"mark": mark, "password": password})
    if answer.status == 303:
        browser.csrf = field(await browser.get("/docs"), "csrf")
    return answer.status


async def sign_in(browser: Browser, name: str = "ann", password: str = PASSWORD) -> int:
    mark = field(await browser.get("/sign-in"), "mark")
    answer, _ = await browser.post("/sign-in", {"mark": mark, "name": name, "password": password})
    if answer.status == 303:
        browser.csrf = field(await browser.get("/docs"), "csrf")
    return answer.status


def forget_cookies(browser: Browser) -> None:
    browser.api.client.session.cookie_jar.clear()


async def is_signed_in(browser: Browser) -> bool:
    async with browser.api.client.get("/sources", allow_redirects=False) as answer:
        return answer.status == 200


async def test_who_follows_a_link_chooses_a_password_and_signs_in_by_it(api: Running, browser: Browser) -> None:
    path = await link(api)
    assert await choose(browser, path) == 303
    page = (await browser.get("/account"))[1]
    heading = page.partition("<h1>")[2].partition("</h1>")[0]
    assert "ann" in heading
    assert '<span class="tag">write</span>' in heading
    forget_cookies(browser)
    assert not await is_signed_in(browser)
    assert await sign_in(browser) == 303
    assert await is_signed_in(browser)


async def test_a_link_works_once_and_a_day_long_and_opening_it_does_not_use_it_up(
    api: Running, browser: Browser
) -> None:
    path, late, replaced = await link(api), await link(api, "ben"), await link(api, "cem")
    await link(api, "cem")
    for _ in range(3):
        assert (await browser.get(path))[0] == 200
    assert await choose(browser, path) == 303
    assert (await browser.get(path))[0] == 404
    assert (await browser.get(replaced))[0] == 404
    await cast("FakeClock", api.control.resources.clock).advance(DAY_S)
    assert (await browser.get(late))[0] == 404
    stored = await api.control.queries.people.all()
    assert not any(path.rpartition("/")[2] in f"{each}" or PASSWORD in f"{each}" for each in stored)


async def test_a_form_of_a_link_is_refused_from_another_site_and_with_a_short_password(
    api: Running, browser: Browser
) -> None:
    path = await link(api)
    mark = field(await browser.get(path), "mark")
    assert (await browser.post(path, {"mark": "guessed", "password": PASSWORD}))[0].status == 403
    assert (await browser.post(path, {"mark": mark, "password": PASSWORD}, Origin="https://evil.example"))[
        0
    ].status == 403
    assert await choose(browser, path, "seven77") == 422
    assert await choose(browser, path, "x" * 201) == 422
    assert await choose(browser, path) == 303


async def test_who_guesses_a_password_has_to_wait_and_others_do_not(api: Running, browser: Browser) -> None:
    await choose(browser, await link(api))
    await choose(browser, await link(api, "ben"))
    forget_cookies(browser)
    assert [await sign_in(browser, password=f"guess {number}") for number in range(10)] == [401] * 10
    mark = field(await browser.get("/sign-in"), "mark")
    answer, _ = await browser.post("/sign-in", {"mark": mark, "name": "ann", "password": PASSWORD})
    assert (answer.status, answer.headers["Retry-After"]) == (429, "30")
    assert await sign_in(browser, "ben") == 303
    forget_cookies(browser)
    await cast("FakeClock", api.control.resources.clock).advance(30.0)
    assert await sign_in(browser) == 303


async def test_many_guesses_at_once_count_like_guesses_in_a_row(api: Running, browser: Browser) -> None:
    await choose(browser, await link(api))
    forget_cookies(browser)
    mark = field(await browser.get("/sign-in"), "mark")
    wrong = {"mark": mark, "name": "ann", "password": "a guess"}
    answers = await asyncio.gather(*(browser.post("/sign-in", wrong) for _ in range(14)))
    assert sorted(answer.status for answer, _ in answers) == [401] * 10 + [429] * 4


@pytest.mark.parametrize(
    "name", ["token phone", "the command line", "proxyd", "somebody", " ann", "", "a\u202eb", "x" * 101]
)
async def test_nobody_gets_a_name_that_could_be_mistaken(api: Running, name: str) -> None:
    with pytest.raises(BadRequestError):
        await link(api, name)


async def test_of_a_name_that_nobody_can_have_only_the_beginning_is_remembered(api: Running, browser: Browser) -> None:
    names = [f"{'x' * 254}{number}" for number in range(11)]
    assert [await sign_in(browser, name) for name in names] == [401] * 10 + [429]


async def test_an_unknown_name_a_wrong_password_and_no_password_yet_are_answered_alike(
    api: Running, browser: Browser
) -> None:
    await choose(browser, await link(api))
    await link(api, "ben")
    forget_cookies(browser)
    pages = []
    for name in ("ann", "ben", "nobody"):
        mark = field(await browser.get("/sign-in"), "mark")
        answer, page = await browser.post("/sign-in", {"mark": mark, "name": name, "password": "wrong, too"})
        assert answer.status == 401
        pages.append(page.replace(field((200, page), "mark"), "").replace(f'value="{name}"', ""))
    assert pages[0] == pages[1] == pages[2]


async def test_another_password_ends_the_other_sessions(api: Running, browser: Browser) -> None:
    await choose(browser, await link(api))
    app = TestClient(TestServer(make_app(api.control.queries, PublicFront())))  # a second planner: it has sessions, too
    async with app as elsewhere:
        other = Browser(Running(elsewhere, api.control, api.folder))
        assert await sign_in(other) == 303
        await cast("FakeClock", api.control.resources.clock).advance(1.0)
        wrong, page = await browser.post("/account/password", {"old": "not this", "password": "another secret"})
        assert wrong.status == 401
        assert "The present password is wrong." in page
        assert await is_signed_in(other)
        right, _ = await browser.post("/account/password", {"old": PASSWORD, "password": "another secret"})
        assert right.status == 303
        assert await is_signed_in(browser)
        assert not await is_signed_in(other)
        assert await sign_in(other) == 401
        assert await sign_in(other, password="another secret") == 303


async def test_a_person_sees_their_sessions_and_ends_the_others(api: Running, browser: Browser) -> None:
    await choose(browser, await link(api))
    first = dict(browser.api.client.session.cookie_jar.filter_cookies(browser.api.client.make_url("/")).items())
    forget_cookies(browser)
    await sign_in(browser)
    assert (await browser.get("/account"))[1].count('data-label="Since"') == 2
    assert (await browser.post("/account/sessions/end"))[0].status == 303
    assert (await browser.get("/account"))[1].count('data-label="Since"') == 1
    forget_cookies(browser)
    cookie = first["proxyd_session"].value
    async with api.client.get("/sources", headers={"Cookie": f"proxyd_session={cookie}"}, allow_redirects=False) as old:
        assert old.status == 303


async def test_who_is_removed_or_gets_a_narrower_scope_feels_it_at_once(api: Running, browser: Browser) -> None:
    await choose(browser, await link(api))
    assert (await browser.get("/add"))[0] == 200
    await cast("FakeClock", api.control.resources.clock).advance(1.0)
    await link(api, "ann", "read")
    assert not await is_signed_in(browser)
    await sign_in(browser)
    assert (await browser.get("/add"))[0] == 403
    await api.control.queries.people.drop("ann", 0.0)
    assert not await is_signed_in(browser)
    await invite(api.control.queries, "ann", "admin")  # somebody else of that name
    assert not await is_signed_in(browser)


async def test_admins_invite_on_a_page_and_see_the_link_once(api: Running, browser: Browser) -> None:
    await browser.sign_in("admin")
    answer, page = await browser.post("/people", {"name": "<b>ann</b>", "scope": "write"})
    assert answer.status == 201
    path = page.partition("/welcome/")[2].partition("<")[0]
    assert "<b>ann</b>" not in page
    page = (await browser.get("/people"))[1]
    assert path not in page
    assert "not yet" in page
    assert (await browser.post("/people", {"name": " ", "scope": "write"}))[0].status == 422
    assert (await browser.post("/people", {"name": "ben", "scope": "root"}))[0].status == 422
    assert (await browser.post("/people/%3Cb%3Eann%3C%2Fb%3E/drop"))[0].status == 303
    assert await api.control.queries.people.all() == []


@pytest.mark.parametrize("networks", ["127.0.0.0/8", "10.0.0.0/8"])
async def test_a_header_signs_in_only_from_the_addresses_of_the_proxy(
    tmp_path: Path, api: Running, networks: str
) -> None:
    front = PublicFront(header=HeaderSignIn("Remote-User", [ip_network(networks)]))
    await invite(api.control.queries, "ann", "read")
    is_proxy = networks.startswith("127.")
    async with TestClient(TestServer(make_app(api.control.queries, front))) as client:
        async with client.get("/sources", headers={"Remote-User": "ann"}, allow_redirects=False) as answer:
            assert answer.status == (200 if is_proxy else 303)
            assert ("proxyd_session" in answer.cookies) == is_proxy
        async with client.get("/add", headers={"Remote-User": "ann"}, allow_redirects=False) as answer:
            assert answer.status == (403 if is_proxy else 303)
        async with client.get("/sources", headers={"Remote-User": "ben"}, allow_redirects=False) as answer:
            assert answer.status == (403 if is_proxy else 303)
        twice = [("Remote-User", "ann"), ("Remote-User", "ann")]
        client.session.cookie_jar.clear()
        async with client.get("/sources", headers=twice, allow_redirects=False) as answer:
            assert answer.status == 303
        async with client.get("/api/v1/sources", headers={"Remote-User": "ann"}) as answer:
            assert answer.status == 401


# -- what they read, and their tokens


async def tell(api: Running) -> int:
    """Store an item, and return its position."""
    now_s = api.control.resources.clock.time_s()
    await api.control.loops.observer.take_in(changed("s", [item("a", now_s - 3600.0)], now_s - 3500.0))
    await api.control.loops.observer.take_in(changed("s", [item("b", now_s), item("a", now_s - 3600.0)], now_s))
    (newest,) = (await api.control.queries.reading.stored.find(Shelf(), before=None, limit=1)).items
    return newest.position


async def count_unread(api: Running, headers: dict[str, str]) -> int:
    async with api.client.get("/api/v1/items?view=unread", headers=headers) as answer:
        return len((await answer.json())["items"])


async def test_each_person_reads_for_themselves_and_the_first_goes_on_with_the_marks_of_before(
    api: Running, browser: Browser
) -> None:
    position = await tell(api)
    nobodys = await api.token("write")
    unread = await count_unread(api, nobodys)
    assert unread > 0
    await choose(browser, await link(api, "ann"))
    await browser.post(f"/read/{position}/mark", {"read": "true", "starred": "true"})
    assert await count_unread(api, nobodys) == unread - 1
    forget_cookies(browser)
    await choose(browser, await link(api, "ben"))
    assert "Nothing is starred" in (await browser.get("/read?view=starred"))[1]
    page = (await browser.get("/read"))[1]
    assert f'id="i{position}"' in page or f"/read/{position}" in page
    await browser.post("/read/marks", {"up_to": str(position)})
    assert await count_unread(api, nobodys) == unread - 1
    await remove(api.control.queries, "ben")
    reading = api.control.queries.reading.stored
    assert (await reading.count(Shelf(person="person:ben"))).total == unread


async def test_a_persons_token_reads_for_them_does_no_more_than_they_may_and_ends_with_them(
    api: Running, browser: Browser
) -> None:
    position = await tell(api)
    await choose(browser, await link(api, "ann"))
    forget_cookies(browser)
    await choose(browser, await link(api, "ben"))
    assert (await browser.post("/account/tokens", {"name": " "}))[0].status == 422
    answer, page = await browser.post("/account/tokens", {"name": "phone"})
    assert answer.status == 201
    made = page.partition('class="secret" tabindex="0">')[2].partition("<")[0]
    bearer = {"Authorization": f"Bearer {made}"}
    assert "ben: phone" in (await browser.get("/account"))[1]
    async with api.client.post("/api/v1/marks", json={"items": [position], "starred": True}, headers=bearer) as marked:
        assert marked.status == 200
    assert "Nothing is starred" not in (await browser.get("/read?view=starred"))[1]
    async with api.client.post("/api/v1/reload", headers=bearer) as allowed:
        assert allowed.status == 200
    await link(api, "ben", "read")
    async with api.client.post("/api/v1/reload", headers=bearer) as refused:
        assert refused.status == 403
    forget_cookies(browser)
    await sign_in(browser, "ann")
    assert (await browser.post("/account/tokens/ben%3A%20phone/drop"))[0].status == 404
    await remove(api.control.queries, "ben")
    async with api.client.get("/api/v1/items", headers=bearer) as gone:
        assert gone.status == 401


# -- people of some profiles

OTHER = """CREATE PROFILE "Other" AS (DOMAIN "D", LANGUAGE "SQL", USER "v");
CREATE SOURCE "covert" OF RSS AT 'https://covert.example/feed';
INSERT NOTIFICATION "o" INTO "Other" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
FROM SOURCES "covert" START NOW END NEVER SET UTILITY STRICT;
CREATE PROFILE "Own" AS (DOMAIN "D", LANGUAGE "SQL", USER "v");
INSERT NOTIFICATION "w" INTO "Own" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
FROM SOURCES "s" START NOW END NEVER SET UTILITY STRICT;"""


async def two_items(api: Running) -> tuple[int, int]:
    """Store an item of a source of the profile Own and a secret one of another; return their positions."""
    await api.control.declarations.declare(OTHER)
    now_s = api.control.resources.clock.time_s()
    for name, words in (("s", "for everybody"), ("covert", "top secret")):
        first = replace(item(words, now_s), fields={"channel.item.title": words})
        await api.control.loops.observer.take_in(changed(name, [item("old", now_s - 9000.0)], now_s - 8000.0))
        await api.control.loops.observer.take_in(changed(name, [first, item("old", now_s - 9000.0)], now_s))
    found = (await api.control.queries.reading.stored.find(Shelf(), before=None, limit=9)).items
    at = {each.title: each.position for each in found}
    return at["for everybody"], at["top secret"]


async def test_who_reads_one_profile_sees_nothing_of_others_on_any_page(api: Running, browser: Browser) -> None:
    own, hidden = await two_items(api)
    await choose(browser, await invite(api.control.queries, "kid", "read", ["Own"]))
    async with api.client.get("/", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/read")
    for view in ("unread", "today", "all"):
        page = (await browser.get(f"/read?view={view}"))[1]
        assert "for everybody" in page
        assert "secret" not in page
        assert "covert" not in page
    assert (await browser.get(f"/read/{own}"))[0] == 200
    absent, foreign = [await browser.get(f"/read/{position}") for position in (999_999, hidden)]
    assert foreign[0] == 404
    assert foreign[1].partition("<main")[2] == absent[1].partition("<main")[2]
    assert (await browser.get("/read?profile=Other"))[0] == (await browser.get("/read?profile=Nowhere"))[0] == 404
    for form in ({"items": str(hidden)}, {"up_to": str(hidden)}, {"up_to": str(hidden), "source": "covert"}):
        await browser.post("/read/marks", form)
    await browser.post(f"/read/{hidden}/mark", {"starred": "true"})
    stored = api.control.queries.reading.stored
    kids = Shelf(View.UNREAD, person="person:kid") if (await api.control.queries.people.all())[1:] else Shelf()
    assert hidden in [each.position for each in (await stored.find(kids, before=None, limit=9)).items]
    assert (await stored.find(replace(kids, view=View.STARRED), before=None, limit=9)).items == []


async def test_pages_about_everything_and_all_changes_are_refused_to_who_reads_one_profile(
    api: Running, browser: Browser
) -> None:
    await two_items(api)
    await choose(browser, await invite(api.control.queries, "kid", "read", ["Own"]))
    closed, open_to_kids = set(), set()
    for route in ROUTES:
        path = route.path.replace("{name}", "r").replace("{position}", "1").replace("{id}", "n")
        if route.method == "GET":
            status = (await browser.get(path))[0]
        else:
            status = (await browser.post(path, {"name": "x", "up_to": "1"}))[0].status
        if status == 403 and route.scope == "read":
            closed.add(route.path)
        if status != 403 and path != "/":
            open_to_kids.add((route.method, route.path, route.scope))
        if route.path == "/sign-out":
            await sign_in(browser, "kid")
    assert closed == {"/state", "/more", "/settings", "/plan", "/hosts", "/budget", "/docs"}
    assert {(method, scope) for method, _, scope in open_to_kids} == {("GET", "read"), ("POST", "read")}
    assert {path.split("/")[1] for method, path, _ in open_to_kids if method == "POST"} == {
        "account",
        "read",
        "sign-out",
    }


async def test_who_may_only_read_is_told_their_scope_and_offered_no_form(api: Running, browser: Browser) -> None:
    await two_items(api)
    await choose(browser, await invite(api.control.queries, "kid", "read", ["Own"]))
    status, refused = await browser.get("/add")
    assert (status, "this needs scope write; yours is read" in refused) == (403, True)
    assert "takes scope write; yours is read" in (await browser.get("/profiles/Own"))[1]
    sites = (await browser.get("/sites"))[1]
    assert ("No site yet." in sites, "Add one below" in sites) == (True, False)


async def test_the_phone_of_who_reads_one_profile_shows_nothing_of_others(api: Running, browser: Browser) -> None:
    own, hidden = await two_items(api)
    await choose(browser, await invite(api.control.queries, "kid", "read", ["Own"]))
    page = (await browser.post("/account/tokens", {"name": "phone"}))[1]
    made = page.partition('tabindex="0">')[2].partition("<")[0]
    auth = {"Authorization": f"GoogleLogin auth={made}"}
    reader = "/reader/api/0"
    said = ""
    for path in ("tag/list", "subscription/list", "unread-count", "stream/contents", "stream/items/ids?n=50"):
        async with api.client.get(f"{reader}/{path}", headers=auth) as answer:
            assert answer.status == 200
            said += await answer.text()
    assert "for everybody" in said
    assert str(own) in said
    assert not [each for each in ("secret", "covert", "Other", f'"{hidden}"') if each in said]
    async with api.client.get(f"{reader}/stream/items/contents?i={hidden}", headers=auth) as answer:
        assert (await answer.json())["items"] == []
    async with api.client.get(f"{reader}/stream/contents/feed/covert", headers=auth) as answer:
        assert (await answer.json())["items"] == []
    async with api.client.post(f"{reader}/edit-tag", data={"i": str(hidden), "a": STARRED}, headers=auth) as answer:
        assert answer.status == 200
    bearer = {"Authorization": f"Bearer {made}"}
    for path in ("/api/v1/plan", "/api/v1/items?profile=Other", f"/api/v1/items/{hidden}", "/api/v1/people"):
        async with api.client.get(path, headers=bearer) as answer:
            assert answer.status in {403, 404}, path
    starred = Shelf(View.STARRED)
    assert (await api.control.queries.reading.stored.find(starred, before=None, limit=9)).items == []


async def test_an_invitation_never_widens_what_somebody_reads_by_omission(api: Running, browser: Browser) -> None:
    await two_items(api)
    await browser.sign_in("admin")
    queries = api.control.queries
    await browser.post("/people", {"name": "kid", "scope": "read", "profile": "Own"})
    await browser.post("/people", {"name": "kid", "scope": "read", "profile": ""})
    assert [each.profiles for each in await queries.people.all()] == [("Own",)]
    assert (await browser.post("/people", {"name": "kid", "scope": "admin"}))[0].status == 422
    assert (await browser.post("/people", {"name": "kid", "scope": "read", "profile": "Nowhere"}))[0].status == 422
    assert [(each.scope, each.profiles) for each in await queries.people.all()] == [("read", ("Own",))]
    await browser.post("/people", {"name": "kid", "scope": "read", "profile": "Own, Other"})
    assert [each.profiles for each in await queries.people.all()] == [("Own", "Other")]
    answer, _ = await browser.post("/tokens", {"name": "program", "scope": "read", "profile": "Own,Other,"})
    assert answer.status == 201
    assert [set(each.profiles) for each in await queries.access.tokens() if each.name == "program"] == [
        {"Own", "Other"}
    ]


async def test_limits_are_given_on_the_page_shown_there_and_kept_by_an_invitation_without_any(
    api: Running, browser: Browser
) -> None:
    await two_items(api)
    await browser.sign_in("admin")
    asked = {"name": "kid", "scope": "write", "profile": "Own"}
    answer, page = await browser.post("/people", {**asked, "sources": " 3 ", "probes": "1200", "rules": ""})
    assert answer.status == 201
    assert "3 sources, 1,200 probes an hour" in page
    await browser.post("/people", asked)
    assert [each.limits for each in await api.control.queries.people.all()] == [{"sources": 3, "probes": 1200}]
    for wrong in ("-1", "many", "1.5", "٣", "9" * 5000):
        answer, page = await browser.post("/people", {**asked, "sources": wrong})
        assert answer.status == 422
        assert "the limit of sources is a number up to a billion" in page
    assert [each.limits for each in await api.control.queries.people.all()] == [{"sources": 3, "probes": 1200}]


async def test_open_pages_of_people_are_kept_up_to_date_until_their_rights_change(
    api: Running, browser: Browser
) -> None:
    await choose(browser, await link(api))
    async with api.client.get("/live") as stream:
        assert await stream.content.readline() == b"retry: 3000\n"
        await api.tell(told("n1"))
        while b"n1" not in (line := await stream.content.readline()):
            assert line
        await cast("FakeClock", api.control.resources.clock).advance(1.0)
        await link(api, "ann", "read")
        await api.tell(told("n2"))
        assert b"n2" not in await stream.content.read()


async def test_a_token_of_somebody_who_reads_one_profile_follows_no_feed_of_another(api: Running) -> None:
    await two_items(api)
    queries = api.control.queries
    await invite(queries, "kid", "read", ["Own"])
    made, shown = new_token("phone", "write", now_s=0.0, expires_in_s=None, person="kid")
    await queries.access.add_token(made)
    found = await queries.access.find_token(made.token_id)
    assert found is not None
    assert (found.scope, found.profiles, found.marks_as) == ("read", ("Own",), "me")
    foreign, _ = new_token("other", "read", now_s=0.0, expires_in_s=None, person="kid", profiles=["Other"])
    await queries.access.add_token(foreign)
    assert await queries.access.find_token(foreign.token_id) is None
    for path, status in (("Own", 200), ("Other", 404)):
        async with api.client.get(f"/api/v1/profiles/{path}/feed.atom?token={shown}") as answer:
            assert answer.status == status


async def test_open_pages_of_who_has_one_profile_hear_only_of_that(api: Running, browser: Browser) -> None:
    await two_items(api)
    await choose(browser, await invite(api.control.queries, "kid", "read", ["Own"]))
    rules = api.control.declarations.declaration.rules.values()
    own, other = (next(each.name for each in rules if name in each.profiles) for name in ("Own", "Other"))
    async with api.client.get("/live") as stream:
        assert await stream.content.readline() == b"retry: 3000\n"
        await api.tell(told("secret", rule_name=other), told("open", rule_name=own))
        read = b""
        while b'"open"' not in read:
            read += await stream.content.readline()
        assert b"secret" not in read
