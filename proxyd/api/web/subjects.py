"""The pages of one source and of one rule: their state, and their results in the last days."""

from __future__ import annotations

from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from proxyd.api import wire
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.queries import Queries
from proxyd.api.web.charts import heat_map, histogram, lanes, probe_kind, time_line
from proxyd.api.web.histories import number_charts
from proxyd.api.web.page_texts import awaits_no_items, receivers_of
from proxyd.api.web.pages import titles_of
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.core.language import find_source
from proxyd.core.model.profile import UtilityKind
from proxyd.core.planning.kernels.losses import MISSED_S
from proxyd.core.rules.answers.explanation import without_rule

_DAY_S = 86400.0
_FIRST_ITEMS, _LOGGED, _MOST_LISTED = 10, 30, 100
_MOST_STATES = 20  # of a page, with a difference each; its history has them all
_MOST_PLANNED, _MOST_NAMED = 1000, 5
_LEAST_DELAYS = 5  # below that a histogram says nothing
_MOST_PROBES, _MOST_ITEMS, _MOST_INTERVALS = 2500, 500, 500


class _Back(wire.WireModel):
    """The number of days that the pictures of a source show."""

    days: Annotated[int, Field(ge=1, le=7)] = 7


class _FarBack(wire.WireModel):
    """The number of days that the pictures of a rule show; intervals are kept longer than probes."""

    days: Annotated[int, Field(ge=1, le=30)] = 7


class Subjects:
    """Handlers of the pages of one source and of one rule."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._plans = queries.plans
        self._past = queries.past
        self._deliveries = queries.deliveries
        self._moves = queries.moves
        self._clock = queries.clock
        self._listings = listings
        self._render = renderer.page

    async def source(self, request: web.Request) -> web.Response:
        """Show one source, its items and its probes."""
        name, days = request.match_info["name"], read_query(request, _Back).days
        declaration = self._profiles.ready()
        declared = find_source(name, declaration)  # before any await: it may be removed
        is_text = declaration.is_text_of_page(name)
        _, found = await self._listings.profiles.explain_source(name)
        moves = [payloads.move(each) for each in self._moves.of(name)]
        place = self._moves.places([name]).get(name)
        item_free = awaits_no_items(self._profiles.shown, found.rules)
        charts = number_charts(await self._past.numbers_of(name), self._clock.time_s(), self._deliveries.zone)
        past = await self._recent(name, days, most_items=_MOST_STATES if is_text else _MOST_LISTED)
        return self._render(
            *(request, "source.html"),
            found=found,
            declared=declared,
            moves=moves,
            place=place,
            item_free=item_free,
            is_text=is_text,
            charts=charts,
            **past,
        )

    async def item(self, request: web.Request) -> web.Response:
        """Show why each rule told of an item of a source, or did not."""
        name, position = request.match_info["name"], request.match_info["position"]
        return self._render(
            request, "item.html", source=name, found=await self._listings.plans.get_fates(name, position)
        )

    async def why(self, request: web.Request) -> web.Response:
        """Show why a source is probed when it is, with the numbers, and its coming week."""
        name = request.match_info["name"]
        known, found = await self._listings.profiles.explain_source(name)
        planned = await self._plans.plan_of(name, limit=_MOST_PLANNED)
        rules = self._profiles.shown.rules
        seen = [each if each.probe.rule in {None, *rules} else without_rule(each) for each in planned]
        return self._render(
            request,
            "source_why.html",
            found=found,
            kept={each.rule: each for each in found.kept},
            waiting=known.expected,
            factor=known.factor,
            missed_hours=MISSED_S / 3600.0,
            cells=heat_map(
                *(found.week, found.rate_per_day, [each.start_s for each in planned]),
                is_cut=len(planned) == _MOST_PLANNED,
            ),
            planned=[payloads.probe_to_come(each) for each in seen],
            most_planned=_MOST_PLANNED,
            day_names=payloads.DAYS,
        )

    async def _recent(self, name: str, days: int, most_items: int) -> dict[str, Any]:
        """Return the items and probes of the last days, as a picture and as lists."""
        end_s = self._clock.time_s()
        begin_s = end_s - days * _DAY_S
        rows = await self._past.made_probes(name, before=None, limit=_MOST_PROBES)
        items = await self._past.seen_items(name, days=float(days), limit=_MOST_ITEMS)
        made = wire.ProbeMade.list_of(rows[:_MOST_LISTED])
        events = await self._past.shown_events(name, before=None, limit=most_items)
        listed: list[wire.ItemEvent] = [payloads.item_event(each) for each in events]
        probes = [(row.started_s, probe_kind(row.outcome, row.items)) for row in rows if row.started_s >= begin_s]
        return {
            "days": days,
            "line": time_line(
                begin_s, end_s, [(each.came_s, each.seen_s) for each in items], probes, self._deliveries.zone
            ),
            "is_cut": len(items) == _MOST_ITEMS or len(probes) == _MOST_PROBES,
            "delays": histogram(each.seen_s - each.came_s for each in items),
            "items_seen": len(items),
            "items": listed,
            "first_items": _FIRST_ITEMS,
            "made": made,
            "logged": _LOGGED,
            "most_items": most_items,
            "least_delays": _LEAST_DELAYS,
        }

    async def rule(self, request: web.Request) -> web.Response:
        """Show one rule, its intervals, and its newest notifications."""
        return await self._rule(request, read_query(request, _FarBack).days)

    async def test(self, request: web.Request) -> web.Response:
        """Send a test message to every receiver of the rule, and show the responses."""
        results = await self._deliveries.test_deliveries(request.match_info["name"])
        tested = wire.TestResult.list_of(results)
        return await self._rule(request, _FarBack().days, tested)

    async def _rule(self, request: web.Request, days: int, tested: list[wire.TestResult] | None = None) -> web.Response:
        found = self._listings.profiles.get_rule(request.match_info["name"])
        declaration = self._profiles.ready()
        declared = declaration.rules[found.name]
        pages = [each for each in found.sources[:_MOST_NAMED] if declaration.is_text_of_page(each)]
        news = await self._listings.deliveries.list_notifications(wire.Found(rule=found.name, limit=20))
        rows = await self._past.intervals(found.name, days=float(days), limit=_MOST_INTERVALS)
        return self._render(
            request,
            "rule.html",
            found=found,
            tested=tested,
            has_life=declared.life is not None,
            pages=pages,
            news=news,
            endpoints=receivers_of(declared),
            decays=declared.utility.kind is not UtilityKind.STRICT,
            titles=titles_of(news.items),
            days=days,
            **self._fates([payloads.interval(row) for row in rows], days),
        )

    def _fates(self, intervals: list[wire.IntervalOfRule], days: int) -> dict[str, Any]:
        """Return the intervals of the last days, as a picture and as a list."""
        end_s = self._clock.time_s()
        known = [each.delay_s for each in intervals if each.delay_s is not None and each.exact]
        return {
            "lanes": lanes(end_s - days * _DAY_S, end_s, intervals, self._deliveries.zone) if intervals else None,
            "is_cut": len(intervals) == _MOST_INTERVALS,
            "intervals": intervals[:_MOST_LISTED],
            "intervals_found": len(intervals),
            "mean_delay_s": sum(known) / len(known) if known else None,
            "delays_known": len(known),
            "most_listed": _MOST_LISTED,
        }
