"""The REST API over real sockets, against the real declarations on a store of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from proxyd.api.listings import Listings
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.app.server import ApiSettings, endpoints, serve_api
from proxyd.base.ports import Message, WebhookState
from proxyd.client import ApiError, Client
from proxyd.config.loading import socket_address
from proxyd.core.errors import ConfigError, StoreError
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rates.model_fit import ModelFit
from proxyd.core.rules.known.state import IntervalRecord, SourceState
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.daemon import reports
from proxyd.store.writer import Writer
from tests.fakes import no_queries
from tests.fleets import DOMAIN, changed, item, rule, source
from tests.integration.api_world import T0, RefusingChannel, Running, running_api, told
from tests.observations import observed
from tests.outboxes import due_deliveries
from tests.servers import free_port

MAIL_WAITS = "DELIVERY MAIL waits while the settings smtp and mail_from are empty"
TEXT = """CREATE PROFILE "Q" AS (DOMAIN "D", LANGUAGE "SQL", USER "v");
INSERT NOTIFICATION "q" INTO "Q" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT;"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


_ENDPOINTS = endpoints(no_queries(), Listings(no_queries()), Streams(no_queries(), StreamSettings()))
ROUTES = [
    (endpoint.method, endpoint.path.format(name="P", id="x", position=1), endpoint.scope)
    for endpoint in _ENDPOINTS
    if endpoint.scope is not None and not endpoint.path.endswith("/stream")
] + [("GET", "/api/v1/stream?last_event_id=x", "read")]


def test_only_health_and_metrics_ask_for_no_token() -> None:
    assert {e.path for e in _ENDPOINTS if e.scope is None} == {"/healthz", "/readyz", "/metrics"}


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_every_route_asks_for_its_scope(running: Running, method: str, path: str, scope: str) -> None:
    for held in ("read", "write", "admin"):
        async with running.client.request(method, path, headers=await running.token(held)) as answer:
            allowed = ("read", "write", "admin").index(held) >= ("read", "write", "admin").index(scope)
            assert (answer.status != 403) == allowed
    wrong = ({"Authorization": "Bearer pxd_000000000000_" + "x" * 43}, {"Authorization": "Basic eDp4"})
    for header, said in (
        ({}, "send Authorization"),
        (wrong[0], "this token is wrong"),
        (wrong[1], "this token is wrong"),
    ):
        async with running.client.request(method, path, headers=header) as answer:
            assert (answer.status, (await answer.json())["detail"].startswith(said)) == (401, True)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.content_type == "application/problem+json"


async def test_an_expired_token_opens_nothing(running: Running) -> None:
    headers = await running.token("admin", expires_in_s=0.0)
    async with running.client.get("/api/v1/plan", headers=headers) as answer:
        assert answer.status == 401


async def test_a_wrong_token_is_compared_in_constant_time_whether_its_id_is_known_or_not(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def compare(one: str, other: str) -> bool:
        compared.append(len(other))
        return one == other

    monkeypatch.setattr("proxyd.api.auth.hmac.compare_digest", compare)
    known = (await running.token("read"))["Authorization"]
    for token in (known[:-43] + "x" * 43, "Bearer pxd_000000000000_" + "x" * 43):
        async with running.client.get("/api/v1/sources", headers={"Authorization": token}) as answer:
            assert answer.status == 401
    assert compared == [64, 64]


async def test_health_and_metrics_are_open(running: Running) -> None:
    async with running.client.get("/healthz") as answer:
        assert await answer.json() == {"alive": True}
    async with running.client.get("/readyz") as answer:
        assert answer.status == 503  # no chronon was planned yet
        assert not (await answer.json())["checks"]["plan"]
    async with running.client.get("/metrics") as answer:
        assert "proxyd_completeness_ratio 1.0" in await answer.text()


async def test_a_profile_is_declared_listed_and_dropped(running: Running) -> None:
    headers = await running.token("write")
    async with running.client.post("/api/v1/profiles?dry_run=true", data=TEXT, headers=headers) as answer:
        found = await answer.json()
        cost = found.pop("cost")
        assert (answer.status, found) == (
            200,
            {"added": ["q"], "removed": [], "restarted": [], "counters": {}, "dry_run": True, "warnings": []},
        )
        assert cost["sources_added"] == cost["sources_removed"] == 0
    assert set(running.control.declarations.declaration.rules) == {"r"}
    async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers) as answer:
        assert answer.status == 201
    async with running.client.get("/api/v1/profiles", headers=headers) as answer:
        origins = {item["name"]: item["origin"] for item in (await answer.json())["items"]}
        assert origins == {"P": str(running.folder / "a.profile"), "Q": "api"}
    async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
        assert 'INSERT NOTIFICATION "q"' in (await answer.json())["text"]
    async with running.client.delete("/api/v1/profiles/Q", headers=headers) as answer:
        assert (await answer.json())["removed"] == ["q"]
    async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
        assert answer.status == 404


async def test_who_may_only_read_is_not_shown_the_addresses_of_chats(running: Running) -> None:
    text = "WATCH 'https://a.example/feed' INTO \"Q\" TELL CHANNEL 'ntfys://ntfy.example/topic-of-mine';"
    writer, reader = await running.token("write"), await running.token("read")
    async with running.client.post("/api/v1/profiles", headers=writer, data=text) as answer:
        assert answer.status == 201
    shown, tags = [], []
    for headers in (writer, reader):
        async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
            shown.append(await answer.text())
            tags.append(answer.headers["ETag"])
    assert ["topic-of-mine" in each for each in shown] == [True, False]
    assert tags[0] != tags[1]  # which would confirm a guess
    found = json.loads(shown[1])
    assert "TELL CHANNEL 'ntfys://[hidden 1]'" in " ".join(found["text"].split())
    (delivery,) = found["declared"]["notifications"][0]["deliveries"]
    assert delivery == json.loads(shown[0])["declared"]["notifications"][0]["deliveries"][0] | {
        "channel": "ntfys://[hidden address]"
    }
    for sent in ({"data": found["text"]}, {"json": found["declared"]}):  # would lose the address
        async with running.client.post("/api/v1/profiles", headers=writer, **sent) as answer:
            assert answer.status == 422
            assert "this address is hidden" in await answer.text()


async def test_a_profile_says_what_each_of_its_rules_captured_and_gained(running: Running) -> None:
    headers = await running.token("read")
    nothing = {"captured": 0, "missed": 0, "completeness": None, "utility": None}
    linear = rule("l").replace("STRICT", "LINEAR(100 SECONDS)")
    both = TEXT + linear.replace('"P"', '"P", "Q"')
    await running.control.declarations.declare(both)

    async def achieved(profile: str) -> dict[str, dict[str, object]]:
        async with running.client.get(f"/api/v1/profiles/{profile}", headers=headers) as answer:
            found = await answer.json()
        return {each["name"]: {key: each[key] for key in nothing} for each in (found, *found["rules"])}

    assert await achieved("P") == {"P": nothing, "r": nothing, "l": nothing}
    observer = running.control.loops.observer
    await observer.take_in(changed("s", [], T0))
    news = [item("in time", T0 + 65.0), item("overwritten", T0 + 5.0)]
    await observer.take_in(changed("s", news, T0 + 70.0))
    strict = {"captured": 1, "missed": 1, "completeness": 0.5, "utility": 0.5}
    decayed = {"captured": 1, "missed": 1, "completeness": 0.5, "utility": 0.65}  # 0.95 and 0.35
    together = {"captured": 2, "missed": 2, "completeness": 0.5, "utility": 0.575}
    assert await achieved("P") == {"P": together, "r": strict, "l": decayed}
    assert await achieved("Q") == {"Q": together, "q": strict, "l": decayed}
    async with running.client.get("/api/v1/profiles", headers=headers) as answer:
        assert [{key: each[key] for key in nothing} for each in (await answer.json())["items"]] == [together, together]
    async with running.client.get("/metrics") as answer:
        total = re.search(r"^proxyd_utility_ratio (.*)$", await answer.text(), re.MULTILINE)
    assert total is not None
    assert float(total[1]) == pytest.approx((1.0 + 1.0 + 1.3) / 6)  # of the three rules


@pytest.mark.parametrize("path", ["explain/a%00", "sources/a%00/items", "sources?cursor=a%00"])
async def test_names_that_no_database_keeps_are_refused(running: Running, path: str) -> None:
    headers = await running.token("read")
    async with running.client.get(URL(f"/api/v1/{path}", encoded=True), headers=headers) as answer:
        assert answer.status == 400
        assert "U+0000 or unpaired surrogates" in (await answer.json())["detail"]


async def test_a_token_has_a_name_that_every_database_keeps(running: Running) -> None:
    headers = await running.token("admin")
    for name in ("a\x00b", "\x00"):
        wanted = {"name": name, "scope": "read"}
        async with running.client.post("/api/v1/tokens", json=wanted, headers=headers) as answer:
            assert answer.status == 422


async def test_profiles_come_in_pages(running: Running) -> None:
    headers = await running.token("read")
    await running.control.declarations.declare(TEXT + TEXT.replace('"Q"', '"R"').replace('"q"', '"s"'))
    names, cursor = [], ""
    while cursor is not None:
        async with running.client.get(f"/api/v1/profiles?limit=1{cursor}", headers=headers) as answer:
            page = await answer.json()
        names += [each["name"] for each in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert names == ["P", "Q", "R"]


async def test_a_wrong_text_names_every_error_and_changes_nothing(running: Running) -> None:
    headers = await running.token("write")
    wrong = TEXT.replace('"D"', '"E"').replace("SELECT title", "SELECT titel")
    async with running.client.post("/api/v1/profiles", data=wrong, headers=headers) as answer:
        body = await answer.json()
        assert (answer.status, answer.content_type) == (422, "application/problem+json")
    assert {error["line"] for error in body["errors"]} >= {1}
    assert all({"line", "column", "detail", "file", "source_line"} <= set(error) for error in body["errors"])
    assert set(running.control.declarations.declaration.rules) == {"r"}


async def test_what_is_doubtful_in_a_declaration_is_said_with_its_place(running: Running) -> None:
    headers = await running.token("write")
    text = "WATCH 'https://example.org/feed' AS \"mailed\"\n  TELL MAIL 'me@example.org';"
    as_json = {
        "profiles": [{"name": "New", "domains": ["D"], "users": ["v"]}],
        "notifications": [
            {
                "name": "q",
                "profiles": ["New"],
                "query": "SELECT title FROM RSS",
                "trigger": "ON INSERT TO RSS",
                "deliveries": [{"mail": "me@example.org"}],
            }
        ],
    }
    for dry_run in ("true", "false"):
        path = f"/api/v1/profiles?dry_run={dry_run}"
        async with running.client.post(path, headers=headers, data=text) as answer:
            (warning,) = (await answer.json())["warnings"]
        assert (warning["line"], warning["detail"]) == (2, MAIL_WAITS)
        async with running.client.post(path, headers=headers, json=as_json) as answer:
            (warning,) = (await answer.json())["warnings"]
        assert warning["pointer"].startswith("/notifications/0/deliveries/0")
        assert warning["detail"] == MAIL_WAITS
    async with running.client.post("/api/v1/profiles", headers=headers, data=TEXT.replace('"q"', '"z"')) as answer:
        assert (await answer.json())["warnings"] == []  # those of other texts are not repeated


async def test_what_files_declare_belongs_to_the_files(running: Running) -> None:
    headers = await running.token("write")
    for text in (DOMAIN.split(";\n")[-2] + ";", rule("r"), source("s"), 'DROP PROFILE "P";'):
        async with running.client.post("/api/v1/profiles", data=text, headers=headers) as answer:
            assert answer.status == 409, text
            assert "a.profile" in (await answer.json())["detail"]
    async with running.client.delete("/api/v1/profiles/P", headers=headers) as answer:
        assert answer.status == 409


async def test_drop_statements_remove_what_the_api_declared(running: Running) -> None:
    headers = await running.token("write")
    async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers) as answer:
        assert answer.status == 201
    async with running.client.post(
        "/api/v1/profiles", data='DROP NOTIFICATION "q"; DROP PROFILE "Q";', headers=headers
    ) as answer:
        assert (answer.status, (await answer.json())["removed"]) == (201, ["q"])
    async with running.client.post("/api/v1/profiles", data='DROP PROFILE "Q";', headers=headers) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/v1/plan?limit=0", None, 400),
        ("GET", "/api/v1/plan?limit=x", None, 400),
        ("GET", "/api/v1/notifications?cursor=%00", None, 400),
        ("GET", "/api/v1/notifications?cursor=YWJj", None, 400),
        ("GET", "/api/v1/notifications?cursor=" + "OTk5" * 20, None, 400),
        ("GET", "/api/v1/notifications?since=soon", None, 400),
        ("GET", "/api/v1/notifications?profile=nowhere", None, 404),
        ("GET", "/api/v1/notifications/nothing", None, 404),
        ("GET", "/api/v1/stream?profile=nowhere", None, 404),
        ("GET", "/api/v1/stream?rule=nowhere", None, 404),
        ("GET", "/api/v1/stream?last_event_id=-1", None, 400),
        ("GET", "/api/v1/explain/nowhere", None, 404),
        ("GET", "/api/v1/nothing", None, 404),
        ("PUT", "/api/v1/plan", None, 405),
        ("POST", "/api/v1/profiles", b"\xff\xfe", 400),
        ("POST", "/api/v1/deliveries/test", b"x" * 300_000, 413),
        ("POST", "/api/v1/tokens", b"[]", 422),
        ("POST", "/api/v1/tokens", b"{", 400),
        ("POST", "/api/v1/tokens", b'{"name": "n", "scope": "root"}', 422),
        ("POST", "/api/v1/tokens", b'{"name": "", "scope": "read"}', 422),
        ("POST", "/api/v1/deliveries/test", b'{"rule": "nowhere"}', 404),
        ("POST", "/api/v1/notifications/nothing/replay", None, 404),
    ],
)
async def test_bad_requests_are_problems(
    running: Running, method: str, path: str, body: bytes | None, status: int
) -> None:
    headers = await running.token("admin")
    async with running.client.request(method, path, data=body, headers=headers) as answer:
        assert (answer.status, answer.content_type) == (status, "application/problem+json")
        assert {"type", "title", "status", "detail"} <= set(await answer.json())


async def test_a_text_may_have_a_mebibyte_and_what_refuses_a_longer_one_says_so(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    text = 'CREATE PROFILE "Long" AS (DOMAIN "D");\n--'
    text += " " * (2**20 - len(text))
    async with running.client.post("/api/v1/profiles", data=BytesIO(text.encode()), headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    for more, status, said in [(1, 422, "1048576 bytes at most"), (2**20 + 1, 413, "in several requests")]:
        body = BytesIO(text.encode() + b" " * more)
        async with running.client.post("/api/v1/profiles", data=body, headers=headers) as answer:
            assert answer.status == status
            assert said in await answer.text()


async def test_a_token_made_over_the_api_works_and_its_name_is_taken(running: Running) -> None:
    headers = await running.token("admin")
    async with running.client.post("/api/v1/tokens", json={"name": "n", "scope": "read"}, headers=headers) as answer:
        shown = (await answer.json())["token"]
    async with running.client.get("/api/v1/plan", headers={"Authorization": f"Bearer {shown}"}) as answer:
        assert answer.status == 200
        assert {probe["source"] for probe in (await answer.json())["items"]} == {"s", "a/b c"}
    async with running.client.post("/api/v1/tokens", json={"name": "n", "scope": "read"}, headers=headers) as answer:
        assert answer.status == 409


async def test_a_second_daemon_leaves_the_socket_to_the_first(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "proxyd.sock"
    settings = ApiSettings("127.0.0.1", free_port(), path, str(path))
    async with serve_api(running.control.queries, settings):
        with pytest.raises(ConfigError, match=r"^listen: .*in use"):
            await serve_api(running.control.queries, settings).__aenter__()
        with pytest.raises(ConfigError, match=f"^socket: another daemon answers at {path}; set another `socket`"):
            await serve_api(running.control.queries, replace(settings, port=free_port())).__aenter__()
        async with Client.over_socket(str(path)) as client:
            assert await client.sources()
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with serve_api(running.control.queries, settings), Client.over_socket(str(path)) as client:
        assert await client.sources()
        path.unlink()
        path.touch()
    assert path.exists()


async def test_the_client_speaks_to_the_socket_that_only_its_owner_can_open(running: Running, tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "proxyd.sock"
    path.parent.mkdir()
    settings = ApiSettings("127.0.0.1", 0, path, socket_address(path))
    async with serve_api(running.control.queries, settings):
        assert os.stat(path).st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode alone
        async with Client.over_socket(socket_address(path)) as client:
            assert [found["source"] for found in await client.sources()] == ["a/b c", "s"]
            explained = await client.explain("a/b c")
            assert explained["next_probe"] is not None
            assert explained["next_probe"]["reason"] == "first contact"
            assert all(rule["fingerprint"] for profile in await client.profiles() for rule in profile["rules"])
            assert await client.test_deliveries("r") == [
                {"endpoint": "https://r.example/hook", "error": "status 500", "answer": None}
            ]
            assert (await client.declare(TEXT))["added"] == ["q"]
            with pytest.raises(ApiError, match="declared in"):
                await client.drop_profile("P")
            assert await client.reload() == {"reloaded": True}
            (running.folder / "b.profile").write_text("CREATE NOTHING;")
            with pytest.raises(ApiError, match="proxyd check"):
                await client.reload()
            assert set(running.control.declarations.declaration.rules) == {"r", "q"}
            assert (await client.create_token("n", "read"))["token"].startswith("pxd_")
    assert not path.exists()


async def test_a_source_shows_what_its_rules_kept_of_their_targets_in_the_last_week(running: Running) -> None:
    store, decider = running.control.resources.store, running.control.decider
    state, outcome = SourceState("s", "https://example.org/s"), ProbeOutcome("s", OutcomeKind.CHANGED, T0, T0, 200)
    now = decider.settings.grid.chronon_at(T0)
    delays_s = (60.0, 90.0, 5 * 3600.0, 120.0)
    ended = [
        IntervalRecord("r", "s", n, now - 9, None, now - 9 + n, captured=True, exact=True, delay_s=delay_s)
        for n, delay_s in enumerate(delays_s)
    ]
    await store.record(observed(state, outcome, intervals=tuple(ended)))
    headers = await running.token("read")
    async with running.client.get("/api/v1/explain/s", headers=headers) as answer:
        found = await answer.json()
    assert found["kept"] == [{"rule": "r", "intervals": 4, "promised": 0.9, "kept": 0.75}]
    (of_rule,) = (line for line in found["summary"] if line.startswith("rule r: "))
    assert of_rule.startswith("rule r: AUTO (it is to see 90 % within 3 hours")
    assert of_rule.endswith("; 75 % kept of 4 items in the last 7 days")


async def test_a_report_keeps_the_promises_that_fell_shortest(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, grid = running.control.resources.store, running.control.decider.settings.grid
    state = SourceState("s", "https://example.org/s")
    for weeks_ago, delay_s in ((0, 60.0), (1, 5 * 3600.0)):
        at_s = T0 - weeks_ago * 7 * 86400.0
        now = grid.chronon_at(at_s)
        ended = IntervalRecord("r", "s", 9 - weeks_ago, now - 9, None, now, captured=True, exact=True, delay_s=delay_s)
        outcome = ProbeOutcome("s", OutcomeKind.CHANGED, at_s, at_s, 200)
        await store.record(observed(state, outcome, intervals=(ended,)))
    headers = await running.token("read")

    async def report() -> Any:
        async with running.client.get("/api/v1/report", headers=headers) as answer:
            return await answer.json()

    found = await report()
    assert ([each["kept"] for each in found["promises"]], found["promises_left_out"]) == ([0.0, 1.0], 0)
    monkeypatch.setattr(reports, "_MOST_PROMISES", 1)
    found = await report()
    assert ([each["kept"] for each in found["promises"]], found["promises_left_out"]) == ([0.0], 1)


async def test_a_report_compares_what_was_found_with_what_was_predicted(running: Running) -> None:
    headers = await running.token("read")
    async with running.client.get("/api/v1/report", headers=headers) as answer:
        assert await answer.json() == {"days": [], "off": [], "promises": [], "promises_left_out": 0}
    for days in ("0", "x", "99999"):
        async with running.client.get(f"/api/v1/report?days={days}", headers=headers) as answer:
            assert answer.status == 400
    store, decider = running.control.resources.store, running.control.decider
    fit = ModelFit(-6.0, 3.0, 30.0, T0 - 1e6, T0, T0 - 7200.0, T0 - 3600.0)
    state = SourceState("s", "https://example.org/s", fit=fit)
    account = Calibration(4, 3, 2.5, 2, 2.0, 90.0, 50.0, 3, 2.0, 1, 0.5)
    for at_s in (T0, T0 - 86400.0):
        outcome = ProbeOutcome("s", OutcomeKind.CHANGED, at_s, at_s, 200)
        await store.record(observed(state, outcome, calibration=account))
    decider.known.estimates.keep(
        replace(decider.known.estimates.state(decider.known.compiled.sources["s"], "x"), fit=fit)
    )
    async with running.client.get("/api/v1/report?days=1", headers=headers) as answer:
        found = await answer.json()
    assert found["days"] == [
        {
            "day": iso_time(T0)[:10],
            "probes": 4,
            "items": 3,
            "predicted_items": 2.5,
            "mean_delay_s": 45.0,
            "predicted_mean_delay_s": 25.0,
            "captured": 3,
            "missed": 1,
            "completeness": 0.75,
            "predicted_completeness": 0.8,
            "off": False,
        }
    ]
    (off,) = found["off"]
    assert (off["source"], off["week_score"], off["found"], off["expected"]) == ("s", -6.0, 3.0, 30.0)
    week, rate = off["summary"]
    assert week.endswith(f"planned evenly since {iso_time(T0 - 7200.0)}")
    assert "fewer items than expected (3 items found, 30 expected" in rate
    async with running.client.get("/metrics") as answer:
        assert "proxyd_models_off 1.0" in await answer.text()


async def test_a_taken_port_is_a_clear_error(running: Running, tmp_path: Path) -> None:
    port = running.client.port
    assert port is not None
    with pytest.raises(ConfigError, match=f"^listen: 127.0.0.1:{port}: the address is in use; .*another `listen`"):
        async with serve_api(
            running.control.queries, ApiSettings("127.0.0.1", port, tmp_path / "s", str(tmp_path / "s"))
        ):
            pass


KEY = "Idempotency-Key"


async def test_a_request_with_a_key_is_done_once_and_answered_alike(running: Running) -> None:
    headers = await running.token("write") | {KEY: "k1"}
    answers = []
    for _ in range(2):
        async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers) as answer:
            answers.append((answer.status, await answer.json(), answer.headers.get("Idempotent-Replayed")))
    made = {
        "added": ["q"],
        "removed": [],
        "restarted": [],
        "counters": {},
        "dry_run": False,
        "cost": None,
        "warnings": [],
    }
    assert answers == [(201, made, None), (201, made, "true")]
    async with running.client.post("/api/v1/profiles", data=TEXT + "\n", headers=headers) as answer:
        assert answer.status == 422
    async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers | {KEY: "k2"}) as answer:
        assert (await answer.json())["added"] == []
    other = await running.token("admin") | {KEY: "k1"}
    async with running.client.post("/api/v1/profiles", data=TEXT, headers=other) as answer:
        assert (await answer.json())["added"] == []  # another bearer's key is another key


async def test_a_key_without_effect_may_be_tried_again(running: Running) -> None:
    headers = await running.token("write") | {KEY: "k1"}
    async with running.client.post("/api/v1/profiles", data="CREATE", headers=headers) as answer:
        assert answer.status == 422
    async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers) as answer:
        assert answer.status == 201
    for bad in ("", "x" * 300):
        async with running.client.post("/api/v1/profiles", data=TEXT, headers=headers | {KEY: bad}) as answer:
            assert answer.status == 400


async def test_a_profile_is_dropped_only_as_it_was_read(running: Running) -> None:
    headers = await running.token("write")
    await running.control.declarations.declare(TEXT)
    async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
        tag = answer.headers["ETag"]
    await running.control.declarations.declare(TEXT.replace('"v"', '"w"'))
    async with running.client.delete("/api/v1/profiles/Q", headers=headers | {"If-Match": tag}) as answer:
        assert answer.status == 412
    async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
        tag = answer.headers["ETag"]
    async with running.client.delete("/api/v1/profiles/Q", headers=headers | {"If-Match": tag}) as answer:
        assert (await answer.json())["removed"] == ["q"]


async def test_tokens_are_listed_without_their_secrets_and_open_nothing_once_dropped(running: Running) -> None:
    admin, reader = await running.token("admin"), await running.token("read")
    async with running.client.get("/api/v1/tokens", headers=admin) as answer:
        text = await answer.text()
        assert {each["scope"] for each in (await answer.json())["items"]} == {"admin", "read"}
        assert reader["Authorization"].split("_", 2)[2] not in text
    async with running.client.delete("/api/v1/tokens/read%20None", headers=admin) as answer:
        assert answer.status == 200
    async with running.client.get("/api/v1/plan", headers=reader) as answer:
        assert answer.status == 401
    async with running.client.delete("/api/v1/tokens/read%20None", headers=admin) as answer:
        assert answer.status == 404


async def test_rules_and_domains_are_listed(running: Running) -> None:
    headers = await running.token("read")
    async with running.client.get("/api/v1/rules", headers=headers) as answer:
        (found,) = (await answer.json())["items"]
        assert (found["name"], found["profiles"], found["deliveries"]) == ("r", ["P"], 1)
    async with running.client.get("/api/v1/rules/r", headers=headers) as answer:
        assert await answer.json() == found
    async with running.client.get("/api/v1/domains", headers=headers) as answer:
        domain, built_in = (await answer.json())["items"]
        assert domain["name"] == "D"
        assert built_in["name"] == "built-in"
        assert [each["name"] for each in built_in["classes"]] == ["FEED", "PAGE", "PRICE", "SITE", "SOURCE"]
        assert {"RSS"} == {each["name"] for each in domain["classes"]}


async def test_a_sources_probes_and_items_are_listed_newest_first(running: Running) -> None:
    headers, control = await running.token("read"), running.control
    for minute, titles in ((1, ["old"]), (2, ["new", "old"]), (3, ["new", "old"])):
        at_s = T0 + 60.0 * minute
        items = [item(title, at_s - 5.0) for title in titles]
        probe = Probe("s", minute, Reason.DETECTION, "r", 1.0)
        assert await control.loops.observer.take_in(changed("s", items, at_s), probe=probe)
    async with running.client.get("/api/v1/sources/s/probes?limit=2", headers=headers) as answer:
        page = await answer.json()
        assert [(each["reason"], each["rule"], each["items"]) for each in page["items"]] == [
            ("detection", "r", 0),
            ("detection", "r", 1),
        ]
        assert page["items"][1]["delay_s"] == 5.0
    async with running.client.get(
        "/api/v1/sources/s/probes", params={"cursor": page["next_cursor"]}, headers=headers
    ) as answer:
        assert len((await answer.json())["items"]) == 1
    async with running.client.get("/api/v1/sources/s/items", headers=headers) as answer:
        assert [each["delay_s"] for each in (await answer.json())["items"]] == [5.0, None]
    for what in ("probes", "items"):
        async with running.client.get(f"/api/v1/sources/nowhere/{what}", headers=headers) as answer:
            assert answer.status == 404


async def test_a_profile_that_changes_while_it_is_dropped_stays(running: Running) -> None:
    headers = await running.token("write")
    await running.control.declarations.declare(TEXT)
    async with running.client.get("/api/v1/profiles/Q", headers=headers) as answer:
        tag = answer.headers["ETag"]

    async def drop() -> int:
        async with running.client.delete("/api/v1/profiles/Q", headers=headers | {"If-Match": tag}) as answer:
            return answer.status

    _, status = await asyncio.gather(running.control.declarations.declare(TEXT.replace('"v"', '"w"')), drop())
    assert status == 412
    assert running.control.declarations.declaration.profiles["Q"].users == ("w",)


async def declare(running: Running, text: str, **headers: str) -> tuple[int, str]:
    given = await running.token("write") if "Authorization" not in headers else {}
    async with running.client.post("/api/v1/profiles", data=text, headers=given | headers) as answer:
        return answer.status, await answer.text()


async def test_a_profile_is_replaced_only_as_it_was_read(running: Running) -> None:
    writer = await running.token("write")
    assert (await declare(running, TEXT, **writer, **{"If-Match": "*"}))[0] == 412  # there is none yet
    await running.control.declarations.declare(TEXT)
    async with running.client.get("/api/v1/profiles/Q", headers=writer) as answer:
        tag = {"If-Match": answer.headers["ETag"]}
    theirs, ours = TEXT.replace('"v"', '"w"'), TEXT.replace('"v"', '"x"')
    assert (await declare(running, theirs, **writer, **tag))[0] == 201
    status, said = await declare(running, ours, **writer, **tag)
    assert (status, "has changed since it was read" in said) == (412, True)
    assert running.control.declarations.declaration.profiles["Q"].users == ("w",)
    async with running.client.post("/api/v1/profiles?dry_run=true", data=ours, headers=writer | tag) as answer:
        assert answer.status == 412  # as it would be
    key = {"Idempotency-Key": "one"}
    assert (await declare(running, ours, **writer, **key, **{"If-Match": "*"}))[0] == 201
    assert (await declare(running, ours, **writer, **key, **tag))[0] == 422  # another condition is another request
    assert (await declare(running, ours, **writer, **{"If-Match": "*"}))[0] == 201
    status, said = await declare(running, ours + ours.replace('"Q"', '"Q2"'), **writer, **{"If-Match": "*"})
    assert (status, "exactly one" in said) == (409, True)
    assert (await declare(running, "CREATE", **writer, **{"If-Match": "*"}))[0] == 422


async def test_of_two_who_replace_a_profile_at_once_one_is_told(running: Running) -> None:
    writer = await running.token("write")
    await running.control.declarations.declare(TEXT)
    async with running.client.get("/api/v1/profiles/Q", headers=writer) as answer:
        tag = {"If-Match": answer.headers["ETag"]}
    texts = [TEXT.replace('"v"', f'"{user}"') for user in "wx"]
    answers = await asyncio.gather(*(declare(running, text, **writer, **tag) for text in texts))
    assert sorted(status for status, _ in answers) == [201, 412]


async def test_a_refusal_is_not_kept_for_a_key(running: Running) -> None:
    headers = await running.token("write") | {KEY: "k1"}
    for file in running.folder.glob("*.profile"):
        file.write_text("CREATE", encoding="utf-8")
    async with running.client.post("/api/v1/reload", headers=headers) as answer:
        assert answer.status == 422
    for file in running.folder.glob("*.profile"):
        file.write_text(DOMAIN, encoding="utf-8")
    async with running.client.post("/api/v1/reload", headers=headers) as answer:
        assert answer.status == 200


async def test_what_is_suspended_is_listed_with_who_did_it(running: Running) -> None:
    token = await running.token("write")

    async def post(command: str, body: dict[str, object]) -> tuple[int, Any]:
        async with running.client.post(f"/api/v1/{command}", json=body, headers=token) as answer:
            return answer.status, await answer.json()

    assert (await post("pause", {"source": "s"}))[0] == 200
    status, made = await post("mute", {"name": "P", "for_s": 60.0})
    shown = {
        "subject": "profile",
        "name": "P",
        "since": iso_time(T0),
        "until": iso_time(T0 + 60),
        "by": "token write None",
    }
    assert (status, made["suspension"], made["changed"]) == (200, shown, True)
    async with running.client.get("/api/v1/suspensions", headers=token) as answer:
        listed = (await answer.json())["items"]
    assert [(each["subject"], each["name"]) for each in listed] == [("source", "s"), ("profile", "P")]
    async with running.client.get("/api/v1/rules/r", headers=token) as answer:
        assert (await answer.json())["muted"] == shown
    assert (await post("mute", {"name": "r", "for_s": 60.0, "until": "2031-01-01"}))[0] == 400
    assert (await post("mute", {"name": "r", "until": "soon"}))[1]["detail"].startswith("until is not a valid time")
    assert (await post("mute", {"name": "r", "until": "1999-01-01"}))[0] == 409
    assert (await post("mute", {"name": "nobody"}))[0] == 404
    assert (await post("unmute", {"name": "P", "subject": "source"}))[0] == 422


async def test_streams_and_feeds_mark_what_was_made_while_muted(running: Running) -> None:
    token = await running.token("read")
    await running.control.queries.suspensions.mute("r", "token x")
    await running.tell(told("n1"))
    async with running.client.get("/api/v1/stream?last_event_id=0", headers=token) as answer:
        while not (line := await answer.content.readline()).startswith(b"data: "):
            pass
        assert json.loads(line.removeprefix(b"data: "))["data"]["muted"] is True
    async with running.client.get("/api/v1/profiles/P/feed.json", headers=token) as answer:
        (entry,) = (await answer.json(content_type=None))["items"]
    assert (entry["tags"], entry["_proxyd"]["muted"]) == (["r", "muted"], True)
    async with running.client.get("/api/v1/profiles/P/feed.atom", headers=token) as answer:
        assert b'<category term="muted" />' in await answer.read()


async def test_a_receiver_that_takes_the_test_message_gets_notifications_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, deliveries = running.control.resources.store, running.control.queries.deliveries
    (webhook,) = running.control.declarations.declaration.rules["r"].deliveries
    await running.tell(replace(told("n1"), deliveries=(webhook,)))
    (waiting,) = await store.webhooks.list_unconfirmed()
    await store.webhooks.record_ping(waiting.webhook, WebhookState.CONFIRMED, T0, "204")
    (due,) = await due_deliveries(store, T0, limit=9)
    await store.record_failure(due, T0, next_s=None, error="status 410", disables=True)
    assert [(each.endpoint, each.refused) for each in await deliveries.webhooks()] == [(webhook.endpoint, ("r",))]

    async def accept(_channel: RefusingChannel, message: Message) -> str:
        assert json.loads(message.body)["data"] == {"rule": "r"}
        assert (message.endpoint, message.form, message.secret) == (webhook.endpoint, "STANDARD", b"x")
        return "status 200"

    monkeypatch.setattr(RefusingChannel, "deliver", accept)
    assert [each.error for each in await deliveries.test_deliveries("r")] == [None]
    (shown,) = await deliveries.webhooks()
    assert (shown.state, shown.detail, shown.refused) == ("confirmed", "status 200", ())


async def test_a_daemon_whose_store_cannot_write_is_not_ready(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_writer: Writer) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Writer, "ping", fail)
    async with running.client.get("/readyz") as answer:
        assert answer.status == 503
        checks = (await answer.json())["checks"]
        assert (checks["writer"], checks["migrations"]) == (False, True)
