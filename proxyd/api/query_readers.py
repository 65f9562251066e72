"""Readers of query parameters: cursors, windows and filters."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol, TypeVar

from proxyd.api import wire
from proxyd.api.problems import BadRequestError
from proxyd.core.language import find_named
from proxyd.core.model.field_values import parse_iso
from proxyd.daemon.declarations import Declarations
from proxyd.store.listed_rows import Wanted


class _Positioned(Protocol):
    @property
    def position(self) -> int:
        """Its position in a list."""


_Each = TypeVar("_Each", bound=_Positioned)
_LARGEST = 2**63 - 1
_BAD_CURSOR = "cursor is not valid; pass on a next_cursor as it is"


def parse_position(text: str, complaint: str) -> int:
    """Return a position; raises with ``complaint`` if ``text`` is not one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise BadRequestError(complaint)
    return min(int(text), _LARGEST)


def cursor_of(value: str) -> str:
    """Return the cursor with which a client gets the entries after ``value``."""
    return base64.urlsafe_b64encode(value.encode()).decode()


def read_cursor(cursor: str | None) -> str | None:
    """Return the value of a cursor."""
    try:
        return None if cursor is None else base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise BadRequestError(_BAD_CURSOR) from error


def read_position(cursor: str | None) -> int | None:
    """Return the position in a cursor."""
    value = read_cursor(cursor)
    return None if value is None else parse_position(value, _BAD_CURSOR)


def page_of(rows: list[_Each], limit: int) -> tuple[list[_Each], str | None]:
    """Return at most ``limit`` rows, and the cursor of the next page; one row more than ``limit`` was requested."""
    return rows[:limit], cursor_of(str(rows[limit - 1].position)) if len(rows) > limit else None


def cursor_after(names: Sequence[str], count: int) -> str:
    """Return the cursor with which a client gets what follows the first ``count`` names of a list."""
    return cursor_of(f"{count} {names[count - 1]}")


def index_after(names: Sequence[str], cursor: str | None) -> int:
    """Return where a list goes on, which may have changed since the cursor was made.

    >>> names = ["b", "a"]
    >>> index_after(names, None), index_after(names, cursor_after(names, 1))
    (0, 1)
    >>> index_after(["c", *names], cursor_after(names, 1))
    2
    """
    value = read_cursor(cursor)
    if value is None:
        return 0
    count, _, name = value.partition(" ")
    place = parse_position(count, _BAD_CURSOR)
    if 0 < place <= len(names) and names[place - 1] == name:
        return place
    try:
        return names.index(name) + 1
    except ValueError:
        return place


def page_of_names(names: Sequence[str], window: wire.ListWindow) -> tuple[Sequence[str], str | None]:
    """Return a page of sorted names, and the cursor of the next page.

    >>> page_of_names(["a", "b"], wire.ListWindow(limit=1, cursor=cursor_of("a")))
    (['b'], None)
    """
    after = read_cursor(window.cursor)
    first = 0 if after is None else bisect_right(names, after)
    found = names[first : first + window.limit]
    return found, cursor_of(found[-1]) if first + window.limit < len(names) else None


def filter_of_request(which: wire.Which, profiles: Declarations, *, since: str | None = None) -> Wanted:
    """Return the filter of notifications of a request."""
    since_s = None
    if since is not None:
        since_s = parse_iso(since)
        if since_s is None:
            raise BadRequestError("since is not a valid time; write it like 2026-01-31T12:00:00Z")
    return Wanted(rules_of_request(profiles, which.profile, which.rule), which.source, since_s)


def rules_of_request(profiles: Declarations, profile: str | None, rule: str | None) -> frozenset[str] | None:
    """Return the rules of a profile as it is declared now, or the one rule, or ``None`` for all of them.

    Whoever sees only a part of the declaration gets those of this part.
    """
    shown = profiles.shown
    # A rule may have been removed: its notifications are still stored
    if profile is None and shown is profiles.declaration:
        return None if rule is None else frozenset([rule])
    declaration = profiles.ready()
    if profile is not None:
        find_named("profile", profile, declaration.profiles)
    its = frozenset(name for name, each in declaration.rules.items() if profile in {None, *each.profiles})
    return its if rule is None else its & {rule}
