"""Feeds of the notifications of each profile, for feed readers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import floor

from aiohttp import web

from proxyd.api import wire
from proxyd.api.endpoint import Endpoint, read_query
from proxyd.api.query_readers import wanted_rules
from proxyd.api.rest.feed_documents import Feed, atom, entry, json_feed
from proxyd.core.language.syntax.words import no_such
from proxyd.queries import Queries, Wanted

_NEWEST = 100
_ATOM, _JSON = "application/atom+xml", "application/feed+json"
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

    def changed_s(self, name: tuple[str, ...], etag: str, now_s: float) -> int:
        """Return the second since which ``name`` has been served with this tag.

        >>> changes = FeedState()
        >>> [changes.changed_s(("a",), tag, 5.7) for tag in ("x", "x", "y")]
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
        self._deliveries = queries.deliveries
        self._changes = FeedState()

    async def atom(self, request: web.Request) -> web.Response:
        """Return the newest notifications as Atom 1.0."""
        return await self._answer(request, atom, _ATOM)

    async def json(self, request: web.Request) -> web.Response:
        """Return the newest notifications as JSON Feed 1.1."""
        return await self._answer(request, json_feed, _JSON)

    async def _answer(self, request: web.Request, write: Callable[[Feed], bytes], content_type: str) -> web.Response:
        profile, rule = request.match_info["name"], read_query(request, wire.FeedOf).rule
        rules = wanted_rules(self._profiles, profile, rule)
        if rule is not None and not rules:
            raise no_such(
                f"rule in profile {profile!r} called", rule, wanted_rules(self._profiles, profile, None) or ()
            )
        found = await self._deliveries.notifications(Wanted(rules), before=None, limit=_NEWEST)
        address = _address(request, rule)
        body = await asyncio.to_thread(lambda: write(Feed(profile, rule, address, tuple(map(entry, found.rows)))))
        etag = hashlib.sha256(body).hexdigest()[:32]
        changed_s = self._changes.changed_s((content_type, profile, rule or ""), etag, self._clock.time_s())
        unchanged = _has(request, etag, changed_s)
        answer = web.Response(status=304, headers=_HEADERS) if unchanged else web.Response(body=body, headers=_HEADERS)
        if not unchanged:
            answer.headers["Content-Type"] = f"{content_type}; charset=utf-8"
        answer.etag = etag
        answer.last_modified = changed_s
        return answer


def feed_endpoints(queries: Queries) -> Sequence[Endpoint]:
    """Return the endpoints of the feeds."""
    feeds = Feeds(queries)
    return tuple(
        Endpoint("GET", f"/api/v1/profiles/{{name}}/feed.{name}", "read", handler, media_type, wire.FeedOf,
                 raises=(404, 503), token_in_query=True)
        for name, handler, media_type in (("atom", feeds.atom, _ATOM), ("json", feeds.json, _JSON))
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
