"""Sends traces to an OTLP/HTTP collector with OpenTelemetry's SDK, in a separate thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from proxyd import __version__
from proxyd.tracing import NO_FACTS, Fact, Span

_HEADER = "traceparent"
_EXPORT_S = 5.0
_PROPAGATOR = TraceContextTextMapPropagator()


class _OtlpSpan:
    """A step in OpenTelemetry."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **facts: Fact) -> None:
        """Add facts to the step."""
        self._span.set_attributes({f"proxyd.{name}": value for name, value in facts.items()})

    def fail(self, kind: str) -> None:
        """Mark the step as failed."""
        self._span.set_status(trace.StatusCode.ERROR, kind)


class OtlpTracer:
    """The Tracer port over OpenTelemetry; texts of exceptions are left out, because they may come from others."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("proxyd", __version__)

    @contextmanager
    def span(
        self, name: str, facts: Mapping[str, Fact] = NO_FACTS, *, parent: str = "", begun_s: float | None = None
    ) -> Iterator[Span]:
        """Record a step."""
        with self._tracer.start_as_current_span(
            name,
            context=_PROPAGATOR.extract({_HEADER: parent}) if parent else None,
            attributes={f"proxyd.{key}": value for key, value in facts.items()},
            start_time=None if begun_s is None else int(begun_s * 1e9),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            noted = _OtlpSpan(span)
            try:
                yield noted
            except BaseException as error:
                noted.fail(type(error).__name__)
                raise

    def context(self) -> str:
        """Return the current step as a header's value."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get(_HEADER, "")


def make_provider(processor: SpanProcessor) -> TracerProvider:
    """Return a provider of spans; it keeps those that ``OTEL_TRACES_SAMPLER`` says, by default all."""
    resource = Resource.create({"service.name": "proxyd", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


@asynccontextmanager
async def open_tracer(address: str) -> AsyncIterator[OtlpTracer]:
    """Connect to a collector; unsent spans are sent at the end, for a few seconds at most."""
    exporter = OTLPSpanExporter(f"{address.rstrip('/')}/v1/traces", timeout=_EXPORT_S)
    provider = make_provider(BatchSpanProcessor(exporter))
    try:
        yield OtlpTracer(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)
