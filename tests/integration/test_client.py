"""The clients against the API and its document: every operation, every answer, both clients alike."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, assert_type

import aiohttp
import pytest

from proxyd.app.server import ApiSettings, serve_api
from proxyd.client import ApiError, Client, ProfileRead, StreamEvent, SyncClient, UnreachableError
from proxyd.client.types import ComingProbe, SourceListed, TokenMade
from proxyd.config.loading import socket_address
from proxyd.core.model.outcome import Picture
from proxyd.store.declared_rows import Removed
from tests.canned import Canned, answering
from tests.fleets import changed, item, rule
from tests.integration.api_world import T0, Running, running_api, told

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
SITE = "WATCH 'https://shop.example' OF SITE INTO \"New\";"
TEAM = "CREATE RECEIVER \"team\" AS LOG 'team';"
TEXT = 'CREATE PROFILE "New" AS (DOMAIN "D", USER "u");' + rule("q").replace('"P"', '"New"') + SITE + TEAM
Call: TypeAlias = Callable[[Any], Any]
ITERATED = {"stream", "stored_items"}  # what is read bit by bit
CALLS: dict[str, tuple[str, Call]] = {
    "healthz": ("alive", lambda c: c.alive()),
    "readyz": ("ready", lambda c: c.ready()),
    "metrics": ("metrics", lambda c: c.metrics()),
    "list_profiles": ("profiles", lambda c: c.profiles()),
    "declare": ("declare", lambda c: c.declare(TEXT, idempotency_key="1")),
    "test_receiver": ("test_receiver", lambda c: c.test_receiver("team", idempotency_key="13")),
    "get_profile": ("profile", lambda c: c.profile("New")),
    "list_sites": ("sites", lambda c: c.sites()),
    "get_site": ("site", lambda c: c.site("shop.example")),
    "import_feeds": ("import_feeds", lambda c: c.import_feeds("https://example.org/feed", idempotency_key="import")),
    "export_feeds": ("export_feeds", lambda c: c.export_feeds()),
    "list_removed": ("removed", lambda c: c.removed()),
    "list_receivers": ("receivers", lambda c: c.receivers()),
    "restore": ("restore", lambda c: c.restore("again", idempotency_key="12")),
    "drop_profile": ("drop_profile", lambda c: c.drop_profile("New")),
    "list_rules": ("rules", lambda c: c.rules()),
    "get_rule": ("rule", lambda c: c.rule("r")),
    "list_intervals": ("intervals", lambda c: c.intervals("r")),
    "list_domains": ("domains", lambda c: c.domains()),
    "list_sources": ("sources", lambda c: c.sources()),
    "list_probes": ("probes", lambda c: c.probes("a/b c")),
    "list_items": ("items", lambda c: c.items("s", limit=10)),
    "find_items": ("find_items", lambda c: c.find_items("news", source="s")),
    "get_item": ("item", lambda c: c.item(1)),
    "mark_items": ("mark_items", lambda c: c.mark_items([1], read=True, starred=False)),
    "get_fates": ("explain_item", lambda c: c.explain_item("s", 1)),
    "explain": ("explain", lambda c: c.explain("a/b c")),
    "reload": ("reload", lambda c: c.reload(idempotency_key="2")),
    "plan": ("plan", lambda c: c.plan(limit=3)),
    "list_hosts": ("hosts", lambda c: c.hosts()),
    "advice": ("advice", lambda c: c.advice()),
    "report": ("report", lambda c: c.report(days=3)),
    "list_notifications": ("notifications", lambda c: c.notifications(rule="r", profile="P")),
    "get_notification": ("notification", lambda c: c.notification("n/1")),
    "get_screenshot": ("screenshot", lambda c: c.screenshot("n/1")),
    "replay": ("replay", lambda c: c.replay("n/1", idempotency_key="3")),
    "atom": ("atom", lambda c: c.atom("P", rule="r")),
    "json": ("json_feed", lambda c: c.json_feed("P")),
    "list_dead_letters": ("dead_letters", lambda c: c.dead_letters()),
    "replay_dead": ("replay_dead", lambda c: c.replay_dead(idempotency_key="4")),
    "test_deliveries": ("test_deliveries", lambda c: c.test_deliveries("r", idempotency_key="5")),
    "list_webhooks": ("webhooks", lambda c: c.webhooks()),
    "make_token": ("create_token", lambda c: c.create_token("made", "read", expires_s=60.0)),
    "list_moves": ("moves", lambda c: c.moves()),
    "probe": ("probe", lambda c: c.probe("s", idempotency_key="11")),
    "accept_move": ("accept_move", lambda c: c.accept_move("s", idempotency_key="10")),
    "pause": ("pause", lambda c: c.pause("s", idempotency_key="6")),
    "mute": ("mute", lambda c: c.mute("r", for_s=60.0, idempotency_key="7")),
    "list_suspensions": ("suspensions", lambda c: c.suspensions()),
    "resume": ("resume", lambda c: c.resume("s", idempotency_key="8")),
    "unmute": ("unmute", lambda c: c.unmute("r", subject="rule", drop=True, idempotency_key="9")),
    "list_audit": ("audit", lambda c: c.audit()),
    "list_tokens": ("tokens", lambda c: c.tokens()),
    "drop_token": ("drop_token", lambda c: c.drop_token("made")),
    "invite_person": ("invite_person", lambda c: c.invite_person("ann", "write", mail="")),
    "list_people": ("people", lambda c: c.people()),
    "limit_person": ("limit_person", lambda c: c.limit_person("ann", {"sources": 5})),
    "drop_person": ("drop_person", lambda c: c.drop_person("ann")),
}
"""A call of each method by the operation that it asks for, in an order in which all of them have an answer."""


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    constructors = {"over_socket", "over_http", "close"}
    return {n: m for n, m in inspect.getmembers(kind, callable) if not n.startswith("_") and n not in constructors}


def fits(answer: object, schema: Mapping[str, Any]) -> list[str]:
    """Return what the document says is wrong with an answer."""
    from jsonschema import Draft202012Validator  # slow to load

    return [
        each.message
        for each in Draft202012Validator({**schema, "components": DOCUMENT["components"]}).iter_errors(answer)
    ]


def described(operation: str) -> tuple[str, Mapping[str, Any]]:
    """Return the media type and the schema of what an operation answers when it is done."""
    responses = OPERATIONS[operation][2]["responses"]
    done = next(responses[status] for status in ("200", "201", "202") if status in responses)
    ((media_type, content),) = done["content"].items()
    return media_type, content["schema"]


def whole(operation: str, answer: Any) -> Any:
    """Return an answer as it came over the wire: methods hand out lists and texts bare."""
    if isinstance(answer, ProfileRead):
        return answer.profile
    if operation == "json":
        return json.loads(answer)
    return {"items": answer} if isinstance(answer, list) else answer


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        await api.give_up("n/1")
        again = Removed("again", "notification", "back", "WATCH 'https://back.example/feed' AS \"back\";", T0, "me")
        await api.control.resources.store.removed.keep(again)
        await api.keep_picture("n/1", Picture("image/png", b"picture"))
        await api.control.loops.observer.take_in(changed("s", [item("One", T0 - 9000.0)], T0 - 60.0))
        await api.control.loops.observer.take_in(replace(changed("s", [], T0), permanent_url="https://new.example/s"))
        yield api


async def token_of(running: Running) -> str:
    return (await running.token("admin"))["Authorization"].removeprefix("Bearer ")


def test_every_operation_has_its_method_and_every_method_its_operation() -> None:
    assert CALLS.keys() | {"follow"} == OPERATIONS.keys()
    assert {name for name, _ in CALLS.values()} | ITERATED == methods(Client).keys()


def test_both_clients_have_the_same_methods_arguments_and_types() -> None:
    ours, waiting = methods(Client), methods(SyncClient)
    assert ours.keys() == waiting.keys()
    for name, method in ours.items():
        one, other = inspect.signature(method), inspect.signature(waiting[name])
        assert one.parameters == other.parameters, name
        if name not in ITERATED:
            assert one.return_annotation == other.return_annotation, name
        assert inspect.getdoc(method) == inspect.getdoc(waiting[name]), name
        assert not inspect.iscoroutinefunction(waiting[name])


async def types(client: Client, waiting: SyncClient) -> None:
    """Is read by mypy alone: both answer the same types, and what they take is checked."""
    assert_type(await client.sources(), list[SourceListed])
    assert_type(waiting.sources(failing=True), list[SourceListed])
    assert_type(await client.plan(limit=1), list[ComingProbe])
    assert_type(waiting.plan(limit=1), list[ComingProbe])
    assert_type(await client.create_token("n", "read"), TokenMade)
    assert_type(waiting.create_token("n", "read"), TokenMade)
    waiting.plan(limits=1)  # type: ignore[call-arg]


async def test_methods_ask_for_routes_that_are_there(running: Running) -> None:
    asked: list[tuple[str, str, str]] = []
    trace = aiohttp.TraceConfig()

    async def note(session: aiohttp.ClientSession, context: object, start: aiohttp.TraceRequestStartParams) -> None:
        asked.append((start.method, start.url.raw_path, ",".join(sorted(start.url.query))))

    trace.on_request_start.append(note)
    headers = {"Authorization": f"Bearer {await token_of(running)}"}
    session = aiohttp.ClientSession(headers=headers, trace_configs=[trace])
    async with Client(str(running.client.make_url("")).rstrip("/"), session, "here") as client:
        for operation, (_, call) in CALLS.items():
            asked.clear()
            await call(client)
            method, path, described = OPERATIONS[operation]
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
            known = {each["name"] for each in described.get("parameters", ()) if each["in"] == "query"}
            assert len(asked) == 1, operation
            assert asked[0][0] == method
            assert re.fullmatch(pattern, asked[0][1]), operation
            assert {name for name in asked[0][2].split(",") if name} <= known, operation


async def test_every_answer_is_as_the_document_says(running: Running) -> None:
    async with Client.over_http(str(running.client.make_url("")), await token_of(running)) as client:
        for operation, (_, call) in CALLS.items():
            check(operation, await call(client))


async def test_every_answer_is_the_same_without_a_loop_of_ones_own(running: Running) -> None:
    base, token = str(running.client.make_url("")), await token_of(running)

    def ask() -> None:
        with SyncClient.over_http(base, token) as client:
            for operation, (_, call) in CALLS.items():
                check(operation, call(client))

    await asyncio.to_thread(ask)


def check(operation: str, answer: Any) -> None:
    media_type, schema = described(operation)
    found = whole(operation, answer)
    if media_type == "image/*":
        assert isinstance(found, bytes)
        return
    assert isinstance(found, str) == ("json" not in media_type), operation
    assert fits(found, schema) == [], operation


def test_an_answer_that_the_document_does_not_know_is_found() -> None:
    _, schema = described("explain")
    assert fits({"source": 1}, schema)


async def test_a_profile_is_dropped_only_where_nobody_changed_it(running: Running) -> None:
    async with Client.over_http(str(running.client.make_url("")), await token_of(running)) as client:
        await client.declare(TEXT)
        read = await client.profile("New")
        assert 'CREATE PROFILE "New"' in read.profile["text"]
        with pytest.raises(ApiError, match="read it again") as refused:
            await client.drop_profile("New", if_match="another")
        assert refused.value.status == 412
        assert (await client.drop_profile("New", if_match=read.etag))["removed"] == ["q", "shop.example"]


async def test_the_same_key_declares_once(running: Running) -> None:
    async with Client.over_http(str(running.client.make_url("")), await token_of(running)) as client:
        first = await client.declare(TEXT, idempotency_key="once")
        assert await client.declare(TEXT, idempotency_key="once") == first
        assert (await client.declare(TEXT))["added"] == []


async def test_lists_that_come_in_parts_are_whole_or_as_long_as_asked(running: Running) -> None:
    await running.tell(*(told(f"n{number}") for number in range(620)))
    async with Client.over_http(str(running.client.make_url("")), await token_of(running)) as client:
        every = [each["position"] for each in await client.notifications(limit=None)]
        assert every == sorted(set(every), reverse=True)
        assert len(every) == 621
        assert [each["position"] for each in await client.notifications(limit=510)] == every[:510]
        assert len(await client.sources(limit=1)) == 1


async def test_sources_that_fail_are_asked_for_alone(running: Running) -> None:
    decider = running.control.decider
    async with Client.over_http(str(running.client.make_url("")), await token_of(running)) as client:
        assert await client.sources(failing=True) == []
        state = decider.known.state(decider.known.compiled.sources["s"])
        decider.known.estimates.keep(dataclasses.replace(state, failures=2))
        assert [(each["source"], each["failures"]) for each in await client.sources(failing=True)] == [("s", 2)]


async def test_refusals_say_what_to_do_next(running: Running) -> None:
    base = str(running.client.make_url(""))
    async with Client.over_http(base, "wrong") as client:
        with pytest.raises(ApiError, match=r"proxyd token create") as refused:
            await client.plan()
        assert refused.value.status == 401
    reader = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(base, reader) as client:
        with pytest.raises(ApiError, match=r"scope admin; yours is read\n.*may do this: `proxyd token create"):
            await client.tokens()
        with pytest.raises(ApiError, match="limit"):
            await client.plan(limit=0)


async def test_the_waiting_client_works_where_a_loop_runs() -> None:
    asyncio.get_running_loop()
    with answering(lambda _: Canned(b'{"alive": true}')) as base, SyncClient.over_http(base, "t") as client:
        assert client.alive() == {"alive": True}


@pytest.mark.parametrize(
    ("status", "body", "headers", "said"),
    [
        (503, b'{"title": "Busy", "detail": "starting"}', {"Retry-After": "7"}, "starting\ntry again in 7 s"),
        (503, b'{"title": "Busy", "detail": ""}', {}, "Busy\ntry again a little later"),
        (429, b'{"title": "Slow"}', {"Retry-After": "soon"}, "Slow\ntry again a little later"),
        (
            403,
            b'{"title": "No"}',
            {},
            "No\ncreate one that may do this: `proxyd token create --name NAME --scope SCOPE`",
        ),
        (422, b'{"title": "T", "errors": [{"detail": "d", "file": "f", "line": 3, "column": 4}]}', {}, "T\nf:3:4: d"),
        (422, b'{"title": "T", "errors": [{"detail": "d", "pointer": "/a"}]}', {}, "T\n/a: d"),
        (400, b"[]", {}, "the daemon answered with status 400"),
        (
            302,
            b"<html>",
            {"Location": "http://elsewhere.example/"},
            "the server answered with status 302, but not as the API",
        ),
        (400, b'{"title": "T", "errors": ["x", {"line": 3}]}', {}, "T"),
        (400, b'{"title": "T", "errors": "x"}', {}, "T"),
        (200, b"<html>", {}, "the server answered with status 200, but not as the API"),
        (200, b"[]", {}, "the server answered with status 200, but not as the API"),
        (200, b'{"total": 0}', {}, "the server answered with status 200, but not as the API"),
    ],
)
def test_what_is_refused_is_said(status: int, body: bytes, headers: Mapping[str, str], said: str) -> None:
    with answering(lambda _: Canned(body, status, headers)) as base, SyncClient.over_http(base, "t") as client:
        with pytest.raises(ApiError, match=re.escape(said)) as refused:
            client.plan()
        assert refused.value.status == status
        assert refused.value.retry_after_s == (7 if headers.get("Retry-After") == "7" else None)


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("body", [b'{"status": "ok"}', b'{"ready": true}', b"[]"])
def test_another_server_is_not_taken_for_a_daemon(status: int, body: bytes) -> None:
    with (
        answering(lambda _: Canned(body, status, {})) as base,
        SyncClient.over_http(base, "t") as client,
        pytest.raises(ApiError),
    ):
        client.ready()


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{held.getsockname()[1]}"
        with SyncClient.over_http(base, "t") as client, pytest.raises(UnreachableError, match=f"{base}.*proxyd serve"):
            client.plan()
    with SyncClient.over_socket(tmp_path / "no.sock") as client, pytest.raises(UnreachableError, match=r"no\.sock"):
        next(client.stream())


def test_what_is_no_http_is_nobody() -> None:
    def talk(server: socket.socket) -> None:
        taken, _ = server.accept()
        with taken:
            taken.recv(65536)
            taken.sendall(b"220 mail.example.org ESMTP\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=talk, args=[server])
        thread.start()
        base = f"http://127.0.0.1:{server.getsockname()[1]}"
        with SyncClient.over_http(base, "t") as client, pytest.raises(UnreachableError, match="no daemon answers"):
            client.plan()
        thread.join()


def test_who_does_not_answer_is_given_up_after_the_time_set() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            SyncClient.over_http(base, "t", timeout_s=0.05) as client,
            pytest.raises(UnreachableError, match="in time"),
        ):
            client.plan()


async def test_the_waiting_clients_stream_is_an_iterator_that_is_closed(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "proxyd.sock"

    def follow() -> list[StreamEvent]:
        with SyncClient.over_socket(socket_address(path)) as client:
            stream = client.stream(last=0)
            found = [next(stream), next(stream)]
            stream.close()
            assert list(stream) == []
            open_at_the_end = client.stream(last=0)
            next(open_at_the_end)
        with pytest.raises(RuntimeError, match="closed"):
            client.plan()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            next(open_at_the_end)
        return found

    await running.tell(told("b"))
    async with serve_api(running.control.queries, ApiSettings("127.0.0.1", 0, path, socket_address(path))):
        found = await asyncio.to_thread(follow)
        async with Client.over_socket(socket_address(path)) as client, aclosing(client.stream(last=0)) as events:
            assert [await anext(events), await anext(events)] == found
    assert [event.body["data"]["id"] for event in found] == ["n/1", "b"]
    assert not [thread for thread in threading.enumerate() if thread.name == "proxyd client"]


FOLLOWING = """
import sys
from proxyd.client import SyncClient

with SyncClient.over_socket(sys.argv[1]) as client:
    try:
        for event in client.stream(last=0):
            print(event.position, flush=True)
    except KeyboardInterrupt:
        print(client.alive()["alive"])
"""


async def test_a_stream_that_waits_is_interrupted_and_the_client_goes_on(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "proxyd.sock"
    async with serve_api(running.control.queries, ApiSettings("127.0.0.1", 0, path, socket_address(path))):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FOLLOWING, str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 30.0) == b"1\n"
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 30.0)
    assert (process.returncode, out, err) == (0, b"True\n", b"")
