"""What one probe changed, to be recorded completely or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.model.schedule import Probe
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.hints import SiblingHint
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.failing import FailingRule, RuleFailure
from proxyd.core.rules.known.state import IntervalRecord, Notification, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.captures import NOTHING_CAPTURED, Captured
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.payload import MadeNotifications
from proxyd.core.rules.stages.rule_tasks import RuleStep
from proxyd.core.rules.stages.source_state import Calibration


@dataclass(frozen=True, slots=True)
class RuleResults:
    """What events, or the end of a joint interval, mean for the rules."""

    streams: tuple[StreamState, ...] = ()
    intervals: tuple[IntervalRecord, ...] = ()  # that were decided
    notifications: tuple[Notification, ...] = ()
    # ``joint``, ``ended``: joint intervals that were opened or changed, and the ids of those that ended
    joint: tuple[JointInterval, ...] = ()
    ended: tuple[str, ...] = ()
    failures: tuple[RuleFailure, ...] = ()
    failing: tuple[FailingRule, ...] = ()  # the new states of rules that failed, or that succeeded after failures

    @classmethod
    def of(cls, step: RuleStep, captured: Captured = NOTHING_CAPTURED) -> RuleResults:
        """Return the results of a probe; the last state of a stream that moved twice counts."""
        streams = {(each.rule, each.source_id): each for each in (*step.streams, *captured.streams)}
        return cls(
            streams=tuple(streams.values()),
            intervals=(*step.intervals, *captured.records),
            notifications=step.notifications,
            joint=captured.joint,
            ended=captured.ended,
            failures=step.failures,
        )

    def with_joint(self, made: Sequence[MadeNotifications], failing: tuple[FailingRule, ...]) -> RuleResults:
        """Return the results with the notifications of joint intervals, and how their rules fail now."""
        return replace(
            self,
            notifications=(*self.notifications, *(one for each in made for one in each.notifications)),
            failures=(*self.failures, *(one for each in made for one in each.failures)),
            failing=(*self.failing, *failing),
        )


_NO_RESULTS = RuleResults()


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe, or one push of a hub, changed."""

    state: SourceState
    found: Discovery
    rules: RuleResults = _NO_RESULTS
    calibration: Calibration | None = None  # what was found compared with what was predicted, if that is known
    week: WeekCounts | None = None  # the source's items by hour of the week, if there are new ones
    subscription: Subscription | None = None  # its subscription at a hub, if that changed
    probe: Probe | None = None  # the planned probe; ``None`` for a push
    record: SourceRecord | None = None  # how the planner will stand with the source; ``None`` if it is not planned
    hints: tuple[SiblingHint, ...] = ()
    fleet: FleetRecord | None = None
    source_events: tuple[StoredEvent, ...] = ()
    bug: Exception | None = None  # why the document could not be taken in; its source is taken to have failed

    @property
    def outcome(self) -> ProbeOutcome:
        """The outcome as it counts."""
        return self.found.outcome
