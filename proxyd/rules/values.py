"""Values of fields as rules read and compare them."""

from __future__ import annotations

from proxyd.model.item import Value
from proxyd.model.values import TIMESTAMP_PATHS, coerce, iso_time, parse_iso

__all__ = ["TIMESTAMP_PATHS", "coerce", "is_equal", "is_less", "iso_time", "parse_iso"]


def is_equal(left: Value, right: Value) -> bool:
    """Return whether two values that are not null are the same: as numbers if both are, else as texts."""
    a, b = _comparable(left, right)
    return a == b


def is_less(left: Value, right: Value) -> bool:
    """Return whether one value comes before another, neither of which is null."""
    a, b = _comparable(left, right)
    return a < b  # type: ignore[operator]  # both numbers or both texts


def _comparable(left: Value, right: Value) -> tuple[float, float] | tuple[str, str]:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left, right
    return str(left), str(right)
