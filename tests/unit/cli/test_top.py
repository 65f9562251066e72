"""The screens of `proxyd top`: from data and keys to what is drawn, without a terminal."""

from __future__ import annotations

import io
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain
from typing import Any, get_args

import pytest
from rich.console import Console

from proxyd.api import wire
from proxyd.base.metrics import ROLES, Metrics, Samples
from proxyd.cli.top import TopView, keys_in
from proxyd.cli.top_screens import ORDERS, Seen, TopRow, TopState, after, clock_time, frame, health_lines
from proxyd.client.client import SourceOrder
from proxyd.client.types import ComingProbe, NotificationListed, SourceListed
from tests.fakes import FakeClock

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
        "learning": False,
        "rate_per_day": 4.0,
        "silent": [],
        "next_probe": probe,
        "blocked_by": None,
    } | changes


def seen(**changes: Any) -> Seen:
    failing = listed("bad", failures=3, last_outcome="timeout", last_detail="slow")
    news: Any = {"id": "n1", "created": "2026-01-31T11:00:00.000Z", "rule": "stable", "source": "python",
                 "body": {"data": {"items": [{"title": "3.14"}]}}}  # fmt: skip
    coming = listed("python")["next_probe"]
    whole = Seen("here", NOW, {"ready": True, "checks": {"store": True}}, Samples({}, {}), [coming], [failing], [news])
    return replace(whole, **changes)


def drawn(what: Seen, state: TopState | None = None, width: int = 120, height: int = 46) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(frame(what, state, height=height, width=width)[0])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


ROWS = [TopRow(f"row {name}", name) for name in "abc"]


def typed(*keys: str, rows: Sequence[TopRow] = ROWS, state: TopState | None = None) -> TopState:
    """Return the state after some keys."""
    state = state or TopState()
    for key in keys:
        changed = after(state, key, rows)
        assert changed is not None
        state = changed
    return state


def test_a_frame_has_health_probes_failures_and_news() -> None:
    text = drawn(seen())
    for word in ("ready", "in time", "python", "detection", "bad", "timeout slow", "stable", "3.14"):
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
    metrics.take_roles(*ROLES)
    metrics.completeness.set(0.875)
    metrics.utility.set(float("nan"))
    metrics.budget_used.set(0.5)
    metrics.outbox_depth.set(1234)
    for delay_s in (50.0, 50.0, 100.0, 1e9):
        metrics.item_delay.observe(delay_s)
    first, seen_after, delivered, last = health_lines(Samples.read(metrics.render().decode()))
    assert first == "in time 87.5%   budget used 50.0%"
    assert seen_after == "published to seen       50% 1 min   90% -   99% -   of 4"
    assert delivered == "published to delivered  nothing yet"
    assert "outbox: 1,234 waiting, 0 held, 0 failed for good" in last


def test_beside_a_notifier_elsewhere_it_is_said_who_counts_deliveries() -> None:
    metrics, said = Metrics(), []
    for roles in (("planner",), ("planner", "prober", "notifier"), ()):  # the last one has just begun, or ends
        metrics.take_roles(*roles)
        said.append(health_lines(Samples.read(metrics.render().decode()))[2])
    nothing = "published to delivered  nothing yet"
    assert said == ["published to delivered  the notifier counts them: see /metrics of its machine", nothing, nothing]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [20, 24, 40])
def test_every_screen_fits_the_window_and_rows_stay_on_their_line(width: int, height: int) -> None:
    probe = seen().plan[0]
    many = [ComingProbe(**{**probe, "source": f"source-{number:03} " + "x" * 300}) for number in range(50)]
    what = seen(
        plan=many,
        failing=[listed(f"bad-{number}", failures=1) for number in range(50)],
        news=list(seen().news) * 50,
        listed=(("x" * 100, "name"), [listed(f"s{number}") for number in range(100)]),
        opened=opened(summary=["python", *("because of this and that " * 20 for _ in range(30))], items=30),
        trouble="the daemon does not answer " * 20,
    )
    for state in (TopState(), TopState("sources", text="x" * 100), TopState("source", source="python")):
        lines = drawn(what, state, width=width, height=height).splitlines()
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)
        assert width < 80 or "q quit" in lines[-1]


def test_as_many_rows_are_shown_as_fit() -> None:
    probe = seen().plan[0]
    many = [ComingProbe(**{**probe, "source": f"source-{number:03}"}) for number in range(50)]
    text = drawn(seen(plan=many), TopState(), height=28)  # the other lists have one row each
    assert [f"source-{number:03}" in text for number in range(12)] == [True] * 10 + [False] * 2


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
        listed=((EVIL, "name"), [listed(EVIL, last_detail=EVIL * 200_000, failures=1)]),
        opened=opened(EVIL, [EVIL, EVIL * 200_000], EVIL * 200_000),
    )
    for state in (None, TopState(), TopState("sources", text=EVIL), TopState("source", source=EVIL)):
        text = drawn(hostile, state, width=1000)
        assert {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl"}} == {"\n"}
        assert "⟨U+001B⟩[2J⟨U+202E⟩⟨U+0000⟩" in text
        assert "[bold]" in text
        assert len(text) < 20_000


class SlowDaemon:
    """Answers each query after a second, and notes it."""

    def __init__(self, clock: FakeClock) -> None:
        self.asked: list[str] = []
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        async def answer(*_: object, **__: object) -> Any:
            self.asked.append(name)
            await self._clock.advance(1.0)
            return {"metrics": "", "ready": {"ready": True, "checks": {}}}.get(name, [])

        return answer


async def test_what_takes_the_daemon_long_is_asked_for_seldom_and_at_once_if_something_else_is_wanted() -> None:
    clock = FakeClock()
    daemon: Any = SlowDaemon(clock)
    view = TopView(daemon, "here", clock)
    view.state = TopState("sources", text="a")
    await view.refresh()
    assert daemon.asked == ["ready", "sources"]
    await clock.advance(18.5)  # an answer that took 1 s is good for 20 s
    await view.refresh()
    assert daemon.asked == ["ready", "sources"]
    view.state = TopState("sources", text="ab")
    await view.refresh()
    assert daemon.asked[2:] == ["sources"]
    await clock.advance(20.0)
    await view.refresh()
    assert daemon.asked[3:] == ["ready", "sources"]
    view.state = TopState("source", source="x")
    await view.refresh()
    assert daemon.asked[5:] == ["explain", "items"]


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-01-31T12:00:00.000Z", "17:30:00"),
        ("2026-01-31T19:00:00.000Z", "00:30:00"),  # past midnight there
        ("2026-02-01T12:00:00.000Z", "1 Feb"),
        ("2025-12-31T12:00:00.000Z", "Dec 2025"),
    ],
)
def test_times_are_those_of_the_clocks_here_and_dates_where_they_are_far_away(time: str, shown: str) -> None:
    assert clock_time(time, NOW.astimezone(timezone(timedelta(hours=5.5)))) == shown


# -- keys


def keys_of(*parts: bytes) -> list[str]:
    """Return the keys that arrive in parts, each before the last one is old."""
    left, decoder, found = iter(parts), getincrementaldecoder("utf-8")("ignore"), []
    for part in left:
        found += keys_in(chain([part], left), decoder)
    return found


def test_keys_are_told_apart() -> None:
    assert keys_of(b"\x1b[A\x1bOBq\x1b") == ["\x1b[A", "\x1bOB", "q", "\x1b"]
    assert keys_of("\x1b[15~é\x1bq".encode()) == ["\x1b[15~", "é", "\x1bq"]
    assert typed("\x1b[15~", "\x1bq", "x") == TopState()


@pytest.mark.parametrize("sent", ["\x1b[A\x1bOBq", "é\x1b[1;5Aü", "/naïve\r"])
def test_keys_that_arrive_in_parts_are_whole(sent: str) -> None:
    data = sent.encode()
    for cut in range(1, len(data)):
        assert keys_of(data[:cut], data[cut:]) == keys_of(data)


def test_a_key_without_end_is_given_up() -> None:
    assert len(keys_of(b"\x1b[" + b"1" * 5000)) > 4900


def test_a_terminal_that_closes_ends_the_view_even_while_a_text_is_typed() -> None:
    assert keys_of(b"") == [""]
    assert after(TopState("sources", is_typing=True), "", []) is None


def test_a_row_is_marked_and_its_source_opened() -> None:
    state = typed("\x1b[B", "j", "\r")
    assert (state.screen, state.source) == ("source", "c")
    assert typed("\x1b", state=state) == typed("j", "j")
    assert typed("\x1b[B", "\x1b[B", "\x1b[B", "\x1b[B", "k", "\r").source == "b"
    assert typed("k", "\n").source == "a"
    assert typed("\r", "j", rows=()) == TopState()


def test_a_mark_stays_on_its_row_while_the_lists_move() -> None:
    state = typed("j")
    assert state.place(ROWS) == 1
    assert state.place([TopRow("new", "z"), *ROWS]) == 2
    assert state.place(ROWS[2:]) == 0  # it is gone
    assert typed("\r", state=state, rows=[TopRow("new", "z"), *ROWS]).source == "b"


def test_marks_follow_the_lists_of_the_screen() -> None:
    what = seen(listed=(("", "name"), [listed(f"s{number}") for number in range(100)]))
    assert [row.source for row in frame(what, TopState())[1]] == ["python", "bad", "python"]
    state = TopState("sources", marked="s60", number=60)
    rows = frame(what, state, height=25)[1]
    assert [row.source for row in rows] == [f"s{number}" for number in range(100)]
    assert "s60 " in drawn(what, state, height=25)
    assert "s0 " not in drawn(what, state, height=25)
    fewer = seen(listed=(("", "name"), [listed(f"s{number}") for number in range(10)]))
    assert "s9 " in drawn(fewer, state, height=25)


def test_the_marked_row_is_seen() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", _environ={})
    console.print(frame(seen(), typed("j", rows=frame(seen(), TopState())[1]))[0])
    assert isinstance(console.file, io.StringIO)
    (marked,) = (line for line in console.file.getvalue().splitlines() if "\x1b[7m" in line)
    assert "bad" in marked


def test_a_text_is_typed_and_keeps_keys_that_mean_something_elsewhere() -> None:
    state = typed("/", "q", "s", "x", "\x7f", "\x1b[A", "\x00")
    assert (state.screen, state.text, state.is_typing) == ("sources", "qs", True)
    assert "with qs▏ in name or address: asking the daemon" in drawn(seen(), state)
    assert "sources with qs▏ in name or address, by name" in drawn(
        seen(listed=(("qs", "name"), [listed("qs1")])), state
    )
    assert typed("\r", state=state).is_typing is False
    assert typed("\x1b", state=state) == TopState("sources")
    assert typed("\r", "\x1b", state=state) == TopState()
    assert len(typed("/", *"x" * 500).text) == 100


def test_what_is_listed_for_another_text_cannot_be_opened() -> None:
    what, state = seen(listed=(("", "name"), [listed("other")])), TopState("sources", text="python")
    rows = frame(what, state)[1]
    assert rows == []
    assert typed("\r", state=state, rows=rows) == state


def test_sources_are_ordered_by_one_key() -> None:
    state = typed("s")
    orders = [state.order, *((state := typed("s", state=state)).order for _ in range(4))]
    assert orders == [*get_args(SourceOrder), "name"] == [*ORDERS, "name"]
    assert get_args(wire.SourcesWindow.model_fields["sort"].annotation) == get_args(SourceOrder)


@pytest.mark.parametrize("key", ["q", "Q"])
def test_a_key_ends_it(key: str) -> None:
    assert after(TopState(), key, []) is None
    assert after(TopState("source"), key, []) is None


def opened(
    name: str = "python", summary: Sequence[str] = (), title: str = "3.14", items: int = 1
) -> tuple[Any, list[Any]]:
    lines = summary or ["python  https://p.example/", "next probe: soon, because"]
    explained: Any = {"source": name, "summary": lines}
    event: Any = {"seen": "2026-01-31T11:30:00.000Z", "kind": "insert", "first": False, "old": False, "id": "1",
                  "title": title, "changes": {}}  # fmt: skip
    return explained, [event] * items


def test_an_opened_source_shows_its_items_and_why_it_is_probed() -> None:
    state = TopState("source", source="python")
    assert "asking the daemon" in drawn(seen(), state)
    assert "asking the daemon" in drawn(seen(opened=opened("other")), state)
    assert "there is no source" in drawn(seen(trouble="there is no source 'python'"), state)
    text = drawn(seen(opened=opened()), state, width=80)
    assert text.index("11:30:00  new      3.14") < text.index("next probe: soon, because")
    assert "Esc back" in text


def test_a_long_source_is_scrolled_to_its_end_and_no_further() -> None:
    what, state = (
        seen(opened=opened(summary=["python", *(f"line {n}" for n in range(60))])),
        TopState("source", source="python"),
    )
    rows = frame(what, state, height=24)[1]
    for _ in range(200):
        state = typed("j", state=state, rows=rows)
    text = drawn(what, state, height=24)
    assert "line 59" in text
    assert "line 40" not in text
    assert "line 40" in drawn(what, typed("k", state=state, rows=rows), height=24)
