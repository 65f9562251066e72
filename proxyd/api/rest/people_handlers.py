"""Handlers and endpoints of the people who sign in to the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from proxyd.api import wire
from proxyd.api.endpoint import Endpoint, listing, read_body
from proxyd.api.passwords import invite, invite_by_mail, remove
from proxyd.api.queries import Queries
from proxyd.api.wire.converters import model_of
from proxyd.base.doers import OwnerLimits


class _PeopleHandlers:
    """Handlers that list, invite and remove people."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def list_people(self) -> wire.Items[wire.PersonShown]:
        """List who may sign in to the dashboard."""
        people = await self._queries.people.all()
        shown = [
            model_of(each, wire.PersonShown, has_password=each.password is not None, limits=dict(each.limits))
            for each in people
        ]
        return wire.Items[wire.PersonShown](items=shown)

    async def invite_person(self, request: web.Request) -> wire.PersonInvited:
        """Add a person, or give one another scope and password: by the link in this response, and only in this."""
        asked = await read_body(request, wire.PersonWanted)
        who = self._queries, asked.name, asked.scope, asked.profiles
        limits = None if asked.limits is None else OwnerLimits(**dict(asked.limits))
        if not asked.mail:
            link = await invite(*who, asked.mail, limits)
            return wire.PersonInvited(name=asked.name, link=link, mailed=False, mail_error=None)
        link, error = await invite_by_mail(*who, asked.mail, limits)
        return wire.PersonInvited(name=asked.name, link=link, mailed=not error, mail_error=error or None)

    async def limit_person(self, request: web.Request) -> wire.LimitsShown:
        """Say how much may belong to a person's profiles, from now on; what is there already stays."""
        asked = await read_body(request, wire.LimitsShown)
        now_s = self._queries.clock.time_s()
        await self._queries.people.limit(request.match_info["name"], OwnerLimits(**dict(asked)), now_s=now_s)
        return asked

    async def drop_person(self, request: web.Request) -> wire.Dropped:
        """Remove a person; their sessions and tokens end, and their marks are forgotten."""
        await remove(self._queries, request.match_info["name"])
        return wire.Dropped()


def people_endpoints(queries: Queries) -> Sequence[Endpoint]:
    """Return the endpoints of people."""
    handlers = _PeopleHandlers(queries)
    return (
        listing("/api/v1/people", handlers.list_people, wire.Items[wire.PersonShown], scope="admin"),
        Endpoint("POST", "/api/v1/people", "admin", handlers.invite_person, wire.PersonInvited,
                 body=wire.PersonWanted, status=201, raises=(404, 413, 422, 503)),
        Endpoint("POST", "/api/v1/people/{name}/limits", "admin", handlers.limit_person, wire.LimitsShown,
                 body=wire.LimitsShown, raises=(404, 413, 422)),
        Endpoint("DELETE", "/api/v1/people/{name}", "admin", handlers.drop_person, wire.Dropped, raises=(404,)),
    )  # fmt: skip
