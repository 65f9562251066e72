"""Verbs that ask a daemon, against the API in this process and against answers full of hostile texts."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import termios
import unicodedata
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from proxyd.api.auth import new_token
from proxyd.cli.main import main
from proxyd.cli.top import TopView, _queue_keys, _show_live
from proxyd.client import Client
from proxyd.core.model.field_values import iso_time, with_local_times
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.core.rules.programs.stream_state import Spell
from tests.canned import Canned, answering
from tests.fakes import FakeClock
from tests.fleets import changed, item, rule
from tests.integration.api_world import T0, Running, running_api, told

TEXT = 'CREATE PROFILE "New" AS (DOMAIN "D", USER "u");\n' + rule("q").replace('"P"', '"New"')
EVIL = "\x1b[2J\u202e\x00\r\n\u2066"
KEPT = frozenset({"at", "created", "started", "seen", "outcome", "day"})


@dataclass
class Shell:
    """Runs verbs against the API of this process."""

    running: Running
    base: str
    capsys: pytest.CaptureFixture[str]

    async def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*arguments, "--url", self.base])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    async def json(self, *arguments: str) -> Any:
        code, out, err = await self(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
async def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Shell]:
    async with running_api(tmp_path) as running:
        token = (await running.token("admin"))["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("PROXYD_TOKEN", token)
        capsys.readouterr()
        yield Shell(running, str(running.client.make_url("")), capsys)


async def test_a_profile_is_tried_declared_shown_and_dropped(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "new.profile"
    file.write_text(TEXT, encoding="utf-8")
    code, out, _ = await shell("profile", "declare", str(file), "--dry-run")
    first, sources, cost, *rest = out.splitlines()
    assert (code, first, sources) == (0, "added: q", "sources: 0 more, 0 fewer")
    assert cost.startswith("probes an hour: ")
    assert rest[-1] == "nothing was changed; run it without --dry-run to declare it"
    assert "New" not in (await shell("profile", "list"))[1]

    assert await shell("profile", "declare", str(file)) == (0, "added: q\n", "")
    assert await shell("profile", "declare", str(file)) == (0, "no rule changes\n", "")
    code, out, _ = await shell("profile", "list")
    assert [line.split()[:3] for line in out.splitlines()[1:-1]] == [
        ["New", "api", "1"],
        ["P", str(shell.running.folder / "a.profile"), "1"],
    ]
    code, out, _ = await shell("profile", "show", "New")
    assert (code, 'CREATE PROFILE "New"' in out) == (0, True)
    shown = await shell.json("profile", "show", "New")
    assert (shown["text"], bool(shown["etag"])) == (out, True)
    assert [each["name"] for each in await shell.json("rules")] == ["q", "r"]
    assert await shell("profile", "drop", "New") == (0, "profile New is gone\nremoved: q\n", "")
    code, _, err = await shell("profile", "drop", "P")
    assert (code, "declared in" in err) == (1, True)


async def test_a_text_with_errors_is_refused_with_their_places(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "new.profile"
    file.write_text("CREATE NOTHING;\n", encoding="utf-8")
    code, out, err = await shell("profile", "declare", str(file))
    assert (code, out) == (1, "")
    assert f"\n{file}:1:8: " in err
    assert (await shell("profile", "declare", str(tmp_path / "missing.profile")))[0] == 1


async def test_a_token_of_90_is_not_taken_for_one_of_90_seconds(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        await shell("token", "create", "--name", "reader", "--scope", "read", "--expires", "90")
    assert "it lacks a unit" in capsys.readouterr().err
    _, out, _ = await shell("token", "list")
    assert "reader" not in out


async def test_a_silent_field_is_a_warning_by_name(shell: Shell) -> None:
    assert (await shell("sources", "--silent"))[1].count("\n") == 1
    decider = shell.running.control.decider
    state = decider.known.state(decider.known.compiled.sources["s"])
    health = replace(state.health, silent={"price": Spell(5, 0.0, 600.0)})
    decider.known.estimates.keep(replace(state, health=health, last_outcome="same_body"))
    _, out, _ = await shell("sources", "--silent")
    assert [line.split()[0] for line in out.splitlines()] == ["source", "s"]
    assert "same_body; no price" in out
    _, out, _ = await shell("explain", "s")
    assert "warning: price has shown no value since 1970-01-01 00:00:00 UTC (5 probes)\n" in out
    assert (await shell.json("explain", "s"))["silent"] == [
        {"field": "price", "since": "1970-01-01T00:00:00.000Z", "probes": 5}
    ]
    _, out, _ = await shell("top", "--once")
    assert "same_body; no price" in out


async def test_moves_are_listed_and_accepted(shell: Shell) -> None:
    assert (await shell("moved"))[1] == "no source has moved\n"
    code, _, err = await shell("moved", "--accept", "s")
    assert (code, "has not moved" in err) == (1, True)
    outcome = replace(changed("s", [item("a")], T0), permanent_url="https://new.example/s")
    await shell.running.control.loops.observer.take_in(outcome)
    _, out, _ = await shell("moved")
    assert out.splitlines()[1].split()[:2] == ["s", "seen"]
    code, out, _ = await shell("moved", "--accept", "s")
    assert out.startswith("source s is read at https://new.example/s from now on; to keep that")
    (move,) = await shell.json("moved")
    assert (move["state"], move["url"]) == ("accepted", "https://new.example/s")
    assert "its move was accepted, read at: https://new.example/s since" in (await shell("explain", "s"))[1]


async def test_hosts_are_listed_with_what_they_answered(shell: Shell) -> None:
    assert (await shell("hosts"))[1] == "no host has been asked since the daemon started\n"
    await shell.running.control.loops.observer.take_in(changed("s", [item("a")], T0))
    throttled = ProbeOutcome("s", OutcomeKind.THROTTLED, T0 + 60.0, T0 + 61.0, status=429, retry_after_s=600.0)
    await shell.running.control.loops.observer.take_in(throttled)
    shell.capsys.readouterr()  # the log of the failure
    (host,) = await shell.json("hosts")
    assert (host["requests"], host["answers"], host["throttles"], host["failures"]) == (2, 1, 1, 0)
    assert (host["last_outcome"], host["last_status"], host["since"]) == ("throttled", 429, iso_time(T0))
    assert host["throttled_until"] == host["free"] == iso_time(T0 + 661.0)
    assert "throttled (429)" in (await shell("hosts"))[1]


async def test_changes_are_listed_with_who_made_them(shell: Shell) -> None:
    await shell("mute", "r")
    newest = (await shell.json("audit", "--limit", "1"))[0]
    assert (newest["did"], newest["subject"]) == ("mute", "rule r")
    assert "the profiles folder" in (await shell("audit"))[1]


async def test_what_is_misspelt_is_told_the_nearest_name(shell: Shell) -> None:
    for arguments, said in (
        (["explain", "a/bc"], "there is no source 'a/bc'. Did you mean a/b c?"),
        (["explain", "r"], "'r' is a rule, not a source; it watches "),
        (["webhook", "test", "rr"], "there is no rule 'rr'"),
        (["profile", "show", "PP"], "there is no profile 'PP'. Did you mean P?"),
        (["profile", "show", "quite another"], "there is no profile 'quite another'"),
    ):
        code, _, err = await shell(*arguments)
        assert (code, err.startswith(f"proxyd: {said}")) == (1, True), err


async def test_no_rate_is_shown_of_a_source_that_is_new(shell: Shell) -> None:
    for verb in ("sources", "plan"):
        head, first, *_ = (await shell(verb))[1].splitlines()
        assert "items/day" in head
        assert "learning" in first.split(), first


async def test_a_rule_with_one_source_stands_for_it(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "one.profile"
    file.write_text("WATCH 'https://one.example/' AS mine;", encoding="utf-8")
    assert (await shell("profile", "declare", str(file)))[0] == 0
    for verb in ("explain", "items", "probes"):
        for name in ("mine", "https://one.example/"):
            assert await shell(verb, name) == await shell(verb, "one.example")
        code, _, err = await shell(verb, "https://two.example/")
        assert (code, "no source 'https://two.example/'" in err) == (1, True), err
    assert await shell("items", "--unread", "mine") == (0, "no such item\n", "")
    code, _, err = await shell("items", "--unread", "min")
    assert (code, "no source 'min'" in err) == (1, True), err


def test_a_folder_without_profiles_is_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "no file there ends with .profile"


async def test_tokens_are_made_listed_and_dropped(shell: Shell) -> None:
    code, out, _ = await shell("token", "create", "--name", "reader", "--scope", "read", "--expires", "1d")
    assert (code, out.startswith("pxd_")) == (0, True)
    made = await shell.json("token", "create", "--name", "second", "--scope", "write")
    assert made.keys() == {"name", "scope", "token"}
    code, out, _ = await shell("token", "list")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["name", "scope", "reads", "person", "created", "expires", "id"]
    assert [row[:3] for row in rows if row[0] in {"reader", "second"}] == [
        ["reader", "read", "all"],
        ["second", "write", "all"],
    ]
    assert "never" in out
    assert made["token"] not in json.dumps(await shell.json("token", "list"))
    assert await shell("token", "drop", "reader") == (0, "token reader is revoked\n", "")
    code, _, err = await shell("token", "drop", "reader")
    assert (code, "'reader'" in err) == (1, True)


async def test_what_was_given_up_is_listed_and_sent_again(shell: Shell) -> None:
    assert await shell("webhook", "dead") == (0, "no delivery was given up\n", "")
    await shell.running.give_up("n1", error="status 500")
    code, out, _ = await shell("webhook", "dead")
    assert (code, "status 500" in out, "`proxyd webhook replay --dead`" in out) == (0, True, True)
    assert [each["notification"] for each in await shell.json("webhook", "dead")] == ["n1"]
    assert await shell("webhook", "replay", "--dead") == (0, "deliveries that are sent again: 1\n", "")
    assert await shell.json("webhook", "dead") == []


async def test_a_script_waits_for_what_was_told_since_a_time(shell: Shell) -> None:
    await shell.running.tell(told("n1", at_s=T0 + 1.0), told("n2", at_s=T0 + 2.0), told("n3", at_s=T0 + 3.0))
    waiting = ["wait", "r", "--timeout", "60s", "--json", "--since"]
    assert json.loads((await shell(*waiting, iso_time(T0 + 2.0)))[1])["data"]["id"] == "n2"
    assert (await shell("wait", "r", "--timeout", "1ms", "--since", iso_time(T0 + 9.0)))[0] == 124
    code, _, err = await shell("wait", "r", "--since", "yesterday")
    assert (code, "since is not a valid time" in err) == (1, True)


async def test_a_token_of_a_profile_waits_for_the_rules_of_that(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'CREATE PROFILE "Q" AS (DOMAIN "D", USER "u");' + rule("q").replace('"P"', '"Q"')
    await shell.running.control.declarations.declare(text)
    token, shown = new_token("bound", "read", now_s=T0, expires_in_s=None, profiles=["Q"])
    await shell.running.control.queries.access.add_token(token)
    monkeypatch.setenv("PROXYD_TOKEN", shown)
    await shell.running.tell(told("n1"), told("n2", rule_name="q", profiles=["Q"]))
    waiting = ["--timeout", "60s", "--json", "--since", iso_time(T0)]
    assert json.loads((await shell("wait", "q", *waiting))[1])["data"]["id"] == "n2"
    code, out, err = await shell("wait", "r", *waiting)
    assert (code, out, "there is no rule 'r'" in err) == (1, "", True)


async def test_tests_of_deliveries_fail_with_their_receivers(shell: Shell) -> None:
    code, out, _ = await shell("webhook", "test", "r")
    assert (code, out) == (1, "https://r.example/hook: status 500\n")
    code, out, _ = await shell("webhook", "test", "r", "--json")
    assert (code, json.loads(out)) == (
        1,
        [{"endpoint": "https://r.example/hook", "error": "status 500", "answer": None}],
    )


async def test_receivers_are_listed_without_tokens_and_tested(shell: Shell) -> None:
    assert (await shell("receiver", "list"))[1].startswith("no receiver has a name")
    text = "CREATE RECEIVER \"on call\" AS CHANNEL 'ntfy://hunter2', LOG 'calls';"
    await shell.running.control.declarations.declare(text)
    code, out, _ = await shell("receiver", "list")
    assert (code, "hunter2" in out) == (0, False)
    assert "CREATE RECEIVER \"on call\" AS CHANNEL 'ntfy://[hidden 1]', LOG 'calls';" in out
    code, out, _ = await shell("receiver", "test", "on call")
    assert (code, out) == (1, "receiver on call, channel: status 500\nreceiver on call, log: status 500\n")
    code, _, err = await shell("receiver", "test", "oncall")
    assert (code, err) == (1, "proxyd: there is no receiver 'oncall'. Did you mean on call?\n")


async def test_a_watch_that_is_added_tells_a_receiver_by_its_name(shell: Shell, tmp_path: Path) -> None:
    await shell.running.control.declarations.declare("CREATE RECEIVER \"on call\" AS LOG 'calls';")
    adding = ["add", "https://site.example", "--site", "--to"]
    code, out, err = await shell(*adding, "on call")
    assert (code, err, 'TELL "on call"' in out) == (0, "", True)
    (delivery,) = shell.running.control.declarations.declaration.rules["site.example"].deliveries
    assert (delivery.endpoint, delivery.receiver) == ("log:calls", "on call")
    code, _, err = await shell(*adding, "on")
    assert (code, "there is no receiver 'on'" in err) == (1, True)


async def test_a_reload_says_whether_it_was_done(shell: Shell) -> None:
    def said(out: str) -> str:
        return out.splitlines()[-1]  # the daemon logs to the same place

    code, out, _ = await shell("reload")
    assert (code, said(out)) == (0, "reloaded")
    (shell.running.folder / "b.profile").write_text("CREATE NOTHING;")
    code, out, _ = await shell("reload")
    assert code == 1
    assert re.search(
        r"the profiles have errors: \S*b\.profile:1:8: expected .*; nothing was changed .*`proxyd check`", out
    )
    code, out, _ = await shell("reload", "--json")
    assert (code, json.loads(out[out.rindex("{") :])) == (1, {"reloaded": False})


async def test_a_daemon_that_is_not_ready_is_told(shell: Shell) -> None:
    code, out, _ = await shell("healthcheck")
    found = json.loads((await shell("healthcheck", "--json"))[1])
    failed = [name for name, holds in found["checks"].items() if not holds]
    assert code == (0 if found["ready"] else 1)
    assert all(name in out for name in failed)


async def test_a_source_without_probes_says_where_to_look(shell: Shell) -> None:
    code, out, _ = await shell("probes", "s")
    assert (code, "`proxyd explain`" in out) == (0, True)


async def test_a_daemon_elsewhere_needs_a_token_that_it_knows(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXYD_TOKEN", "wrong")
    code, out, err = await shell("plan")
    assert (code, out) == (1, "")
    assert "`proxyd token create`" in err
    reader = (await shell.running.token("read"))["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("PROXYD_TOKEN", reader)
    code, _, err = await shell("token", "list")
    assert (code, "scope admin; yours is read" in err) == (1, True)
    monkeypatch.delenv("PROXYD_TOKEN")
    code, _, err = await shell("plan")
    assert (code, "PROXYD_TOKEN" in err) == (1, True)
    token_file = shell.running.folder / "token"
    token_file.write_text(reader + "\n")
    monkeypatch.setenv("PROXYD_TOKEN_FILE", str(token_file))
    assert (await shell("plan"))[0] == 0
    monkeypatch.setenv("PROXYD_TOKEN_FILE", str(token_file / "no"))
    assert (await shell("plan"))[0] == 1


def evil(value: Any, big: str, key: str = "") -> Any:
    """Return an answer with every text in it made hostile, but for times."""
    if isinstance(value, dict):
        return {name: evil(each, big, name) for name, each in value.items()}
    if isinstance(value, list):
        return [evil(each, big, key) for each in value]
    if isinstance(value, str) and key not in KEPT:
        return EVIL + value + big
    return value


async def answers(running: Running) -> Mapping[str, Any]:
    """Return what the API answers to each path that verbs ask for."""
    await running.tell(told("n1", items=[{"title": "first"}]))
    headers = await running.token("read")
    found: dict[str, Any] = {}
    paths = ("sources", "plan", "explain/s", "notifications", "notifications/n1", "rules", "profiles", "webhooks")
    for path in paths:
        async with running.client.get(f"/api/v1/{path}", headers=headers) as answer:
            found[f"/api/v1/{path}"] = await answer.json()
    for source in found["/api/v1/sources"]["items"]:
        source |= {"failures": 2, "last_outcome": "timeout", "last_detail": "slow"}
    probe = {"position": 1, "started": "2026-01-31T12:00:00Z", "duration_s": 1.0, "reason": "detection", "rule": "r",
             "outcome": "changed", "status": 200, "detail": "fine", "items": 1, "delay_s": 2.0}  # fmt: skip
    found["/api/v1/sources/s/probes"] = {"items": [probe], "next_cursor": None}
    event = {"position": 1, "kind": "update", "id": "a", "first": False, "old": False, "title": "A", "link": "https://a.example/",
             "values": {}, "changes": {"price": {"from": 30, "to": 25}}, "came": None, "seen": "2026-01-31T12:00:00Z",
             "delay_s": None}  # fmt: skip
    found["/api/v1/sources/s/items"] = {"items": [event], "next_cursor": None}
    found["/readyz"] = {"ready": True, "checks": {"store": True}}
    return found


HOSTILE = [
    ["notifications"], ["notifications", "show", "n1"], ["sources"], ["sources", "--failing"], ["plan"],
    ["explain", "s"], ["probes", "s"], ["items", "s"], ["rules"], ["profile", "list"], ["webhook", "list"],
    ["top", "--once"],
]  # fmt: skip


@pytest.mark.parametrize("big", ["", pytest.param("x" * 1_000_000, id="a megabyte", marks=pytest.mark.long)])
async def test_hostile_texts_are_made_visible(shell: Shell, big: str) -> None:
    bodies = {path: json.dumps(evil(each, big)).encode() for path, each in (await answers(shell.running)).items()}
    bodies["/metrics"] = b"proxyd_completeness_ratio 0.5\n"

    with answering(lambda path: Canned(bodies[path.partition("?")[0]])) as base:
        hostile = Shell(shell.running, base, shell.capsys)
        for verb in HOSTILE:
            code, out, err = await hostile(*verb)
            assert (code, err) == (0, ""), verb
            hidden = {char for char in out if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
            assert hidden == {"\n"}, verb
            assert "⟨U+001B⟩[2J⟨U+202E⟩⟨U+0000⟩" in out, verb
            assert len(out) < 60_000, verb
            if verb[0] != "top":
                assert json.loads((await hostile(*verb, "--json"))[1]) is not None


async def test_hostile_refusals_are_made_visible(shell: Shell) -> None:
    problem = json.dumps({"title": EVIL, "detail": EVIL + "no"}).encode()
    with answering(lambda _: Canned(problem, 404)) as base:
        code, out, err = await Shell(shell.running, base, shell.capsys)("plan")
    assert (code, out) == (1, "")
    assert "\x1b" not in err
    assert "⟨U+001B⟩" in err


def test_what_check_finds_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.profile", tmp_path / "bad.profile"
    good.write_text('CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String);\n')
    bad.write_text("CREATE DOMAIN\n  NOTHING;\n")
    assert main(["check", str(good), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "errors": [],
        "warnings": [],
        "restarting": [],
        "counters": {},
        "meanings": {},
        "files": 1,
        "profiles": 0,
        "rules": 0,
        "sources": 0,
    }
    assert main(["check", str(bad), "--json"]) == 1
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["file"], error["line"], error["column"]) == (str(bad), 2, 10)
    assert error["detail"]


async def test_top_goes_on_where_a_daemon_comes_back(shell: Shell) -> None:
    state = {"up": True}
    bodies: dict[str, bytes] = {p: json.dumps(each).encode() for p, each in (await answers(shell.running)).items()}
    bodies["/metrics"] = b"proxyd_completeness_ratio 0.5\n"
    busy = Canned(b'{"title": "Busy", "detail": "starting"}', 503, {"Retry-After": "5"})

    def answer(path: str) -> Canned:
        return Canned(bodies[path.partition("?")[0]]) if state["up"] else busy

    with answering(answer) as base:
        async with Client.over_http(base, "t") as client:
            view = TopView(client, "here", FakeClock(T0))
            await view.refresh()
            before = view.seen
            await view.retry()  # nothing is due yet
            assert view.seen is before
            view._due.clear()
            state["up"] = False
            await view.retry()
            assert view.seen.trouble == "starting\ntry again in 5 s"
            assert view.seen.plan == before.plan
            state["up"] = True
            view._due.clear()
            await view.retry()
            assert view.seen == before


class Drawn:
    """A terminal that keeps what is drawn on it."""

    def __init__(self) -> None:
        self.console, self.frames = Console(width=100, height=30, file=io.StringIO()), list[Any]()

    def update(self, drawn: Any, *, refresh: bool) -> None:
        assert refresh
        self.frames.append(drawn)


async def test_top_draws_what_each_key_asks_for_until_one_ends_it(shell: Shell) -> None:
    bodies = {path: json.dumps(each).encode() for path, each in (await answers(shell.running)).items()}
    bodies["/metrics"] = b"proxyd_completeness_ratio 0.5\n"
    with answering(lambda path: Canned(bodies[path.partition("?")[0]])) as base:
        async with Client.over_http(base, "t") as client:
            view, keys, live = TopView(client, "here", FakeClock(T0)), asyncio.Queue[str](), Drawn()
            for key in ("s", "/", "r", "\r", "q"):
                keys.put_nowait(key)
            await _show_live(view, keys, live)  # type: ignore[arg-type]
    assert (view.state.screen, view.state.text, view.state.is_typing) == ("sources", "r", False)
    assert len(live.frames) >= 5


async def test_keys_come_from_the_terminal_whose_settings_are_put_back() -> None:
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    with _queue_keys(theirs) as keys:
        os.write(ours, b"\x1b[Bq")
        assert [await keys.get(), await keys.get()] == ["\x1b[B", "q"]
    assert termios.tcgetattr(theirs) == before
    with _queue_keys(theirs) as keys:
        os.write(ours, "ü".encode())
        assert await keys.get() == "ü"
    os.close(ours)
    os.close(theirs)


async def test_a_source_is_paused_and_resumed(shell: Shell) -> None:
    assert await shell("pause", "s") == (0, "source s is paused: it is not probed until it is resumed\n", "")
    code, out, _ = await shell("pause", "s")
    assert (code, out.startswith("source s was already paused, since 2001-")) == (0, True)
    lines = (await shell("explain", "s"))[1].splitlines()
    (coming,) = (line for line in lines if line.startswith("next probe: "))
    assert coming.startswith("next probe: none; it is paused since 2001-")
    assert coming.endswith("by token admin None, and `proxyd resume` has it probed again")
    (row,) = (line for line in (await shell("sources"))[1].splitlines() if line.startswith("s "))
    assert "it is paused" in row
    assert (await shell.json("resume", "s"))["said"] == "source s is probed again"
    assert await shell("resume", "s") == (0, "source s is not paused\n", "")
    code, _, err = await shell("pause", "a/bc")
    assert (code, err) == (1, "proxyd: there is no source 'a/bc'. Did you mean a/b c?\n")


async def test_rules_that_fail_are_listed_and_resumed(shell: Shell) -> None:
    control = shell.running.control
    failing, declared = control.decider.known.failing, control.declarations.declaration.rules["r"]
    failing.count([(declared, [RuleFailure("r", "s", "it takes too long")])], T0)
    assert (await shell("rules"))[1].splitlines()[1].endswith("1 in a row: it takes too long (source s)")
    for _ in range(4):
        failing.count([(declared, [RuleFailure("r", "s", "it takes too long")])], T0)
    assert (await shell("rules"))[1].splitlines()[1].endswith("suspended: it takes too long (source s)")
    (listed,) = await shell.json("rules")
    assert (listed["failing"]["failures"], listed["failing"]["suspended"]) == (5, "2001-09-09T01:46:40.000Z")
    said = "rule r is evaluated again, on what its sources show from now on\n"
    assert await shell("resume", "r") == (0, said, "")
    assert await shell("resume", "r", "--rule") == (0, "rule r is not suspended\n", "")
    assert (await shell("resume", "r", "--source"))[0] == 1


async def test_a_rule_and_a_profile_are_muted_and_unmuted(shell: Shell) -> None:
    assert (await shell("mute", "r", "--for", "8h"))[1].startswith("rule r is muted until 2001-09-09 09:46:40 UTC; ")
    assert (await shell("mute", "P"))[1].startswith("profile P is muted until it is unmuted; ")
    assert (await shell("rules"))[1].splitlines()[1].endswith("until unmuted (profile P)")
    assert (await shell("profile", "list"))[1].splitlines()[1].endswith("until unmuted")
    await shell.running.tell(told("n1"))
    listed = await shell.json("notifications")
    assert [each["muted"] for each in listed] == [True]
    assert "  muted  " in (await shell("notifications"))[1]
    assert "made while its rule was muted" in (await shell("notifications", "show", "n1"))[1]
    assert (await shell("unmute", "P", "--profile"))[0] == 0
    made = await shell.json("unmute", "r", "--rule", "--drop")
    assert (made["changed"], made["notifications"], made["suspension"]) == (True, 0, None)
    assert await shell("unmute", "r") == (0, "rule r is not muted\n", "")
    code, _, err = await shell("mute", "r", "--until", "2001-01-01T00:00Z")
    assert (code, err) == (1, "proxyd: 2001-01-01T00:00:00.000Z has passed; give a later time\n")
    assert "until 2031-01-01 00:00:00 UTC" in (await shell("mute", "r", "--until", "2031-01-01T00:00Z"))[1]
    code, _, err = await shell("mute", "qq")
    assert (code, err.startswith("proxyd: there is no rule or profile 'qq'")) == (1, True)


@pytest.mark.parametrize("wrong", [["--for", "soon"], ["--until", "07:00", "--for", "1h"]])
async def test_a_time_that_is_none_is_refused_before_anything_is_asked(
    shell: Shell, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        await shell("mute", "r", *wrong)
    assert "error: argument --" in capsys.readouterr().err


async def test_a_rule_is_muted_for_a_night_as_the_how_to_says(shell: Shell, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to.md").read_text(encoding="utf-8")
    section = text.split("\n## Mute a rule for a night\n")[1].split("\n## ")[0]
    (command,) = re.findall(r"^```sh\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
    program, *arguments = command.split()
    (tmp_path / "new.profile").write_text(rule(arguments[1]), encoding="utf-8")
    assert (await shell("profile", "declare", str(tmp_path / "new.profile")))[0] == 0
    code, out, _ = await shell(*arguments)
    assert (program, code, out.startswith("rule headlines is muted until ")) == ("proxyd", 0, True)
    (muted,) = shell.running.control.queries.suspensions.all()
    assert muted.until_s == datetime(2001, 9, 9, 7, tzinfo=UTC).timestamp()  # the daemon's next, not the caller's
    assert with_local_times(f"until {iso_time(muted.until_s)}", UTC) in (await shell("rules"))[1]
