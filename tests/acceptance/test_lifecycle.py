"""Starting, stopping, and going on where it was."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from aiohttp import web

from tests.acceptance.support import Daemon, eventually, integrity, world


@pytest.mark.long
async def test_a_rules_count_survives_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"third": 3}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(2)
        await w.daemon.metric_reaches("proxyd_items_total", 2)
        await w.daemon.restart()
        assert w.receiver.arrivals["third"] == []
        news += feed.add(1)
        assert await w.receiver.received("third", 3) == news
        assert len(w.receiver.arrivals["third"]) == 1
        w.receiver.check()


async def test_items_published_while_it_was_down_are_delivered_after(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        await w.daemon.stop()
        news = feed.add(3)
        await w.daemon.start()
        assert await w.receiver.received("each", 3) == news


@pytest.mark.long
async def test_what_a_setting_forbade_is_asked_at_once_when_that_has_changed(tmp_path: Path) -> None:
    async with world(tmp_path, source_spacing="1h") as w:
        allowed = w.daemon.settings.pop("allow_networks")
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.metric_reaches('proxyd_probes_total{outcome="blocked"}', 1)
        await w.daemon.stop()
        assert w.origin.asked["feed"] == 0
        w.daemon.settings["allow_networks"] = allowed
        await w.daemon.start()
        await w.daemon.knows("feed")
        await w.daemon.stop()


async def test_sigterm_lets_what_is_under_way_finish(tmp_path: Path) -> None:
    async with world(tmp_path, drain_timeout="60s", delivery_timeout="60s") as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        w.receiver.scripts["each"].append("hold")
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(1)
        await eventually(lambda: w.receiver.arrivals["each"], "the delivery is under way")
        w.daemon.signal(signal.SIGTERM)
        await eventually(lambda: '"draining"' in w.daemon.log, "it drains")
        assert '"waits_at_most_s": 60.0' in w.daemon.log
        status, _, body = await w.daemon.request("GET", "/readyz")
        assert (status, body["checks"]["serving"]) == (503, False)
        w.receiver.release.set()
        assert await w.daemon.ended() == 0
        # It was recorded as delivered: nothing of it comes again.
        await w.daemon.start()
        news += feed.add(1)
        assert await w.receiver.received("each", 2) == news
        assert len(w.receiver.arrivals["each"]) == 2
        w.receiver.check()


@pytest.mark.long
async def test_sigterm_gives_up_what_takes_longer_than_the_drain_timeout(tmp_path: Path) -> None:
    async with world(tmp_path, drain_timeout="1s", delivery_timeout="300s", probe_timeout="300s") as w:

        async def stall(_request: web.Request) -> web.StreamResponse:
            await w.origin.closing.wait()
            return web.Response()

        w.origin.pages["stuck"] = stall
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed", "stuck"], {"each": 1}))
        w.receiver.scripts["each"].append("stall")
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(2)
        await eventually(lambda: w.receiver.arrivals["each"] and w.origin.asked["stuck"], "both are under way")
        await w.daemon.stop()
        assert integrity(w.daemon.database) == "ok"
        await w.daemon.start()
        assert await w.receiver.received("each", 2) == news
        w.receiver.check()


async def test_sigint_ends_it_as_sigterm_does(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.daemon.start()
        w.daemon.signal(signal.SIGINT)
        assert await w.daemon.ended() == 0
        assert "Traceback" not in w.daemon.log


async def test_a_second_sigint_ends_it_at_once_and_loses_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, drain_timeout="60s") as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        w.receiver.scripts["each"].append("stall")
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(1)
        await eventually(lambda: w.receiver.arrivals["each"], "the delivery is under way")
        w.daemon.signal(signal.SIGINT)
        await eventually(lambda: '"draining"' in w.daemon.log, "it drains")
        w.daemon.signal(signal.SIGINT)
        assert await w.daemon.ended(timeout_s=10.0) == -signal.SIGINT
        assert "Traceback" not in w.daemon.log
        await w.daemon.start()
        await eventually(lambda: len(w.receiver.arrivals["each"]) == 2, "it is told again")
        assert [arrival.guids for arrival in w.receiver.arrivals["each"]] == [news] * 2


async def test_a_second_daemon_on_one_database_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.daemon.start()
        elsewhere = tmp_path / "second"
        elsewhere.mkdir()
        async with Daemon(elsewhere, database=str(w.daemon.database)) as second:
            await second.spawn()
            assert await second.ended() == 1
            assert (
                second.log == f"proxyd: {w.daemon.database} is in use by another proxyd; stop it, or use it instead\n"
            )
        migrated = await w.daemon.cli("db", "migrate")
        assert (migrated.code, "in use by another proxyd" in migrated.err) == (1, True)
        # The first one did not notice: it is ready, and its socket still answers.
        assert (await w.daemon.cli("healthcheck")).code == 0


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with Daemon(tmp_path, listen=address) as daemon:
            await daemon.spawn()
            assert await daemon.ended() == 1
            assert f"listen: {address}: " in daemon.log
            assert "the address is in use" in daemon.log
            assert "Traceback" not in daemon.log


async def test_a_profiles_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    async with Daemon(tmp_path, profiles=str(tmp_path / "nowhere")) as daemon:
        await daemon.spawn()
        assert await daemon.ended() == 1
        assert f"there is no directory {tmp_path / 'nowhere'}" in daemon.log
        assert "Traceback" not in daemon.log


async def test_the_log_is_json_where_nobody_looks_and_says_each_step_once(tmp_path: Path, database: str | Path) -> None:
    async with world(tmp_path, database=str(database)) as w:
        await w.daemon.start()
        await w.daemon.stop()
        lines = [json.loads(line) for line in w.daemon.log.splitlines()]
    serving = [line["serves"] for line in lines if line["event"] == "listening"]
    assert serving == (["the API"] if isinstance(database, Path) else ["health", "the API"])  # then it leads
    for step in ("running", "draining", "stopped"):
        assert [line["event"] for line in lines].count(step) == 1
