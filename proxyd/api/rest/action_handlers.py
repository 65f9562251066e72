"""Handlers and endpoints that act on sources and rules: probe now, follow a move, pause, mute."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import BEARER
from proxyd.api.bounds import Within
from proxyd.api.endpoint import Endpoint, listing, read_body
from proxyd.api.listings import Listings
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.wire import converters as payloads
from proxyd.core.model.field_values import moment_s
from proxyd.core.model.suspension import Subject
from proxyd.daemon.suspensions import SuspensionChange


class _ActionHandlers:
    """Handlers that have sources probed, accept their moves, and pause, resume, mute and unmute."""

    def __init__(self, queries: Queries, listings: Listings) -> None:
        self._plans = listings.plans
        self._profiles = queries.profiles
        self._moves = queries.moves
        self._suspensions = queries.suspensions
        self._deliveries = queries.deliveries
        self._clock = queries.clock

    async def probe(self, request: web.Request) -> wire.Items[wire.ProbeAsked]:
        """Have a source, or the sources of a rule or of a profile, probed as soon as politeness allows."""
        asked = await read_body(request, wire.ProbeWanted)
        name = self._profiles.full_name_of(asked.name, Subject.SOURCE, Subject.RULE, Subject.PROFILE)
        return await self._plans.probe(name)

    async def list_moves(self) -> wire.Items[wire.MoveShown]:
        """List the permanent moves of sources, by source."""
        seen, found = self._profiles.shown.sources, await self._moves.all()
        found = [each for each in found if each.source_id in seen]
        items = await asyncio.to_thread(lambda: [payloads.move(each) for each in found])
        return wire.Items[wire.MoveShown](items=items)

    async def accept_move(self, request: web.Request) -> wire.MoveMade:
        """Read a source where its permanent redirects lead, from now on and over restarts."""
        asked = await read_body(request, wire.MoveWanted)
        made = await self._moves.accept(self._source(asked.source), to=asked.url)
        return wire.MoveMade(said=made.said, move=None if made.move is None else payloads.move(made.move))

    async def list_suspensions(self) -> wire.Items[wire.SuspensionShown]:
        """List the paused sources, and the muted rules and profiles."""
        seen = self._profiles.shown
        known = {Subject.SOURCE: seen.sources, Subject.RULE: seen.rules, Subject.PROFILE: seen.profiles}
        found = self._suspensions.all()
        if seen is not self._profiles.declaration:
            found = [each for each in found if each.name in known.get(each.subject, ())]
        return wire.Items[wire.SuspensionShown](items=wire.SuspensionShown.list_of(found))

    async def pause(self, request: web.Request) -> wire.SuspensionMade:
        """Pause a source: it is not probed, and pushes of its hub are not read, until it is resumed."""
        asked = await read_body(request, wire.SourceNamed)
        return _made(await self._suspensions.pause(self._source(asked.source), asker(request)))

    async def resume(self, request: web.Request) -> wire.SuspensionMade:
        """Probe a paused source again, or evaluate a rule again that was suspended because it failed too often."""
        asked = await read_body(request, wire.ResumeWanted)
        if (asked.name is None) == (asked.source is None):
            raise BadRequestError("give name, or source for a source")
        if asked.source is not None:
            return _made(await self._suspensions.resume(self._source(asked.source), subject=Subject.SOURCE))
        subject = None if asked.subject is None else Subject(asked.subject)
        kinds = (Subject.SOURCE, Subject.RULE) if subject is None else (subject,)
        name = self._profiles.full_name_of(str(asked.name), *kinds, to_change=True)
        return _made(await self._suspensions.resume(name, subject=subject))

    async def mute(self, request: web.Request) -> wire.SuspensionMade:
        """Keep back the notifications of a rule, of every rule of a profile, or of all.

        At the end each receiver gets one digest of what it missed.
        """
        asked = await read_body(request, wire.MuteWanted)
        until_s, subject, name = self._until_s(asked), _subject(asked), self._mutable(asked)
        return _made(await self._suspensions.mute(name, asker(request), subject=subject, until_s=until_s))

    async def unmute(self, request: web.Request) -> wire.SuspensionMade:
        """Send what a muted rule or profile kept back, as one digest for each receiver, or drop it."""
        asked = await read_body(request, wire.UnmuteWanted)
        return _made(await self._suspensions.unmute(self._mutable(asked), subject=_subject(asked), drop=asked.drop))

    def _source(self, name: str) -> str:
        return self._profiles.full_name_of(name, Subject.SOURCE, to_change=True)

    def _mutable(self, asked: wire.MuteNamed) -> str:
        subject = _subject(asked)
        kinds = (Subject.RULE, Subject.PROFILE) if subject is None else (subject,)
        return self._profiles.full_name_of(asked.name, *kinds, to_change=True)

    def _until_s(self, asked: wire.MuteWanted) -> float | None:
        if asked.until is not None and asked.for_s is not None:
            raise BadRequestError("give until or for_s, not both")
        if asked.for_s is not None:
            return self._clock.time_s() + asked.for_s
        if asked.until is None:
            return None
        until_s = moment_s(asked.until, self._clock.time_s(), self._deliveries.zone)
        if until_s is None:
            raise BadRequestError("until is not a valid time; write it like 07:00 or 2026-01-31T07:00")
        return until_s


def asker(request: web.Request) -> str:
    """Return who sent a request; one over the Unix socket has no token."""
    token = request.get(BEARER)
    return "the command line" if token is None else token.who


def action_endpoints(queries: Queries, listings: Listings) -> Sequence[Endpoint]:
    """Return the endpoints of suspensions, moves and probes now."""
    handlers, made = _ActionHandlers(queries, listings), wire.SuspensionMade
    return (
        listing("/api/v1/suspensions", handlers.list_suspensions, wire.Items[wire.SuspensionShown],
                within=Within.PART),
        _action("pause", handlers.pause, made, wire.SourceNamed),
        _action("resume", handlers.resume, made, wire.ResumeWanted),
        _action("mute", handlers.mute, made, wire.MuteWanted),
        _action("unmute", handlers.unmute, made, wire.UnmuteWanted),
        listing("/api/v1/moves", handlers.list_moves, wire.Items[wire.MoveShown], within=Within.PART),
        _action("moves", handlers.accept_move, wire.MoveMade, wire.MoveWanted),
        _action("probe", handlers.probe, wire.Items[wire.ProbeAsked], wire.ProbeWanted),
    )  # fmt: skip


def _action(
    name: str,
    handler: Callable[[web.Request], Awaitable[wire.WireModel]],
    answer: type[wire.WireModel],
    body: type[wire.WireModel],
) -> Endpoint:
    refused = (404, 409, 413, 422, 503)
    path, within = f"/api/v1/{name}", Within.PART
    return Endpoint("POST", path, "write", handler, answer, body=body, raises=refused, is_keyed=True, within=within)


def _subject(asked: wire.MuteNamed) -> Subject | None:
    return None if asked.subject is None else Subject(asked.subject)


def _made(change: SuspensionChange) -> wire.SuspensionMade:
    return payloads.model_of(change, wire.SuspensionMade, changed=change.is_new)
