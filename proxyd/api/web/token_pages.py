"""The page of API tokens."""

from __future__ import annotations

import re
from typing import Any, cast

from aiohttp import web

from proxyd.api.auth import SCOPES, new_token
from proxyd.api.problems import BadRequestError
from proxyd.api.web.gate import SIGNED, read_form
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.core.errors import ConflictError
from proxyd.queries import Queries, Scope

_DAY_S = 86400.0
_FIELDS = {"name": "", "scope": "read", "days": ""}


class TokenPages:
    """Handlers that list, create and revoke tokens; they require the scope admin."""

    def __init__(self, queries: Queries, renderer: Renderer) -> None:
        self._access = queries.access
        self._clock = queries.clock
        self._render = renderer.page

    async def tokens(self, request: web.Request) -> web.Response:
        """List the tokens, without their secrets."""
        return await self._page(request)

    async def make(self, request: web.Request) -> web.Response:
        """Create a token; only this response contains its text."""
        given = await read_form(request)
        form = {name: given.get(name, blank).strip() for name, blank in _FIELDS.items()}
        try:
            shown = await self._make(form)
        except (BadRequestError, ConflictError) as error:
            status = 409 if isinstance(error, ConflictError) else 422
            return await self._page(request, status=status, error=str(error), form=form)
        return await self._page(request, status=201, made=shown, made_name=form["name"])

    async def drop(self, request: web.Request) -> web.StreamResponse:
        """Revoke a token and end the sessions that use it."""
        await self._access.drop_token(request.match_info["name"])
        request[SIGNED].session.say("The token was revoked.")
        raise web.HTTPSeeOther("/tokens")

    async def _make(self, form: dict[str, str]) -> str:
        token, shown = new_token(
            form["name"],
            cast("Scope", form["scope"]),  # new_token refuses others
            now_s=self._clock.time_s(),
            expires_in_s=seconds_of(form["days"]),
        )
        await self._access.add_token(token)
        return shown

    async def _page(self, request: web.Request, *, status: int = 200, **facts: Any) -> web.Response:
        known = [payloads.token(each) for each in await self._access.tokens()]
        empty: dict[str, Any] = {"made": None, "made_name": "", "error": None, "form": _FIELDS}
        own = request[SIGNED].token.token_id
        return self._render(
            request, "tokens.html", status=status, known=known, own=own, scopes=SCOPES, **{**empty, **facts}
        )


def seconds_of(days: str) -> float | None:
    """Return a number of days in seconds, ``None`` if nothing is written.

    >>> seconds_of("1.5"), seconds_of(" ")
    (129600.0, None)
    """
    if not days.strip():
        return None
    if re.fullmatch(r"\s*\d{1,6}(\.\d{1,6})?\s*", days, re.ASCII) is None:
        raise BadRequestError("the lifetime must be a number of days; leave it empty for a token that never expires")
    return float(days) * _DAY_S
