"""The intervals that several pages must capture, from the event that opens one to the notification that ends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import Item, UpdateEvent, Value
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.planning.policies.demand import OnceDemand
from proxyd.core.rules.compiled import NOTHING_COMPILED, Compiled
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.joint_intervals import (
    LONGEST_S,
    JointInterval,
    Obtained,
    correlated,
    obtain,
    rows_of,
    wait_s,
)
from proxyd.core.rules.stages.payload import History, joint_notice, notification_id
from proxyd.core.rules.stages.streams import Firing
from proxyd.core.rules.state import IntervalRecord, Notification, StoredEvent


@dataclass(frozen=True, slots=True)
class CaptureStep:
    """How an interval of several pages moved on.

    ``is_over`` where nothing more is waited for; ``records`` are the fates of its pages that are decided now.
    """

    interval: JointInterval
    is_over: bool = False
    notification: Notification | None = None
    records: tuple[IntervalRecord, ...] = ()


class Captures:
    """The open intervals of several pages, and what the pages of queries showed last."""

    def __init__(self, grid: ChrononGrid, known: Iterable[JointInterval] = ()) -> None:
        self._grid = grid
        self._open = {interval.interval_id: interval for interval in known}
        self._orphans: list[str] = []
        self._compiled = NOTHING_COMPILED
        self._rows: dict[str, tuple[Mapping[str, Value], ...]] = {}
        self._paths: Mapping[str, frozenset[str]] = {}

    def declare(self, compiled: Compiled) -> None:
        """Keep to the rules there are, and forget the intervals of others."""
        paths: dict[str, frozenset[str]] = {}
        for program in compiled.programs.values():
            for page in (page for joined in program.joined for page in joined.sources):
                paths[page] = paths.get(page, frozenset()) | program.query.paths
        self._rows = {page: rows for page, rows in self._rows.items() if paths.get(page) == self._paths.get(page)}
        self._compiled, self._paths = compiled, paths
        gone = [each.interval_id for each in self._open.values() if not self._fits(each)]
        for interval_id in gone:
            del self._open[interval_id]
        self._orphans += gone

    def take_orphans(self) -> list[str]:
        """Return, once, the ids of the intervals that were forgotten because their rule or pages are gone."""
        orphans, self._orphans = self._orphans, []
        return orphans

    def unseen(self) -> list[str]:
        """Return the pages whose rows are wanted and not known."""
        return [page for page in self._paths if page not in self._rows]

    def see(self, page: str, items: Iterable[Item]) -> None:
        """Take in what a page shows now."""
        if page in self._paths:
            self._rows[page] = rows_of(items, self._paths[page])

    def wanting(self, page: str) -> list[JointInterval]:
        """Return the intervals that a page is still to capture."""
        return [each for each in self._open.values() if page in each.wanted]

    def asked_once(self, page: str) -> tuple[OnceDemand, ...]:
        """Return the probes that the intervals ask for which a page is still to capture."""
        grid = self._grid
        return tuple(
            OnceDemand(each.rule, each.opened, grid.chronon_at(each.ends_s) if each.deadline is None else each.deadline)
            for each in self.wanting(page)
            if each.told is None
        )

    def overdue(self, now_s: float) -> list[JointInterval]:
        """Return the intervals that end without some of their pages."""
        return [each for each in self._open.values() if each.ends_s <= now_s]

    # -- steps

    def open(
        self,
        firing: Firing,
        seen: Mapping[str, float | None],
        rates_per_s: Mapping[str, float],
        history: History,
    ) -> CaptureStep:
        """Open the interval of a firing; ``seen`` says when each page of the class was last probed.

        Of another class it opens when the event is discovered, on the pages that correlate with it. Counted across
        pages it opens with the event, on every page of the class; those probed since then have captured it.
        """
        program, event, record = firing.program, firing.events[-1], firing.record
        opened = self._grid.chronon_at(event.seen_s) if program.joined else record.start
        others = [page for page in program.event_sources if page != event.source_id and program.trigger.counts_across]
        done = [
            Obtained(page, seen_s, captured=True)
            for page in others
            if (seen_s := seen.get(page)) is not None and self._grid.chronon_at(seen_s) >= opened
        ]
        since = {page.source_id for page in done}
        wanted = [*self._correlated(program, event), *(page for page in others if page not in since)]
        deadline = None if program.life_s is None else opened + self._grid.ceil(program.life_s)
        waited_s = wait_s([rates_per_s[page] for page in wanted], chronon_s=self._grid.length_s)
        interval = JointInterval(
            interval_id=notification_id(program, event),
            rule=program.rule.name,
            events=firing.events,
            opened=opened,
            opened_s=event.seen_s,
            deadline=deadline,
            ends_s=event.seen_s + waited_s if deadline is None else self._grid.start_s(deadline + 1),
            wanted=tuple(dict.fromkeys(wanted)),
            obtained=tuple(done),
        )
        own = [replace(record, deadline=deadline)] if program.trigger.counts_across else []
        decided = [self._record(interval, page.source_id, page.seen_s, captured=True) for page in done]
        return self._step(interval, (*own, *decided), history, event.seen_s)

    def probed(
        self, page: str, outcome: ProbeOutcome, found: Iterable[StoredEvent], history: History
    ) -> list[CaptureStep]:
        """Let a page capture, or miss, the intervals that opened before its probe started."""
        steps = []
        for interval in self.wanting(page):
            if outcome.started_s < interval.opened_s or not outcome.kind.is_success or outcome.is_push:
                continue
            after = obtain(
                interval, page, tuple(found), self._rows.get(page, ()), seen_s=outcome.finished_s, grid=self._grid
            )
            captured = after.obtained[-1].captured and interval.told is None
            record = self._record(interval, page, outcome.finished_s, captured=captured)
            records = (record,) if interval.told is None else ()  # after the partial notification all is decided
            steps.append(self._step(after, records, history, outcome.finished_s))
        return steps

    def give_up(self, interval: JointInterval, history: History, now_s: float) -> CaptureStep | None:
        """Let an interval end without the pages it still wants: tell of the others, or after a while of late ones.

        ``None`` where it changed meanwhile.
        """
        if self._open.get(interval.interval_id) != interval:
            return None
        if interval.told is not None:
            self._open.pop(interval.interval_id, None)
            notification = self._notice(interval, history, now_s) if interval.news() else None
            return CaptureStep(interval, is_over=True, notification=notification)
        notification = self._notice(interval, history, now_s)
        told = tuple(page.source_id for page in interval.obtained)
        after = replace(interval, told=told, ends_s=now_s + LONGEST_S)
        self._open[interval.interval_id] = after
        records = (self._record(interval, page, now_s, captured=False) for page in interval.wanted)
        missed = tuple(replace(record, seen=False) for record in records)
        return CaptureStep(after, notification=notification, records=missed)

    # -- how

    def _step(
        self, interval: JointInterval, records: tuple[IntervalRecord, ...], history: History, now_s: float
    ) -> CaptureStep:
        if not interval.is_complete:
            self._open[interval.interval_id] = interval
            return CaptureStep(interval, records=records)
        self._open.pop(interval.interval_id, None)
        return CaptureStep(interval, True, self._notice(interval, history, now_s), records)

    def _notice(self, interval: JointInterval, history: History, now_s: float) -> Notification:
        url = self._compiled.url_of(interval.event.source_id)
        return joint_notice(
            self._compiled.programs[interval.rule], interval, history, url=url, created_s=now_s, grid=self._grid
        )

    def _correlated(self, program: RuleProgram, event: UpdateEvent) -> list[str]:
        return [
            page
            for each in program.joined
            for page in correlated(
                event, {source: self._rows.get(source) for source in each.sources}, each.table, each.correlation
            )
        ]

    def _record(self, interval: JointInterval, page: str, seen_s: float, *, captured: bool) -> IntervalRecord:
        delay_s = max(0.0, seen_s - interval.event.time_s)
        return IntervalRecord(
            rule=interval.rule,
            source_id=page,
            seq=interval.event.seq,
            start=interval.opened,
            deadline=interval.deadline,
            probed=self._grid.chronon_at(seen_s),
            captured=captured,
            exact=interval.event.exact,
            delay_s=delay_s,
            utility=self._compiled.programs[interval.rule].utility(delay_s, captured=captured),
        )

    def _fits(self, interval: JointInterval) -> bool:
        program = self._compiled.programs.get(interval.rule)
        pages = {*interval.wanted, interval.event.source_id}
        return program is not None and program.is_joint and pages <= set(program.rule.source_ids)
