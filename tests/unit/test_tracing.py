"""What is traced, what belongs to what, and that nothing is loaded where no traces are wanted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from proxyd import __version__
from proxyd.app.network import open_tracer
from proxyd.base.metrics import Metrics
from proxyd.base.ports import MaySend, Message, always
from proxyd.config.loading import load
from proxyd.core.errors import ConfigError, DeliveryError, FetchError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.notify.channels.channel_routing import Channels
from proxyd.probing.document_parser import ParserPool
from proxyd.probing.http.fetcher import FetchRequest, FetchResponse, ProbeTrace
from proxyd.probing.prober import HttpProber, LocalTransport
from proxyd.tracing import NO_TRACES
from proxyd.tracing.otlp import OtlpTracer, make_provider
from tests.fakes import FakeClock, settle
from tests.fleets import (
    PoissonOrigin,
    RecordingMemory,
    changed,
    decider,
    declaration,
    item,
    observer,
    probe_loop,
    rule,
    source,
)

T0 = 1_000_000_000.0


class Traced:
    """A tracer whose spans stay here."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.tracer = OtlpTracer(make_provider(SimpleSpanProcessor(self._kept)))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def lineage(self, span: ReadableSpan) -> list[str]:
        """Return a span's name and those that it belongs to."""
        by_id = {each.context.span_id: each for each in self.spans}
        found = [span.name]
        while span.parent is not None and span.parent.span_id in by_id:
            span = by_id[span.parent.span_id]
            found.append(span.name)
        return found


@pytest.fixture
def traced() -> Traced:
    return Traced()


class Asked(PoissonOrigin):
    """Notes which step each probe was said to belong to."""

    traces: list[str]

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.traces = [*getattr(self, "traces", []), request.trace]
        return replace(await super().probe(request), trace=request.trace)


async def probed(traced: Traced) -> Asked:
    """Probe a source that gains an item, for a few chronons."""
    clock = FakeClock(T0)
    found = decider(
        declaration(source("s"), rule("r", clauses="SET POLICY UNIFORM(20 SECONDS)")),
        now_s=T0,
        settings={"source_spacing_s": 10.0},
    )
    origin = Asked({"s": [T0 + 15.0]}, clock.time_s)
    loop = probe_loop(found, LocalTransport(origin), RecordingMemory(), clock, Metrics(), tracer=traced.tracer)
    task = asyncio.create_task(loop.run())
    await settle()
    await clock.advance(100.0)
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task
    return origin


async def test_a_probe_is_one_trace_from_its_plan_to_its_commit(traced: Traced) -> None:
    origin = await probed(traced)
    probes = traced.of("probe")
    assert len(probes) == len(origin.started) >= 2
    assert [traced.lineage(span) for span in traced.of("commit")] == [["commit", "observe", "probe"]] * len(probes)
    assert len({span.context.trace_id for span in probes}) == len(probes)
    first = probes[0]
    assert first.attributes == {
        "proxyd.source": "s",
        "proxyd.reason": "first contact",
        "proxyd.outcome": "changed",
        "proxyd.lateness_s": 0.0,
    }
    assert first.start_time == int(origin.started[0][0] * 1e9)


async def test_whoever_probes_is_told_which_step_it_belongs_to(traced: Traced) -> None:
    origin = await probed(traced)
    expected = [f"00-{s.context.trace_id:032x}-{s.context.span_id:016x}" for s in traced.of("probe")]
    assert [trace.rpartition("-")[0] for trace in origin.traces] == expected


async def test_the_commit_of_a_firing_names_its_notifications(traced: Traced) -> None:
    await probed(traced)
    firings = [span.attributes["proxyd.notifications"] for span in traced.of("commit") if span.attributes is not None]
    assert sum(len(ids) for ids in firings if isinstance(ids, tuple)) == 1


async def test_an_outcome_from_elsewhere_goes_on_with_its_trace(traced: Traced) -> None:
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    clock = FakeClock(T0)
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    taking = observer(found, RecordingMemory(), clock, Metrics(), tracer=traced.tracer)
    assert await taking.take_in(replace(changed("s", [item("i", T0)], T0), trace=trace))
    (observe,) = traced.of("observe")
    assert observe.context.trace_id == int("0123456789abcdef0123456789abcdef", 16)
    assert observe.parent is not None
    assert observe.parent.span_id == int("0123456789abcdef", 16)


class FailingFetcher:
    async def fetch(self, request: FetchRequest, trip: ProbeTrace | None = None) -> FetchResponse:
        raise FetchError("the origin said: my password is hunter2")


async def test_a_failed_probe_says_of_which_kind_and_quotes_nobody(traced: Traced) -> None:
    async with ParserPool(workers=1, timeout_s=5.0) as parser:
        prober = HttpProber(FailingFetcher(), parser, FakeClock(T0), tracer=traced.tracer)
        await prober.probe(ProbeRequest("s", "https://example.org/feed?key=hunter2"))
    (fetch,) = traced.spans
    assert fetch.status.description == "unreachable"
    assert not fetch.status.is_ok
    assert "hunter2" not in fetch.to_json()


class Refusing:
    async def deliver(self, message: Message) -> str:
        raise DeliveryError("it said hunter2")


async def test_a_delivery_is_a_trace_that_says_what_failed_and_quotes_nobody(traced: Traced) -> None:
    channels = Channels({"channel": Refusing()}, traced.tracer)
    with pytest.raises(DeliveryError):
        await channels.deliver(Message("ntf_1", "r", "chat://hunter2", b"{}", T0, kind="channel"))
    (deliver,) = traced.of("deliver")
    assert deliver.attributes == {"proxyd.notification": "ntf_1", "proxyd.rule": "r", "proxyd.kind": "channel"}
    assert deliver.status.description == "DeliveryError"
    assert deliver.events == ()
    assert "hunter2" not in deliver.to_json()


def test_no_share_keeps_no_trace_but_those_that_others_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    traced = Traced()
    with traced.tracer.span("ours"), traced.tracer.span("ours too"):
        unkept = traced.tracer.context()
    with traced.tracer.span("theirs", parent=f"{unkept[:-2]}01"):
        pass
    assert [span.name for span in traced.spans] == ["theirs"]


def test_the_service_and_its_version_are_named(traced: Traced) -> None:
    with traced.tracer.span("step"):
        pass
    attributes = traced.spans[0].resource.attributes
    assert (attributes["service.name"], attributes["service.version"]) == ("proxyd", __version__)


async def test_without_a_collector_nothing_is_traced() -> None:
    async with open_tracer(load(environ={})) as tracer:
        with tracer.span("step", {"source": "s"}, parent="x", begun_s=1.0) as span:
            span.note(outcome="changed")
            span.fail("timeout")
            assert tracer.context() == ""
    assert tracer is NO_TRACES


def test_nothing_of_opentelemetry_is_loaded_by_the_daemons_modules() -> None:
    found = "[m for m in sys.modules if m.startswith('opentelemetry')]"
    code = f"import sys, proxyd.app.wiring, proxyd.cli.main; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


async def test_a_collector_without_the_extra_is_an_error_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "proxyd.tracing.otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    settings = load(environ={}, traces="http://127.0.0.1:4318")
    with pytest.raises(ConfigError, match=r"traces: proxyd\[tracing\] is not installed"):
        async with open_tracer(settings):
            pass


@pytest.mark.parametrize(
    "address", ["http://me:hunter2@c.example", "http://c.example/?key=hunter2", "ftp://hunter2", "hunter2", "http://["]
)
def test_an_address_that_may_hold_a_secret_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(ConfigError, match="traces: ") as caught:
        load(environ={}, traces=address)
    assert "hunter2" not in str(caught.value)
