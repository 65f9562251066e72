"""What a rule is to get: a share of its items in time."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """The share of its items' worth, 0 to 1, that a rule is to get.

    ``parts`` holds times, and the part of an item's worth that is lost if a probe comes later; an infinite time stands
    for the source's next item.

    >>> Target(0.9, ((21600.0, 1.0),)).times(1 / 1800)
    Target(share=0.9, parts=((12.0, 1.0),))
    """

    share: float
    parts: tuple[tuple[float, float], ...]

    def times(self, factor: float) -> Target:
        """Return the target with times in another unit."""
        return Target(self.share, tuple((after * factor, part) for after, part in self.parts))


DEFAULT_TARGET = Target(0.9, ((3 * 3600.0, 1.0),))
"""That of a rule without a life, with its time in seconds."""
