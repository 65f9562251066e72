"""The interface for traces of probes and deliveries; ``proxyd.tracing.otlp`` sends them, if they are enabled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TypeAlias

Fact: TypeAlias = str | int | float | bool | Sequence[str]
NO_FACTS: Mapping[str, Fact] = {}


class Span(Protocol):
    """A running step."""

    def note(self, **facts: Fact) -> None:
        """Add facts, each under ``proxyd.`` and its name; never a secret, nor a URL's query."""

    def fail(self, kind: str) -> None:
        """Mark the step as failed; ``kind`` is a word that does not come from outside."""


class Tracer(Protocol):
    """Records when steps begin and end, and which belong together."""

    def span(
        self, name: str, facts: Mapping[str, Fact] = NO_FACTS, *, parent: str = "", begun_s: float | None = None
    ) -> AbstractContextManager[Span]:
        """Return a step that ends with its block; it has failed if the block raises.

        Its parent is the step whose ``context`` is ``parent``, else the enclosing step; without either it begins a
        trace. ``begun_s``, in unix seconds by the machine's clock, is for a step that began earlier.
        """

    def context(self) -> str:
        """Return the current step as a ``traceparent`` header, for others to continue; empty outside any step."""


class _NoSpan:
    """A step that is not recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let any exception pass."""

    def note(self, **facts: Fact) -> None:
        """Ignore the facts."""

    def fail(self, kind: str) -> None:
        """Ignore the failure."""


class _NoTracer:
    """Records nothing, at almost no cost."""

    def span(
        self, name: str, facts: Mapping[str, Fact] = NO_FACTS, *, parent: str = "", begun_s: float | None = None
    ) -> AbstractContextManager[Span]:
        """Return a step that is not recorded."""
        return _NO_SPAN

    def context(self) -> str:
        """Return an empty text: there is no current step."""
        return ""


_NO_SPAN = _NoSpan()
NO_TRACES: Tracer = _NoTracer()
