"""Feeds of the notifications of each profile, for feed readers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import floor
from urllib.parse import parse_qsl

from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import BEARER, Quotas
from proxyd.api.bounds import Within
from proxyd.api.endpoint import Endpoint, read_bytes, read_query
from proxyd.api.problems import BadRequestError, too_many
from proxyd.api.queries import Queries
from proxyd.api.query_readers import rules_of_request
from proxyd.core.language.syntax.words import no_such
from proxyd.daemon.feed_documents import FORMS, Feed, entry
from proxyd.daemon.feed_hub import FollowWish, Topic
from proxyd.net.http_values import read_url
from proxyd.store.listed_rows import Wanted

_NEWEST = 100
_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Referrer-Policy": "no-referrer",  # the address may hold a token
    "X-Content-Type-Options": "nosniff",
}


class FeedState:
    """When each feed last changed, because notifications do not store the time at which they were recorded.

    Two versions never share a second, because ``Last-Modified`` could not distinguish them.
    """

    def __init__(self) -> None:
        self._served: dict[tuple[str, ...], tuple[str, int]] = {}

    def change_s(self, name: tuple[str, ...], etag: str, now_s: float) -> int:
        """Return the second since which ``name`` has been served with this tag.

        >>> changes = FeedState()
        >>> [changes.change_s(("a",), tag, 5.7) for tag in ("x", "x", "y")]
        [5, 5, 6]
        """
        served = self._served.get(name)
        if served is None or served[0] != etag:
            served = etag, floor(now_s) if served is None else max(floor(now_s), served[1] + 1)
            self._served[name] = served
        return served[1]


class Feeds:
    """Handlers of the feeds."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._clock = queries.clock
        self._history = queries.history
        self._hub = queries.hub
        self._changes = FeedState()

    async def atom(self, request: web.Request) -> web.Response:
        """Return the newest notifications as Atom 1.0."""
        return await self._answer(request, "atom")

    async def json(self, request: web.Request) -> web.Response:
        """Return the newest notifications as JSON Feed 1.1."""
        return await self._answer(request, "json")

    async def _answer(self, request: web.Request, form: str) -> web.Response:
        profile, rule = request.match_info["name"], read_query(request, wire.FeedOf).rule
        rules = rules_of_request(self._profiles, profile, rule)
        if rule is not None and not rules:
            raise no_such(
                f"rule in profile {profile!r} called", rule, rules_of_request(self._profiles, profile, None) or ()
            )
        found = await self._history.find_notifications(Wanted(rules), before=None, limit=_NEWEST)
        topic, token = Topic(profile, rule or "", form), request.get(BEARER)
        address = self._hub.address(topic) or _address(request, rule)
        hub = "" if token is None else self._hub.address_for(token, topic)
        write = FORMS[form].write
        body = await asyncio.to_thread(lambda: write(Feed(profile, rule, address, tuple(map(entry, found.rows)), hub)))
        etag = hashlib.sha256(body).hexdigest()[:32]
        changed_s = self._changes.change_s((form, profile, rule or "", hub), etag, self._clock.time_s())
        unchanged = _has(request, etag, changed_s)
        answer = web.Response(status=304, headers=_HEADERS) if unchanged else web.Response(body=body, headers=_HEADERS)
        if not unchanged:
            answer.headers["Content-Type"] = f"{FORMS[form].media_type}; charset=utf-8"
        if hub:
            answer.headers["Link"] = f'<{hub}>; rel="hub", <{address}>; rel="self"'
        answer.etag = etag
        answer.last_modified = changed_s
        return answer


def endpoints_of_feeds(queries: Queries) -> Sequence[Endpoint]:
    """Return the endpoints of the feeds."""
    feeds = Feeds(queries)
    return tuple(
        Endpoint("GET", f"/api/v1/profiles/{{name}}/feed.{form}", "read", handler, FORMS[form].media_type,
                 wire.FeedOf, raises=(404, 503), token_in_query=True, within=Within.PROFILE)
        for form, handler in (("atom", feeds.atom), ("json", feeds.json))
    )  # fmt: skip


def _has(request: web.Request, etag: str, changed_s: int) -> bool:
    """Return whether the client has this version; a tag takes precedence over a time (RFC 9110, 13.2.2)."""
    if request.if_none_match is not None:
        return any(known.value in {etag, "*"} for known in request.if_none_match)
    since = request.if_modified_since
    return since is not None and since >= datetime.fromtimestamp(changed_s, UTC)


def _address(request: web.Request, rule: str | None) -> str:
    """Return the feed's own address without a token."""
    plain = request.url.with_query({} if rule is None else {"rule": rule})
    return str(plain)


HUB_PATH = "/websub/feeds/{key:[0-9a-f]{12}\\.[0-9a-f]{64}}"
_MOST_BYTES, _MOST_FIELDS = 16_384, 20
_MOST_CALLBACK, _MOST_SECRET = 2048, 199  # characters, and bytes as WebSub has it


class HubRequests:
    """The handler of requests for feeds to be pushed, and for an end of that."""

    def __init__(self, queries: Queries, quotas: Quotas | None) -> None:
        self._profiles = queries.profiles
        self._clock = queries.clock
        self._hub = queries.hub
        self._quotas = quotas

    async def ask(self, request: web.Request) -> web.Response:
        """Take in a request; its callback is asked afterwards whether it wants that."""
        self._profiles.ready()
        token_id, _, mac = request.match_info["key"].partition(".")
        if self._quotas is not None and (left := self._quotas.take(token_id, self._clock.time_s())).is_over:
            return too_many(left.reset_s)
        body = await read_bytes(request.clone(client_max_size=_MOST_BYTES))
        await self._hub.take_in(token_id, mac, wish_of(body), request.remote or "")
        return web.Response(status=202)


def wish_of(body: bytes) -> FollowWish:
    """Return what a form asks of the hub.

    >>> wish_of(b"hub.mode=unsubscribe&hub.topic=t&hub.callback=https://a.example/").is_end
    True
    """
    try:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise BadRequestError(f"the body is not a form: {error}") from error
    if any("\0" in each for each in form.values()):
        raise BadRequestError("the body holds U+0000")
    mode, secret = form.get("hub.mode"), form.get("hub.secret", "")
    if mode not in {"subscribe", "unsubscribe"}:
        raise BadRequestError("hub.mode is subscribe or unsubscribe")
    callback, topic = form.get("hub.callback", ""), form.get("hub.topic", "")
    url = read_url(callback) if len(callback) <= _MOST_CALLBACK else None
    if url is None or url.scheme not in {"http", "https"} or not url.raw_host or url.raw_user or url.fragment:
        raise BadRequestError(
            f"hub.callback is an http or https address of at most {_MOST_CALLBACK} characters, without credentials and "
            "without a fragment"
        )
    if len(secret.encode()) > _MOST_SECRET:
        raise BadRequestError("hub.secret is shorter than 200 bytes")
    return FollowWish(callback, topic, secret, _lease_s(form), is_end=mode == "unsubscribe")


def _lease_s(form: Mapping[str, str]) -> float | None:
    asked = form.get("hub.lease_seconds", "")
    if not asked:
        return None
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 12):
        raise BadRequestError("hub.lease_seconds is a number of seconds")
    return float(asked)
