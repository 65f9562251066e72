"""The items that probes find, and the update events at their sources."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
"""A field's value. Timestamps are unix seconds (float); a missing field is ``None``."""


LONGEST_FIELD = 65_536
"""Characters of a text that are kept; of the text of a whole page it is more."""


def is_cut(value: Value) -> bool:
    """Return whether a text may go on beyond what is kept of it."""
    return isinstance(value, str) and len(value) >= LONGEST_FIELD


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
    SLOW = "slow"  # it answers, and takes much longer than usual
    HEALTH = "health"  # of a site: it is down, up again or slow, or its certificate or domain expires soon
    PROBE = "probe"  # it was probed, however that ended

    def __init__(self, word: str) -> None:
        self.is_of_source = word not in {"insert", "update", "delete"}  # whether it happened to the source itself
        # whether it is a condition that may hold for several probes, so that AFTER says when it is told
        self.can_persist = self.is_of_source and word != "probe"
        # after how many probes in a row it is told unless the rule says otherwise
        self.patience = {"trouble": 3, "slow": 3, "health": 2}.get(word, 1)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a source as a probe found it."""

    item_id: str  # identity within its source, stable between probes (guid, link or a hash)
    # Values by full path in lower case, for example `channel.item.title`
    fields: Mapping[str, Value] = field(hash=False)
    published_s: float | None  # the item's own time in unix seconds, or `None` if the source gives none
    content_hash: str  # changes exactly when the content changes in more than its spelling
    former_ids: tuple[str, ...] = ()  # other identities under which an earlier version may have stored it
    former_hashes: tuple[str, ...] = ()  # the hashes of the same content as earlier versions read it
    # Whether its document was not well-formed; earlier versions escaped texts of such documents in another way
    is_mended: bool = False
    # The last known values of fields of a page that are silent now, by path
    last_known: Mapping[str, Value] = field(default_factory=dict, hash=False, compare=False)

    def with_memory_of(self, before: Item | None) -> Item:
        """Return the item with the last known values of its silent fields, which the item ``before`` has."""
        if before is None:
            return self
        spoken = {path: value for path, value in before.fields.items() if value is not None}
        known: dict[str, Value] = {**before.last_known, **spoken}  # a second silence in a row forgets nothing
        silent = {path: known[path] for path, value in self.fields.items() if value is None and _has(known, path)}
        return replace(self, last_known=silent) if silent else self

    def with_last_known(self, new: Item, without: AbstractSet[str]) -> Item:
        """Return the item with the last known values of what ``new`` states again, ``without`` those of some paths."""
        spoken = {path: v for path, v in self.last_known.items() if _has(new.fields, path) and path not in without}
        return replace(self, fields={**self.fields, **spoken}) if spoken else self


def _has(values: Mapping[str, Value], path: str) -> bool:
    return values.get(path) is not None


@dataclass(frozen=True, slots=True)
class UpdateEvent:
    """A change at a source."""

    source_id: str
    seq: int  # its number in the source's stream, increasing in the order in which events are taken
    kind: EventKind
    item: Item  # the item after the event, or before it if it was removed
    time_s: float  # when it happened, in unix seconds: the item's own time, or the best bound if `exact` is false
    seen_s: float  # when a probe discovered it
    exact: bool
    old: Item | None = None  # the item as it was before an update; `None` for other kinds
