"""The frames of `proxyd top`: from data to what is drawn, without a terminal."""

from __future__ import annotations

import io
import time
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from proxyd.cli.top import Seen, TopPart, clock_time, frame, health_lines
from proxyd.client.types import ComingProbe, NotificationListed, SourceListed
from proxyd.metrics import Metrics, Samples

EVIL = "\x1b[2J\u202e\x00\r\n\u2028[bold]"


def seen(**changes: Any) -> Seen:
    probe = ComingProbe(source="python", at="2026-01-31T12:00:00.000Z", reason="detection", rule=None, rate_per_day=1.0)
    failing: Any = {
        "source": "bad",
        "failures": 3,
        "last_outcome": "timeout",
        "last_detail": "slow",
        "silent": [],
        "next_probe": probe,
    }
    news: Any = {"created": "2026-01-31T11:00:00.000Z", "rule": "stable", "source": "python",
                 "body": {"data": {"items": [{"title": "3.14"}]}}}  # fmt: skip
    whole = Seen("here", {"ready": True, "checks": {"store": True}}, Samples({}, {}), [probe], [failing], [news])
    return replace(whole, **changes)


def drawn(what: Seen, width: int = 120, most: int = 10) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(frame(what, most=most))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_frame_has_health_probes_failures_and_news() -> None:
    text = drawn(seen())
    for word in ("ready", "completeness", "python", "detection", "bad", "timeout slow", "stable", "3.14"):
        assert word in text
    assert "not ready" not in text


@pytest.mark.parametrize(("environ", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_left_out_where_they_are_not_wanted(environ: dict[str, str], is_coloured: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", _environ=environ)
    console.print(frame(seen()))
    assert isinstance(console.file, io.StringIO)
    assert ("\x1b[32m" in console.file.getvalue()) == is_coloured


def test_what_is_not_there_is_said() -> None:
    text = drawn(seen(plan=(), failing=(), news=()))
    for line in ("no coming probes", "no failing or silent sources", "no newest notifications"):
        assert line in text


def test_a_daemon_that_is_not_ready_or_gone_is_seen() -> None:
    unready = seen(ready={"ready": False, "checks": {"store": True, "plan": False}}, trouble="no daemon answers")
    assert "not ready: plan  no daemon answers" in drawn(unready)


def test_figures_come_from_the_daemons_own_metrics() -> None:
    metrics = Metrics()
    metrics.completeness.set(0.875)
    metrics.utility.set(float("nan"))
    metrics.budget_used.set(0.5)
    metrics.outbox_depth.set(1234)
    for delay_s in (50.0, 50.0, 100.0, 1e9):
        metrics.item_delay.observe(delay_s)
    first, seen_after, delivered, last = health_lines(Samples.read(metrics.render().decode()))
    assert first == "completeness 87.5%   utility -   budget used 50.0%"
    assert seen_after == "published to seen       50% 1 min   90% -   99% -   of 4"
    assert delivered == "published to delivered  nothing yet"
    assert "outbox: 1,234 waiting, 0 held, 0 given up" in last


def test_beside_a_notifier_elsewhere_it_is_said_who_counts_deliveries() -> None:
    metrics, said = Metrics(), []
    for roles in (("planner",), ("planner", "prober", "notifier"), ()):  # the last one has just begun, or ends
        metrics.take_roles(*roles)
        said.append(health_lines(Samples.read(metrics.render().decode()))[2])
    nothing = "published to delivered  nothing yet"
    assert said == ["published to delivered  the notifier counts them: see /metrics of its machine", nothing, nothing]


def test_lists_are_no_longer_than_asked_and_rows_stay_on_their_line() -> None:
    probe = seen().plan[0]
    many = [ComingProbe(**{**probe, "source": f"source-{number:03} " + "x" * 300}) for number in range(50)]
    text = drawn(seen(plan=many), width=80, most=4)
    assert [f"source-{number:03}" in text for number in range(6)] == [True] * 4 + [False] * 2
    assert all(len(line) <= 80 for line in text.splitlines())


def test_hostile_names_titles_and_details_are_made_visible() -> None:
    what = seen()
    probe, failing, news = dict(what.plan[0]), dict(what.failing[0]), dict(what.news[0])
    hostile = seen(
        where=EVIL,
        ready={"ready": False, "checks": {EVIL: False}},
        trouble=EVIL,
        plan=[ComingProbe(**{**probe, "source": EVIL * 200_000, "reason": EVIL, "rule": EVIL})],  # type: ignore[typeddict-item]
        failing=[SourceListed(**{**failing, "source": EVIL, "last_detail": EVIL * 200_000})],  # type: ignore[typeddict-item]
        news=[NotificationListed(**{**news, "rule": EVIL, "body": {"data": {"items": [{"t": EVIL * 200_000}]}}})],  # type: ignore[typeddict-item]
    )
    text = drawn(hostile, width=1000)
    assert {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl"}} == {"\n"}
    assert "⟨U+001B⟩[2J⟨U+202E⟩⟨U+0000⟩" in text
    assert "[bold]" in text
    assert len(text) < 20_000


def test_what_takes_the_daemon_long_is_asked_for_seldom() -> None:
    async def ask() -> None: ...

    part = TopPart("plan", ask)
    assert part.again(100.0, took_s=0.001).due_s == 102.0
    assert part.again(100.0, took_s=1.0).due_s == 120.0


def test_times_are_those_of_the_clocks_here_and_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert clock_time("2026-01-31T12:00:00.000Z") == "17:30:00"
    finally:
        monkeypatch.undo()
        time.tzset()
