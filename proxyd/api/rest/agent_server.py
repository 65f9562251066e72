"""The Model Context Protocol over HTTP: agents use the tools of ``proxyd mcp`` with a token, at ``/mcp``.

Each tool asks the REST API with the token of the agent, so what the token may read and do is decided there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import ClientSession, ClientTimeout, web

from proxyd.api.auth import AGENT_HEADER, AGENTS, Quotas, refusal_of_wrong_token, token_of
from proxyd.api.endpoint import read_bytes
from proxyd.api.problems import later, problem, too_many
from proxyd.api.queries import Queries
from proxyd.client import Client
from proxyd.core.errors import extra_hint

if TYPE_CHECKING:
    from mcp.server import MCPServer

AGENTS_PATH = "/mcp"
_MOST_AT_ONCE, _MOST_OF_TOKEN = 16, 4
_ANSWER_S = 60.0
_asking: ContextVar[Client] = ContextVar("_asking")
log = structlog.get_logger("api")


class AgentServer:
    """The handler of ``/mcp``; the library is imported by the first request, because it takes 55 MB."""

    def __init__(self, queries: Queries, quotas: Quotas | None) -> None:
        self._queries = queries
        self._quotas = quotas
        self._server: MCPServer[Any] | None = None
        self._under_way: Counter[str] = Counter()  # calls by token

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a message of an agent; each stands for itself, so there are no sessions and no streams."""
        given = request.headers.get("Authorization", "")
        token = await token_of(self._queries, given, may_be_bound=True)
        if token is None:
            return refusal_of_wrong_token(given)
        if self._quotas is not None:
            left = self._quotas.take(token.token_id, self._queries.clock.time_s())
            if left.is_over:
                return too_many(left.reset_s)
        if find_spec("mcp") is None:
            return problem(501, "Not Implemented", extra_hint("mcp"))
        body = await read_bytes(request)  # first: a slow client must not hold the place of another
        name = token.token_id
        if self._under_way.total() >= _MOST_AT_ONCE or self._under_way[name] >= _MOST_OF_TOKEN:
            return later("too many agents ask at the moment; try again in a few seconds")
        self._under_way[name] += 1
        try:
            return await self._answer(request, given.partition(" ")[2].strip(), body)
        finally:
            self._under_way -= Counter([name])  # which forgets a token without calls

    async def _answer(self, request: web.Request, token: str, body: bytes) -> web.Response:
        if self._server is None:
            self._server = await asyncio.to_thread(_make_server)
        name, agents, own = token_urlsafe(16), request.app[AGENTS], _own_address(request)
        agents[name] = request.remote or ""
        headers = {"Authorization": f"Bearer {token}", AGENT_HEADER: name}
        session = ClientSession(headers=headers, timeout=ClientTimeout(total=_ANSWER_S))
        try:
            async with asyncio.timeout(_ANSWER_S), Client(own, session, own) as client:
                _asking.set(client)
                return await _ask(self._server, request.headers, body)
        except TimeoutError:
            return problem(504, "Gateway Timeout", f"there was no answer within {_ANSWER_S:g} s")
        finally:
            del agents[name]


def _make_server() -> MCPServer[Any]:
    from proxyd.api.rest.agent_tools import make_server

    return make_server(_asking.get)


def _own_address(request: web.Request) -> str:
    """Return the address at which a request came to this process."""
    assert request.transport is not None
    host, port = request.transport.get_extra_info("sockname")[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _ask(server: MCPServer[Any], headers: Mapping[str, str], body: bytes) -> web.Response:
    """Return what the library answers to a message, which knows HTTP as ASGI has it."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    answer = web.Response()
    parts: list[bytes] = []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        while not messages:  # until the answer is there, the client has not gone
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.set_status(message["status"])
            for name, value in message.get("headers", ()):
                if name.lower() != b"content-length":
                    answer.headers[name.decode("latin-1")] = value.decode("latin-1")
        else:
            parts.append(message.get("body", b""))

    given = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in headers.items()
        if name.lower() != "authorization"  # only the tools need it
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
    }
    scope |= {"path": AGENTS_PATH, "raw_path": AGENTS_PATH.encode(), "root_path": "", "query_string": b""}
    scope |= {"headers": given, "client": None, "server": None}
    # the public way makes a web application, which runs once
    manager = StreamableHTTPSessionManager(server._lowlevel_server, json_response=True, stateless=True)  # noqa: SLF001
    async with manager.run():
        await manager.handle_request(scope, receive, send)
    answer.body = b"".join(parts)
    return answer
