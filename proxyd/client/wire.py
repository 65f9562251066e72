"""Requests to one daemon, with its responses, its refusals, and failures to reach it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NotRequired, TypeAlias, TypedDict, TypeVar, cast
from urllib.parse import quote

import aiohttp

from proxyd.client.types import Readiness
from proxyd.core.errors import ProxydError, SilentError, UnreachableError

T = TypeVar("T")
Query: TypeAlias = Mapping[str, str | int | float | bool | None]
_PAGE = 500
_NOTHING: Query = {}
_NO_HEADERS: Mapping[str, str] = {}


class ApiError(ProxydError):
    """The daemon refused the request.

    Parameters
    ----------
    status
        Status of the response.
    problem
        The problem document: ``title``, ``detail`` and perhaps ``errors``.
    retry_after_s
        Seconds after which to try again, if the daemon said so.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: int | None = None) -> None:
        self.status = status
        self.problem = dict(problem)
        self.retry_after_s = retry_after_s
        said = str(problem.get("detail") or problem.get("title") or f"the daemon answered with status {status}")
        told = problem.get("errors")
        faults = [each for each in (told if isinstance(told, list) else ()) if isinstance(each, dict)]
        lines = [said, *(_fault(each) for each in faults if "detail" in each)]
        super().__init__("\n".join([*lines, *_advice(status, said, retry_after_s)]))


def _fault(fault: Mapping[str, Any]) -> str:
    place = [str(fault[key]) for key in ("file", "line", "column", "pointer", "parameter") if fault.get(key)]
    return ": ".join([*([":".join(place)] if place else []), str(fault["detail"])])


def _advice(status: int, said: str, retry_after_s: int | None) -> list[str]:
    """Return what to do about a refusal, unless its text says so."""
    when = f"in {retry_after_s} s" if retry_after_s is not None else "a little later"
    known = {
        401: "create a token with `proxyd token create --name NAME --scope read` on the daemon's machine",
        403: "create one that may do this: `proxyd token create --name NAME --scope SCOPE`",
        412: "it has changed since it was read; read it again",
        429: f"try again {when}",
        503: f"try again {when}",
    }
    advice = known.get(status)
    return [] if advice is None or "token create" in said else [advice]


class ListAnswer(TypedDict):
    """A list, or a part of one."""

    items: list[Any]
    next_cursor: NotRequired[str | None]


_MEMBERS: Mapping[type, Collection[str]] = {ListAnswer: ("items",), Readiness: ("ready", "checks")}


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response of the daemon."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    async def read(cls, response: aiohttp.ClientResponse) -> Answer:
        """Return the rest of a response."""
        return cls(response.status, response.headers, await response.read())

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self, *members: str) -> Any:
        """Return the JSON in the body; raises ``ApiError`` if it is none with these members, as from another server."""
        try:
            said = json.loads(self.body)
        except ValueError as error:
            raise self._stranger() from error
        if members and not (isinstance(said, dict) and said.keys() >= set(members)):
            raise self._stranger()
        return said

    def _stranger(self) -> ApiError:
        detail = f"the server answered with status {self.status}, but not as the API of proxyd; check the address"
        return ApiError(self.status, {"detail": detail})

    def refusal(self) -> ApiError:
        """Return why the request was refused."""
        wait = self.headers.get("Retry-After", "")
        try:
            problem = self.json()
        except ApiError:
            if self.status < 429:
                raise
            problem = {}  # a reverse proxy answers with a page of its own
        told = problem if isinstance(problem, dict) else {}
        return ApiError(self.status, told, int(wait) if wait.isascii() and wait.isdecimal() else None)


class Wire:
    """A session with one daemon; ``where`` names it in errors."""

    def __init__(self, base: str, session: aiohttp.ClientSession, where: str) -> None:
        self._base = base
        self._session = session
        self._where = where

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        query: Query = _NOTHING,
        *,
        body: object = None,
        key: str | None = None,
    ) -> T:
        """Return the JSON of an answer, a ``kind``; ``body`` is sent as JSON, ``key`` as its Idempotency-Key."""
        # Only of lists and of readiness it is checked that they are: older daemons leave out members of others
        headers = key_header(key)
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        answer = await self.send(method, path, query, headers=headers, content=content)
        return cast("T", answer.json(*_MEMBERS.get(kind, ())))

    async def send(
        self,
        method: str,
        path: str,
        query: Query = _NOTHING,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        content: bytes | None = None,
    ) -> Answer:
        """Return the answer to a request; raises ``ApiError`` if it is a refusal."""
        data = None if content is None else BytesIO(content)  # of bytes aiohttp would send any size in one go
        async with self.open(method, path, query, headers=headers, data=data) as response:
            answer = await Answer.read(response)
        if answer.status >= 300:
            raise answer.refusal()
        return answer

    async def text(self, path: str, query: Query = _NOTHING) -> str:
        """Return the text of a response."""
        return (await self.send("GET", path, query)).text

    async def data(self, path: str) -> bytes:
        """Return the bytes of a response."""
        return (await self.send("GET", path)).body

    async def items(self, path: str, query: Query = _NOTHING) -> list[Any]:
        """Return a list that is not divided into pages."""
        return (await self.ask(ListAnswer, "GET", path, query))["items"]

    async def pages(self, path: str, query: Query = _NOTHING, *, limit: int | None = None) -> list[Any]:
        """Return a list that is divided into pages, or its first ``limit`` entries."""
        return [each async for each in self.entries(path, query, limit=limit)]

    async def entries(self, path: str, query: Query = _NOTHING, *, limit: int | None = None) -> AsyncIterator[Any]:
        """Yield the entries of a list that is divided into pages, as they are read."""
        asked, count = dict(query), 0
        while limit is None or count < limit:
            asked["limit"] = _PAGE if limit is None else min(_PAGE, limit - count)
            page = await self.ask(ListAnswer, "GET", path, asked)
            count += len(page["items"])
            for each in page["items"]:
                yield each
            if page.get("next_cursor") is None:
                break
            asked["cursor"] = page["next_cursor"]

    @asynccontextmanager
    async def open(self, method: str, path: str, query: Query, **request: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a response with its body unread; raises ``UnreachableError`` without a complete response."""
        try:
            async with self._session.request(
                method, self._base + path, params=_written(query), allow_redirects=False, **request
            ) as response:
                yield response
        except TimeoutError as error:
            raise SilentError(
                f"the daemon at {self._where} did not answer in time; it may have done what was asked"
            ) from error
        except (aiohttp.ClientError, FileNotFoundError, PermissionError) as error:
            raise unreachable(self._where, error) from error


def unreachable(where: str, error: BaseException) -> UnreachableError:
    """Return the error for a daemon that does not answer, or that the user may not ask.

    >>> print(unreachable("proxyd.sock", PermissionError()))
    proxyd.sock may not be opened by you; run this as the user who runs the daemon
    """
    if isinstance(getattr(error, "os_error", error), PermissionError):
        return UnreachableError(f"{where} may not be opened by you; run this as the user who runs the daemon")
    elsewhere = "" if "://" in where else "; if one runs in another folder, call this there or with --url; otherwise"
    return UnreachableError(f"no daemon answers at {where}{elsewhere or ';'} start one with `proxyd serve`")


def key_header(key: str | None) -> dict[str, str]:
    """Return the header that identifies repetitions of a request."""
    return {} if key is None else {"Idempotency-Key": key}


def part(name: str) -> str:
    """Return a name as a part of a path.

    >>> part("a/b c")
    'a%2Fb%20c'
    """
    return quote(name, safe="")


def _written(query: Query) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A notification of a stream; a stream opened with its ``position`` continues after it."""

    position: int
    body: dict[str, Any]


class EventReader:
    r"""Reads a stream in pieces of any size.

    >>> reader = EventReader()
    >>> list(reader.read(b': hello\nid: 6\n\nid: 7\nevent: notification\ndata: {"a"'))
    []
    >>> list(reader.read(b": 1}\n\n")), reader.last
    ([StreamEvent(position=7, body={'a': 1})], 7)
    """

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self._pieces: list[bytes] = []
        self._next = last
        self._data: list[bytes] = []

    def restart(self) -> None:
        """Forget a partly read event, because a new connection begins."""
        self._pieces.clear()
        self._data.clear()
        self._next = self.last

    def read(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in ``piece``."""
        *whole, rest = piece.split(b"\n")
        for line in whole:
            text = b"".join([*self._pieces, line])
            self._pieces.clear()
            yield from self._line(text)
        self._pieces.append(rest)

    def _line(self, line: bytes) -> Iterator[StreamEvent]:
        name, _, value = line.removesuffix(b"\r").partition(b":")
        value = value.removeprefix(b" ")
        if not line.strip(b"\r"):
            yield from self._dispatch()
        elif name == b"data":
            self._data.append(value)
        elif name == b"id" and value.isdigit():
            self._next = int(value)

    def _dispatch(self) -> Iterator[StreamEvent]:
        """Remember the id, which heartbeats also have, and yield the event if there is one."""
        self.last = self._next
        if self._data:
            data, self._data = b"\n".join(self._data), []
            yield StreamEvent(self.last or 0, json.loads(data))
