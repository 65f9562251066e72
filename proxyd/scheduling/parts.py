"""Work over all sources, done in parts between which the event loop can run."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Parts: TypeAlias = Generator[None, None, T]
"""Work that yields between its parts and returns what it made."""

PART = 200  # sources: a millisecond or two


def parted(items: Sequence[T], size: int = PART) -> Iterator[Sequence[T]]:
    """Return runs of ``size`` items.

    >>> list(parted("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def whole(work: Parts[T]) -> T:
    """Do all parts at once and return what they made.

    >>> def work() -> Parts[int]:
    ...     yield
    ...     return 3
    >>> whole(work())
    3
    """
    while True:
        try:
            next(work)
        except StopIteration as ended:
            made: T = ended.value
            return made
