"""What the API asks about addresses that somebody may want to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from proxyd.core.model.item import Item
from proxyd.core.model.outcome import ProbeOutcome


@dataclass(frozen=True, slots=True)
class Discovered:
    """What an address holds.

    Parameters
    ----------
    outcome
        The outcome of probing it. Its ``source_id`` is the address to watch: that of a feed to which a page links.
    page_class
        The name of the built-in class that reads it: FEED, PAGE or PRICE.
    price
        The price that its page states, or ``None``.
    preview
        The page as harmless markup; empty for a feed, or if it was not asked for.
    """

    outcome: ProbeOutcome
    page_class: str
    price: Item | None = None
    preview: str = ""


class Discovering(Protocol):
    """Looks at addresses, within the limits of all probes."""

    async def look(
        self, url: str, *, locale: str | None = None, wants_price: bool = False, wants_preview: bool = False
    ) -> Discovered:
        """Return what an address holds; raises ``BusyError`` if too many are looked at already.

        With ``wants_price`` its page is read for its price alone; ``locale`` says how its numbers are written.
        """

    async def read_value(self, url: str, selector: str, *, is_number: bool, locale: str | None = None) -> ProbeOutcome:
        """Return the outcome of reading a value of a page; raises ``BusyError`` as ``look`` does."""
