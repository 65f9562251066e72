"""The items that probes find, and the update events at their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
"""A field's value. Timestamps are unix seconds (float); a missing field is ``None``."""


class EventKind(Enum):
    """What happened to an item at its source, or to the source itself."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    FAILURE = "failure"  # it does not answer as it should
    RECOVERY = "recovery"  # it answers again after a failure
    MOVED = "moved"  # it redirects permanently to another address
    EMPTY = "empty"  # its document is read well, but a field or all items are missing
    TROUBLE = "trouble"  # any of the four before
    PROBE = "probe"  # it was probed, however that ended

    @property
    def is_of_source(self) -> bool:
        """Whether it happened to the source itself."""
        return self in _OF_SOURCE or self is EventKind.PROBE

    @property
    def can_persist(self) -> bool:
        """Whether it is a condition that may hold for several probes, so that AFTER says when it is told."""
        return self in _OF_SOURCE


_OF_SOURCE = (EventKind.FAILURE, EventKind.RECOVERY, EventKind.MOVED, EventKind.EMPTY, EventKind.TROUBLE)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a source as a probe found it.

    Parameters
    ----------
    item_id
        Identity within its source, stable between probes (guid, link or a hash).
    fields
        Values by full path in lower case, for example ``channel.item.title``.
    published_s
        The item's own time in unix seconds, or ``None`` if the source gives none.
    content_hash
        Changes exactly when the content changes.
    former_ids
        Other identities under which an earlier version may have stored it.
    is_mended
        Whether its document was not well-formed; earlier versions escaped texts of such documents in another way.
    former_hash
        The hash of the same content as an earlier version read it, if that was another.
    """

    item_id: str
    fields: Mapping[str, Value] = field(hash=False)
    published_s: float | None
    content_hash: str
    former_ids: tuple[str, ...] = ()
    former_hash: str | None = None
    is_mended: bool = False


@dataclass(frozen=True, slots=True)
class UpdateEvent:
    """A change at a source.

    Parameters
    ----------
    seq
        Its number in the source's stream, increasing in the order in which events are taken.
    time_s
        When it happened, in unix seconds: the item's own time, or the best bound if ``exact`` is false.
    seen_s
        When a probe discovered it.
    item
        The item after the event, or before it if it was removed.
    old
        The item as it was before an update; ``None`` for other kinds.
    """

    source_id: str
    seq: int
    kind: EventKind
    item: Item
    time_s: float
    seen_s: float
    exact: bool
    old: Item | None = None
