"""The pages of those who may sign in, and of tokens; they require the scope admin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web

from proxyd.api.auth import SCOPES, new_token, written_profiles
from proxyd.api.passwords import invite, invite_by_mail, remove
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.web.page_gate import SIGNED, came_by_https, read_form
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.base.doers import OwnerLimits
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.core.language import no_such
from proxyd.store.api_rows import Scope

_MOST_PROFILES = 500  # in a list of the form
_LIMITS = {"sources": "sources", "rules": "rules", "receivers": "receivers", "probes": "probes an hour"}
_MOST = 10**9


class PeoplePages:
    """Handlers that list, invite and remove people."""

    def __init__(self, queries: Queries, renderer: Renderer) -> None:
        self._queries = queries
        self._render = renderer.page

    async def people(self, request: web.Request) -> web.Response:
        """List who may sign in."""
        return await self._page(request)

    async def invite(self, request: web.Request) -> web.Response:
        """Invite a person; only this response contains the link."""
        given = await read_form(request)
        name, scope = given.get("name", "").strip(), cast("Scope", given.get("scope", "read"))
        profile, mail, unsent = given.get("profile", "").strip(), given.get("mail", "").strip(), ""
        who = self._queries, name, scope, written_profiles(profile, self._queries.profiles.declaration.profiles)
        written = {kind: number for kind in _LIMITS if (number := given.get(kind, "").strip())}
        try:
            limits = _limits_of(written)
            path = await invite(*who, None, limits) if not mail else ""
            if mail:
                path, unsent = await invite_by_mail(*who, mail, limits)
        except (BadRequestError, NotFoundError) as error:
            asked = {"name": name, "scope": scope, "profile": profile, "mail": mail, "written": written}
            return await self._page(request, status=422, error=str(error), **asked)
        link = f"{'https' if came_by_https(request) else 'http'}://{request.host}{path}"
        mailed = mail if mail and not unsent else ""
        return await self._page(request, status=201, link=link, invited=name, mailed=mailed, unsent=unsent)

    async def drop(self, request: web.Request) -> web.StreamResponse:
        """Remove a person and end their sessions."""
        await remove(self._queries, request.match_info["name"])
        request[SIGNED].session.say("They can sign in no more.")
        raise web.HTTPSeeOther("/people")

    async def _page(self, request: web.Request, *, status: int = 200, **facts: Any) -> web.Response:
        known = await self._queries.people.all()
        empty: dict[str, Any] = {"error": "", "link": "", "invited": "", "name": "", "scope": "write", "profile": ""}
        empty |= {
            "limits": _LIMITS,
            "written": {},
            "mail": "",
            "mailed": "",
            "unsent": "",
            "can_mail": self._queries.mails.is_possible,
        }
        own, profiles = request[SIGNED].token.token_id, sorted(self._queries.profiles.declaration.profiles)
        empty["profiles"] = profiles[:_MOST_PROFILES]
        return self._render(
            request, "people.html", status=status, known=known, own=own, scopes=SCOPES, **{**empty, **facts}
        )


def _limits_of(written: Mapping[str, str]) -> OwnerLimits | None:
    """Return limits, ``None`` if none is written; raises ``BadRequestError``."""
    for kind, number in written.items():
        if not (number.isascii() and number.isdigit() and int(number[:20]) <= _MOST):
            raise BadRequestError(f"the limit of {_LIMITS[kind]} is a number up to a billion, not {number[:20]!r}")
    return OwnerLimits(**{kind: int(number) for kind, number in written.items()}) if written else None


_DAY_S = 86400.0
_FIELDS = {"name": "", "scope": "read", "days": "", "profile": ""}


class TokenPages:
    """Handlers that list, create and revoke tokens; they require the scope admin."""

    def __init__(self, queries: Queries, renderer: Renderer) -> None:
        self._access = queries.access
        self._profiles = queries.profiles
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
        await self._access.drop_token(request.match_info["name"], self._clock.time_s())
        request[SIGNED].session.say("The token was revoked.")
        raise web.HTTPSeeOther("/tokens")

    async def _make(self, form: dict[str, str]) -> str:
        known = self._profiles.declaration.profiles
        profiles = written_profiles(form["profile"], known)
        for each in profiles:
            if each not in known:
                raise BadRequestError(str(no_such("profile", each, known)))
        token, shown = new_token(
            form["name"],
            cast("Scope", form["scope"]),  # new_token refuses others
            now_s=self._clock.time_s(),
            expires_in_s=_seconds_of(form["days"]),
            profiles=profiles,
        )
        await self._access.add_token(token)
        return shown

    async def _page(self, request: web.Request, *, status: int = 200, **facts: Any) -> web.Response:
        known = [payloads.token(each) for each in await self._access.tokens()]
        empty: dict[str, Any] = {"made": None, "made_name": "", "error": None, "form": _FIELDS}
        empty["profiles"] = sorted(self._profiles.declaration.profiles)[:_MOST_PROFILES]
        own = request[SIGNED].token.token_id
        return self._render(
            request, "tokens.html", status=status, known=known, own=own, scopes=SCOPES, **{**empty, **facts}
        )


def _seconds_of(days: str) -> float | None:
    """Return a number of days in seconds, ``None`` if nothing is written.

    >>> _seconds_of("1.5"), _seconds_of(" ")
    (129600.0, None)
    """
    if not days.strip():
        return None
    if re.fullmatch(r"\s*\d{1,6}(\.\d{1,6})?\s*", days, re.ASCII) is None:
        raise BadRequestError("the lifetime must be a number of days; leave it empty for a token that never expires")
    return float(days) * _DAY_S
