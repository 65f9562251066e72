"""Handlers of what is planned and what was achieved."""

from __future__ import annotations

from aiohttp import web

from proxyd.api import payloads
from proxyd.api.endpoint import answered, read_query
from proxyd.api.models import AdviceShown, ComingProbe, Days, Health, Items, PlanWindow, Readiness, ReportShown
from proxyd.ports import Control


class Planned:
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

    async def advice(self, request: web.Request) -> AdviceShown:
        """Say what other budgets would buy, and which rules the present one does not let be met."""
        return payloads.advice(await self._control.advise())

    async def report(self, request: web.Request) -> ReportShown:
        """Show what was found beside what was predicted, day by day."""
        return payloads.report(await self._control.report(days=read_query(request, Days).days))
