"""Work over all sources, done in parts so that the event loop can run in between."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Chunked: TypeAlias = Generator[None, None, T]
"""Work that yields between its parts and returns what it made."""

PART = 200  # number of sources, which takes a millisecond or two


def chunks(items: Sequence[T], size: int = PART) -> Iterator[Sequence[T]]:
    """Return runs of ``size`` items."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


class Steps(Generic[T]):
    """Runs work part by part; ``made`` is its result once all parts are done."""

    made: T

    def __init__(self, work: Chunked[T]) -> None:
        self._work = work

    def __iter__(self) -> Iterator[None]:
        self.made = yield from self._work


def run_all(work: Chunked[T]) -> T:
    """Run all parts at once and return their result."""
    steps = Steps(work)
    for _ in steps:
        pass
    return steps.made
