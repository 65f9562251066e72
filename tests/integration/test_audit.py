"""The audit log: each way to change something is noted, with who did it and from where, and without a secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from proxyd.api.auth import new_token
from proxyd.api.listings import Listings
from proxyd.api.passwords import invite
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.api.web.entrance import _NotedFailures
from proxyd.app.server import endpoints, make_app
from proxyd.app.wiring import create_token
from proxyd.base.doers import Doer, acting
from proxyd.client import Client
from proxyd.config.loading import load
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.field_values import iso_time
from proxyd.store.backups import open_store
from tests.fakes import FakeClock, no_queries
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import Browser, field
from tests.integration.test_agents import call, over_http
from tests.integration.test_google_reader import Phone
from tests.integration.test_people import PASSWORD, choose, sign_in

WATCH = 'WATCH \'https://b.example/feed\' AS "b" INTO "New";'


NOTED = {
    *("declare", "drop_profile", "import_feeds", "restore", "pause", "resume", "mute", "unmute", "accept_move"),
    *("replay", "replay_dead", "make_token", "drop_token", "invite_person", "limit_person", "drop_person"),
    *("reload", "test_deliveries", "test_receiver"),
}
CHANGE_NOTHING_OF_OTHERS = {"mark_items", "probe"}
"""What is not noted: marks, which are of one's own and say what somebody reads, and requests that are sent now."""


def test_each_route_that_changes_something_is_noted_or_has_a_reason_not_to_be() -> None:
    found = endpoints(no_queries(), Listings(no_queries()), Streams(no_queries(), StreamSettings()))
    changing = {each.handler.__name__ for each in found if each.method != "GET" and each.scope is not None}
    assert changing == NOTED | CHANGE_NOTHING_OF_OTHERS


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


async def deeds(running: Running) -> list[tuple[str, ...]]:
    """Return what was done, oldest first: by whom, in which way, what, and to what."""
    found = await running.control.queries.audit.find_deeds(before=None, limit=500)
    kept = ("who", "way", "did", "subject", "detail")
    return [tuple(getattr(each, name) for name in kept) for each in reversed(found) if each.who != "proxyd"]


async def post(running: Running, path: str, status: int = 200, **body: Any) -> Any:
    headers = vars(running).setdefault("admin", None) or await running.token("admin")
    vars(running)["admin"] = headers
    async with running.client.post(f"/api/v1{path}", json=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_what_the_files_say_at_the_start_and_after_an_edit_is_noted(running: Running) -> None:
    by = ("the profiles folder", "file")
    assert await deeds(running) == [(*by, "declare", "a.profile", "")]
    (running.folder / "b.profile").write_text(WATCH)
    assert await running.control.declarations.reload() == ()
    (running.folder / "b.profile").unlink()
    assert await running.control.declarations.reload() == ()
    assert await running.control.declarations.reload() == ()
    assert (await deeds(running))[1:] == [(*by, "declare", "b.profile", ""), (*by, "remove", "b.profile", "")]


async def test_each_change_over_the_api_is_noted_once_with_the_token_and_the_address(running: Running) -> None:
    await post(running, "/profiles", 422, text="WATCH nothing")
    async with running.client.post(
        "/api/v1/profiles", data=WATCH, headers=await running.token("write") | {"Content-Type": "text/plain"}
    ) as answer:
        assert answer.status == 201
    await post(running, "/mute", name="r", until=iso_time(T0 + 3600.0))
    await post(running, "/unmute", name="r")
    await post(running, "/unmute", name="r")
    await post(running, "/pause", source="s")
    await post(running, "/pause", source="s")
    await post(running, "/resume", source="s")
    await running.give_up("n1")
    await running.give_up("n2")
    await post(running, "/notifications/n1/replay", 202)
    await post(running, "/deliveries/replay", 202)
    await post(running, "/notifications/none/replay", 404)
    await post(running, "/mute", name="everything", subject="all")
    await post(running, "/tokens", 201, name="phone", scope="read", profiles=["P"])
    await post(running, "/tokens", 409, name="phone", scope="read")
    headers = vars(running)["admin"]
    for path in ("/tokens/phone", "/profiles/New"):
        async with running.client.delete(f"/api/v1{path}", headers=headers) as answer:
            assert answer.status == 200
    async with running.client.delete("/api/v1/tokens/phone", headers=headers) as answer:
        assert answer.status == 404
    admin, writer = ("token admin None", "api"), ("token write None", "api")
    assert (await deeds(running))[1:] == [
        (*writer, "declare", "rule b", ""),
        (*admin, "mute", "rule r", f"until {iso_time(T0 + 3600.0)}"),
        (*admin, "unmute", "rule r", ""),
        (*admin, "pause", "source s", ""),
        (*admin, "resume", "source s", ""),
        (*admin, "replay", "notification n1", "deliveries: 1"),
        (*admin, "replay", "what was given up", "deliveries: 1"),
        (*admin, "mute", "everything", ""),
        (*admin, "make token", "phone", "scope read, of P"),
        (*admin, "revoke token", "phone", ""),
        (*admin, "remove", "rule b", ""),
    ]
    found = await running.control.queries.audit.find_deeds(before=None, limit=500)
    assert {each.address for each in found if each.way == "api"} == {"127.0.0.1"}


async def test_an_accepted_move_is_noted(running: Running) -> None:
    observer = running.control.loops.observer
    moved = changed("s", [item("a")], T0)
    await observer.take_in(replace(moved, permanent_url="https://new.example/hunter2"))
    await post(running, "/moves", source="s")
    assert (await deeds(running))[-1] == ("token admin None", "api", "accept move", "source s", "")


async def test_the_dashboard_a_phone_an_agent_and_the_socket_are_told_apart(running: Running) -> None:
    await running.control.declarations.declare(WATCH)
    browser = Browser(running)
    await browser.sign_in("admin")
    await browser.post("/rules/r/mute", {"for": "1 hour"})
    phone = await Phone.signed_in(running, "write")
    assert (await phone.post("subscription/edit", ("ac", "unsubscribe"), ("s", "feed/b.example/feed")))[0] == 200
    token, shown = new_token("helper", "write", now_s=T0, expires_in_s=None)
    await running.control.queries.access.add_token(token)
    async with over_http(running, shown) as session:
        await call(session, "unmute", rule="r")
    local = TestServer(make_app(running.control.queries, None))
    async with TestClient(local), Client.over_http(str(local.make_url("")), "") as client:
        await client.pause("s")
    done = [(who, way, did) for who, way, did, *_ in (await deeds(running))[1:]]
    assert done == [
        ("token admin None", "dashboard", "sign in"),
        ("token admin None", "dashboard", "mute"),
        ("token write None", "reader", "remove"),
        ("token helper", "agent", "unmute"),
        ("the command line", "socket", "pause"),
    ]


async def test_people_are_invited_choose_passwords_and_are_removed(running: Running) -> None:
    invited = await post(running, "/people", 201, name="ann", scope="write")
    people, secret = running.control.queries.people, "x" * 43
    await people.invite("ann", "write", (), invitation=secret, until_s=T0 + 60.0, now_s=T0)
    assert not await people.accept("another", "hash", now_s=T0)
    assert await people.accept(secret, "hash", now_s=T0)
    await post(running, "/people/ann/limits", sources=3)
    async with running.client.delete("/api/v1/people/ann", headers=vars(running)["admin"]) as answer:
        assert answer.status == 200
    async with running.client.get("/api/v1/audit", headers=vars(running)["admin"]) as answer:
        found = await answer.json()
    assert [(each["did"], each["subject"]) for each in found["items"]][:5] == [
        ("remove", "person ann"),
        ("limit", "person ann"),
        ("choose password", "person ann"),
        ("invite", "person ann"),
        ("invite", "person ann"),
    ]
    assert invited["link"].rpartition("/")[2] not in str(found)


async def test_an_agent_cannot_say_that_it_is_elsewhere(running: Running) -> None:
    headers = await running.token("write") | {"Proxyd-Agent": "203.0.113.9", "X-Forwarded-For": "203.0.113.9"}
    async with running.client.post("/api/v1/pause", json={"source": "s"}, headers=headers) as answer:
        assert answer.status == 200
    newest, *_ = await running.control.queries.audit.find_deeds(before=None, limit=1)
    assert (newest.way, newest.address) == ("api", "127.0.0.1")


async def test_a_token_made_while_no_daemon_runs_is_noted(tmp_path: Path) -> None:
    settings = load(environ={}, profiles=tmp_path, database=str(tmp_path / "p.db"))
    await create_token(settings, "first", "admin", expires_in_s=None)
    async with open_store(tmp_path / "p.db", ChrononGrid(10.0)) as store:
        (deed,) = await store.audit.find_deeds(before=None, limit=9)
    assert (deed.who, deed.did, deed.subject) == ("the command line", "make token", "first")


async def test_who_signs_in_and_out_and_who_fails_to_is_noted(running: Running) -> None:
    queries = running.control.queries
    browser, other = Browser(running), Browser(running)
    await choose(browser, await invite(queries, "ann", "write"))
    answer, _ = await browser.post("/account/sessions/end")
    assert answer.status == 303
    await browser.post("/sign-out")
    for name, password in (("ann", "wrong"), ("hunter2", "ann"), ("ann", PASSWORD)):
        await sign_in(other, name, password)
    mark = field(await other.get("/sign-in"), "mark")
    assert (await other.post("/sign-in", {"mark": mark, "token": "pxd_hunter2"}))[0].status == 401
    found = await deeds(running)
    kept = [each for each in found if each[2] in {"sign in", "sign out", "fail to sign in"}]
    ann, somebody = ("ann", "dashboard"), ("somebody", "dashboard", "fail to sign in")
    assert kept == [
        (*ann, "sign in", "", "by an invitation"),
        (*ann, "sign out", "", ""),
        (*somebody, "person ann", "by password"),
        (*somebody, "an unknown name", "by password"),
        (*ann, "sign in", "", "by password"),
        (*somebody, "", "by a token"),
    ]
    assert "hunter2" not in str(found)


async def test_other_sessions_that_somebody_ends_are_counted(running: Running) -> None:
    browser = Browser(running)
    await choose(browser, await invite(running.control.queries, "ann", "write"))
    jar = running.client.session.cookie_jar
    jar.clear()
    await sign_in(browser)
    assert (await browser.post("/account/sessions/end"))[0].status == 303
    assert (await deeds(running))[-1] == ("ann", "dashboard", "sign out", "", "other sessions: 1")


async def test_no_guesser_fills_it(running: Running) -> None:
    failures, clock = _NotedFailures(running.control.queries), cast("FakeClock", running.control.resources.clock)
    with acting(Doer("somebody", "dashboard", "192.0.2.1")):
        for _ in range(1000):
            await failures.note("an unknown name", "by password")
        assert len(await deeds(running)) == 1 + 60
        await clock.advance(3600.0)
        await failures.note("an unknown name", "by password")
    assert [each[3:] for each in await deeds(running)][-2:] == [
        ("", "940 more before"),
        ("an unknown name", "by password"),
    ]


async def test_tests_and_reloads_are_noted_with_what_became_of_them(running: Running) -> None:
    await running.control.declarations.declare("CREATE RECEIVER \"team\" AS LOG 'a', LOG 'b';")
    await post(running, "/deliveries/test", rule="r")
    await post(running, "/receivers/team/test")
    await post(running, "/reload")
    (running.folder / "b.profile").write_text("WATCH nothing")
    await post(running, "/reload", 422)
    assert [each[2:] for each in await deeds(running)][-4:] == [
        ("test", "rule r", "accepted: 0 of 1"),
        ("test", "receiver team", "accepted: 0 of 2"),
        ("reload", "the profiles folder", ""),
        ("reload", "the profiles folder", "refused, errors: 1"),
    ]


async def test_no_secret_is_in_it(running: Running) -> None:
    text = (
        "WATCH 'https://b.example/feed?token=hunter2' TELL CHANNEL 'ntfy://ntfy.example/hunter2';"
        "CREATE SOURCE \"x\" OF RSS AT 'https://me.example/hunter2';"
    )
    await running.control.declarations.declare(text)
    made = await post(running, "/tokens", 201, name="phone", scope="read")
    async with running.client.get("/api/v1/audit", headers=vars(running)["admin"]) as answer:
        said = await answer.text()
    assert "b.example/feed?…" in said
    assert "hunter2" not in said
    assert made["token"] not in said
    assert made["token"].split("_", 2)[2] not in said  # the secret itself may hold a _


async def test_who_may_only_read_does_not_see_it_nor_who_reads_some_profiles(running: Running) -> None:
    token, shown = new_token("bound", "read", now_s=T0, expires_in_s=None, profiles=["P"])
    await running.control.queries.access.add_token(token)
    for headers in (await running.token("read"), {"Authorization": f"Bearer {shown}"}):
        async with running.client.get("/api/v1/audit", headers=headers) as answer:
            assert answer.status == 403


async def test_it_comes_in_pages_newest_first(running: Running) -> None:
    for number in range(5):
        await post(running, "/tokens", 201, name=f"t{number}", scope="read")
    async with Client.over_http(str(running.client.make_url("")), token_of(running)) as client:
        assert [each["subject"] for each in await client.audit(limit=3)] == ["t4", "t3", "t2"]
        assert len(await client.audit()) == 7


def token_of(running: Running) -> str:
    return str(vars(running)["admin"]["Authorization"]).removeprefix("Bearer ")


async def test_the_page_shows_hostile_names_as_text(running: Running) -> None:
    browser = Browser(running)
    await browser.sign_in("admin")
    async with Client.over_http(str(running.client.make_url("")), await browser_token(running)) as client:
        await client.create_token("<script>alert(1)</script>", "read")
    status, text = await browser.get("/audit")
    assert status == 200
    assert "make token" in text
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


async def browser_token(running: Running) -> str:
    token, shown = new_token("other", "admin", now_s=T0, expires_in_s=None)
    await running.control.queries.access.add_token(token)
    return shown
