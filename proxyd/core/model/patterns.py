"""The options of regular expressions: those of re2, which take linear time."""

from __future__ import annotations

import re2

_MEMORY_BYTES = 1 << 20  # with more, a hostile pattern takes far longer: re2 fills all of it with states
LIKE_MEMORY_BYTES = 2 << 20
"""What the longest pattern of LIKE or ILIKE needs, whatever its characters are."""


def re2_options(memory_bytes: int = _MEMORY_BYTES) -> re2.Options:
    """Return options for a pattern of bounded size, with no messages to the terminal."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    return options
