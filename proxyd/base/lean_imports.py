"""Imports of libraries without modules that these load for looks which nobody sees."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let imports in the context find some modules missing, unless these are loaded already.

    >>> with without("antigravity"):
    ...     import antigravity
    Traceback (most recent call last):
    ...
    ModuleNotFoundError: import of antigravity halted; None in sys.modules
    """
    loaded = cast("MutableMapping[str, ModuleType | None]", sys.modules)
    hidden = [name for name in names if name not in loaded]
    loaded.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del loaded[name]
