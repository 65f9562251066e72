"""Moves of sources over the API and in the dashboard, in `proxyd check`, in the log and over restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from proxyd.app.server import make_app
from proxyd.app.wiring import build
from proxyd.cli.main import main
from proxyd.config.loading import load
from proxyd.core.model.outcome import ProbeOutcome
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, offline_parts, running_api
from tests.integration.dashboard_world import Browser

NEW = "https://new.example/s"
DAY_S = 86400.0


@dataclass
class Api:
    """The API of a daemon, and who asks it."""

    running: Running
    headers: dict[str, str]

    async def __call__(self, method: str, body: dict[str, str] | None = None) -> tuple[int, Any]:
        asking = self.running.client.request(method, "/api/v1/moves", json=body, headers=self.headers)
        async with asking as answer:
            return answer.status, await answer.json()

    async def accept(self) -> str:
        status, made = await self("POST", {"source": "s"})
        assert status == 200, made
        said: str = made["said"]
        return said


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as started:
        yield started


@pytest.fixture
async def api(running: Running) -> Api:
    return Api(running, await running.token("write", expires_in_s=60.0))


def redirected(at_s: float, *titles: str, to: str | None = NEW) -> ProbeOutcome:
    return replace(changed("s", [item(each) for each in titles], at_s), permanent_url=to)


async def move(running: Running, *, days: float = 8.0) -> None:
    """Let the redirects of a source lead elsewhere for some days."""
    for at_s in (T0, T0 + days * DAY_S):
        await running.control.loops.observer.take_in(redirected(at_s, "a"))


async def test_a_move_is_listed_proposed_after_a_week_and_accepted_with_one_call(running: Running, api: Api) -> None:
    assert await api("GET") == (200, {"items": []})
    await move(running, days=6.0)
    (seen,) = (await api("GET"))[1]["items"]
    file, line = str(running.folder / "a.profile"), 4
    assert seen | {"since": ""} == {
        "source": "s", "declared": "https://example.org/s", "url": NEW, "state": "seen", "since": "", "probes": 2,
        "file": file, "line": line,
    }  # fmt: skip
    await running.control.loops.observer.take_in(redirected(T0 + 7 * DAY_S, "a"))
    assert (await api("GET"))[1]["items"][0]["state"] == "proposed"
    assert await api.accept() == (
        f"source s is read at {NEW} from now on; to keep that without proxyd's memory, write AT '{NEW}' in {file}, "
        f"line {line}"
    )
    (accepted,) = (await api("GET"))[1]["items"]
    assert (accepted["state"], accepted["url"], accepted["probes"]) == ("accepted", NEW, 0)


async def test_what_has_not_moved_or_does_not_exist_is_not_accepted(api: Api) -> None:
    status, problem = await api("POST", {"source": "s"})
    assert (status, "has not moved" in problem["detail"]) == (409, True)
    status, problem = await api("POST", {"source": "a/bc"})
    assert (status, "Did you mean a/b c?" in problem["detail"]) == (404, True)


async def test_a_probe_under_way_is_dropped_and_the_source_goes_on_after_a_restart(running: Running, api: Api) -> None:
    await move(running)
    observer, decider = running.control.loops.observer, running.control.decider
    request = decider.request("s", T0)
    assert request is not None
    await api.accept()
    late = redirected(T0 + 9 * DAY_S, "a")
    assert not await observer.take_in(late, reading=request.reading)
    (stored,) = (await running.control.resources.store.load_states()).values()
    assert stored.health.accepted is not None

    resources = running.control.resources
    again = build(
        load(environ={}, profiles=running.folder),
        offline_parts(load(environ={}), resources.store, resources.clock, None),  # type: ignore[arg-type]
    )
    with structlog.testing.capture_logs() as logs:
        await again.declarations.start()
    (warning,) = [each for each in logs if "has moved" in each["event"]]
    assert (warning["line"], f"write AT '{NEW}'" in warning["event"]) == (4, True)
    request = again.decider.request("s", T0)
    assert request is not None
    assert request.url == NEW
    assert await again.loops.observer.take_in(redirected(T0 + 9 * DAY_S, "b", "a", to=None), reading=request.reading)
    assert again.decider.known.states["s"].first_contact_s == T0


async def test_the_declaration_follows_and_nothing_remains_to_be_listed(running: Running, api: Api) -> None:
    await move(running)
    await api.accept()
    file = running.folder / "a.profile"
    file.write_text(file.read_text().replace("https://example.org/s'", f"{NEW}'"))
    assert await running.control.declarations.reload() == ()
    assert (await api("GET"))[1]["items"] == []
    stored = (await running.control.resources.store.load_states())["s"]
    assert (stored.health.accepted, stored.url, stored.first_contact_s) == (None, NEW, T0)
    assert running.control.decider.known.state(running.control.decider.known.compiled.sources["s"]) == stored


async def test_check_warns_below_the_address(
    running: Running, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await move(running)
    await api.accept()
    socket = running.folder.parent / "api.sock"
    monkeypatch.setenv("PROXYD_SOCKET", str(socket))
    monkeypatch.setenv("PROXYD_DATABASE", str(running.folder.parent / "none.db"))
    runner = web.AppRunner(make_app(running.control.queries, None))
    await runner.setup()
    try:
        await web.UnixSite(runner, str(socket)).start()
        assert await asyncio.to_thread(main, ["check", str(running.folder)]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert await asyncio.to_thread(main, ["check", str(running.folder), "--json"]) == 0
        (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    finally:
        await runner.cleanup()
    said = f"the source 's' has moved and is read at its new address: write AT '{NEW}'"
    assert warning | {"file": ""} == {"file": "", "line": 4, "column": 29, "detail": said}
    place = f"{running.folder / 'a.profile'}:4:29"
    assert f"warning: {place}: {said}" in shown
    assert await asyncio.to_thread(main, ["check", str(running.folder)]) == 0
    assert "has moved" not in capsys.readouterr().out


async def test_the_dashboard_proposes_a_move_and_accepts_it(running: Running) -> None:
    browser = Browser(running)
    await browser.sign_in()
    await move(running)
    assert '<span class="state warn">moved</span> <a href="/sources/s">' in (await browser.get("/"))[1]
    _, page = await browser.get("/sources/s")
    assert "Read it at the new address" in page
    assert (await browser.post("/sources/s/move", csrf="forged"))[0].status == 403
    answer, _ = await browser.post("/sources/s/move")
    assert (answer.status, answer.headers["Location"]) == (303, "/sources/s")
    _, page = await browser.get("/sources/s")
    assert "Its move was accepted" in page
    assert "Read it at the new address" not in page
    assert "moved</span>" not in (await browser.get("/"))[1]


async def test_a_move_is_accepted_only_to_the_address_that_was_looked_at(api: Api) -> None:
    await api.running.control.loops.observer.take_in(redirected(T0 + 10.0, "a"))
    status, refused = await api("POST", {"source": "s", "url": "https://evil.example/s"})
    assert (status, f"leads to {NEW} now, not to https://evil.example/s" in refused["detail"]) == (409, True)
    status, made = await api("POST", {"source": "s", "url": NEW})
    assert (status, made["move"]["url"]) == (200, NEW)
