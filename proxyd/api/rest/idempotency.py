"""Requests with an ``Idempotency-Key``: executed once; a repetition gets the same response."""

from __future__ import annotations

import hashlib
from functools import partial

from aiohttp import web

from proxyd.api.auth import BEARER
from proxyd.api.endpoint import read_bytes
from proxyd.api.problems import BadRequestError, Handler, problem
from proxyd.api.queries import Queries
from proxyd.store.api_rows import StoredAnswer

HEADER = "Idempotency-Key"
_REPLAYED = "Idempotent-Replayed"
_LONGEST = 255
_NOBODY = "socket"


class Idempotency:
    """Responses to keys, each of one bearer, stored for a day.

    Notes
    -----
    Source: draft-ietf-httpapi-idempotency-key-header: 409 while the first request is in progress, 422 if a key comes
    with a different request. Refusals are not stored, so that a corrected request can use the same key.
    """

    def __init__(self, queries: Queries) -> None:
        self._access = queries.access
        self._clock = queries.clock
        self._under_way: set[tuple[str, str]] = set()

    def with_key(self, handler: Handler) -> Handler:
        """Return a handler that repeats the stored response to a key instead of running ``handler`` again."""
        return partial(self._answer, handler)

    async def _answer(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        key = request.headers.get(HEADER)
        if key is None:
            return await handler(request)
        if not 1 <= len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
            raise BadRequestError(f"{HEADER} must have 1 to {_LONGEST} printable ASCII characters")
        token = request.get(BEARER)
        whose = _NOBODY if token is None else token.token_id, key
        if whose in self._under_way:
            return problem(409, "Conflict", f"the first request with this {HEADER} is still running; try again later")
        self._under_way.add(whose)
        try:
            return await self._once(request, whose, handler)
        finally:
            self._under_way.discard(whose)

    async def _once(self, request: web.Request, whose: tuple[str, str], handler: Handler) -> web.StreamResponse:
        asked = await _digest(request)
        known = await self._access.find_answer(*whose, now_s=self._clock.time_s())
        if known is not None and known.request != asked:
            return problem(422, "Key already used", f"this {HEADER} was used for a different request; use a new one")
        if known is not None:
            headers = {_REPLAYED: "true", "Content-Type": known.content_type}
            return web.Response(status=known.status, body=known.body, headers=headers)
        answer = await handler(request)
        if isinstance(answer, web.Response) and isinstance(answer.body, bytes) and answer.status < 400:
            told = StoredAnswer(*whose, asked, answer.status, answer.content_type, answer.body, self._clock.time_s())
            await self._access.keep_answer(told)
        return answer


async def _digest(request: web.Request) -> str:
    """Return a hash of a request's method, address, media type, condition and body."""
    condition = request.headers.get("If-Match", "")
    head = "\n".join((request.method, request.path_qs, request.content_type, *([condition] if condition else [])))
    return hashlib.sha256(head.encode(errors="replace") + b"\0" + await read_bytes(request)).hexdigest()
