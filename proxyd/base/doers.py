"""Who asks for a change at the moment: a request's gate says so, and the store notes it with what is changed.

It is no argument of each function in between, because a change would then be anonymous wherever one forgets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """How much may belong to the profiles of somebody; ``None``: as much as they like.

    >>> OwnerLimits(sources=5).stricter(OwnerLimits(sources=9, rules=2)).set
    {'sources': 5, 'rules': 2}
    """

    sources: int | None = None
    rules: int | None = None
    receivers: int | None = None
    probes: int | None = None  # an hour, that the rules ask for

    @property
    def set(self) -> dict[str, int]:
        """Those that are set, by name."""
        return {name: most for name in self.__slots__ if (most := getattr(self, name)) is not None}

    def stricter(self, other: OwnerLimits) -> OwnerLimits:
        """Return of each the lower one."""
        names = self.set.keys() | other.set.keys()
        return OwnerLimits(
            **{name: min(each[name] for each in (self.set, other.set) if name in each) for name in names}
        )


NO_LIMITS = OwnerLimits()


@dataclass(frozen=True, slots=True)
class Doer:
    """Who changes something, and in which way: api, dashboard, reader, agent, hub, socket, or file.

    ``address`` is that of the connection, if it is one of the network; ``profiles`` are the only ones that they see and
    change, if not all, and ``since_s`` says from when on: somebody else may have had the name before.
    """

    who: str
    way: str
    address: str = ""
    profiles: tuple[str, ...] = ()
    limits: OwnerLimits = NO_LIMITS
    since_s: float = 0.0


FILES = Doer("the profiles folder", "file")
COMMAND_LINE = Doer("the command line", "socket")
_ITSELF = Doer("proxyd", "")  # what nobody asked for
_doer: ContextVar[Doer] = ContextVar("_doer", default=_ITSELF)


@contextmanager
def acting(doer: Doer) -> Iterator[None]:
    """Let what is changed while the context is open be noted as done by somebody."""
    before = _doer.set(doer)
    try:
        yield
    finally:
        _doer.reset(before)


def current_doer() -> Doer:
    """Return who asks for a change at the moment."""
    return _doer.get()
