"""The options of regular expressions: those of re2, which take linear time."""

from __future__ import annotations

import re2

# re2 fills all of it with states before it gives up: with its default of 8 MB a hostile pattern of 20 characters took
# 25 µs for each character of the text, with 1 MB 0.3 µs.
_MEMORY_BYTES = 1 << 20
LIKE_MEMORY_BYTES = 2 << 20
"""What the longest pattern of LIKE or ILIKE needs, whatever its characters are."""


def re2_options(memory_bytes: int = _MEMORY_BYTES) -> re2.Options:
    """Return options for a pattern of bounded size, with no messages to the terminal."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    return options
