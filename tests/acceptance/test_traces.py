"""Traces of a real daemon arrive at a real OTLP/HTTP collector, whole, and a receiver is told of its own."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.acceptance.support import World, eventually, world


class Collector:
    """Takes what OTLP exporters send, as pages of the origin."""

    def __init__(self, w: World) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.told: list[str] = []
        w.origin.pages["v1/traces"] = self.take
        w.origin.pages["hook"] = self.hook

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        for resource in sent.resource_spans:
            self.services |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")

    async def hook(self, request: web.Request) -> web.Response:
        """Stand for a receiver; pings are answered too."""
        if b"proxyd.notification" in await request.read():
            self.told.append(request.headers.get("traceparent", ""))
        return web.Response(status=204)

    def traces(self) -> dict[bytes, dict[str, list[Span]]]:
        """Return the spans by trace and name."""
        found: dict[bytes, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for span in self.spans:
            found[span.trace_id][span.name].append(span)
        return found


async def moved(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "/news?key=hunter2"})


async def test_probes_and_deliveries_are_traced_from_end_to_end(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        collector = Collector(w)
        w.daemon.settings["traces"] = f"http://127.0.0.1:{w.origin.port}"
        w.origin.pages["old"] = moved
        feed = w.origin.feed("news")
        feed.add(1, age_s=3600.0)
        text = w.text(["old"], {"each": 1}).replace(w.receiver.url("each"), w.origin.url("hook?token=hunter2"))
        w.daemon.declare(text)
        await w.daemon.start()
        await w.daemon.knows("old")
        feed.add(1)
        await eventually(lambda: collector.told, "a notification")
        await w.daemon.stop()  # sends what was not sent yet
    assert collector.services == {"proxyd"}
    traces = collector.traces().values()
    found = next(t for t in traces if any(items(span) == 1 for span in t["commit"]) and t["parse"])
    (probe,), requests = found["probe"], found["request"]
    assert {name: len(spans) for name, spans in found.items() if spans} == {
        **dict.fromkeys(("probe", "fetch", "parse", "observe", "commit"), 1),
        "request": 2,
    }
    assert [status(span) for span in requests] == [302, 200]
    ends = [found[name][0].end_time_unix_nano for name in ("parse", "fetch", "commit", "observe", "probe")]
    assert probe.start_time_unix_nano <= requests[0].start_time_unix_nano < ends[0]
    assert ends == sorted(ends)
    delivered = [span for trace in traces for span in trace["deliver"]]
    steps = {f"00-{span.trace_id.hex()}-{span.span_id.hex()}" for span in delivered}
    assert {told.rpartition("-")[0] for told in collector.told} <= steps
    assert all("hunter2" not in str(span) for span in collector.spans)


def items(span: Span) -> int:
    return next(int(each.value.int_value) for each in span.attributes if each.key == "proxyd.items")


def status(span: Span) -> int:
    return next(int(each.value.int_value) for each in span.attributes if each.key == "proxyd.status")


async def test_a_collector_that_is_down_holds_nothing_up(tmp_path: Path) -> None:
    async with world(tmp_path, traces="http://127.0.0.1:9") as w:
        feed = w.origin.feed("news")
        w.daemon.declare(w.text(["news"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("news")
        feed.add(1)
        assert await w.receiver.received("each", 1) == feed.guids
        await w.daemon.stop()
