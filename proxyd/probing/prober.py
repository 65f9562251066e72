"""The prober: turns a request into an outcome, whatever the origin does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from proxyd.base.ports import Prober, TakeStray, Unmade, always
from proxyd.core.errors import LeaseLostError, ProbeError
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.field_values import normal_link
from proxyd.core.model.outcome import NO_VALIDATORS, HubLinks, OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.core.model.profile import SITE_CLASS
from proxyd.core.model.site import CONNECTIONS
from proxyd.core.texts.safe_text import one_line
from proxyd.net.http_values import absolute, read_links
from proxyd.probing.documents.probe_failures import NoBrowserError, NoSecretError, NotAFeedError, kind_of
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.http.fetcher import FetchRequest, FetchResponse, ProbeTrace
from proxyd.probing.pages.page_values import ParsedPage
from proxyd.tracing import NO_TRACES, Tracer

if TYPE_CHECKING:
    from proxyd.base.ports import Clock, MaySend, ResolveSecret
    from proxyd.core.model.delivery import SecretRef
    from proxyd.core.model.profile import Auth, PageClass, Rendering
    from proxyd.probing.document_parser import ParsedDocument
    from proxyd.probing.http.fetcher import Fetch, RequestGate

_READABLE = frozenset({200, 203, 204, 205})
_MOST_HUBS = 10
_LONGEST_NAMED = 80


class Parse(Protocol):
    """The prober's interface to a parser."""

    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        """Return what the class reads, without a class a feed; or raise a ProbeError."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """A running probe: its request and its steps so far."""

    request: ProbeRequest
    trace: ProbeTrace
    asked_s: float


class Render(Protocol):
    """The prober's interface to a browser."""

    async def render(self, asked: FetchRequest, rendering: Rendering, trace: ProbeTrace) -> FetchResponse:
        """Return the response of a page with what a browser shows of it as its body; or raise a ProbeError."""


@dataclass(frozen=True, slots=True)
class NoBrowser:
    """Renders nothing, and says why."""

    reason: str

    async def render(self, _asked: FetchRequest, _rendering: Rendering, _trace: ProbeTrace) -> FetchResponse:
        """Raise NoBrowserError."""
        raise NoBrowserError(f"FETCH BROWSER reads nothing while {self.reason}")


class HttpProber:
    """Probes sources over HTTP.

    ``validators`` and ``body_hash`` of an outcome are always those for the next request: the document's if it was
    read, otherwise the request's.

    Parameters
    ----------
    resolve_secret
        Finds the secrets of sources; without it, none is set.
    robots
        Checks every request of a probe that obeys robots.txt; without it, none is forbidden.
    browser
        Renders the pages whose scripts must run.
    tracer
        Records the steps of a probe.
    """

    def __init__(
        self,
        fetcher: Fetch,
        parser: Parse,
        clock: Clock,
        *,
        resolve_secret: ResolveSecret = lambda _: None,
        robots: RequestGate | None = None,
        browser: Render = NoBrowser("there is no browser"),
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._clock = clock
        self._resolve_secret = resolve_secret
        self._robots = robots
        self._browser = browser
        self._tracer = tracer

    async def probe(
        self, request: ProbeRequest, may_send: MaySend = always, *, trace: ProbeTrace | None = None
    ) -> ProbeOutcome:
        """Fetch and read one source once; ``trace`` records the requests and responses.

        Raises ``LeaseLostError`` if ``may_send``, which is asked before each request, does not allow it.
        """
        trace = trace if trace is not None else ProbeTrace(is_shown=False, may_send=may_send)
        probe = _Probe(request, trace, self._clock.time_s())
        with self._tracer.span("fetch", {"source": request.source_id}, parent=request.trace) as span:
            outcome = await self._outcome_of(probe)
            span.note(outcome=outcome.kind.value, requests=outcome.requests, body_bytes=outcome.body_bytes)
            if not outcome.kind.is_success:
                span.fail(outcome.kind.value)
            return outcome

    async def _outcome_of(self, probe: _Probe) -> ProbeOutcome:
        try:
            response = await self._fetch_document(probe)
            if probe.request.page_class == SITE_CLASS:
                return self._site_outcome(probe, response)
            return await self._read(probe, response)
        except ProbeError as error:
            return self._failure_outcome(probe, error)

    async def _fetch_document(self, probe: _Probe) -> FetchResponse:
        asked, rendering = self._request_to_fetch(probe.request), probe.request.rendering
        if rendering is None:
            return await self._fetcher.fetch(asked, probe.trace)
        return await self._browser.render(asked, rendering, probe.trace)

    def _request_to_fetch(self, request: ProbeRequest) -> FetchRequest:
        """Return the request to fetch; the profile's headers are meant for the declared URL, even after it moved."""
        return FetchRequest(
            request.moved_url or request.url,
            request.validators,
            self._headers(request),
            None if request.auth is None else _authorization(request.auth, self._resolve_secret),
            home=request.url,
            post=None if request.post is None else request.post.encode("utf-8", "surrogatepass"),
            gate=self._robots if request.obeys_robots else None,
            wants_picture=request.wants_picture,
            of_site=request.page_class == SITE_CLASS,  # one that sends a large file is up
            wants_line=request.holding is not None,
        )

    def _headers(self, request: ProbeRequest) -> tuple[tuple[str, str], ...]:
        """Return the headers of a profile with their secrets, which are looked up for each request."""
        return tuple(
            (name, value if isinstance(value, str) else _header_secret(value, self._resolve_secret))
            for name, value in request.headers
        )

    async def _read(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        status = response.status
        if status == 304 and probe.request.validators != Validators():
            return self._not_modified(probe, response)
        if response.is_throttling:
            return self._throttle_outcome(probe, response)
        if status == 410:
            return self._gone(probe, response)
        if status not in _READABLE or _is_challenge(response):
            return self._http_error(probe, response)
        body_hash = hashlib.sha256(response.body).hexdigest()
        if response.body and body_hash == probe.request.body_hash:
            return self._same_body(probe, response)
        return await self._outcome_of_document(probe, response, body_hash)

    async def _outcome_of_document(self, probe: _Probe, response: FetchResponse, body_hash: str) -> ProbeOutcome:
        try:
            document = await self._parse(probe, response)
        except ProbeError as error:
            return replace(
                self._failure_outcome(probe, error),
                status=response.status,
                retry_after_s=response.retry_after_s,
                permanent_url=response.permanent_url,
                picture=response.picture,
            )
        return self._change_outcome(probe, response, body_hash, document)

    async def _parse(self, probe: _Probe, response: FetchResponse) -> ParsedDocument:
        with self._tracer.span("parse", {"body_bytes": len(response.body)}) as span:
            languages = Languages(probe.request.locale, response.headers.get("Content-Language"))
            content_type = response.headers.get("Content-Type")
            document = await self._parser.parse(
                response.body, content_type, response.url, probe.request.page_class, languages
            )
            span.note(items=len(document.items))
            return document

    def _change_outcome(
        self, probe: _Probe, response: FetchResponse, body_hash: str, read: ParsedDocument
    ) -> ProbeOutcome:
        outcome = self._outcome(probe, OutcomeKind.CHANGED, response, _detail_of_change(read))
        return replace(
            outcome,
            items=read.items,
            truncated=read.truncated,
            misfits=sum(count for _, count in read.misfits) if isinstance(read, ParsedPage) else 0,
            validators=response.validators,
            body_hash=body_hash,
            period_s=read.period_s,
            hub_links=hub_links(response, read),
            is_redirected=normal_link(response.url) != normal_link(probe.request.moved_url or probe.request.url),
            is_unordered=isinstance(read, ParsedFeed) and read.version in {"sitemap", "sitemapindex"},
        )

    def _same_body(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        detail, sent = "the same bytes as before", response.validators
        return self._outcome(probe, OutcomeKind.SAME_BODY, response, detail, sent, hub_links(response))

    def _not_modified(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        sent, received = probe.request.validators, response.validators
        kept = Validators(received.etag or sent.etag, received.last_modified or sent.last_modified)
        return self._outcome(probe, OutcomeKind.NOT_MODIFIED, response, "304", kept, hub_links(response))

    def _throttle_outcome(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        outcome = self._outcome(probe, OutcomeKind.THROTTLED, response, f"status {response.status}")
        return replace(outcome, permanent_url=None)

    def _site_outcome(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        """Return whether a site is up: it answers without an error, and holds what it must hold."""
        if response.status == 429:
            return self._throttle_outcome(probe, response)
        # a site that asks to come back later is down, and is watched until it is up
        response = replace(response, retry_after_s=None)
        if not 200 <= response.status < 400:
            return self._http_error(probe, response)
        is_connection = urlsplit(response.url).scheme in CONNECTIONS
        holding = probe.request.holding
        if holding is not None and not any(each in response.body for each in _spellings(holding)):
            what = "the first line" if is_connection else "the page"
            return self._outcome(probe, OutcomeKind.UNREADABLE, response, f"{what} does not hold {holding!r}")
        detail = "connected" if is_connection else f"status {response.status}"
        outcome = self._outcome(probe, OutcomeKind.SAME_BODY, response, detail, NO_VALIDATORS)
        return replace(outcome, status=None) if is_connection else outcome

    def _gone(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        return self._outcome(probe, OutcomeKind.GONE, response, "status 410: gone for good")

    def _http_error(self, probe: _Probe, response: FetchResponse) -> ProbeOutcome:
        unasked = ", which the request does not allow" if response.status in {206, 304} else ""
        challenged = ": a challenge that only a browser can answer" if _is_challenge(response) else ""
        detail = f"status {response.status}{unasked}{challenged}"
        return self._outcome(probe, OutcomeKind.HTTP_ERROR, response, detail)

    def _failure_outcome(self, probe: _Probe, error: ProbeError) -> ProbeOutcome:
        outcome = self._outcome(probe, kind_of(error), None, error.message)
        links = error.links if isinstance(error, NotAFeedError) else ()
        return replace(outcome, retry_after_s=error.retry_after_s, linked_feeds=links)

    def _outcome(
        self,
        probe: _Probe,
        kind: OutcomeKind,
        response: FetchResponse | None,
        detail: str,
        validators: Validators | None = None,
        links: HubLinks | None = None,
    ) -> ProbeOutcome:
        started_s = probe.asked_s if probe.trace.started_s is None else probe.trace.started_s
        return ProbeOutcome(
            source_id=probe.request.source_id,
            kind=kind,
            started_s=started_s,
            finished_s=max(started_s, self._clock.time_s()),
            status=None if response is None else response.status,
            validators=probe.request.validators if validators is None else validators,
            body_hash=probe.request.body_hash,
            hub_links=links,
            retry_after_s=None if response is None else response.retry_after_s,
            fresh_for_s=None if response is None else response.fresh_for_s,
            permanent_url=None if response is None else response.permanent_url,
            detail=one_line("; ".join([detail + _note_of_delay(probe.trace), *probe.trace.remarks])),
            answered_by=None if response is None else response.host,
            is_answered=probe.trace.is_answered or probe.trace.body_bytes > 0,
            certificate=probe.trace.certificate,
            certificate_end_s=probe.trace.certificate_end_s,
            crawl_delay_s=probe.trace.crawl_delay_s,
            requests=probe.trace.requests,
            body_bytes=probe.trace.body_bytes,
            trace=probe.request.trace,
            picture=None if response is None else response.picture,
        )


def _spellings(words: str) -> set[bytes]:
    """Return the bytes of words in the usual charsets, plain and as HTML writes them.

    The body is not decoded: that takes long for a large one, and a search in its bytes does not.
    """
    found: set[bytes] = set()
    for form in (words, html.escape(words), html.escape(words, quote=False)):
        for charset in ("utf-8", "cp1252", "utf-16-le"):
            with suppress(UnicodeEncodeError):
                found.add(form.encode(charset))
    return found


def _is_challenge(response: FetchResponse) -> bool:
    """Return whether Cloudflare sent a challenge instead of the page, which it does with any status."""
    return response.headers.get("cf-mitigated", "").strip().lower() == "challenge"


def _note_of_delay(trace: ProbeTrace) -> str:
    """Return a note about a Crawl-delay, which is why probes of the host are slow."""
    return f"; robots.txt asks for {trace.crawl_delay_s:g} s between requests" if trace.crawl_delay_s else ""


def _detail_of_change(document: ParsedDocument) -> str:
    count = len(document.items)
    parts = [f"{document.version}, {count} {'item' if count == 1 else 'items'}"]
    if document.truncated:
        parts.append("more were left out")
    if isinstance(document, ParsedFeed) and document.duplicates.count:
        named = ", ".join(repr(identity[:_LONGEST_NAMED]) for identity in document.duplicates.identities)
        parts.append(f"dropped as duplicates: {document.duplicates.count}, of {named}")
    if isinstance(document, ParsedPage) and document.misfits:
        counted = ", ".join(f"{path} {count}" for path, count in document.misfits)
        parts.append(f"values that do not fit their type: {counted}")
    if document.trouble:
        parts.append(f"trouble: {document.trouble}")
    return "; ".join(parts)


def _authorization(auth: Auth, resolve_secret: ResolveSecret) -> str:
    """Return the value of the Authorization header; raise NoSecretError, which never shows a secret."""
    if auth.user is None:
        return "Bearer " + _header_secret(auth.secret, resolve_secret)
    secret = _secret(auth.secret, resolve_secret)
    return "Basic " + base64.b64encode(auth.user.encode() + b":" + secret).decode()


def _header_secret(place: SecretRef, resolve_secret: ResolveSecret) -> str:
    """Return a secret as the value of a header; raise NoSecretError, which never shows it."""
    token = _secret(place, resolve_secret).strip()
    if not token.isascii() or not token.decode("ascii").isprintable():
        named = f"{_secret_text(place)} contains characters that no header may contain"
        raise NoSecretError(f"{named}, so nothing was sent; correct it")
    return token.decode("ascii")


def _secret(place: SecretRef, resolve_secret: ResolveSecret) -> bytes:
    secret = resolve_secret(place)
    if not secret:
        raise NoSecretError(f"{_secret_text(place)} is not set, so nothing was sent; set it and restart")
    return secret


def _secret_text(place: SecretRef) -> str:
    return f"SECRET {place.kind.upper()} {place.name!r}"


def hub_links(response: FetchResponse, read: ParsedDocument | None = None) -> HubLinks | None:
    """Return the hubs that a response and its document name, the response's first, or ``None`` if they name none.

    The topic is the self link of either, else the response's URL.
    """
    links = read_links(response.headers.getall("Link", ()), response.url)
    hubs = [link.url for link in links if "hub" in link.relations]
    selves = [link.url for link in links if "self" in link.relations]
    if isinstance(read, ParsedFeed):
        named = (absolute(hub, response.url) for hub in read.hubs)
        hubs += [hub for hub in named if hub is not None]
        own = None if read.self_url is None else absolute(read.self_url, response.url)
        selves += [] if own is None else [own]
    if not hubs:
        return None
    return HubLinks(tuple(dict.fromkeys(hubs))[:_MOST_HUBS], selves[0] if selves else response.url)


class LocalTransport:
    """The Transport port over this process's prober, which itself keeps the hosts' turns.

    ``may_send`` is asked before each request.
    """

    def __init__(self, prober: Prober, may_send: MaySend = always) -> None:
        self._prober = prober
        self._may_send = may_send
        self._stopped = asyncio.Event()

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        """Yield the outcome of a probe."""
        try:
            outcome: ProbeOutcome | Unmade = await self._prober.probe(request, self._may_send)
        except LeaseLostError:
            outcome = Unmade.LOST
        yield outcome

    async def run(self, take_stray: TakeStray) -> None:
        """Wait for ``stop``: there are no stray outcomes here."""
        await self._stopped.wait()

    def stop(self) -> None:
        """End ``run``; returns at once."""
        self._stopped.set()

    @property
    def is_up(self) -> bool:
        """Whether probes can be made."""
        return True

    @property
    def aside(self) -> Mapping[str, str]:
        """No prober: there is only this one."""
        return {}
