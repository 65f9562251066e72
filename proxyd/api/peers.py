"""What only other planners know: each is asked, all at once, for the sources that it plans."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import structlog
from aiohttp import ClientError, ClientResponse, web
from pydantic import Field

from proxyd.api import wire
from proxyd.api.endpoint import json_response, read_body
from proxyd.api.forwarding import PEER_PATHS, SECRET_HEADER, Forwarding, Peer, Planners, knows_secret, session_from_peer
from proxyd.api.problems import Handler, problem
from proxyd.core.rules.answers.advice import Advice
from proxyd.net.host_turns import HostTokens
from proxyd.net.http_values import LONGEST_URL

if TYPE_CHECKING:
    from proxyd.api.listings import Listings

_ANSWER_S, _ADVICE_S, _TURN_S = 5.0, 60.0, 60.0
_MOST_ASKED, _AGAIN_S = 100, 1.0  # times that a turn is asked for, and the pause between
_MOST_BYTES = 64 << 20  # of an answer
_MOST_NAMES = 1000
_LISTED, _PROBE, _PLAN, _HOSTS, _ADVICE, _TURN = PEER_PATHS
_Each = TypeVar("_Each", bound=wire.WireModel)
log = structlog.get_logger("api")


class _Named(wire.WireModel):
    """Some sources."""

    names: list[str] = Field(max_length=_MOST_NAMES)


class _Nothing(wire.WireModel):
    """A request that says nothing but what its path says."""


class _Turn(wire.WireModel):
    """A turn at a host, and the least seconds since its last request; a redirect may name any host."""

    host: str = Field(max_length=LONGEST_URL)
    spacing_s: float = Field(ge=0.0, allow_inf_nan=False)


class _Given(wire.WireModel):
    """Whether a turn was given; if not, the queue is long or the host another planner's, and it is asked for again."""

    given: bool


class _Advised(wire.WireModel):
    """The advice for the sources of one planner."""

    advice: Advice


class Peers:
    """The other planners, asked over HTTP with the secret that each has in the database; by default there are none."""

    def __init__(self, forwarding: Forwarding | None = None, planners: Planners | None = None) -> None:
        self._forwarding = forwarding
        self._planners = planners

    async def list_sources(self, names: Sequence[str]) -> Mapping[str, wire.SourceListed]:
        """Return those of some sources that others plan, as they list them; one that does not answer lists none."""
        found = await self._ask_planners(_LISTED, names, wire.Items[wire.SourceListed])
        return {each.source: each for part in found for each in part.items}

    async def have_probed(self, names: Sequence[str]) -> Sequence[wire.ProbeAsked]:
        """Have others probe those of some sources that they plan."""
        found = await self._ask_planners(_PROBE, names, wire.Items[wire.ProbeAsked])
        return [each for part in found for each in part.items]

    async def list_plan(self, window: wire.PlanWindow) -> Sequence[wire.ComingProbe]:
        """Return the coming probes of the sources that others plan, of each planner as many as the window holds."""
        found = await self._ask_others(_PLAN, window, wire.Items[wire.ComingProbe])
        return [each for part in found.values() if part is not None for each in part.items]

    async def list_hosts(self, window: wire.ListWindow) -> Sequence[wire.HostShown]:
        """Return the hosts that others ask, of each planner as many as the window holds and one more."""
        found = await self._ask_others(_HOSTS, window, wire.Items[wire.HostShown])
        return [each for part in found.values() if part is not None for each in part.items]

    async def advice_of_others(self) -> Mapping[str, Advice | None]:
        """Return the advice of each other planner for its sources, by its name; ``None`` if it does not answer."""
        found = await self._ask_others(_ADVICE, _Nothing(), _Advised, within_s=_ADVICE_S)
        return {name: None if each is None else each.advice for name, each in found.items()}

    async def page_of_source(self, request: web.Request, source: str, session: str) -> web.StreamResponse | None:
        """Return the page of a source from the planner that plans it; ``None`` if this one does."""
        planner = None if self._planners is None else self._planners.answering(source)
        if planner is None or self._forwarding is None:
            return None
        return await self._forwarding.pass_on(request, planner, session=session)

    def session_from_peer(self, request: web.Request) -> str | None:
        """Return the session for which another planner asks, as it tells it; ``None`` for all other requests."""
        return None if self._planners is None else session_from_peer(request, self._planners)

    async def turn(self, host: str, spacing_s: float) -> None:
        """Wait until a request to a host may start, if another planner has its sources and answers."""
        # So requests after redirects keep the same spacing as that planner's probes. One that cannot be reached is
        # skipped; one that accepts the question and does not answer is waited for a minute, and twice the spacing.
        wanted = _Turn(host=host, spacing_s=spacing_s)
        for _ in range(_MOST_ASKED):
            planner = None if self._planners is None else self._planners.planner_of_host(host)
            if planner is None:
                return
            answer = await self._answer(planner, _TURN, wanted, _Given, within_s=_longest_s(wanted) + _ANSWER_S)
            if answer is None or answer.given:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _ask_others(
        self, path: str, body: wire.WireModel, model: type[_Each], *, within_s: float = _ANSWER_S
    ) -> Mapping[str, _Each | None]:
        others = () if self._planners is None else self._planners.others()
        found = await asyncio.gather(*(self._answer(each, path, body, model, within_s=within_s) for each in others))
        return {planner.name: each for planner, each in zip(others, found, strict=True)}

    async def _ask_planners(self, path: str, names: Sequence[str], model: type[_Each]) -> list[_Each]:
        having: dict[Peer, list[str]] = {}
        for name in names:
            if self._planners is not None and (planner := self._planners.answering(name)) is not None:
                having.setdefault(planner, []).append(name)
        parts = [
            self._answer(planner, path, _Named(names=its[begin : begin + _MOST_NAMES]), model)
            for planner, its in having.items()
            for begin in range(0, len(its), _MOST_NAMES)
        ]
        return [each for each in await asyncio.gather(*parts) if each is not None]

    async def _answer(
        self, planner: Peer, path: str, body: wire.WireModel, model: type[_Each], *, within_s: float = _ANSWER_S
    ) -> _Each | None:
        """Return what one planner answers, or ``None``."""
        if not planner.address or self._forwarding is None:
            return None
        headers = {SECRET_HEADER: planner.secret, "Content-Type": "application/json"}
        url = f"http://{planner.address}{path}"
        try:
            data = body.model_dump_json().encode()
            asking = self._forwarding.session.post(url, data=data, headers=headers, allow_redirects=False)
            async with asyncio.timeout(within_s), asking as answer:
                if answer.status == 200:
                    return await asyncio.to_thread(model.model_validate_json, await _limit_text(answer))
                log.warning("another planner refuses to answer", planner=planner.name, status=answer.status)
        except (ClientError, OSError, ValueError) as error:  # a host that is no name is a ValueError
            log.debug("another planner does not answer", planner=planner.name, error=str(error))
        return None


async def _limit_text(answer: ClientResponse) -> bytes:
    """Return the body of an answer; raise ``ValueError`` if it is too large."""
    found = bytearray()
    async for part in answer.content.iter_any():
        found += part
        if len(found) > _MOST_BYTES:
            raise ValueError(f"an answer of more than {_MOST_BYTES} bytes")
    return bytes(found)


def _longest_s(wanted: _Turn) -> float:
    """Return how long a turn is waited for: those who wait at the planner of the host keep their spacing too."""
    return _TURN_S + 2.0 * wanted.spacing_s


NO_PEERS = Peers()


def add_answers(app: web.Application, planners: Planners, answers: Listings, turns: HostTokens | None = None) -> None:
    """Let an application answer other planners, which know its secret.

    Without ``turns`` this process makes no requests, and others need not wait for it.
    """

    async def list_sources(request: web.Request) -> web.Response:
        names = (await read_body(request, _Named)).names
        return json_response(wire.Items[wire.SourceListed](items=await answers.list_sources(names)))

    async def probe(request: web.Request) -> web.Response:
        names = (await read_body(request, _Named)).names
        return json_response(wire.Items[wire.ProbeAsked](items=answers.have_probed(names)))

    async def plan(request: web.Request) -> web.Response:
        coming = await answers.plans.own_plan(await read_body(request, wire.PlanWindow))
        return json_response(wire.Items[wire.ComingProbe](items=coming))

    async def hosts(request: web.Request) -> web.Response:
        found = await answers.plans.own_hosts(await read_body(request, wire.ListWindow))
        return json_response(wire.Items[wire.HostShown](items=found))

    async def advise(_request: web.Request) -> web.Response:
        return json_response(_Advised(advice=await answers.advice_of_others()))

    async def give_turn(request: web.Request) -> web.Response:
        wanted = await read_body(request, _Turn)
        return json_response(_Given(given=turns is None or await _give_turn(wanted, planners, turns)))

    handlers = list_sources, probe, plan, hosts, advise, give_turn
    for path, handler in zip(PEER_PATHS, handlers, strict=True):
        app.router.add_post(path, _guard_handler(handler, planners))


async def _give_turn(wanted: _Turn, planners: Planners, turns: HostTokens) -> bool:
    """Wait until a request to a host may start; return False if it has to be asked for again."""
    if planners.planner_of_host(wanted.host) is not None:  # it may ask this one
        return False
    try:
        async with asyncio.timeout(_longest_s(wanted)):  # who asked may not wait any more
            await turns.give(wanted.host, wanted.spacing_s)
    except TimeoutError:
        return False
    return True


def _guard_handler(handler: Handler, planners: Planners) -> Handler:
    async def guard(request: web.Request) -> web.StreamResponse:
        if not knows_secret(request, planners):
            return problem(401, "Unauthorized", "only planners of the same database may ask this")
        return await handler(request)

    return guard
