"""How a source itself fares: failures, moves and missing values, and for how long each has lasted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from proxyd.core.model.profile import Trigger


class Spell(NamedTuple):
    """A condition that has held since a time, in so many probes; ``last_s`` is the end of the last of them."""

    probes: int
    since_s: float
    last_s: float

    @classmethod
    def continued(cls, before: Spell | None, now_s: float) -> Spell:
        """Return the spell with one more probe that ended at ``now_s``.

        >>> Spell.continued(Spell(1, 60.0, 60.0), 120.0)
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


class AcceptedMove(NamedTuple):
    """A permanent move that was accepted at ``at_s``: the source is asked at ``url`` as if that were declared.

    It holds as long as the source is declared as it was then, with the reading ``instead_of``.
    """

    url: str
    instead_of: str
    at_s: float

    def as_of(self, now_s: float) -> AcceptedMove:
        """Return the move without times later than ``now_s``."""
        return self._replace(at_s=min(self.at_s, now_s))


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source fares, as far as its own probes show it; what happens while proxyd is offline changes nothing.

    Parameters
    ----------
    failing
        The failures in a row.
    is_sure
        Whether these are the source's own: it answered, or other hosts did while it was silent.
    moved_url, moved
        Where its permanent redirects lead, and for how long they have led there.
    silent
        The fields without a value in its document, which is read well; ``ITEMS`` if it has no items at all.
    status, latency_s
        The status of the last probe, and the seconds that it took.
    next_seq
        Number of the next event of the source itself.
    accepted
        The move that was accepted, until the declaration names the new address.
    """

    failing: Spell | None = None
    is_sure: bool = False
    moved_url: str | None = None
    moved: Spell | None = None
    silent: Mapping[str, Spell] = field(default_factory=dict)
    status: int | None = None
    latency_s: float | None = None
    next_seq: int = 1
    accepted: AcceptedMove | None = None

    def as_of(self, now_s: float) -> SourceHealth:
        """Return the health without times later than ``now_s``, after the machine's clock was set back."""
        if self.failing is None and self.moved is None and self.accepted is None and not self.silent:
            return self
        return replace(
            self,
            failing=self.failing and self.failing.as_of(now_s),
            moved=self.moved and self.moved.as_of(now_s),
            silent={name: spell.as_of(now_s) for name, spell in self.silent.items()},
            accepted=self.accepted and self.accepted.as_of(now_s),
        )

    def values(self) -> dict[str, Any]:
        """Return it in values of JSON, without what is as in a new source.

        >>> SourceHealth.of_values(SourceHealth(Spell(1, 2.0, 3.0)).values()).failing
        Spell(probes=1, since_s=2.0, last_s=3.0)
        """
        return {name: value for name in _NAMES if (value := getattr(self, name)) != getattr(UNKNOWN_HEALTH, name)}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> SourceHealth:
        """Return the health that ``values`` returned."""
        spells = {name: Spell(*values[name]) for name in ("failing", "moved") if name in values}
        silent = {name: Spell(*spell) for name, spell in values.get("silent", {}).items()}
        accepted = {"accepted": AcceptedMove(*values["accepted"])} if "accepted" in values else {}
        return cls(**{**values, **spells, **accepted, "silent": silent})


ITEMS = "items"
"""Stands for all items of a document where the names of silent fields stand."""
UNKNOWN_HEALTH = SourceHealth()
_NAMES = tuple(SourceHealth.__dataclass_fields__)
