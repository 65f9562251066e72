"""Extracts errors from task groups for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from proxyd.errors import ProxydError


def leaves(group: BaseExceptionGroup[ProxydError]) -> list[ProxydError]:
    """Return the distinct errors of a group."""
    found: dict[str, ProxydError] = {}
    for error in group.exceptions:
        for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else [error]:
            found[str(leaf)] = leaf
    return list(found.values())


@contextmanager
def proxyd_errors() -> Iterator[None]:
    """Raise the first error of a group of ``ProxydError`` on its own; other errors pass unchanged."""
    errors: list[ProxydError] = []
    try:
        yield
    except* ProxydError as group:
        errors = leaves(group)
    if errors:
        raise errors[0]
