"""The prober: a request becomes an outcome, whatever the origin does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from proxyd.errors import ProbeError
from proxyd.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.net import one_line
from proxyd.probing.failures import kind_of
from proxyd.probing.fetcher import FetchResponse, Trip
from proxyd.probing.page_values import ParsedPage

if TYPE_CHECKING:
    from proxyd.model.profile import PageClass
    from proxyd.ports import Clock
    from proxyd.probing.pages import ParsedDocument

_READABLE = frozenset({200, 203, 204, 205})
_THROTTLED = frozenset({429, 503})


class Fetch(Protocol):
    """What the prober fetches with."""

    async def fetch(self, url: str, validators: Validators | None = None, trip: Trip | None = None) -> FetchResponse:
        """Return the last response or raise a ProbeError."""


class Parse(Protocol):
    """What the prober parses with."""

    async def parse(
        self, body: bytes, content_type: str | None = None, url: str = "", page_class: PageClass | None = None
    ) -> ParsedDocument:
        """Return what the class reads, a feed where there is none; or raise a ProbeError."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """One probe under way: what was asked and what it has cost so far."""

    request: ProbeRequest
    trip: Trip
    asked_s: float


class HttpProber:
    """Probes sources over HTTP.

    ``validators`` and ``body_hash`` of an outcome are always what the next request should carry: those of the
    document if it was read, otherwise those of the request.
    """

    def __init__(self, fetcher: Fetch, parser: Parse, clock: Clock) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._clock = clock

    async def probe(self, request: ProbeRequest, trip: Trip | None = None) -> ProbeOutcome:
        """Fetch and read one source once; ``trip`` is told what was sent and received on the way."""
        probe = _Probe(request, trip if trip is not None else Trip(), self._clock.time_s())
        try:
            response = await self._fetcher.fetch(request.url, request.validators, probe.trip)
            return await self._read(probe, response)
        except ProbeError as error:
            return self._failed(probe, error)

    async def _read(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        status = response.status
        if status == 304 and probe.request.validators != Validators():
            return self._not_modified(probe, response)
        if status in _THROTTLED:
            return self._throttled(probe, response)
        if status == 410:
            return self._gone(probe, response)
        if status not in _READABLE:
            return self._http_error(probe, response)
        body_hash = hashlib.sha256(response.body).hexdigest()
        if response.body and body_hash == probe.request.body_hash:
            return self._same_body(probe, response)
        return await self._parsed(probe, response, body_hash)

    async def _parsed(self, probe: _Probe, response: FetchResponse, body_hash: str) -> ProbeOutcome:
        try:
            document = await self._parser.parse(
                response.body, response.headers.get("Content-Type"), response.url, probe.request.page_class
            )
        except ProbeError as error:
            return replace(self._failed(probe, error), status=response.status, retry_after_s=response.retry_after_s)
        return self._changed(probe, response, body_hash, document)

    def _changed(self, probe: _Probe, response: FetchResponse, body_hash: str, read: ParsedDocument) -> ProbeOutcome:
        outcome = self._outcome(probe, OutcomeKind.CHANGED, response, _changed_detail(read))
        return replace(
            outcome,
            items=read.items,
            validators=response.validators,
            body_hash=body_hash,
            period_s=read.period_s,
        )

    def _same_body(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        outcome = self._outcome(probe, OutcomeKind.SAME_BODY, response, "the same bytes as before")
        return replace(outcome, validators=response.validators)

    def _not_modified(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        outcome = self._outcome(probe, OutcomeKind.NOT_MODIFIED, response, "304")
        sent, received = probe.request.validators, response.validators
        kept = Validators(received.etag or sent.etag, received.last_modified or sent.last_modified)
        return replace(outcome, validators=kept)

    def _throttled(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        return self._outcome(probe, OutcomeKind.THROTTLED, response, f"status {response.status}")

    def _gone(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        return self._outcome(probe, OutcomeKind.GONE, response, "status 410: gone for good")

    def _http_error(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        unasked = ", which nothing in the request allows" if response.status in {206, 304} else ""
        return self._outcome(probe, OutcomeKind.HTTP_ERROR, response, f"status {response.status}{unasked}")

    def _failed(self, probe: _Probe, error: ProbeError) -> ProbeOutcome:
        outcome = self._outcome(probe, kind_of(error), None, error.message)
        return replace(outcome, retry_after_s=error.retry_after_s)

    def _outcome(self, probe: _Probe, kind: OutcomeKind, response: FetchResponse | None, detail: str) -> ProbeOutcome:
        started_s = probe.asked_s if probe.trip.started_s is None else probe.trip.started_s
        return ProbeOutcome(
            source_id=probe.request.source_id,
            kind=kind,
            started_s=started_s,
            finished_s=max(started_s, self._clock.time_s()),
            status=None if response is None else response.status,
            validators=probe.request.validators,
            body_hash=probe.request.body_hash,
            retry_after_s=None if response is None else response.retry_after_s,
            fresh_for_s=None if response is None else response.fresh_for_s,
            detail=one_line(detail),
            requests=probe.trip.requests,
            body_bytes=probe.trip.body_bytes,
        )


def _changed_detail(document: ParsedDocument) -> str:
    parts = [f"{document.version}, {len(document.items)} items"]
    if document.truncated:
        parts.append("more were left out")
    if isinstance(document, ParsedPage) and document.misfits:
        counted = ", ".join(f"{path} {count}" for path, count in document.misfits)
        parts.append(f"values that do not fit their type: {counted}")
    if document.trouble:
        parts.append(f"trouble: {document.trouble}")
    return "; ".join(parts)
