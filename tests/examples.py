"""On how many examples a law is tried: a few, always the same, in ``make test``; many and new ones in the long run."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

_FOUND = Path(__file__).parents[1] / ".hypothesis" / "examples"


def register_profiles() -> None:
    """Make the profiles ``short``, which is loaded, and ``long``, for ``--hypothesis-profile``."""
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "short", deadline=None, suppress_health_check=slow, max_examples=10, derandomize=True, database=None
    )
    settings.register_profile(
        "long",
        deadline=None,
        suppress_health_check=slow,
        max_examples=100,
        database=DirectoryBasedExampleDatabase(_FOUND),
        print_blob=True,
    )
    settings.load_profile("short")


def examples(count: int) -> settings:
    """Return the settings of a law that wants other than the usual 100 examples; the profile multiplies either."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(3, count * default.max_examples // 100))
