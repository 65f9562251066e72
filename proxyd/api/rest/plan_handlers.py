"""Handlers of what is planned and what was achieved."""

from __future__ import annotations

from aiohttp import web

from proxyd.api.listings import Listings
from proxyd.api.rest.endpoint import answered, read_query
from proxyd.api.wire import (
    AdviceShown,
    ComingProbe,
    Days,
    DaysOfIntervals,
    DaysOfItems,
    Health,
    IntervalOfRule,
    Items,
    ItemSeen,
    ListWindow,
    Page,
    PlanWindow,
    ProbeMade,
    Readiness,
    ReportShown,
)
from proxyd.queries import Queries


class PlanHandlers:
    """The plan, and how the daemon itself does."""

    def __init__(self, queries: Queries, listings: Listings) -> None:
        self._vitals = queries.vitals
        self._listings = listings

    async def healthz(self, request: web.Request) -> Health:
        """Say that the loop is alive."""
        return Health()

    async def readyz(self, request: web.Request) -> web.Response:
        """Say whether traffic may come."""
        checks = await self._vitals.readiness()
        found = Readiness(ready=all(checks.values()), checks=checks)
        return answered(found, 200 if found.ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Return the metrics in Prometheus' text format."""
        return web.Response(
            body=await self._vitals.metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def plan(self, request: web.Request) -> Items[ComingProbe]:
        """List the coming probes in order, each with its reason."""
        return self._listings.coming(read_query(request, PlanWindow).limit)

    async def list_probes(self, request: web.Request) -> Page[ProbeMade]:
        """List the probes of a source in the last week, newest first: why each was made and what came of it."""
        return await self._listings.probes(request.match_info["name"], read_query(request, ListWindow))

    async def list_items(self, request: web.Request) -> Items[ItemSeen]:
        """List when items of a source came and when each was seen, newest first, where they tell their own time."""
        return await self._listings.items(request.match_info["name"], read_query(request, DaysOfItems))

    async def list_intervals(self, request: web.Request) -> Items[IntervalOfRule]:
        """List the execution intervals of a rule that were decided in the last days, newest first."""
        return await self._listings.intervals(request.match_info["name"], read_query(request, DaysOfIntervals))

    async def advice(self, request: web.Request) -> AdviceShown:
        """Say what other budgets would buy, and which rules the present one does not let be met."""
        return await self._listings.advice()

    async def report(self, request: web.Request) -> ReportShown:
        """Show what was found beside what was predicted, day by day."""
        return await self._listings.report(read_query(request, Days).days)
