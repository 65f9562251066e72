"""A real Prometheus and a real Alertmanager, as they are shipped, find real faults of a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.acceptance.support import World, eventually, world
from tests.pages import ROOT
from tests.servers import free_port

DEPLOY = ROOT / "deploy"
FASTER = 120  # every duration of the configurations is divided by this: 5 minutes become 2.5 s
LEAST_MS, LEAST_WINDOW_MS = 500, 1500  # but intervals stay such that a scrape fits, and windows that two do
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
FAULTS = {"ProxydReloadFailed", "ProxydOriginsThrottle", "ProxydDown", "ProxydPlannerMissing"}
_CHAT = "/run/secrets/alerts_url"
_DURATION = r"(\d+)(ms|s|m|h|d)\b"


def shorter_ms(match: re.Match[str], least_ms: int) -> str:
    """Return a duration divided, between what is around it."""
    before, amount, unit, after = match.groups()
    return f"{before}{max(least_ms, int(amount) * _UNITS_MS[unit] // FASTER)}ms{after}"


def faster(text: str) -> str:
    """Return a configuration or rules whose intervals, waiting times and windows are shorter; nothing else changes."""
    text = re.sub(rf"(: ){_DURATION}( *)$", lambda found: shorter_ms(found, LEAST_MS), text, flags=re.MULTILINE)
    return re.sub(rf"(\[){_DURATION}(\])", lambda found: shorter_ms(found, LEAST_WINDOW_MS), text)


@dataclass(frozen=True, slots=True)
class Watch:
    """Where Prometheus answers, and the messages that Alertmanager sent to the chat."""

    base: str
    session: aiohttp.ClientSession
    told: list[dict[str, Any]]  # as Slack takes them

    async def get(self, path: str) -> Any:
        """Return what Prometheus says, or nothing while it starts."""
        try:
            async with self.session.get(f"{self.base}/api/v1/{path}") as response:
                return (await response.json())["data"] if response.status == 200 else {}
        except aiohttp.ClientConnectionError:
            return {}

    async def firing(self) -> set[str]:
        found = (await self.get("alerts")).get("alerts", [])
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    async def ring_if_due(self, name: str) -> str:
        """Wait until an alert fires and the chat was told of it; return the text."""

        async def rung() -> bool:
            return name in await self.firing()

        def told() -> list[str]:
            return [str(each["text"]) for each in self.told if each["title"] == f"firing: {name}"]

        await eventually(rung, f"{name} fires", state=lambda: self.told)
        found: list[str] = await eventually(told, f"{name} is told of", state=lambda: self.told)
        return found[-1]


@asynccontextmanager
async def running(folder: Path, *command: str) -> AsyncIterator[None]:
    """Run a program in a process group of its own, which nothing outlives."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        assert process.returncode is None, "it ended by itself"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def write(folder: Path, w: World, alertmanager: int) -> tuple[Path, Path]:
    """Write what is shipped with other addresses and shorter times; return the two configurations."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    own = {"proxyd:8080": f"127.0.0.1:{w.daemon.port}", "alertmanager:9093": f"127.0.0.1:{alertmanager}"}
    for address, other in own.items():
        assert text.count(address) == 1
        text = text.replace(address, other)
    (folder / "rules").mkdir()
    for path in (DEPLOY / "prometheus" / "rules").glob("*.yml"):
        (folder / "rules" / path.name).write_text(faster(path.read_text(encoding="utf-8")), encoding="utf-8")
    prometheus, receivers = folder / "prometheus.yml", folder / "alertmanager.yml"
    prometheus.write_text(faster(text), encoding="utf-8")
    routes = (DEPLOY / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8")
    (folder / "alerts_url").write_text(f"http://127.0.0.1:{w.origin.port}/alerts", encoding="utf-8")
    assert routes.count(_CHAT) == 1
    receivers.write_text(faster(routes.replace(_CHAT, str(folder / "alerts_url"))), encoding="utf-8")
    return prometheus, receivers


@asynccontextmanager
async def watched(folder: Path, w: World) -> AsyncIterator[Watch]:
    """Run Prometheus and Alertmanager over a world's daemon; the origin stands for the chat."""
    own, alertmanager, told = free_port(), free_port(), list[dict[str, Any]]()

    async def take(request: web.Request) -> web.Response:
        told.extend(json.loads(await request.read())["attachments"])
        return web.Response(text="ok")

    w.origin.pages["alerts"] = take
    config, routes = write(folder, w, alertmanager)
    commands = [
        ("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"),
        ("prometheus-alertmanager", f"--config.file={routes}", f"--storage.path={folder / 'am'}"),
    ]
    listening = [
        (f"--web.listen-address=127.0.0.1:{own}", "--rules.alert.resend-delay=1s"),
        (f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address="),
    ]
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for command, more in zip(commands, listening, strict=True):
            await stack.enter_async_context(running(folder, *command, *more))
        yield Watch(f"http://127.0.0.1:{own}", session, told)


async def healthy(watch: Watch) -> bool:
    """Whether the daemon is scraped, every rule was evaluated well, and none of these alerts fires."""
    targets = (await watch.get("targets")).get("activeTargets", [])
    up = {target["labels"]["job"]: target["health"] for target in targets}
    rules = [rule for group in (await watch.get("rules")).get("groups", []) for rule in group["rules"]]
    are_ok = bool(rules) and {rule["health"] for rule in rules} == {"ok"}
    return are_ok and up.get("proxyd") == "up" and not await watch.firing() & FAULTS


def test_times_are_divided_and_nothing_else_changes() -> None:
    for path in (DEPLOY / "prometheus" / "rules").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert faster(text) != text
        assert re.sub(_DURATION, "", faster(text)) == re.sub(_DURATION, "", text)
        before, after = (yaml.safe_load(each)["groups"] for each in (text, faster(text)))
        assert [[r.get("alert", r.get("record")) for r in group["rules"]] for group in before] == [
            [r.get("alert", r.get("record")) for r in group["rules"]] for group in after
        ]
    assert faster("for: 5m\nx: [1h] 10 s, rate5m") == "for: 2500ms\nx: [30000ms] 10 s, rate5m"


@pytest.mark.long
async def test_faults_of_a_daemon_reach_somebody(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        throttles = False

        async def page(_: web.Request) -> web.Response:
            media_type, body = feed.document()
            if throttles:
                return web.Response(status=429, headers={"Retry-After": "1"})
            return web.Response(body=body, content_type=media_type)

        feed = w.origin.feed("news")
        w.origin.pages["page"] = page
        w.daemon.declare(w.text(["page"], {"each": 1}).replace("STRICT", "STRICT SET POLICY UNIFORM(1 SECOND)"))
        await w.daemon.start()
        await w.daemon.knows("page")
        async with watched(tmp_path, w) as watch:
            await eventually(lambda: healthy(watch), "all is well")

            w.daemon.declare("CREATE NONSENSE", "broken")
            told = await watch.ring_if_due("ProxydReloadFailed")
            assert f"127.0.0.1:{w.daemon.port} runs on the old ones https://" in told
            assert told.endswith("/docs/runbook.md#proxydreloadfailed\n")
            (w.daemon.profiles / "broken.profile").unlink()

            async def mended() -> bool:
                return "ProxydReloadFailed" not in await watch.firing()

            await eventually(mended, "the mended profile ends the alert")

            throttles = True
            told = await watch.ring_if_due("ProxydOriginsThrottle")
            assert re.match(r"[\d.]+% of the probes are answered 429 or 503 https://\S+/docs/", told)

            await w.daemon.kill()
            await watch.ring_if_due("ProxydDown")

            async def nobody_plans() -> bool:
                return {"ProxydPlannerMissing", "ProxydProberMissing"} <= await watch.firing()

            await eventually(nobody_plans, "Prometheus misses the planner", state=lambda: watch.told)
            assert {each["title"].split(": ")[1] for each in watch.told} & FAULTS == FAULTS - {"ProxydPlannerMissing"}
            await w.daemon.start()

            async def well_again() -> bool:
                return not await watch.firing() & {"ProxydDown", "ProxydPlannerMissing"}

            await eventually(well_again, "the daemon is back", state=lambda: watch.told)
