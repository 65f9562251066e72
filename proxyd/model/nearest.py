"""Which known name was meant where another one was written."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CUTOFF, _SHORT_CUTOFF = 0.75, 0.6  # one wrong letter of three is two thirds alike
_SHORT = 4


def nearest(written: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to what was written, whatever their cases, or ``None``.

    >>> nearest("channel.item.titel", ["channel.item.title", "channel.item.link"])
    'channel.item.title'
    """
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    folded = written[:200].casefold()
    close = get_close_matches(folded, by_folded, n=1, cutoff=_CUTOFF if len(folded) > _SHORT else _SHORT_CUTOFF)
    return by_folded[close[0]] if close else None
