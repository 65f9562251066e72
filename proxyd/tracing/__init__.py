"""Traces of probes and deliveries: what edges call; ``proxyd.tracing.otlp`` sends them, where they are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TypeAlias

Fact: TypeAlias = str | int | float | bool | Sequence[str]
NO_FACTS: Mapping[str, Fact] = {}


class Span(Protocol):
    """A step under way."""

    def note(self, **facts: Fact) -> None:
        """Add what has become known, each under ``proxyd.`` and its name; never a secret, nor an address's query."""

    def fail(self, kind: str) -> None:
        """Mark the step as failed, in a word that is no text from outside."""


class Tracer(Protocol):
    """Notes when steps began and ended, and which belong together."""

    def span(
        self, name: str, facts: Mapping[str, Fact] = NO_FACTS, *, parent: str = "", begun_s: float | None = None
    ) -> AbstractContextManager[Span]:
        """Return a step that ends with its block; what raises has failed.

        It belongs to the step that ``parent`` is the ``context`` of, else to the one around it, else it begins a trace.
        ``begun_s`` is unix seconds as the machine has them, where it began before.
        """

    def context(self) -> str:
        """Return the present step for others to go on with, as a ``traceparent`` header; empty outside of any."""


class _NoSpan:
    """A step that nobody notes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let pass whatever was raised."""

    def note(self, **facts: Fact) -> None:
        """Forget it."""

    def fail(self, kind: str) -> None:
        """Forget it."""


class _NoTracer:
    """Notes nothing, and costs next to nothing."""

    def span(
        self, name: str, facts: Mapping[str, Fact] = NO_FACTS, *, parent: str = "", begun_s: float | None = None
    ) -> AbstractContextManager[Span]:
        """Return a step that nobody notes."""
        return _NO_SPAN

    def context(self) -> str:
        """Return that there is none."""
        return ""


_NO_SPAN = _NoSpan()
NO_TRACES: Tracer = _NoTracer()
