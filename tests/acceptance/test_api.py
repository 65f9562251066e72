"""The REST API of the running daemon, over TCP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import feedparser
import pytest

from proxyd.client import Client
from tests.acceptance.support import PATIENCE_S, PROFILE, World, rule_text, world

METRICS = Path(__file__).parents[2] / "docs" / "metrics.md"


async def tokens(w: World) -> dict[str, str]:
    return {
        scope: (await w.daemon.cli("token", "create", "--name", scope, "--scope", scope)).out.strip()
        for scope in ("read", "write")
    }


def added(w: World, *, trigger: str = "ON INSERT TO RSS") -> str:
    """Return a profile, a source of its own and a rule, in the classes that the files declare."""
    return f"""CREATE SOURCE "api-feed" OF RSS AT '{w.origin.url("api-feed")}';
CREATE PROFILE "mine" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u");
INSERT NOTIFICATION "sent" INTO "mine"
SET QUERY "SELECT channel.item.guid FROM RSS" SET TRIGGER "{trigger}"
START NOW END NEVER SET UTILITY STRICT
SET DELIVERY WEBHOOK '{w.receiver.url("sent")}' SECRET ENV 'SECRET_HOOK';
"""


async def test_a_profile_comes_over_the_api_works_survives_and_goes(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.origin.feed("api-feed", "atom").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        token = await tokens(w)
        status, headers, problem = await w.daemon.request("GET", "/api/v1/profiles")
        assert (status, problem["status"]) == (401, 401)
        assert headers["Content-Type"].startswith("application/problem+json")
        assert headers["WWW-Authenticate"].startswith("Bearer")
        assert (await w.daemon.post_profile(added(w)))[0] == 401
        assert (await w.daemon.request("GET", "/api/v1/profiles", token=token["read"] + "x"))[0] == 401
        assert (await w.daemon.request("GET", "/api/v1/profiles", token=token["read"]))[0] == 200
        assert (await w.daemon.post_profile(added(w), token["read"]))[0] == 403
        assert (await w.daemon.request("DELETE", "/api/v1/profiles/watch", token=token["read"]))[0] == 403

        status, changes = await w.daemon.post_profile(added(w), token["write"])
        assert (status, changes["added"]) == (201, ["sent"])
        await w.daemon.knows("api-feed")
        news = w.origin.feeds["api-feed"].add(2)
        # Both are of class RSS: a rule without FROM SOURCES watches every source of its class.
        assert await w.receiver.received("sent", 2) == news

        await w.daemon.restart()
        news += w.origin.feeds["api-feed"].add(1)
        assert await w.receiver.received("sent", 3) == news
        _, _, found = await w.daemon.request("GET", "/api/v1/profiles/mine", token=token["read"])
        assert (found["origin"], [rule["name"] for rule in found["rules"]]) == ("api", ["sent"])

        status, _, changes = await w.daemon.request("DELETE", "/api/v1/profiles/mine", token=token["write"])
        assert (status, changes["removed"]) == (200, ["sent"])
        assert (await w.daemon.request("GET", "/api/v1/profiles/mine", token=token["read"]))[0] == 404
        assert (await w.daemon.request("DELETE", "/api/v1/profiles/mine", token=token["write"]))[0] == 404
        w.receiver.check()


async def test_texts_that_are_wrong_or_not_ours_change_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        path = w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        token = (await tokens(w))["write"]
        wrong = added(w, trigger="ON INSERT TO RSS WHEN COUNT(*) % 0 = 0")
        status, problem = await w.daemon.post_profile(wrong.replace('INTO "mine"', 'INTO "mime"'), token)
        assert (status, problem["status"]) == (422, 422)
        assert (problem["errors"][0]["line"], problem["errors"][0]["column"]) == (3, 33)
        status, problem = await w.daemon.post_profile(wrong, token)
        line, column = problem["errors"][0]["line"], problem["errors"][0]["column"]
        assert (status, wrong.splitlines()[line - 1][column - 1]) == (422, "0")

        for owned in (PROFILE, rule_text("each", 2, w.receiver.url("each"))):
            status, problem = await w.daemon.post_profile(owned, token)
            assert (status, str(path) in problem["detail"]) == (409, True)
        assert (await w.daemon.request("DELETE", "/api/v1/profiles/watch", token=token))[0] == 409
        status, changes = await w.daemon.post_profile(added(w), token, query="?dry_run=true")
        assert (status, changes["added"], changes["dry_run"]) == (200, ["sent"], True)
        _, _, profiles = await w.daemon.request("GET", "/api/v1/profiles", token=token)
        assert [found["name"] for found in profiles["items"]] == ["watch"]
        assert await w.daemon.metric("proxyd_rules") == 1


async def test_it_listens_on_loopback_by_default(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        del w.daemon.settings["listen"]
        shown = await w.daemon.cli("config")
        assert 'listen = "127.0.0.1:8080"\n' in shown.out


async def test_metrics_are_those_that_are_documented(tmp_path: Path) -> None:
    named = re.findall(r"`((?:proxyd|process)_[a-z_]+)(?:\{(\w+)\})?`", METRICS.read_text(encoding="utf-8"))
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        w.origin.feeds["feed"].add(1)
        await w.receiver.received("each", 1)
        await w.daemon.metric_reaches('proxyd_deliveries_total{result="accepted"}', 1)
        _, headers, text = await w.daemon.request("GET", "/metrics")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
        exported = set(types)
        assert {name for name, _ in named} == exported
        samples = await w.daemon.metrics()
        for name, value in {
            "proxyd_sources": 1,
            "proxyd_rules": 1,
            "proxyd_last_reload_ok": 1,
            "proxyd_items_total": 1,
            "proxyd_notifications_total": 1,
            "proxyd_outbox_pending": 0,
            "proxyd_outbox_dead": 0,
            "proxyd_completeness_ratio": 1,
            "proxyd_utility_ratio": 1,
            "proxyd_item_delay_seconds_count": 1,
            "proxyd_notification_delay_seconds_count": 1,
            'proxyd_intervals_total{fate="captured"}': 1,
        }.items():
            assert samples[name] == value, name
        for name, label in named:
            found = [sample for sample in samples if sample.startswith(f"{name}{{")]
            assert all(label and sample.startswith(f"{name}{{{label}=") for sample in found), name


async def followed(client: Client, found: asyncio.Queue[str], seen: asyncio.Event) -> None:
    """Put the items of every notification into ``found``, from the first one that there ever was."""
    async with aclosing(client.stream(last=0, rule="each", retry_s=0.05)) as events:
        async for event in events:
            for item in event.body["data"]["items"]:
                found.put_nowait(item["channel.item.guid"])
            seen.set()


@pytest.mark.long
async def test_a_stream_goes_on_where_it_was_when_the_daemon_stops_or_dies(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        token = (await tokens(w))["read"]
        found: asyncio.Queue[str] = asyncio.Queue()
        async with Client.over_http(w.daemon.base, token) as client, asyncio.TaskGroup() as tasks:
            seen = asyncio.Event()
            following = tasks.create_task(followed(client, found, seen))
            news = w.origin.feeds["feed"].add(1)
            await asyncio.wait_for(seen.wait(), PATIENCE_S)
            await w.daemon.restart()
            news += w.origin.feeds["feed"].add(2)
            await w.receiver.received("each", 3)
            await w.daemon.kill()
            news += w.origin.feeds["feed"].add(2)
            await w.daemon.start()
            got = [await asyncio.wait_for(found.get(), PATIENCE_S) for _ in news]
            following.cancel()
        assert got == news
        assert found.empty()


@asynccontextmanager
async def follower(w: World) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the verb that follows, from the first notification on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxyd", "notifications", "--follow", "--after", "0", "--json"),
        env={f"PROXYD_{key.upper()}": value for key, value in w.daemon.settings.items()} | dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_script_waits_until_a_rule_fires(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        nothing = await w.daemon.cli("wait", "each", "--timeout", "1ms")
        assert (nothing.code, nothing.out, nothing.err) == (124, "", "each did not fire\n")
        unknown = await w.daemon.cli("wait", "eech", "--timeout", "1ms")
        assert (unknown.code, "each" in unknown.err) == (1, True)
        news = w.origin.feeds["feed"].add(1)
        await w.receiver.received("each", 1)
        told = await w.daemon.cli("wait", "each", "--timeout", "60s", "--after", "0", "--json")
        assert told.code == 0
        assert [each["channel.item.guid"] for each in json.loads(told.out)["data"]["items"]] == news


async def test_the_command_line_follows_and_shows_notifications(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        unreachable = await w.daemon.cli("notifications", "--follow")
        assert (unreachable.code, unreachable.err.count("\n")) == (3, 1)
        await w.daemon.start()
        await w.daemon.knows("feed")
        async with follower(w) as process:
            assert process.stdout is not None
            news = w.origin.feeds["feed"].add(1)
            line = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 130
        assert (line["position"], [each["channel.item.guid"] for each in line["data"]["items"]]) == (1, news)
        await w.receiver.received("each", 1)
        await w.daemon.metric_reaches('proxyd_deliveries_total{result="accepted"}', 1)
        shown = await w.daemon.cli("notifications", "show", line["data"]["id"])
        assert f"row: channel.item.guid='{news[0]}'" in shown.out
        assert re.search(r"^interval: feed from \S+ .*: captured, ", shown.out, re.MULTILINE)
        assert re.search(rf"^attempt: .* {re.escape(w.receiver.url('each'))}: accepted", shown.out, re.MULTILINE)
        missing = await w.daemon.cli("notifications", "show", "nothing")
        assert (missing.code, missing.out) == (1, "")
        assert "there is no notification 'nothing'" in missing.err
        listed = await w.daemon.cli("notifications", "--profile", "watch", "--json")
        assert [each["id"] for each in json.loads(listed.out)] == [line["data"]["id"]]


async def test_feed_readers_follow_a_profile_with_the_token_in_the_address(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("feed")
        token = (await tokens(w))["read"]
        w.origin.feeds["feed"].add(2)
        await w.receiver.received("each", 2)
        path = "/api/v1/profiles/watch/feed.atom"
        status, headers, text = await w.daemon.request("GET", f"{path}?token={token}")
        feed = feedparser.parse(text.encode())
        assert (status, feed.bozo, len(feed.entries)) == (200, False, 2)
        known = {"If-None-Match": headers["ETag"]}
        assert (await w.daemon.request("GET", f"{path}?token={token}", headers=known))[0] == 304
        assert (await w.daemon.request("GET", path))[0] == 401
        await w.daemon.stop()
        assert token not in w.daemon.log
