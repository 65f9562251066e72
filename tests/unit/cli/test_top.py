"""The screens of `proxyd top`: from data and keys to what is drawn, without a terminal."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from rich.console import Console

from proxyd.cli.top import TopPart
from proxyd.cli.top_screens import Look, Screen, Seen, after, clock_time, frame, health_lines, keys_in
from proxyd.client.types import ComingProbe, NotificationListed, SourceListed
from proxyd.metrics import Metrics, Samples

EVIL = "\x1b[2J\u202e\x00\r\n\u2028[bold]"
NOW = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)


def listed(name: str, **changes: Any) -> Any:
    probe = ComingProbe(source=name, at="2026-01-31T12:00:00.000Z", reason="detection", rule=None, rate_per_day=1.0)
    return {
        "source": name,
        "failures": 0,
        "last_outcome": "not_modified",
        "last_detail": "",
        "last_probe": "2026-01-31T11:30:00.000Z",
        "rate_per_day": 4.0,
        "silent": [],
        "next_probe": probe,
        "blocked_by": None,
    } | changes


def seen(**changes: Any) -> Seen:
    failing = listed("bad", failures=3, last_outcome="timeout", last_detail="slow")
    news: Any = {"created": "2026-01-31T11:00:00.000Z", "rule": "stable", "source": "python",
                 "body": {"data": {"items": [{"title": "3.14"}]}}}  # fmt: skip
    coming = listed("python")["next_probe"]
    whole = Seen("here", {"ready": True, "checks": {"store": True}}, Samples({}, {}), NOW, [coming], [failing], [news])
    return replace(whole, **changes)


def drawn(what: Seen, look: Look | None = None, width: int = 120, height: int = 46) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(frame(what, look, height=height)[0])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def typed(*keys: str, rows: tuple[str, ...] = ("a", "b", "c"), look: Look | None = None) -> Look:
    """Return what is shown after some keys."""
    look = look or Look()
    for key in keys:
        changed = after(look, key, rows)
        assert changed is not None
        look = changed
    return look


def test_a_frame_has_health_probes_failures_and_news() -> None:
    text = drawn(seen())
    for word in ("ready", "completeness", "python", "detection", "bad", "timeout slow", "stable", "3.14"):
        assert word in text
    assert "not ready" not in text
    assert "q quit" not in text


@pytest.mark.parametrize(("environ", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_left_out_where_they_are_not_wanted(environ: dict[str, str], is_coloured: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", _environ=environ)
    console.print(frame(seen())[0])
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


def test_lists_fit_the_screen_and_rows_stay_on_their_line() -> None:
    probe = seen().plan[0]
    many = [ComingProbe(**{**probe, "source": f"source-{number:03} " + "x" * 300}) for number in range(50)]
    text = drawn(seen(plan=many), Look(), width=80, height=28)
    assert [f"source-{number:03}" in text for number in range(6)] == [True] * 4 + [False] * 2
    assert all(len(line) <= 80 for line in text.splitlines())
    assert len(text.splitlines()) <= 28


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
        listed=[listed(EVIL, last_detail=EVIL * 200_000, failures=1)],
        explained={"source": EVIL, "summary": [EVIL, EVIL * 200_000]},
        items=[opened_item(title=EVIL * 200_000)],
    )
    for look in (None, Look(), Look(Screen.SOURCES, text=EVIL), Look(Screen.SOURCE, source=EVIL)):
        text = drawn(hostile, look, width=1000)
        assert {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl"}} == {"\n"}
        assert "⟨U+001B⟩[2J⟨U+202E⟩⟨U+0000⟩" in text
        assert "[bold]" in text
        assert len(text) < 20_000


def test_what_takes_the_daemon_long_is_asked_for_seldom() -> None:
    async def ask(_: Look) -> None: ...

    part = TopPart(ask)
    assert part.again(100.0, took_s=0.001).due_s == 102.0
    assert part.again(100.0, took_s=1.0).due_s == 120.0


def test_only_what_is_shown_is_asked_for_and_at_once_where_it_changed() -> None:
    async def ask(_: Look) -> None: ...

    part = TopPart(ask, frozenset({Screen.SOURCES}), lambda look: look.text).again(100.0, took_s=1.0, asked="a")
    assert not part.is_due(Look(Screen.SOURCES, text="a"), 110.0)
    assert part.is_due(Look(Screen.SOURCES, text="ab"), 110.0)
    assert part.is_due(Look(Screen.SOURCES, text="a"), 121.0)
    assert not part.is_due(Look(text="ab"), 121.0)


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-01-31T12:00:00.000Z", "17:30:00"),
        ("2026-01-31T19:00:00.000Z", "1 Feb"),  # past midnight there
        ("2025-12-31T12:00:00.000Z", "Dec 2025"),
    ],
)
def test_times_are_those_of_the_clocks_here(time: str, shown: str) -> None:
    assert clock_time(time, NOW.astimezone(timezone(timedelta(hours=5.5)))) == shown


# -- keys


def test_keys_are_told_apart_however_they_arrive() -> None:
    assert keys_in("\x1b[A\x1bOBq\x1b") == ["\x1b[A", "\x1bOB", "q", "\x1b"]
    assert keys_in("\x1b[15~é") == ["\x1b[15~", "é"]


def test_a_row_is_marked_and_its_source_opened() -> None:
    look = typed("\x1b[B", "j", "\r")
    assert (look.screen, look.source, look.before) == (Screen.SOURCE, "c", Screen.STATE)
    assert typed("\x1b", look=look).screen is Screen.STATE
    assert typed("\x1b[B", "\x1b[B", "\x1b[B", "\x1b[B", "k", "\r").source == "b"
    assert typed("k", "\n").source == "a"
    assert typed("\r", "j", rows=()) == Look()


def test_marks_follow_the_lists_of_the_screen() -> None:
    what = seen(listed=[listed(f"s{number}") for number in range(100)])
    assert frame(what, Look())[1] == ["python", "bad", "python"]
    rows = frame(what, Look(Screen.SOURCES, marked=60), height=25)[1]
    assert rows[60] == "s60"
    assert "s60 " in drawn(what, Look(Screen.SOURCES, marked=60), height=25)
    assert "s0 " not in drawn(what, Look(Screen.SOURCES, marked=60), height=25)


def test_a_text_is_typed_and_keeps_keys_that_mean_something_elsewhere() -> None:
    look = typed("/", "q", "s", "x", "\x7f", "\x1b[A", "\x00")
    assert (look.screen, look.text, look.is_typing) == (Screen.SOURCES, "qs", True)
    assert "sources with qs▏ in name or address, by name" in drawn(seen(), look)
    assert typed("\r", look=look).is_typing is False
    assert typed("\x1b", look=look) == Look(Screen.SOURCES)
    assert typed("\r", "\x1b", look=look) == Look()
    assert len(typed("/", *"x" * 500).text) == 100


def test_sources_are_ordered_by_one_key() -> None:
    look = typed("s")
    orders = [look.order, *((look := typed("s", look=look)).order for _ in range(4))]
    assert orders == ["name", "newest", "probed", "items", "name"]


@pytest.mark.parametrize("key", ["q", "Q"])
def test_a_key_ends_it(key: str) -> None:
    assert after(Look(), key, []) is None
    assert after(Look(Screen.SOURCE), key, []) is None


def opened_item(**changes: Any) -> Any:
    return {"seen": "2026-01-31T11:30:00.000Z", "kind": "insert", "first": False, "id": "1", "title": "3.14",
            "changes": {}} | changes  # fmt: skip


def test_an_opened_source_shows_its_items_and_why_it_is_probed() -> None:
    look = Look(Screen.SOURCE, source="python")
    assert "asking the daemon" in drawn(seen(), look)
    explained: Any = {"source": "python", "summary": ["python  https://p.example/", "next probe: soon, because"]}
    text = drawn(seen(explained=explained, items=[opened_item()]), look, width=80)
    assert text.index("11:30:00  new  3.14") < text.index("next probe: soon, because")
    assert "Esc back" in text
