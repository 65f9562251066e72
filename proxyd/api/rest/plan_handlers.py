"""Handlers of what is planned and what was achieved."""

from __future__ import annotations

from aiohttp import web

from proxyd.api.rest.endpoint import answered, read_query
from proxyd.api.rest.query_readers import before, page_of
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
from proxyd.api.wire import converters as payloads
from proxyd.ports import Control


class PlanHandlers:
    """The plan, and how the daemon itself does."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def healthz(self, request: web.Request) -> Health:
        """Say that the loop is alive."""
        return Health()

    async def readyz(self, request: web.Request) -> web.Response:
        """Say whether traffic may come."""
        checks = await self._control.readiness()
        found = Readiness(ready=all(checks.values()), checks=checks)
        return answered(found, 200 if found.ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Return the metrics in Prometheus' text format."""
        return web.Response(
            body=await self._control.metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def plan(self, request: web.Request) -> Items[ComingProbe]:
        """List the coming probes in order, each with its reason."""
        limit = read_query(request, PlanWindow).limit
        return Items[ComingProbe](items=[payloads.planned_probe(each) for each in self._control.plan(limit=limit)])

    async def list_probes(self, request: web.Request) -> Page[ProbeMade]:
        """List the probes of a source in the last week, newest first: why each was made and what came of it."""
        asked = read_query(request, ListWindow)
        name = request.match_info["name"]
        rows = await self._control.made_probes(name, before=before(asked.cursor), limit=asked.limit + 1)
        rows, next_cursor = page_of(rows, asked.limit)
        return Page[ProbeMade](items=[payloads.probe_made(row) for row in rows], next_cursor=next_cursor)

    async def list_items(self, request: web.Request) -> Items[ItemSeen]:
        """List when items of a source came and when each was seen, newest first, where they tell their own time."""
        asked = read_query(request, DaysOfItems)
        found = await self._control.seen_items(request.match_info["name"], days=asked.days, limit=asked.limit)
        return Items[ItemSeen](items=[payloads.item_seen(*each) for each in found])

    async def list_intervals(self, request: web.Request) -> Items[IntervalOfRule]:
        """List the execution intervals of a rule that were decided in the last days, newest first."""
        asked = read_query(request, DaysOfIntervals)
        rows = await self._control.intervals(request.match_info["name"], days=asked.days, limit=asked.limit)
        return Items[IntervalOfRule](items=[payloads.interval(row) for row in rows])

    async def advice(self, request: web.Request) -> AdviceShown:
        """Say what other budgets would buy, and which rules the present one does not let be met."""
        return payloads.advice(await self._control.advise())

    async def report(self, request: web.Request) -> ReportShown:
        """Show what was found beside what was predicted, day by day."""
        return payloads.report(await self._control.report(days=read_query(request, Days).days))
