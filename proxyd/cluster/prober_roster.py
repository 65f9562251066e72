"""The probers that a planner knows, and which of them the next batch goes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from proxyd.cluster.messages import Hello

HELLO_EVERY_S = 600.0  # of a prober without work
_FORGOTTEN_S = 3.0 * HELLO_EVERY_S
MOST_PROBERS = 10_000


@dataclass(slots=True)
class _Member:
    """A prober, the batches that it has, and when it was last heard, or first given work since."""

    name: str
    hosts: int
    heard_s: float
    batches: set[str] = field(default_factory=set)
    turn: int = 0

    @property
    def load(self) -> tuple[float, int]:
        """How full it is, and whose turn it is among those that are equally full."""
        return len(self.batches) / self.hosts, self.turn


@dataclass(slots=True)
class ProberRoster:
    """The probers and their room; the emptiest has the next batch.

    A prober that has batches and says nothing for ``silence_s`` has no more until it is heard.

    Examples
    --------
    >>> roster = ProberRoster(silence_s=3.0)
    >>> for letter in "ab":
    ...     roster.hear(Hello(letter * 32, f"prober {letter}", "1", hosts=2, sent_s=0.0), now_s=0.0)
    >>> given = [roster.give(f"batch {number}", now_s=1.0) for number in range(5)]
    >>> [None if prober_id is None else prober_id[0] for prober_id in given]
    ['a', 'b', 'a', 'b', None]
    """

    silence_s: float
    _members: dict[str, _Member] = field(default_factory=dict)
    _turns: int = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def name(self, prober_id: str) -> str:
        """Return the name of a prober, or its id if it is not known."""
        member = self._members.get(prober_id)
        return prober_id if member is None else member.name

    def ids(self, name: str) -> list[str]:
        """Return the ids of the probers of a name."""
        return [prober_id for prober_id, member in self._members.items() if member.name == name]

    def hear(self, hello: Hello, now_s: float) -> None:
        """Take in that a prober is there."""
        member = self._members.get(hello.prober_id)
        if member is not None:
            member.name, member.hosts, member.heard_s = hello.name, hello.hosts, now_s
        else:
            self._forget(now_s)
            if len(self._members) < MOST_PROBERS:
                self._members[hello.prober_id] = _Member(hello.name, hello.hosts, now_s)

    def hear_of(self, prober_id: str, now_s: float) -> None:
        """Note a sign of life."""
        member = self._members.get(prober_id)
        if member is not None:
            member.heard_s = now_s

    def leave(self, prober_id: str) -> None:
        """Forget a prober until it is there again."""
        self._members.pop(prober_id, None)

    def give(self, batch_id: str, *, now_s: float, aside: Collection[str] = (), planners: int = 1) -> str | None:
        """Give a batch to a prober that is not in ``aside`` (names) and return its id, or ``None`` without room.

        So many ``planners`` share the room of a prober.
        """
        best = None
        for prober_id, member in self._members.items():
            if len(member.batches) * planners >= member.hosts or member.name in aside:
                continue
            if member.batches and now_s > member.heard_s + self.silence_s:
                continue
            if best is None or member.load < self._members[best].load:
                best = prober_id
        if best is None:
            return None
        member = self._members[best]
        if not member.batches:
            member.heard_s = now_s
        member.batches.add(batch_id)
        self._turns += 1
        member.turn = self._turns
        return best

    def free(self, prober_id: str, batch_id: str) -> None:
        """Note that a prober has done with a batch."""
        member = self._members.get(prober_id)
        if member is not None:
            member.batches.discard(batch_id)

    def _forget(self, now_s: float) -> None:
        gone = [prober_id for prober_id, member in self._members.items() if now_s > member.heard_s + _FORGOTTEN_S]
        for prober_id in gone:
            del self._members[prober_id]
