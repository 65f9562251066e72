"""The page of those who may sign in; it requires the scope admin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web

from proxyd.api.auth import SCOPES, written_profiles
from proxyd.api.passwords import invite, invite_by_mail, remove
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.web.page_gate import SIGNED, came_by_https, read_form
from proxyd.api.web.rendering import Renderer
from proxyd.base.doers import OwnerLimits
from proxyd.core.errors import NotFoundError
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
