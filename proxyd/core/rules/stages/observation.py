"""What one probe changed, to be recorded completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from proxyd.core.model.item import UpdateEvent
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.model.schedule import Probe
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.failing_rules import FailingRule, RuleFailure
from proxyd.core.rules.known.state import IntervalRecord, JointInterval, Notification, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.hints import SiblingHint
from proxyd.core.rules.stages.site_uptime import SiteChange
from proxyd.core.rules.stages.source_state import Calibration


@dataclass(frozen=True, slots=True)
class Firing:
    """A firing of a rule: the events since the previous firing, the last of which fired, and the interval it opened."""

    rule: str
    events: tuple[UpdateEvent, ...]
    record: IntervalRecord


@dataclass(frozen=True, slots=True)
class Answer:
    """An event that may answer first events of a rule with THEN."""

    rule: str
    event: UpdateEvent


@dataclass(frozen=True, slots=True)
class RuleResults:
    """What events, or the end of a joint interval, mean for rules."""

    streams: tuple[StreamState, ...] = ()  # on the source, and across all sources if the rule counts there
    intervals: tuple[IntervalRecord, ...] = ()  # that were decided
    notifications: tuple[Notification, ...] = ()
    failures: tuple[RuleFailure, ...] = ()
    # firings that the source does not decide alone, and events that may answer some; other firings are notified already
    firings: tuple[Firing, ...] = ()
    answers: tuple[Answer, ...] = ()
    # joint intervals that were opened or changed, and the ids of those that ended
    joint: tuple[JointInterval, ...] = ()
    ended: tuple[str, ...] = ()
    failing: tuple[FailingRule, ...] = ()  # the new states of rules that failed, or that succeeded after failures

    @classmethod
    def merge(cls, parts: Iterable[RuleResults]) -> RuleResults:
        """Return several results as one; of a stream that moved twice the last state counts."""
        found = [each for each in parts if each is not _NO_RESULTS and each != _NO_RESULTS]
        if len(found) <= 1:
            return found[0] if found else _NO_RESULTS
        columns: dict[str, tuple[Any, ...]] = {
            name: tuple(chain.from_iterable(getattr(each, name) for each in found)) for name in cls.__slots__
        }
        streams = {(each.rule, each.source_id): each for each in columns["streams"]}
        return cls(**{**columns, "streams": tuple(streams.values())})


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
    site: SiteChange | None = None  # what it adds to the record of a site
    bug: Exception | None = None  # why the document could not be taken in; its source is taken to have failed

    @property
    def outcome(self) -> ProbeOutcome:
        """The outcome as it counts."""
        return self.found.outcome

    @property
    def is_quiet(self) -> bool:
        """Whether it tells nobody anything: only its source's own state changed, which another probe would find."""
        is_told = self.found.events or self.source_events or self.hints or self.rules != _NO_RESULTS
        return not is_told and self.subscription is None and not self.outcome.is_push
