"""What one probe changed, to be recorded completely or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.model.schedule import Probe
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.stages.calibration import Calibration
from proxyd.core.rules.stages.captures import Captured
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.payload import Notices
from proxyd.core.rules.stages.streams import Advance, RuleFailure
from proxyd.core.rules.state import IntervalRecord, Notification, SourceState, StreamState
from proxyd.core.rules.subscriptions import Subscription


@dataclass(frozen=True, slots=True)
class RuleResults:
    """What events, or the end of a joint interval, mean for the rules.

    Parameters
    ----------
    streams
        The streams after the step.
    intervals
        Execution intervals that were decided.
    joint, ended
        Joint intervals that were opened or changed, and the ids of those that ended.
    failures
        Rules whose expressions failed.
    """

    streams: tuple[StreamState, ...] = ()
    intervals: tuple[IntervalRecord, ...] = ()
    notifications: tuple[Notification, ...] = ()
    joint: tuple[JointInterval, ...] = ()
    ended: tuple[str, ...] = ()
    failures: tuple[RuleFailure, ...] = ()

    @classmethod
    def of(cls, advanced: Advance, captured: Captured, sent: Notices) -> RuleResults:
        """Return the results of a probe; the last state of a stream that moved twice counts."""
        streams = {(each.rule, each.source_id): each for each in (*advanced.streams, *captured.streams)}
        return cls(
            streams=tuple(streams.values()),
            intervals=(*advanced.intervals, *captured.records),
            notifications=sent.notifications,
            joint=captured.joint,
            ended=captured.ended,
            failures=(*advanced.failures, *sent.failures),
        )


NO_RESULTS = RuleResults()


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe, or one push of a hub, changed.

    Parameters
    ----------
    state
        The new state of the source.
    found
        What its items say.
    rules
        The results for the rules.
    calibration
        What was found compared with what was predicted, if that is known.
    week
        The source's items by hour of the week, if there are new ones.
    subscription
        Its subscription at a hub, if that changed.
    probe
        The planned probe; ``None`` for a push.
    """

    state: SourceState
    found: Discovery
    rules: RuleResults = NO_RESULTS
    calibration: Calibration | None = None
    week: WeekCounts | None = None
    subscription: Subscription | None = None
    probe: Probe | None = None

    @property
    def outcome(self) -> ProbeOutcome:
        """The outcome as it counts."""
        return self.found.outcome
