"""What a planner that shares the sources with others takes in of theirs, gives up and takes over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from proxyd.cluster.division import Division, division_of
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import JointInterval, SourceState
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState


@dataclass(frozen=True, slots=True)
class Handover:
    """What the store remembers of sources that come from another planner, in addition to what ``follow`` reads."""

    records: Mapping[str, SourceRecord] = field(default_factory=dict)
    subscriptions: Sequence[Subscription] = ()
    joint: Sequence[JointInterval] = ()


class Sharing:
    """The part of a decider that shares its sources with other planners."""

    def __init__(self, decider: Decider) -> None:
        self._known = decider.known
        self._captures = decider.captures
        self._recalls = decider.recalls
        self._hubs = decider.hubs
        self._placement = decider.placement

    def follow(
        self,
        states: Iterable[SourceState],
        streams: Iterable[StreamState],
        weeks: Mapping[str, WeekCounts],
        now_s: float,
    ) -> None:
        """Take in what other planners have stored of their sources; our own are left alone."""
        known, programs = self._known, self._known.compiled.programs
        for state in states:
            if not known.has(state.source_id):
                known.estimates.keep(state)
        for stream in streams:
            if (program := programs.get(stream.rule)) is not None and not self._recalls.is_ours(stream):
                next_seq = known.next_seq(stream.source_id, program)
                known.streams[stream.rule, stream.source_id] = program.open_stream(stream, next_seq, now_s)
        known.estimates.weeks.update((name, week) for name, week in weeks.items() if not known.has(name))

    def follow_moves(self) -> None:
        """Read sources where the moves lead that other planners have accepted; call it after ``follow``."""
        self._known.compiled = self._known.compiled.following(self._known.estimates.accepted)

    def release(self, division: Division, lost: Iterable[str]) -> None:
        """Leave sources to other planners: ``division`` says what is ours now, ``lost`` which sources were until now.

        No more probes of these begin. What is under way is still taken in. Sources that are still ours may be among
        ``lost``.
        """
        self._known.owned = division
        self._captures.release()
        self._hubs.release(lambda each: self._looks_after(each, division))
        self._placement.release(lost)

    def take_over(self, division: Division, gained: Collection[str], before: Handover) -> None:
        """Take sources over from other planners: ``division`` says what is ours now, ``gained`` which were not before.

        What these planners have stored was passed to ``follow``; ``before`` is the rest. ``Decider.placing`` then
        places them, after ``recalls.lost`` has restored the events of their streams.
        """
        known, old = self._known, division_of(self._known)
        new_rules = {each.rule for each in before.joint if each.rule in known.compiled.programs}
        new_rules = {name for name in new_rules if not known.has_rule(name)}
        subscriptions = [
            each
            for each in before.subscriptions
            if self._looks_after(each, division) and not self._looks_after(each, old)
        ]
        known.owned = division
        self._captures.take_over(each for each in before.joint if each.rule in new_rules and known.has_rule(each.rule))
        self._hubs.take_over(subscriptions)
        for each in subscriptions if known.settings.subscribes else ():  # others are allowed once they are placed
            self._hubs.allow(each.source_id, known.address_of_pushes(each.source_id))
        self._placement.take_over(gained, before.records)

    def _looks_after(self, subscription: Subscription, division: Division) -> bool:
        """Whether a division gives us a subscription: with its source, or by its address if that was removed."""
        source = self._known.compiled.declaration.sources.get(subscription.source_id)
        return division.has(subscription.url if source is None else source.url)


def part_of_budget(known: Knowledge, now_s: float) -> float:
    """Return our part of the budget, 0 to 1; the parts of all planners make up the whole.

    A budget that is spent where it saves most delay gives each source probes in proportion to the square root of its
    update rate and its weight, whoever plans it. So each planner knows its part without asking the others. This passes
    through all sources: run it in a thread.
    """
    compiled, own, total = known.compiled, 0.0, 0.0
    for source_id, rules in compiled.rules_of.items():
        if source_id in known.paused:
            continue
        source = compiled.sources[source_id]
        state = known.estimates.state(source, compiled.reading(source_id))  # another declaration may come meanwhile
        rate_per_s = known.estimates.rate_per_s(state, source, now_s)
        weight = max(compiled.programs[each].weight for each in rules)
        wanted = sqrt(max(rate_per_s * weight, 0.0) * source.probe_units)
        total += wanted
        if known.has(source_id):
            own += wanted
    return own / total if total > 0 else 1.0
