"""What only other planners know: each is asked, all at once, for the sources that it plans."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog
from aiohttp import ClientError, ClientSession, web
from pydantic import Field, ValidationError

from proxyd.api import wire
from proxyd.api.forwarding import PEER_PATHS, Peer, Planners
from proxyd.api.rest.endpoint import answered, read_body
from proxyd.api.rest.problems import problem

_ANSWER_S = 5.0
_MOST_NAMES = 1000
_SECRET = "Proxyd-Planner"
_LISTED, _PROBE = PEER_PATHS
Each = TypeVar("Each", bound=wire.WireModel)
log = structlog.get_logger("api")


class _Named(wire.WireModel):
    """Some sources."""

    names: list[str] = Field(max_length=_MOST_NAMES)


class Peers(Protocol):
    """The other planners."""

    async def listed(self, names: Sequence[str]) -> Mapping[str, wire.SourceListed]:
        """Return those of some sources that others plan, as they list them; one that does not answer lists none."""

    async def probed(self, names: Sequence[str]) -> Sequence[wire.ProbeAsked]:
        """Have others probe those of some sources that they plan."""


class _NoPeers:
    """There are no other planners."""

    async def listed(self, _names: Sequence[str]) -> Mapping[str, wire.SourceListed]:
        """Return none."""
        return {}

    async def probed(self, _names: Sequence[str]) -> Sequence[wire.ProbeAsked]:
        """Return none."""
        return ()


NO_PEERS = _NoPeers()
"""There are no other planners."""


class AskedPeers:
    """The other planners, asked over HTTP with the secret that each has in the database."""

    def __init__(self, session: ClientSession, planners: Planners) -> None:
        self._session = session
        self._planners = planners

    async def listed(self, names: Sequence[str]) -> Mapping[str, wire.SourceListed]:
        """Return those of some sources that others plan, as they list them; one that does not answer lists none."""
        found = await self._asked(_LISTED, names, wire.Items[wire.SourceListed])
        return {each.source: each for part in found for each in part.items}

    async def probed(self, names: Sequence[str]) -> Sequence[wire.ProbeAsked]:
        """Have others probe those of some sources that they plan."""
        found = await self._asked(_PROBE, names, wire.Items[wire.ProbeAsked])
        return [each for part in found for each in part.items]

    async def _asked(self, path: str, names: Sequence[str], model: type[Each]) -> list[Each]:
        having: dict[Peer, list[str]] = {}
        for name in names:
            planner = self._planners.answering(name)
            if planner is not None and planner.address:
                having.setdefault(planner, []).append(name)
        parts = [
            self._answer(planner, path, its[begin : begin + _MOST_NAMES], model)
            for planner, its in having.items()
            for begin in range(0, len(its), _MOST_NAMES)
        ]
        return [each for each in await asyncio.gather(*parts) if each is not None]

    async def _answer(self, planner: Peer, path: str, names: Sequence[str], model: type[Each]) -> Each | None:
        """Return what one planner answers, or ``None``."""
        body, headers = _Named(names=list(names)), {_SECRET: planner.secret, "Content-Type": "application/json"}
        url = f"http://{planner.address}{path}"
        try:
            asking = self._session.post(url, data=body.model_dump_json().encode(), headers=headers)
            async with asyncio.timeout(_ANSWER_S), asking as answer:
                if answer.status == 200:
                    return model.model_validate_json(await answer.read())
                log.warning("another planner refuses to answer", planner=planner.name, status=answer.status)
        except (ClientError, TimeoutError, ValidationError) as error:
            log.debug("another planner does not answer", planner=planner.name, error=str(error))
        return None


def add_answers(
    app: web.Application,
    planners: Planners,
    listed: Callable[[Sequence[str]], Awaitable[Sequence[wire.SourceListed]]],
    probed: Callable[[Sequence[str]], Sequence[wire.ProbeAsked]],
) -> None:
    """Let an application answer other planners, which know its secret."""

    async def names_of(request: web.Request) -> list[str] | None:
        told = request.headers.get(_SECRET, "")
        if not planners.secret or not hmac.compare_digest(told.encode(errors="replace"), planners.secret.encode()):
            return None
        return (await read_body(request, _Named)).names

    async def list_sources(request: web.Request) -> web.Response:
        names = await names_of(request)
        if names is None:
            return _refused()
        return answered(wire.Items[wire.SourceListed](items=list(await listed(names))))

    async def probe(request: web.Request) -> web.Response:
        names = await names_of(request)
        return _refused() if names is None else answered(wire.Items[wire.ProbeAsked](items=list(probed(names))))

    app.router.add_post(_LISTED, list_sources)
    app.router.add_post(_PROBE, probe)


def _refused() -> web.Response:
    return problem(401, "Unauthorized", "only planners of the same database may ask this")
