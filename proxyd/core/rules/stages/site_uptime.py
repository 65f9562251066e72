"""How long a site was up or down between two probes, and when an outage of it began and ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.rules.known.context import SourceContext
from proxyd.core.rules.known.state import SourceHealth

_DAY_S = 86400.0
_LEAST_GAP_S = 180.0
_MISSED_PROBES = 2.0  # of its pace; what lies further back than so many is not known


@dataclass(frozen=True, slots=True)
class SiteDay:
    """What is known of a site on a day, or what a probe adds to that; ``day`` counts from 1970, in UTC."""

    day: int
    up_s: float = 0.0
    down_s: float = 0.0
    # probes that count, those of them that failed, and the time that the others took together
    probes: int = 0
    failures: int = 0
    answers_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Incident:
    """An outage of a site, from its first failed probe to the next success; ``ended_s`` is ``None`` until then."""

    began_s: float
    ended_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SiteChange:
    """What a probe of a site adds to its days, and the incident that it begins or ends."""

    days: tuple[SiteDay, ...]
    incident: Incident | None = None


def is_down(health: SourceHealth) -> bool:
    """Whether a site has failed so often in a row that it counts as down."""
    failing = health.failing
    return failing is not None and health.is_sure and failing.probes >= EventKind.HEALTH.patience


def site_change(context: SourceContext, outcome: ProbeOutcome, after: SourceHealth) -> SiteChange | None:
    """Return what a probe adds to the record of a site, or ``None`` for other sources.

    The time between two probes counts by the earlier one; a failure that the next probe does not confirm counts as up,
    as it is not told. Time counts as neither after or before a probe in maintenance, while proxyd is offline, and after
    a gap of several missed probes, in which proxyd did not run or did not ask.
    """
    before, now = context.state.health, after.site
    if context.source.site is None or now is None or outcome.is_push:
        return None
    if not now.is_judged:
        return SiteChange(())
    is_answer = outcome.kind.is_success
    day = int(now.seen_s // _DAY_S)
    answers_s = max(0.0, outcome.finished_s - outcome.started_s) if is_answer else 0.0
    gap = () if before.site is None or not before.site.is_judged else tuple(_gap(context, before, after))
    days = (*gap, SiteDay(day, probes=1, failures=int(not is_answer), answers_s=answers_s))
    return SiteChange(days, _incident(before, after, outcome))


def _gap(context: SourceContext, before: SourceHealth, after: SourceHealth) -> Iterator[SiteDay]:
    """Yield the time since the last probe, by day."""
    assert before.site is not None
    assert after.site is not None
    if before.failing is not None and after.failing is not None and not after.is_sure:
        return  # it may be our own connection
    was_down = before.failing is not None and (is_down(before) or after.failing is not None)
    since_s = before.site.seen_s
    until_s = min(after.site.seen_s, since_s + _longest_gap_s(context))
    while since_s < until_s:
        day = int(since_s // _DAY_S)
        end_s = min(until_s, (day + 1) * _DAY_S)
        length_s = end_s - since_s
        yield SiteDay(day, down_s=length_s) if was_down else SiteDay(day, up_s=length_s)
        since_s = end_s


def _longest_gap_s(context: SourceContext) -> float:
    paces_s = [program.life_s for program, _ in context.source_rules if program.life_s is not None]
    return max(_LEAST_GAP_S, _MISSED_PROBES * min(paces_s, default=0.0))


def _incident(before: SourceHealth, after: SourceHealth, outcome: ProbeOutcome) -> Incident | None:
    if before.failing is not None and is_down(before) and after.failing is None:
        return Incident(before.failing.since_s, outcome.finished_s)
    if after.failing is not None and is_down(after) and not is_down(before):
        return Incident(after.failing.since_s, reason=outcome.detail or outcome.kind.value)
    return None


@dataclass(frozen=True, slots=True)
class Uptime:
    """The share of the known time in which a site was up, in the last day, 7, 30 and 90 days; ``None`` if unknown."""

    day: float | None
    week: float | None
    month: float | None
    quarter: float | None


def uptime(
    days: Mapping[int, SiteDay], incidents: Sequence[Incident], now_s: float, seen_s: float | None = None
) -> Uptime:
    """Return the uptime of a site of its last 90 days, as its last probe, at ``seen_s``, left it.

    >>> uptime({0: SiteDay(0, up_s=86000.0, down_s=400.0)}, [Incident(0.0, 400.0)], 86399.0).week
    0.9953703703703703
    """
    today = int(now_s // _DAY_S)

    def of_last(count: int) -> float | None:
        some = [days[day] for day in range(today - count + 1, today + 1) if day in days]
        return _share(sum(each.down_s for each in some), sum(each.up_s + each.down_s for each in some))

    return Uptime(
        _of_a_day(days, incidents, now_s, now_s if seen_s is None else seen_s), of_last(7), of_last(30), of_last(90)
    )


def uptime_text(share: float | None) -> str:
    """Return an uptime in percent, rounded down: a site that failed once was not up all the time.

    >>> [uptime_text(share) for share in (0.99999, 1.0, 0.5, None)]
    ['99.99 %', '100 %', '50 %', '—']
    """
    return "—" if share is None else f"{floor(share * 10_000) / 100:g} %"


def _of_a_day(days: Mapping[int, SiteDay], incidents: Sequence[Incident], now_s: float, seen_s: float) -> float | None:
    """Return the uptime of the last 24 hours; days tell only how much of these is known.

    An outage that goes on counts until the last probe, as the days do; otherwise a site that has just been added would
    seem to be down for all of its few known seconds.
    """
    today = int(now_s // _DAY_S)
    passed = now_s / _DAY_S - today
    parts = [(days[day], share) for day, share in ((today, 1.0), (today - 1, 1.0 - passed)) if day in days]
    known_s = sum(share * (each.up_s + each.down_s) for each, share in parts)
    since_s = now_s - _DAY_S
    down_s = sum(max(0.0, (each.ended_s or seen_s) - max(each.began_s, since_s)) for each in incidents)
    return _share(min(down_s, known_s), known_s)


def _share(down_s: float, known_s: float) -> float | None:
    return None if known_s <= 0 else 1.0 - down_s / known_s
