"""The first page: what was told last, what needs attention, and how promises are kept; and the search for items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import reader_of
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.problems import FaultsError
from proxyd.api.queries import Queries
from proxyd.api.web.pages import changes_of, titles_of
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.core.errors import BadSearchError, BusyError
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.answers.explanation import falls_short
from proxyd.core.rules.programs.message_program import heading

_MOST_NEWS, _MOST_NAMED, _MOST_DEAD = 12, 5, 20
_MOST_TOLD = 3 * _MOST_NEWS  # notifications, of which several may tell the same
_DAYS = 7


@dataclass(frozen=True, slots=True)
class _Named:
    """The first few names of a list, and how many there are."""

    names: Sequence[str]
    count: int

    @classmethod
    def of(cls, names: Sequence[str]) -> _Named:
        """Return the first names, in order."""
        return cls(sorted(names)[:_MOST_NAMED], len(names))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was kept of the promises in some days; shares are ``None`` if nothing was decided."""

    events: int
    # The share of events that were seen in time, and the one that was predicted
    share: float | None
    predicted: float | None
    delay_s: float | None  # the mean delay of items that give their own time

    @classmethod
    def of(cls, days: Sequence[wire.Day]) -> _Kept:
        """Return the sums of some days.

        >>> _Kept.of([]).share is None
        True
        """
        captured, missed = sum(day.captured for day in days), sum(day.missed for day in days)
        judged = [(day.captured + day.missed, day.predicted_completeness) for day in days]
        judged_events = sum(count for count, share in judged if share is not None)
        predicted = sum(count * share for count, share in judged if share is not None)
        timed = [(day.items, day.mean_delay_s) for day in days if day.mean_delay_s is not None]
        items = sum(count for count, _ in timed)
        return cls(
            events=captured + missed,
            share=captured / (captured + missed) if captured + missed else None,
            predicted=predicted / judged_events if judged_events else None,
            delay_s=sum(count * delay_s for count, delay_s in timed) / items if items else None,
        )

    @property
    def is_off(self) -> bool:
        """Whether much less was seen in time than predicted."""
        if self.share is None or self.predicted is None:
            return False
        return falls_short(self.share, self.predicted, self.events)


def _told_alike(news: Sequence[wire.NotificationListed]) -> list[list[wire.NotificationListed]]:
    """Return notifications in order, those of several rules about the same event of a source together."""
    found: dict[tuple[str, str, str, int], list[wire.NotificationListed]] = {}
    of_rule: Counter[tuple[str, str, str, str]] = Counter()
    for each in news:
        same = each.source, each.event, heading(each.body.get("data", {}), each.source)
        of_rule[each.rule, *same] += 1  # what one rule tells twice are two lines
        found.setdefault((*same, of_rule[each.rule, *same]), []).append(each)
    return [*found.values()]


class News:
    """Handlers of the first page and of the search."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._suspensions = queries.suspensions
        self._plans = queries.plans
        self._reports = queries.reports
        self._vitals = queries.vitals
        self._moves = queries.moves
        self._listings = listings
        self._render = renderer.page

    async def news(self, request: web.Request) -> web.Response:
        """Show the newest notifications, what needs attention, and how promises were kept in the last week."""
        deliveries = self._listings.deliveries
        told = (await deliveries.list_notifications(wire.Found(limit=_MOST_TOLD))).items
        news = _told_alike(told)[:_MOST_NEWS]
        report = payloads.report(await self._reports.report(days=_DAYS, with_promises=False))
        samples = await self._vitals.samples()
        suspended = self._suspensions.all()
        names = {subject: _Named.of([e.name for e in suspended if e.subject is subject]) for subject in Subject}
        return self._render(
            request,
            "news.html",
            news=news,
            titles=titles_of(told),
            changes=changes_of(told),
            kept=_Kept.of(report.days),
            off=_Named.of([each.source for each in report.off]),
            checks=await self._vitals.readiness(),
            values=samples.values,
            probers_aside=self._vitals.probers_aside,
            failing=_Named.of(self._plans.failing()),
            silent=_Named.of(self._plans.silent()),
            moved=_Named.of(list(await self._moves.proposals())),
            failing_rules=_Named.of(list(self._suspensions.failing.all())),
            paused=names[Subject.SOURCE],
            muted_all=names[Subject.ALL].count,
            muted_rules=names[Subject.RULE],
            muted_profiles=names[Subject.PROFILE],
            webhooks=[each for each in (await deliveries.list_webhooks()).items if each.state != "confirmed"],
            dead=(await deliveries.list_dead_letters(wire.ListWindow(limit=_MOST_DEAD))).items,
            is_empty=not self._profiles.shown.rules,
        )

    async def search(self, request: web.Request) -> web.Response:
        """Search the items; without words it shows the form."""
        found, error = None, ""
        if request.query.get("q", "").strip():
            try:
                found = await self._listings.items.find(read_query(request, wire.ItemsWindow), reader_of(request))
            except (BadSearchError, BusyError) as refused:
                error = refused.message
            except FaultsError as refused:
                error = refused.faults[0].detail
        return self._render(
            request,
            "search.html",
            words=request.query.get("q", "")[:1000],
            of_source=request.query.get("source", ""),
            declared=self._profiles.shown.sources,
            found=found,
            error=error,
        )
