"""The history of a page: its stored states, any two of them compared; and charts of the numbers of a source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import pairwise
from typing import Annotated

from aiohttp import web
from pydantic import Field

from proxyd.api import wire
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.queries import Queries
from proxyd.api.web.charts import Chart, Frame, Tick, chart, steps_between, time_ticks
from proxyd.api.web.page_texts import field
from proxyd.api.web.rendering import Renderer
from proxyd.core.errors import NotFoundError
from proxyd.core.language import find_source
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.text_blocks import diff_blocks, words_changed
from proxyd.core.rules.answers.number_series import NumberSeries

_MOST_SHOWN = 100_000
"""The most characters of a difference on a page."""
_LEAST_SPAN_S = 3600.0
_MOST_LISTED = 50  # states, each with two texts of up to 256 kB


class _Compared(wire.WireModel):
    """The positions of two states of a page, and the part of the list of states that is shown."""

    first: Annotated[int | None, Field(alias="from", ge=0)] = None
    second: Annotated[int | None, Field(alias="to", ge=0)] = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class _Difference:
    """What changed from one state of a page to a later one."""

    first: int
    second: int
    text: str
    words: int
    is_cut: bool

    @classmethod
    def of(cls, states: Sequence[tuple[int, str]]) -> _Difference:
        """Return the difference of two states, each with its position."""
        (first, old), (second, new) = sorted(states)
        changes = diff_blocks(old, new)
        text = "\n".join(map(str, changes))
        return cls(first, second, text[:_MOST_SHOWN], words_changed(changes), len(text) > _MOST_SHOWN)


class Histories:
    """The handler of the history of a page."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._past = queries.past
        self._listings = listings
        self._render = renderer.page

    async def history(self, request: web.Request) -> web.Response:
        """List the stored states of a page, newest first, and compare two of them."""
        name, asked = request.match_info["name"], read_query(request, _Compared)
        declaration = self._profiles.ready()
        find_source(name, declaration)
        if not declaration.is_text_of_page(name):
            raise NotFoundError(f"{name} is not watched as the text of a page; its page lists its items")
        found = await self._listings.plans.list_items(name, wire.ListWindow(limit=_MOST_LISTED, cursor=asked.cursor))
        return self._render(
            request, "history.html", source=name, found=found, difference=await self._difference(name, asked)
        )

    async def _difference(self, name: str, asked: _Compared) -> _Difference | None:
        if asked.first is None or asked.second is None:
            return None
        states = [(each, await self._state(name, each)) for each in (asked.first, asked.second)]
        return await asyncio.to_thread(_Difference.of, states)

    async def _state(self, name: str, position: int) -> str:
        text = await self._past.page_text(name, position)
        if text is None:
            raise NotFoundError(f"{name} has no state {position}; it may be older than the setting retention")
        return text


@dataclass(frozen=True, slots=True)
class _NumberChart:
    """The chart of a number of an item, and its values with their times, newest first."""

    name: str
    title: str
    chart: Chart
    rows: tuple[tuple[str, float | None], ...]


def number_charts(found: Sequence[NumberSeries], now_s: float, zone: tzinfo | None = UTC) -> list[_NumberChart]:
    """Return a chart of each series: a value holds until the next one is seen, and the last one until now.

    >>> lamp = NumberSeries("price", "lamp", "Lamp", ((0.0, 30.0), (7200.0, 25.0)))
    >>> (made,) = number_charts([lamp], 10800.0)
    >>> made.chart.lines[0].paths, [tick.label for tick in made.chart.y_ticks]
    (('64.0,8.0 420.7,8.0 420.7,176.0 599.0,176.0',), ['25', '26', '27', '28', '29', '30'])
    >>> number_charts([NumberSeries("price", "lamp", "Lamp", ((0.0, 30.0),))], 0.0)[0].chart.lines[0].paths
    ('64.0,92.0 64.0,92.0',)
    """
    return [_number_chart(each, now_s, zone) for each in found]


def _number_chart(series: NumberSeries, now_s: float, zone: tzinfo | None) -> _NumberChart:
    numbers = [number for _, number in series.points if number is not None]
    ticks = steps_between(min(numbers), max(numbers))
    begin_s = series.points[0][0]
    known_s = max(now_s, series.points[-1][0])
    end_s = max(known_s, begin_s + _LEAST_SPAN_S)
    low, high = min(ticks[0], min(numbers)), max(ticks[-1], max(numbers))
    frame = Frame(begin_s, end_s, high, low, width=640.0, height=200.0, left=64.0, right=41.0)
    held = [(at_s, number) for (_, number), (at_s, _) in pairwise([*series.points, (known_s, None)])]
    steps = [point for pair in zip(series.points, held, strict=True) for point in pair]
    across, up = time_ticks(begin_s, end_s, most=6, zone=zone), [Tick(each, f"{each:,.6g}") for each in ticks]
    made = chart(frame, [(series.path, "found", steps)], across, up)
    dots = tuple((frame.x(at_s), frame.y(number)) for at_s, number in series.points if number is not None)
    drawn = replace(made, lines=(replace(made.lines[0], dots=dots),))
    rows = tuple((iso_time(at_s), number) for at_s, number in reversed(series.points))
    return _NumberChart(field(series.path), series.title, drawn, rows)
