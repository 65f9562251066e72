"""What every behaviour of an origin ends in, through the prober, the session and the guard, over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web

from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.outcome import HubLinks, OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.core.model.profile import Auth
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.probing.document_parser import ParserPool
from proxyd.probing.http.fetcher import Fetcher, FetchLimits, ProbeTrace
from proxyd.probing.http.robots import Robots, robots_limits
from proxyd.probing.prober import HttpProber
from tests.fakes import FakeClock, settle
from tests.origin import FEED, HUB, InlineParser, Origin, playing

LOOPBACK = Guard([ip_network("127.0.0.0/8")])
KNOWN = Validators('"1"', "then")
SECRETS = {"SECRET_A": b"secret", "SECRET_BROKEN": b"se\ncret"}
BEARER = Auth("bearer", SecretRef("env", "SECRET_A"))
BASIC = Auth("basic", SecretRef("env", "SECRET_A"), "me")


def resolve(ref: SecretRef) -> bytes | None:
    return SECRETS.get(ref.name)


@dataclass
class Rig:
    origin: Origin
    prober: HttpProber
    clock: FakeClock
    robots: Robots
    tokens: HostTokens
    trace: ProbeTrace = field(default_factory=ProbeTrace)

    async def probe(self, url: str, **known: Any) -> ProbeOutcome:
        self.trace = ProbeTrace()
        return await self.prober.probe(ProbeRequest("s", url, **known), trace=self.trace)

    async def ask(self, path: str, query: Mapping[str, str | int] | None = None, **known: Any) -> ProbeOutcome:
        return await self.probe(self.origin.at(path, **(query or {})), **known)


@asynccontextmanager
async def rigged(limits: FetchLimits | None = None, *, guard: Guard = LOOPBACK, proxy: str = "") -> AsyncIterator[Rig]:
    clock, limits = FakeClock(), limits or FetchLimits(total_s=20.0)
    tokens = HostTokens(clock, 0.0)
    async with playing() as origin, make_session(guard, contact="ops@example.org", proxy=proxy) as session:
        robots = Robots(Fetcher(session, guard, tokens, clock, robots_limits(limits)), clock)
        fetcher = Fetcher(session, guard, tokens, clock, limits)
        prober = HttpProber(fetcher, InlineParser(), clock, resolve_secret=resolve, robots=robots)
        yield Rig(origin, prober, clock, robots, tokens)


async def ask(path: str, query: Mapping[str, str | int] | None = None, **known: Any) -> ProbeOutcome:
    async with rigged() as rig:
        return await rig.ask(path, query, **known)


ENDINGS: list[tuple[str, dict[str, str | int], OutcomeKind, int | None]] = [
    ("/feed", {}, OutcomeKind.CHANGED, 200),
    ("/until-close", {}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "gzip"}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "x-gzip", "as": "gzip"}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "deflate"}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "deflate", "as": "raw"}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "gzip", "as": "cut"}, OutcomeKind.UNREACHABLE, None),
    ("/packed", {"encoding": "gzip", "as": "plain"}, OutcomeKind.CHANGED, 200),
    ("/packed", {"encoding": "br", "as": "plain"}, OutcomeKind.CHANGED, 200),
    ("/bomb", {"encoding": "gzip"}, OutcomeKind.UNSAFE, None),
    ("/bomb", {"encoding": "deflate"}, OutcomeKind.UNSAFE, None),
    ("/truncated", {}, OutcomeKind.UNREACHABLE, None),
    ("/too-short", {}, OutcomeKind.UNREACHABLE, None),
    ("/length-of-letters", {}, OutcomeKind.UNREACHABLE, None),
    ("/two-lengths", {}, OutcomeKind.UNREACHABLE, None),
    ("/chunked-garbage", {}, OutcomeKind.UNREACHABLE, None),
    ("/chunked-cut", {}, OutcomeKind.UNREACHABLE, None),
    ("/no-http", {}, OutcomeKind.UNREACHABLE, None),
    ("/closed", {}, OutcomeKind.UNREACHABLE, None),
    ("/huge-header", {}, OutcomeKind.UNREACHABLE, None),
    ("/many-headers", {}, OutcomeKind.UNREACHABLE, None),
    ("/empty", {}, OutcomeKind.EMPTY, 200),
    ("/status", {"code": 204}, OutcomeKind.EMPTY, 204),
    ("/status", {"code": 205}, OutcomeKind.EMPTY, 205),
    ("/status", {"code": 206}, OutcomeKind.HTTP_ERROR, 206),
    ("/status", {"code": 300}, OutcomeKind.HTTP_ERROR, 300),
    ("/status", {"code": 301}, OutcomeKind.HTTP_ERROR, 301),
    ("/status", {"code": 401}, OutcomeKind.HTTP_ERROR, 401),
    ("/status", {"code": 403}, OutcomeKind.HTTP_ERROR, 403),
    ("/status", {"code": 404}, OutcomeKind.HTTP_ERROR, 404),
    ("/status", {"code": 500}, OutcomeKind.HTTP_ERROR, 500),
    ("/status", {"code": 410}, OutcomeKind.GONE, 410),
    ("/status", {"code": 429}, OutcomeKind.THROTTLED, 429),
    ("/status", {"code": 503}, OutcomeKind.HTTP_ERROR, 503),
    ("/page", {}, OutcomeKind.NOT_A_FEED, 200),
    ("/entities", {}, OutcomeKind.UNSAFE, 200),
    ("/loop", {}, OutcomeKind.TOO_MANY_REDIRECTS, None),
]


@pytest.mark.parametrize(
    ("path", "query", "kind", "status"), ENDINGS, ids=[f"{path} {query}" for path, query, _, _ in ENDINGS]
)
async def test_what_an_origin_does_has_one_ending(
    path: str, query: dict[str, str | int], kind: OutcomeKind, status: int | None
) -> None:
    outcome = await ask(path, query, validators=KNOWN, body_hash="h")
    assert (outcome.kind, outcome.status) == (kind, status)
    assert outcome.detail
    changed = kind is OutcomeKind.CHANGED
    assert len(outcome.items) == (2 if changed else 0)
    assert outcome.validators == (Validators() if changed else KNOWN)
    assert outcome.body_hash == (hashlib.sha256(FEED).hexdigest() if changed else "h")


@pytest.mark.parametrize(("path", "total_s"), [("/drip", 0.1), ("/silent", 0.1)])
async def test_what_never_comes_is_a_timeout(path: str, total_s: float) -> None:
    async with rigged(FetchLimits(total_s=total_s)) as rig:
        outcome = await rig.ask(path)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.TIMEOUT, 1)


async def test_a_body_without_an_end_is_left_at_the_limit() -> None:
    async with rigged(FetchLimits(body_bytes=200_000)) as rig:
        outcome = await rig.ask("/endless")
    assert outcome.kind is OutcomeKind.TOO_LARGE
    assert rig.origin.sent_bytes < 20_000_000


@pytest.mark.parametrize(
    "validators", [KNOWN, Validators('W/"weak"'), Validators("no quotes"), Validators('"a b", "c"')]
)
async def test_validators_come_back_as_they_were(validators: Validators) -> None:
    query = {"ETag": validators.etag, "Last-Modified": validators.last_modified}
    sent = {name: value for name, value in query.items() if value is not None}
    async with rigged() as rig:
        first = await rig.ask("/validated", sent)
        second = await rig.ask("/validated", sent, validators=first.validators, body_hash=first.body_hash)
    assert first.kind is OutcomeKind.CHANGED
    assert (second.kind, second.validators) == (OutcomeKind.NOT_MODIFIED, first.validators)


async def test_a_304_that_lies_is_told_as_it_is_and_a_plain_request_sees_through_it() -> None:
    async with rigged() as rig:
        first = await rig.ask("/lying")
        lied = await rig.ask("/lying", validators=first.validators, body_hash=first.body_hash)
        plain = await rig.ask("/lying", body_hash=first.body_hash)
    assert [each.kind for each in (first, lied, plain)] == [
        OutcomeKind.CHANGED,
        OutcomeKind.NOT_MODIFIED,
        OutcomeKind.CHANGED,
    ]


async def test_the_same_bytes_are_told_apart_from_a_304() -> None:
    outcome = await ask("/feed", body_hash=hashlib.sha256(FEED).hexdigest())
    assert (outcome.kind, outcome.status) == (OutcomeKind.SAME_BODY, 200)


async def test_a_304_nobody_asked_for_is_an_error() -> None:
    outcome = await ask("/304")
    assert (outcome.kind, outcome.status) == (OutcomeKind.HTTP_ERROR, 304)


@pytest.mark.parametrize("path", ["/feed", "/304"])
@pytest.mark.parametrize(
    ("headers", "fresh_for_s"),
    [
        ({"Cache-Control": "max-age=600", "Age": "100"}, 500.0),
        ({"Cache-Control": "max-age=600", "Age": "700"}, 0.0),
        ({"Cache-Control": "no-store"}, 0.0),
        ({"Expires": "Sun, 09 Sep 2001 01:47:40 GMT", "Date": "Sun, 09 Sep 2001 01:46:40 GMT"}, 60.0),
        ({"Expires": "-1"}, 0.0),
        ({}, None),
    ],
)
async def test_how_long_a_response_stays_fresh(path: str, headers: dict[str, str | int], fresh_for_s: float) -> None:
    outcome = await ask(path, headers, validators=KNOWN)
    assert outcome.kind.is_success
    assert outcome.fresh_for_s == fresh_for_s


async def test_the_ttl_of_a_feed() -> None:
    assert (await ask("/ttl")).period_s == 5400.0


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [("7", 7.0), ("Sun, 09 Sep 2001 01:47:40 GMT", 60.0), ("", None), ("soon", None), ("99999999999", 366 * 86400.0)],
)
async def test_how_long_a_throttled_source_asks_to_wait(code: int, retry_after: str, expected: float | None) -> None:
    headers: dict[str, str | int] = {"code": code, "Retry-After": retry_after, "Date": "Sun, 09 Sep 2001 01:46:40 GMT"}
    outcome = await ask("/status", headers, validators=KNOWN)
    throttles = code == 429 or expected is not None
    kind = OutcomeKind.THROTTLED if throttles else OutcomeKind.HTTP_ERROR
    assert (outcome.kind, outcome.retry_after_s) == (kind, expected)


async def test_a_page_names_the_feeds_it_links_to() -> None:
    async with rigged() as rig:
        outcome = await rig.ask("/page")
        assert f"{rig.origin.url}/feed" in outcome.detail
        assert f"{rig.origin.url}/atom" in outcome.detail


@pytest.mark.parametrize(("said", "used"), [("utf-8", "latin-1"), ("latin-1", "utf-8"), ("us-ascii", "utf-8")])
async def test_a_charset_that_is_wrong_loses_no_items(said: str, used: str) -> None:
    outcome = await ask("/charset", {"said": said, "used": used})
    assert (outcome.kind, len(outcome.items)) == (OutcomeKind.CHANGED, 2)


async def test_plain_http_where_tls_is_expected_is_unreachable() -> None:
    async with rigged() as rig:
        outcome = await rig.probe(f"https://127.0.0.1:{rig.origin.port}/feed")
    assert outcome.kind is OutcomeKind.UNREACHABLE
    assert rig.origin.arrivals == []


async def test_the_parsers_of_the_daemon_read_what_arrives() -> None:
    async with rigged() as rig, ParserPool(workers=1, timeout_s=60.0) as parsers:
        rig.prober._parser = parsers
        kinds = [(await rig.ask(path)).kind for path in ("/feed", "/page", "/empty", "/entities")]
    assert kinds == [OutcomeKind.CHANGED, OutcomeKind.NOT_A_FEED, OutcomeKind.EMPTY, OutcomeKind.UNSAFE]


# redirects


def hop(origin: Origin, status: int, location: str) -> str:
    return origin.at("/to", status=status, location=location)


@pytest.mark.parametrize(("status", "permanent"), [(301, True), (302, False), (303, False), (307, False), (308, True)])
async def test_one_redirect_is_followed_and_a_permanent_one_is_told(status: int, permanent: bool) -> None:
    async with rigged() as rig:
        outcome = await rig.probe(hop(rig.origin, status, "/feed"))
        assert outcome.permanent_url == (f"{rig.origin.url}/feed" if permanent else None)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.CHANGED, 2)


@pytest.mark.parametrize(
    ("target", "kind", "told"),
    [
        ("/status?code=304&ETag=x", OutcomeKind.NOT_MODIFIED, True),
        ("/feed", OutcomeKind.SAME_BODY, True),
        ("/status?code=410", OutcomeKind.GONE, True),
        ("/status?code=404", OutcomeKind.HTTP_ERROR, True),
        ("/page", OutcomeKind.NOT_A_FEED, True),
        ("/status?code=429", OutcomeKind.THROTTLED, False),
        ("/closed", OutcomeKind.UNREACHABLE, False),
    ],
)
async def test_where_a_source_moved_is_told_of_every_response_but_a_throttled_one(
    target: str, kind: OutcomeKind, told: bool
) -> None:
    async with rigged() as rig:
        known = {"validators": KNOWN, "body_hash": hashlib.sha256(FEED).hexdigest()}
        outcome = await rig.probe(hop(rig.origin, 301, target), **known)
        assert outcome.kind is kind
        assert outcome.permanent_url == (rig.origin.url + target if told else None)


async def test_only_the_permanent_beginning_of_a_chain_counts() -> None:
    async with rigged() as rig:
        last = hop(rig.origin, 301, "/feed")
        middle = hop(rig.origin, 302, last)
        outcome = await rig.probe(hop(rig.origin, 308, middle))
    assert (outcome.permanent_url, outcome.requests) == (middle, 4)


async def test_a_source_that_moved_is_asked_at_its_new_address() -> None:
    async with rigged() as rig:
        outcome = await rig.ask("/gone", moved_url=rig.origin.at("/feed"))
    assert (outcome.kind, rig.origin.paths()) == (OutcomeKind.CHANGED, ["/feed"])


@pytest.mark.parametrize(
    "location",
    ["http://10.0.0.1/", "http://[::1]/", "file:///etc/passwd", "http://me:secret@127.0.0.1/", "http://127.0.0.1:25/"],
)
async def test_a_redirect_to_where_nobody_may_go_is_blocked(location: str) -> None:
    async with rigged() as rig:
        outcome = await rig.probe(hop(rig.origin, 302, location))
    assert outcome.kind is OutcomeKind.BLOCKED
    assert rig.origin.paths() == ["/to"]


async def test_a_redirect_to_another_scheme_is_tried_as_what_it_says() -> None:
    async with rigged() as rig:
        outcome = await rig.probe(hop(rig.origin, 302, f"https://127.0.0.1:{rig.origin.port}/feed"))
    assert (outcome.kind, outcome.requests) == (OutcomeKind.UNREACHABLE, 2)


# what profiles add to requests


async def test_headers_of_a_source_are_added_and_may_say_what_is_accepted() -> None:
    headers = (("accept", "text/x"), ("Accept-Language", "de"), ("X-Api-Key", "k3y"))
    async with rigged() as rig:
        await rig.ask("/feed", headers=headers)
        sent = rig.origin.arrivals[0].headers
    assert (sent.getall("Accept"), sent["Accept-Language"], sent["X-Api-Key"]) == (["text/x"], "de", "k3y")


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "If-None-Match",
        "If-Modified-Since",
        "User-Agent",
        "Accept-Encoding",
        "Authorization",
    ],
)
async def test_headers_that_a_request_needs_for_itself_cannot_be_set(name: str) -> None:
    async with rigged() as rig:
        outcome = await rig.ask("/feed", headers=((name, "99"), ("X-Broken", "a\r\nX-More: b")))
        sent = rig.origin.arrivals[0].headers
    assert outcome.kind is OutcomeKind.CHANGED
    assert sent.get(name) != "99"
    assert "X-More" not in sent
    assert "X-Broken" not in sent


@pytest.mark.parametrize("auth", [BEARER, BASIC])
async def test_a_protected_feed_opens_to_its_secret(auth: Auth) -> None:
    async with rigged() as rig:
        assert (await rig.ask("/protected")).status == 401
        assert (await rig.ask("/protected", auth=auth)).kind is OutcomeKind.CHANGED


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (SecretRef("env", "SECRET_MISSING"), "SECRET ENV 'SECRET_MISSING' is not set, so nothing was sent"),
        (SecretRef("file", "token"), "SECRET FILE 'token' is not set, so nothing was sent"),
        (
            SecretRef("env", "SECRET_BROKEN"),
            "SECRET ENV 'SECRET_BROKEN' contains characters that no header may contain",
        ),
    ],
)
async def test_without_its_secret_nothing_is_sent(secret: SecretRef, says: str) -> None:
    async with rigged() as rig:
        outcome = await rig.ask("/protected", auth=Auth("bearer", secret), obeys_robots=True)
    assert (outcome.kind, outcome.requests, rig.origin.arrivals) == (OutcomeKind.NO_SECRET, 0, [])
    assert outcome.detail.startswith(says)


async def test_a_header_may_be_a_secret() -> None:
    cookie = (("Cookie", SecretRef("env", "SECRET_A")),)
    async with rigged() as rig:
        outcome = await rig.ask("/feed", headers=cookie)
        assert (outcome.kind, rig.origin.arrivals[0].headers["Cookie"]) == (OutcomeKind.CHANGED, "secret")
        assert rig.trace.exchanges[0].sent["Cookie"] == "[hidden]"
        missing = await rig.ask("/feed", headers=(("Cookie", SecretRef("env", "SECRET_MISSING")),))
        assert (missing.kind, missing.requests) == (OutcomeKind.NO_SECRET, 0)


JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("body", "headers", "sent_as"),
    [
        ('{"query": "{ news { title } }"}', (), JSON),
        ("a=1&b=ä", (), FORM),
        ("", (), FORM),
        ("<a/>", (("Content-Type", "text/xml"),), "text/xml"),
    ],
)
async def test_a_source_may_be_asked_by_post(body: str, headers: tuple[tuple[str, str], ...], sent_as: str) -> None:
    async with rigged() as rig:
        outcome = await rig.ask("/feed", post=body, headers=headers, validators=KNOWN)
        (arrival,) = rig.origin.arrivals
    assert outcome.kind is OutcomeKind.CHANGED
    assert (arrival.method, arrival.body.decode(), arrival.headers["Content-Type"]) == ("POST", body, sent_as)
    assert "If-None-Match" not in arrival.headers


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_redirected_post_goes_on_as_its_redirect_says(status: int, method: str) -> None:
    async with rigged() as rig:
        await rig.probe(hop(rig.origin, status, rig.origin.at("/feed")), post="secret=1")
        first, last = rig.origin.arrivals
    assert (first.method, first.body) == ("POST", b"secret=1")
    assert (last.method, last.body) == (method, b"secret=1" if method == "POST" else b"")


async def test_the_body_of_a_post_stays_at_its_origin() -> None:
    async with rigged() as rig, playing("127.0.0.2") as other:
        kept = await rig.probe(hop(rig.origin, 307, other.at("/feed")), post="secret=1")
        assert kept.detail.startswith("the server redirects the POST to 127.0.0.2, which does not get its body")
        assert other.arrivals == []
        assert "secret=1" not in repr(rig.trace)
        dropped = await rig.probe(hop(rig.origin, 303, other.at("/feed")), post="secret=1")
        assert (dropped.kind, other.arrivals[0].method, other.arrivals[0].body) == (OutcomeKind.CHANGED, "GET", b"")


async def test_secrets_stay_at_the_origin_they_are_for() -> None:
    async with rigged() as rig, playing("127.0.0.2") as other:
        away = hop(rig.origin, 302, other.at("/to", status=302, location=rig.origin.at("/feed")))
        outcome = await rig.probe(away, auth=BEARER, headers=(("X-Api-Key", "k3y"), ("Accept", "text/x")))
        home, back = (arrival.headers for arrival in rig.origin.arrivals)
        abroad = other.arrivals[0].headers
    assert outcome.kind is OutcomeKind.CHANGED
    assert (home["Authorization"], home["X-Api-Key"]) == ("Bearer secret", "k3y")
    assert "Authorization" not in abroad
    assert "X-Api-Key" not in abroad
    assert abroad["Accept"] != "text/x"
    assert back["Authorization"] == "Bearer secret"


async def test_secrets_are_not_sent_to_another_port_or_scheme_or_to_where_a_source_moved() -> None:
    async with rigged() as rig, playing() as other:
        await rig.probe(hop(rig.origin, 301, other.at("/feed")), auth=BEARER)
        await rig.ask("/feed", auth=BEARER, moved_url=other.at("/feed"))
        secure = f"https://127.0.0.1:{rig.origin.port}/feed"
        await rig.probe(secure, auth=BEARER, moved_url=rig.origin.at("/feed"))
        assert len(other.arrivals) == 2
        assert all("Authorization" not in arrival.headers for arrival in other.arrivals)
        assert "Authorization" not in rig.origin.arrived("/feed")[0].headers


async def test_what_is_shown_of_a_probe_holds_no_secret() -> None:
    async with rigged() as rig:
        await rig.ask("/protected", auth=BASIC, headers=(("X-Api-Key", "k3y"),))
    shown = rig.trace.exchanges[0]
    assert (shown.sent["Authorization"], shown.sent["X-Api-Key"]) == ("[hidden]", "[hidden]")
    assert shown.sent["User-Agent"].startswith("proxyd/")
    assert "k3y" not in repr(rig.trace)
    assert "secret" not in repr(rig.trace)


async def test_what_is_shown_of_a_request_without_an_answer_holds_no_secret() -> None:
    async with rigged() as rig:
        await rig.ask("/closed", auth=BASIC, headers=(("X-Api-Key", "k3y"),))
    shown = rig.trace.exchanges[0]
    assert (shown.status, shown.sent["Authorization"], shown.sent["X-Api-Key"]) == (None, "[hidden]", "[hidden]")


# hubs


@pytest.mark.parametrize(
    ("link", "hubs", "topic"),
    [
        (f'<{HUB}>; rel="hub"', (HUB,), None),
        (f"<{HUB}>; rel=hub, <https://me.example/feed>; rel=self", (HUB,), "https://me.example/feed"),
        (f'</own>; rel="self", <{HUB}>; title="a, b"; rel="alternate HUB"', (HUB,), "/own"),
        ("</hub>; rel=hub", ("/hub",), None),
        (f"<{HUB}>; rel=hub; anchor='#x'", None, None),
        ("<ftp://hub.example/>; rel=hub", None, None),
        (f"<{HUB}>; rel=self", None, None),
        (f"<{HUB}>; rel=next; rel=hub", None, None),
        ("<<<>>;;;rel=hub,", None, None),
    ],
)
async def test_hubs_of_headers(link: str, hubs: tuple[str, ...] | None, topic: str | None) -> None:
    async with rigged() as rig:
        url = rig.origin.at("/hub", link=link)
        first = await rig.probe(url)
        kept = await rig.probe(url, validators=first.validators, body_hash=first.body_hash)
        same = await rig.probe(url, body_hash=first.body_hash)
        base = rig.origin.url
    absolute = None if hubs is None else tuple(base + hub if hub.startswith("/") else hub for hub in hubs)
    own = url if topic is None else base + topic if topic.startswith("/") else topic
    assert [each.kind for each in (first, kept, same)] == [
        OutcomeKind.CHANGED,
        OutcomeKind.NOT_MODIFIED,
        OutcomeKind.SAME_BODY,
    ]
    for outcome in (first, kept, same):
        assert outcome.hub_links == (None if absolute is None else HubLinks(absolute, own))


# robots.txt


async def test_a_path_that_is_disallowed_is_not_asked_for() -> None:
    async with rigged() as rig:
        rig.origin.robots_text("User-agent: *", "Disallow: /feed")
        outcome = await rig.ask("/feed", obeys_robots=True)
        other = await rig.ask("/ttl", obeys_robots=True)
        ignoring = await rig.ask("/feed")
    assert (outcome.kind, outcome.requests, outcome.body_bytes) == (OutcomeKind.DISALLOWED, 1, 0)
    assert f"robots.txt of {rig.origin.url} disallows /feed" in outcome.detail
    assert "ROBOTS IGNORE" in outcome.detail
    assert other.kind is ignoring.kind is OutcomeKind.CHANGED
    assert rig.origin.paths() == ["/robots.txt", "/ttl", "/feed"]


async def test_the_first_probe_counts_the_request_for_robots_and_the_next_needs_none() -> None:
    async with rigged() as rig:
        requests = [(await rig.ask("/feed", obeys_robots=True)).requests for _ in range(3)]
    assert requests == [2, 1, 1]


async def test_every_hop_is_checked_at_its_own_origin() -> None:
    async with rigged() as rig, playing("127.0.0.2") as other:
        other.robots_text("User-agent: proxyd", "Disallow: /")
        outcome = await rig.probe(hop(rig.origin, 302, other.at("/feed")), obeys_robots=True)
        assert other.paths() == ["/robots.txt"]
        assert other.url in outcome.detail
    assert (outcome.kind, outcome.requests) == (OutcomeKind.DISALLOWED, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 300, 304, 204])
async def test_a_robots_file_that_is_not_there_allows_everything(status: int) -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=status)
        assert (await rig.ask("/feed", obeys_robots=True)).kind is OutcomeKind.CHANGED


@pytest.mark.parametrize("status", [429, 503])
async def test_a_host_that_throttles_its_robots_file_throttles_the_probe(status: int) -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=status, headers={"Retry-After": "900"})
        refused = await rig.ask("/feed", obeys_robots=True)
        rig.origin.robots = lambda: web.Response(status=404)
        allowed = await rig.ask("/feed", obeys_robots=True)
    assert (refused.kind, refused.retry_after_s) == (OutcomeKind.THROTTLED, 900.0)
    assert allowed.kind is OutcomeKind.CHANGED
    assert rig.origin.paths() == ["/robots.txt", "/robots.txt", "/feed"]


async def test_a_robots_file_that_answers_503_fails_that_probe_alone() -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=503)
        refused = await rig.ask("/feed", obeys_robots=True)
        rig.origin.robots = lambda: web.Response(status=404)
        allowed = await rig.ask("/feed", obeys_robots=True)
    assert (refused.kind, refused.requests, "status 503" in refused.detail) == (OutcomeKind.HTTP_ERROR, 1, True)
    assert allowed.kind is OutcomeKind.CHANGED


@pytest.mark.parametrize("status", [500, 502])
async def test_a_server_error_forbids_everything_until_the_file_can_be_had(status: int) -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=status, headers={"Retry-After": "900"})
        refused = await rig.ask("/feed", obeys_robots=True)
        again = await rig.ask("/feed", obeys_robots=True)
        rig.origin.robots = lambda: web.Response(status=404)
        await rig.clock.advance(900.0)
        allowed = await rig.ask("/feed", obeys_robots=True)
    assert [each.kind for each in (refused, again, allowed)] == [
        OutcomeKind.DISALLOWED,
        OutcomeKind.DISALLOWED,
        OutcomeKind.CHANGED,
    ]
    assert f"answers with status {status}" in refused.detail
    assert (refused.retry_after_s, refused.requests, again.requests) == (900.0, 1, 0)
    assert rig.origin.paths() == ["/robots.txt", "/robots.txt", "/feed"]


async def test_an_origin_that_cannot_be_reached_is_not_asked_for_the_page() -> None:
    async with rigged() as rig:
        async with playing() as gone:
            url = gone.at("/feed")
        outcome = await rig.probe(url, obeys_robots=True)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.UNREACHABLE, 1)
    assert outcome.detail.startswith(f"robots.txt of {gone.url}: ")


@pytest.mark.parametrize("path", ["/drip", "/silent"])
async def test_a_robots_file_that_never_ends_has_its_own_time(path: str) -> None:
    async with rigged(FetchLimits(total_s=0.1)) as rig:
        rig.origin.robots = lambda: web.Response(status=302, headers={"Location": path})
        outcome = await rig.ask("/feed", obeys_robots=True)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.TIMEOUT, 2)
    assert "/feed" not in rig.origin.paths()


async def test_redirects_of_the_robots_file_are_followed_but_not_for_ever() -> None:
    async with rigged() as rig, playing("127.0.0.2") as other:
        other.robots_text("User-agent: *", "Disallow: /feed")
        rig.origin.robots = lambda: web.Response(status=301, headers={"Location": other.at("/robots.txt")})
        assert (await rig.ask("/feed", obeys_robots=True)).kind is OutcomeKind.DISALLOWED
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=301, headers={"Location": "/loop"})
        outcome = await rig.ask("/feed", obeys_robots=True)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.CHANGED, 7)


async def test_a_robots_file_that_leads_inside_is_blocked() -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(status=301, headers={"Location": "http://10.0.0.1/robots.txt"})
        outcome = await rig.ask("/feed", obeys_robots=True)
    assert (outcome.kind, rig.origin.paths()) == (OutcomeKind.BLOCKED, ["/robots.txt"])


async def test_only_the_beginning_of_a_long_robots_file_is_read() -> None:
    text = "User-agent: *\nDisallow: /feed\n" + "# filler\n" * 200_000 + "Disallow: /ttl\n"
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(text=text)
        assert (await rig.ask("/feed", obeys_robots=True)).kind is OutcomeKind.DISALLOWED
        assert (await rig.ask("/ttl", obeys_robots=True)).kind is OutcomeKind.CHANGED


async def test_a_page_where_the_robots_file_should_be_allows_everything() -> None:
    async with rigged() as rig:
        rig.origin.robots = lambda: web.Response(text="<html>Disallow: /</html>", content_type="text/html")
        assert (await rig.ask("/feed", obeys_robots=True)).kind is OutcomeKind.CHANGED


async def test_probes_of_one_origin_share_one_request_for_robots() -> None:
    async with rigged() as rig:
        outcomes = await asyncio.gather(*(rig.ask("/feed", obeys_robots=True) for _ in range(5)))
    assert sorted(outcome.requests for outcome in outcomes) == [1, 1, 1, 1, 2]
    assert len(rig.origin.arrived("/robots.txt")) == 1


async def test_robots_and_redirects_know_no_secret() -> None:
    async with rigged() as rig:
        await rig.ask("/protected", auth=BEARER, headers=(("X-Api-Key", "k3y"),), obeys_robots=True)
        asked = rig.origin.arrived("/robots.txt")[0].headers
    assert "Authorization" not in asked
    assert "X-Api-Key" not in asked


async def test_a_crawl_delay_spaces_the_requests_up_to_the_cap() -> None:
    async with rigged() as rig:
        rig.origin.robots_text("User-agent: *", "Crawl-delay: 900")
        probing = asyncio.create_task(rig.ask("/feed", obeys_robots=True), name="probe")
        await rig.clock.someone_sleeps()
        await rig.clock.advance(59.9)
        assert rig.origin.paths() == ["/robots.txt"]
        await rig.clock.advance(0.2)
        outcome = await probing
    assert outcome.kind is OutcomeKind.CHANGED
    assert outcome.detail.endswith("; robots.txt asks for 60 s between requests")


# turns


async def test_one_request_of_a_host_is_under_way_at_a_time_until_its_body_has_come() -> None:
    async with rigged() as rig:
        probes = [asyncio.create_task(rig.ask(path), name=path) for path in ("/held-body", "/held", "/feed")]
        while not rig.origin.arrivals:
            await settle()
        await settle(100)
        assert rig.origin.paths() == ["/held-body"]
        rig.origin.gate.set()
        outcomes = await asyncio.gather(*probes)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.CHANGED}
    assert (rig.origin.most_under_way, rig.origin.paths()) == (1, ["/held-body", "/held", "/feed"])


async def test_a_probe_that_is_given_up_or_fails_gives_its_turn_back() -> None:
    async with rigged(FetchLimits(total_s=20.0, queue_s=20.0)) as rig:
        probing = asyncio.create_task(rig.ask("/silent"), name="given up")
        while not rig.origin.arrivals:
            await settle()
        waiting = asyncio.create_task(rig.ask("/feed"), name="given up while waiting")
        await settle()
        waiting.cancel()
        probing.cancel()
        await asyncio.gather(probing, waiting, return_exceptions=True)
        for path in ("/closed", "/loop", "/bomb?encoding=gzip", "/chunked-garbage"):
            await rig.probe(rig.origin.url + path)
        assert (await rig.ask("/feed")).kind is OutcomeKind.CHANGED


async def test_a_queue_that_is_too_long_is_a_timeout_and_takes_no_turn() -> None:
    async with rigged(FetchLimits(total_s=20.0, queue_s=0.05)) as rig:
        probing = asyncio.create_task(rig.ask("/held"), name="holder")
        while not rig.origin.arrivals:
            await settle()
        late = await rig.ask("/feed", obeys_robots=True)
        rig.origin.gate.set()
        await probing
        assert (await rig.ask("/feed", obeys_robots=True)).kind is OutcomeKind.CHANGED
    assert (late.kind, late.requests) == (OutcomeKind.TIMEOUT, 0)


async def test_redirects_from_one_host_to_another_and_back_do_not_wait_for_each_other() -> None:
    async with rigged() as rig, playing("127.0.0.2") as other:
        there = hop(rig.origin, 302, other.at("/feed"))
        back = hop(other, 302, rig.origin.at("/feed"))
        urls = [there, back] * 5
        outcomes = await asyncio.gather(*(rig.probe(url, obeys_robots=True) for url in urls))
        assert (rig.origin.most_under_way, other.most_under_way) == (1, 1)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.CHANGED}
