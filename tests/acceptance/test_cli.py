"""The verbs, as a user types them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import termios
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, Done, World, eventually, world

TOKEN = re.compile(r"pxd_[0-9a-f]{12}_[A-Za-z0-9_-]{43}\n")


async def running(w: World) -> None:
    w.origin.feed("feed").add(1, age_s=3600.0)
    w.daemon.declare(w.text(["feed"], {"each": 1}))
    await w.daemon.start()
    await w.daemon.knows("feed")


async def test_verbs_that_need_no_daemon(tmp_path: Path) -> None:
    async with Daemon(tmp_path) as daemon:
        version, config, shown = await asyncio.gather(
            daemon.cli("version"), daemon.cli("config", "--json"), daemon.cli("config")
        )
        assert (version.code, version.err) == (0, "")
        assert re.fullmatch(r"proxyd \d+\.\d+\.\d+\S*\n", version.out)

        assert json.loads(config.out)["chronon"] == "200ms"
        assert shown.code == 0
        # What `config` prints is a settings file.
        (tmp_path / "again.toml").write_text(shown.out)
        again = await daemon.cli("--config", str(tmp_path / "again.toml"), "config")
        assert again.out == shown.out

        migrated = await daemon.cli("db", "migrate")
        assert (migrated.code, migrated.out) == (0, f"{daemon.database} is at the newest schema\n")
        assert await daemon.cli("db", "migrate") == migrated

        with closing(sqlite3.connect(daemon.database)) as connection:
            connection.executescript("CREATE TABLE much AS SELECT zeroblob(3145728) AS what; DROP TABLE much;")
        vacuumed = await daemon.cli("db", "vacuum")
        sizes = re.fullmatch(rf"{daemon.database} is vacuumed: ([\d.]+) MiB before, ([\d.]+) MiB now\n", vacuumed.out)
        assert sizes is not None, vacuumed
        assert float(sizes[1]) - float(sizes[2]) >= 2.9

        token = await daemon.cli("token", "create", "--name", "ci", "--scope", "read")
        assert (token.code, token.err) == (0, "")
        assert TOKEN.fullmatch(token.out)
        same = await daemon.cli("token", "create", "--name", "ci", "--scope", "read")
        assert (same.code, same.out) == (1, "")
        assert "'ci' already" in same.err
        # The token is good as soon as a daemon runs.
        await daemon.start()
        status, _, _ = await daemon.request("GET", "/api/v1/profiles", token=token.out.strip())
        assert status == 200


async def test_verbs_that_need_a_daemon_say_so(tmp_path: Path) -> None:
    async with Daemon(tmp_path) as daemon:
        for verb in (["healthcheck"], ["plan"], ["rules"], ["report"], ["advise"], ["explain", "x"]):
            done = await daemon.cli(*verb)
            assert (done.code, done.out) == (3, ""), verb
            assert re.fullmatch(r"proxyd: no daemon .*\n", done.err), done
            daemon.database.parent.mkdir(exist_ok=True)


async def test_what_only_a_daemon_needs_is_asked_of_it_alone(tmp_path: Path) -> None:
    """A prober has no database; what asks it need not say that it is one."""
    async with Daemon(tmp_path) as daemon:
        broker = "nats://127.0.0.1:4222"
        assert (await daemon.cli("healthcheck", PROXYD_NATS=broker)).code == 3
        refused = await daemon.cli("serve", PROXYD_NATS=broker)
        assert (refused.code, refused.err.splitlines()[-1][:40]) == (1, "proxyd: several machines (nats) need a d")
        alone = await daemon.cli("serve", "--role", "prober")
        assert (alone.code, alone.err.splitlines()[-1][:42]) == (1, "proxyd: role prober needs other machines: ")


async def test_unknown_settings_and_verbs_are_refused(tmp_path: Path) -> None:
    async with Daemon(tmp_path) as daemon:
        for verb in ("serve", "config"):
            typo = await daemon.cli(verb, PROXYD_BUGDET="1/s", PROXYD_CHRONON="soon")
            assert (typo.code, typo.out) == (1, "")
            assert "PROXYD_BUGDET: no such setting" in typo.err
            assert "PROXYD_CHRONON: 'soon' is not a duration" in typo.err
            assert "Traceback" not in typo.err
        (tmp_path / "proxyd.toml").write_text("chronom = '1s'\n")
        typo = await daemon.cli("config")
        assert (typo.code, "chronom: no such setting" in typo.err) == (1, True)
        (tmp_path / "proxyd.toml").unlink()
        assert (await daemon.cli("no-such-verb")).code == 2


async def test_what_the_running_daemon_plans_and_why(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        plan, table, explained, machine, unknown, health, advice, shown = await asyncio.gather(
            w.daemon.cli("plan", "--json", "--limit", "3"),
            w.daemon.cli("plan"),
            w.daemon.cli("explain", "feed"),
            w.daemon.cli("explain", "feed", "--json"),
            w.daemon.cli("explain", "fede"),
            w.daemon.cli("healthcheck"),
            w.daemon.cli("advise", "--json"),
            w.daemon.cli("advise"),
        )
        probes = json.loads(plan.out)
        assert len(probes) == 3
        for probe in probes:
            assert probe.keys() == {"source", "at", "reason", "rule", "rate_per_day"}
            assert (probe["source"], probe["rule"], probe["reason"]) == ("feed", "each", "detection")
        times = [datetime.fromisoformat(probe["at"]) for probe in probes]
        assert times == sorted(set(times))
        assert (table.code, table.out.split()[:4]) == (0, ["at", "source", "reason", "rule"])

        assert explained.code == 0
        for word in (w.origin.url("feed"), "rate: ", "last probe: ", "next probe: "):
            assert word in explained.out
        answer = json.loads(machine.out)
        assert (answer["source"], answer["rules"], answer["failures"]) == ("feed", ["each"], 0)
        low, high = answer["rate_range_per_day"]
        assert low < answer["rate_per_day"] < high
        assert answer["policies"]["each"]["policy"] == "AUTO"
        assert "rule each: AUTO (a probe is made when it is worth its price)" in explained.out
        assert json.loads(advice.out)["budget_per_hour"] > 0
        assert (shown.code, shown.out.startswith("The budget allows ")) == (0, True)
        assert (unknown.code, unknown.out) == (1, "")
        assert "'fede'" in unknown.err

        assert (health.code, health.out) == (0, "ready\n")


@pytest.mark.long
async def test_the_report_compares_what_was_found_with_what_was_predicted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        w.origin.feeds["feed"].add(1)
        await w.daemon.metric_reaches('proxyd_intervals_total{fate="captured"}', 1)
        await w.daemon.metric_reaches("proxyd_items_predicted_total", 0.001)  # to what reports round
        table, machine = await asyncio.gather(w.daemon.cli("report"), w.daemon.cli("report", "--days", "2", "--json"))
        wrong = await w.daemon.cli("report", "--days", "0")
    head, today, *rest = table.out.splitlines()
    assert head.split("  ")[0] == "day"
    assert datetime.fromisoformat(today.split()[0])
    assert rest[-1] == "No source has a poor forecast."
    found = json.loads(machine.out)
    day = found["days"][-1]
    assert day["items"] >= 1
    assert day["predicted_items"] > 0
    assert (day["captured"], day["missed"], day["completeness"]) == (1, 0, 1.0)
    assert 0 < day["predicted_completeness"] <= 1
    assert (found["off"], wrong.code) == ([], 2)


async def test_the_live_view_and_daemons_elsewhere(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        w.origin.feeds["feed"].add(1)
        await w.receiver.received("each", 1)
        once, piped = await asyncio.gather(w.daemon.cli("top", "--once"), w.daemon.cli("top"))
        for frame in (once, piped):
            assert (frame.code, frame.err) == (0, "")
            for word in (
                "proxyd here  ready",
                "in time",
                "coming probes",
                "no failing or silent sources",
                "feed",
                "each",
            ):
                assert word in frame.out
            assert "\x1b" not in frame.out

        token = (await w.daemon.cli("token", "create", "--name", "far", "--scope", "read")).out.strip()
        elsewhere = {"PROXYD_TOKEN": token, "PROXYD_DATABASE": str(tmp_path / "nothing" / "here.db")}
        far, near, narrow = await asyncio.gather(
            w.daemon.cli("sources", "--json", "--url", w.daemon.base, **elsewhere),
            w.daemon.cli("sources", "--json"),
            w.daemon.cli("reload", "--url", w.daemon.base, **elsewhere),
        )
        assert [each["source"] for each in json.loads(far.out)] == [each["source"] for each in json.loads(near.out)]
        assert (narrow.code, "proxyd token create" in narrow.err) == (1, True)

        probes = json.loads((await w.daemon.cli("probes", "feed", "--json")).out)
        assert {"started", "reason", "outcome", "items"} <= probes[0].keys()
        table = await w.daemon.cli("probes", "feed", "--limit", "1")
        assert table.out.splitlines()[0].split() == [
            "started",
            "took",
            "reason",
            "rule",
            "items",
            "mean",
            "delay",
            "outcome",
        ]


@pytest.mark.parametrize(
    ("key", "code"), [(b"q", 0), pytest.param(b"\x03", 130, marks=pytest.mark.long)], ids=["q", "Ctrl-C"]
)
async def test_the_live_view_ends_with_a_key_and_leaves_the_terminal_as_it_was(
    tmp_path: Path, key: bytes, code: int
) -> None:
    async with world(tmp_path) as w:
        await running(w)
        here, there = pty.openpty()
        before = termios.tcgetattr(there)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proxyd", "top"),
            env=w.daemon._environment() | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
            cwd=tmp_path,
            stdin=there,
            stdout=there,
            stderr=there,
            preexec_fn=take_terminal,
        )
        shown = bytearray()
        asyncio.get_running_loop().add_reader(here, lambda: shown.extend(os.read(here, 65536)))
        await eventually(lambda: b"coming probes" in shown, "a frame", state=lambda: bytes(shown[-2000:]))
        os.write(here, key)
        assert await asyncio.wait_for(process.wait(), 30.0) == code
        assert termios.tcgetattr(there) == before
        asyncio.get_running_loop().remove_reader(here)
        os.close(here)
        os.close(there)


def take_terminal() -> None:
    """Make standard input the terminal of a session of one's own, so that its keys interrupt."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def test_rules_are_listed_with_what_they_captured(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(1, age_s=3600.0)
        second = 'CREATE PROFILE "second" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u");\n'
        rules = w.text(["feed"], {"each": 1, "rare": 1000}, extra=second)
        w.daemon.declare(rules.replace('"each" INTO "watch"', '"each" INTO "watch", "second"'))
        await w.daemon.start()
        await w.daemon.knows("feed")
        w.origin.feeds["feed"].add(1)
        await w.daemon.metric_reaches('proxyd_intervals_total{fate="captured"}', 1)
        table, machine = await asyncio.gather(w.daemon.cli("rules"), w.daemon.cli("rules", "--json"))
    assert table.out.splitlines() == [
        "rule  profiles       sources  receivers  in time      muted  failing",
        "each  second, watch        1          1  1 of 1",
        "rare  watch                1          1  nothing yet",
        "in time: before the next item of its source came or, with WITHIN, in that time",
    ]
    figures = ("captured", "missed", "completeness", "utility")
    found = {
        each["name"]: (each["profiles"], *(each[figure] for figure in figures)) for each in json.loads(machine.out)
    }
    assert found == {"each": (["watch", "second"], 1, 0, 1.0, 1.0), "rare": (["watch"], 0, 0, None, None)}


async def test_notifications_are_listed_replayed_and_tried_out(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        guids = w.origin.feeds["feed"].add(3)
        await w.receiver.received("each", 3)
        await w.daemon.metric_reaches('proxyd_deliveries_total{result="accepted"}', 3)

        as_json, as_table, of_none, missing, no_rule = await asyncio.gather(
            w.daemon.cli("notifications", "--json", "--limit", "2"),
            w.daemon.cli("notifications"),
            w.daemon.cli("notifications", "--json", "--rule", "none"),
            w.daemon.cli("webhook", "replay", "ntf_none"),
            w.daemon.cli("webhook", "test", "no-such-rule"),
        )
        listed = json.loads(as_json.out)
        assert [found["body"]["data"]["items"][0]["channel.item.guid"] for found in listed] == guids[:0:-1]
        newest = listed[0]
        assert newest.keys() == {
            *("id", "position", "rule", "source", "event", "created"),
            *("late", "muted", "limited", "screenshot", "body", "deliveries"),
        }
        assert newest["deliveries"][0]["state"] == "delivered"
        sent = next(a for a in w.receiver.arrivals["each"] if a.webhook_id == newest["id"])
        told = newest["body"]["data"].pop("message")
        assert json.loads(sent.body) == newest["body"]
        assert newest["body"]["data"]["items"][0]["channel.item.guid"] in told["title"]
        assert json.loads(of_none.out) == []
        assert newest["id"] in as_table.out
        assert (missing.code, "'ntf_none'" in missing.err) == (1, True)
        assert (no_rule.code, "'no-such-rule'" in no_rule.err) == (1, True)

        replayed = await w.daemon.cli("webhook", "replay", newest["id"])
        assert replayed.code == 0
        await eventually(lambda: len(w.receiver.arrivals["each"]) == 4, "the notification again")
        assert w.receiver.arrivals["each"][-1] == sent

        tried = await w.daemon.cli("webhook", "test", "each")
        assert (tried.code, tried.out) == (0, f"{w.receiver.url('each')}: accepted (the receiver answered 204)\n")
        assert json.loads(w.receiver.arrivals["each"][-1].body)["type"] == "proxyd.test"
        w.receiver.scripts["each"].append("503")
        refused = await w.daemon.cli("webhook", "test", "each")
        assert (refused.code, "answered 503" in refused.out) == (1, True)
        hook = f"WEBHOOK '{w.receiver.url('each')}' SECRET ENV 'SECRET_HOOK'"
        file = tmp_path / "team.profile"
        file.write_text(f"CREATE RECEIVER \"team\" AS {hook}, LOG 'team';")
        assert (await w.daemon.cli("profile", "declare", str(file))).code == 0
        named = await w.daemon.cli("receiver", "test", "team")
        assert (named.code, named.out.splitlines()) == (
            0,
            [
                "receiver team, webhook: accepted (the receiver answered 204)",
                "receiver team, log: accepted (it was written to the log)",
            ],
        )
        w.receiver.check()


async def test_tokens_are_made_while_the_daemon_runs(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.daemon.start()
        made: list[Done] = [
            await w.daemon.cli("token", "create", "--name", f"t-{scope}", "--scope", scope, "--expires", "90d")
            for scope in ("read", "admin")
        ]
        assert [done.code for done in made] == [0, 0]
        for done in made:
            assert TOKEN.fullmatch(done.out)
            status, _, _ = await w.daemon.request("GET", "/api/v1/sources", token=done.out.strip())
            assert status == 200
        assert (w.daemon.database.with_suffix(".sock").stat().st_mode & 0o777) == 0o600
        brief = await w.daemon.cli("token", "create", "--name", "brief", "--scope", "read", "--expires", "1ms")
        status, _, _ = await w.daemon.request("GET", "/api/v1/sources", token=brief.out.strip())
        assert status == 401


async def test_it_works_under_a_path_longer_than_a_socket_may_have(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    async with world(deep) as w:
        await w.daemon.start()
        health = await w.daemon.cli("healthcheck")
        assert (health.code, health.out) == (0, "ready\n"), health
        await w.daemon.stop()
        assert not w.daemon.database.with_suffix(".sock").exists()


@pytest.mark.long
def test_fmt_prints_what_check_accepts(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "profiles"
    once = run_proxyd("fmt", str(shipped), cwd=tmp_path)
    path = tmp_path / "once.profile"
    path.write_text(once, encoding="utf-8")
    assert run_proxyd("fmt", str(path), cwd=tmp_path) == once
    assert "1 file," in run_proxyd("check", str(path), cwd=tmp_path)


def run_proxyd(*arguments: str, cwd: Path) -> str:
    command = [str(Path(sys.executable).with_name("proxyd")), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


async def test_an_address_is_added_to_the_daemon_and_edited_by_adding_it_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.origin.feed("feed").add(2)
        w.daemon.declare("WATCH 'https://example.org/another';")  # in the same profile, by a file
        await w.daemon.start()
        url = w.origin.url("feed")
        added = await w.daemon.cli("add", url, "--to", "me@example.org")
        edited = await w.daemon.cli("add", url, "--match", "Nr.", "--json")
        shown = await w.daemon.cli("profile", "show", "default")
        removed = await w.daemon.cli("remove", url)
        left = await w.daemon.cli("profile", "show", "default")
    assert removed.out.startswith(f"removed {url[7:]} from what was declared to the daemon\nto have it back:\nWATCH")
    assert (url in shown.out, url in left.out) == (True, False)
    waits = "DELIVERY MAIL waits while the settings smtp and mail_from are empty"
    assert added.out.endswith(f"declared to the daemon\nwarning: {waits}\n")
    assert json.loads(edited.out)["done"] == "declared to the daemon, in place of the one before"
    assert json.loads(edited.out)["warnings"] == [waits]
    assert len(json.loads(edited.out)["messages"]) == 2
    watch = next(line for line in shown.out.split(";") if url in line)
    assert watch.split() == f"WATCH '{url}' WHERE title ILIKE '%Nr.%' TELL MAIL 'me@example.org'".split()
