"""The state of a rule on a source: what its program counted so far, and how long a condition has held there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from proxyd.core.model.item import UpdateEvent
from proxyd.core.model.profile import Trigger
from proxyd.core.rules.programs.function_values import Total, Window


class Spell(NamedTuple):
    """A condition that has held since a time, in so many probes; ``last_s`` is the end of the last of them."""

    probes: int
    since_s: float
    last_s: float

    @classmethod
    def continue_with(cls, before: Spell | None, now_s: float) -> Spell:
        """Return the spell with one more probe that ended at ``now_s``.

        >>> Spell.continue_with(Spell(1, 60.0, 60.0), 120.0)
        Spell(probes=2, since_s=60.0, last_s=120.0)
        """
        return cls(1, now_s, now_s) if before is None else cls(before.probes + 1, before.since_s, now_s)

    def as_of(self, now_s: float) -> Spell:
        """Return the spell without times later than ``now_s``."""
        return Spell(self.probes, min(self.since_s, now_s), min(self.last_s, now_s))


@dataclass(frozen=True, slots=True)
class Lasting:
    """AFTER as a rule asks for it: a number of probes, or seconds."""

    probes: int | None
    length_s: float = 0.0

    @classmethod
    def of(cls, trigger: Trigger, chronon_s: float) -> Lasting:
        """Return how long the condition of a trigger must last."""
        after = trigger.lasting
        return cls(after.probes, 0.0 if after.time is None else after.time.in_seconds(chronon_s=chronon_s))

    def is_met(self, spell: Spell | None) -> bool:
        """Whether a spell has lasted so long."""
        if spell is None:
            return False
        return spell.probes >= self.probes if self.probes else spell.last_s - spell.since_s >= self.length_s


MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state since START of one rule on one source, or on all sources of its class if ``source_id`` is empty."""

    rule: str
    source_id: str
    # totals of the trigger's aggregates over the events that passed WHERE; the first is ``COUNT(*)``
    totals: tuple[Total, ...]
    # ``fired_seq``, ``fired_s``: the event on which it last fired, and when that event was seen (unix seconds)
    fired_seq: int = 0
    fired_s: float = 0.0
    # ``captured``, ``missed``: intervals by fate
    captured: int = 0
    missed: int = 0
    utility: float = 0.0  # utility gained so far, at most 1 for each interval
    seen: int = 0  # events since START before WHERE
    # what its totals count, in the form of ``counting_of``; a stream of an earlier version does not say it
    counting: str = ""
    # the events since it last fired, rebuilt from stored ones; only the newest ``MAX_PENDING`` are kept
    pending: tuple[UpdateEvent, ...] = field(default=(), compare=False)
    # windows of the aggregates over a recent time, rebuilt in the same way
    windows: tuple[Window | None, ...] = field(default=(), compare=False)

    @property
    def count(self) -> int:
        """Events since START that passed WHERE."""
        return self.totals[0].count
