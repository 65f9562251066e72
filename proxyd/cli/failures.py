"""Errors out of task groups, for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from proxyd.errors import ProxydError


def leaves(group: BaseExceptionGroup[ProxydError]) -> list[ProxydError]:
    """Return the different errors of a group, each once."""
    found: dict[str, ProxydError] = {}
    for error in group.exceptions:
        for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else [error]:
            found[str(leaf)] = leaf
    return list(found.values())


@contextmanager
def proxyd_errors() -> Iterator[None]:
    """Raise the first error of a group of ``ProxydError`` by itself; bugs pass as they are."""
    errors: list[ProxydError] = []
    try:
        yield
    except* ProxydError as group:
        errors = leaves(group)
    if errors:
        raise errors[0]
