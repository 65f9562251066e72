"""Endpoints: the models of a route's request and response, and the handler between them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from aiohttp import BodyPartReader, web
from pydantic import ValidationError

from proxyd.api import wire
from proxyd.api.bounds import Within
from proxyd.api.problems import BadRequestError, FaultsError
from proxyd.store.api_rows import Scope

_Answer: TypeAlias = wire.WireModel | web.StreamResponse
_Read = TypeVar("_Read", bound=wire.WireModel)


MOST_BYTES = 256 * 1024
BODY_S = 120.0
"""Time within which a body must arrive."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of the API.

    Parameters
    ----------
    path
        The path, with parameters in braces; they are never empty, and a slash in one is written as %2F.
    scope
        The scope that a token must have; ``None`` if no token is required.
    answer
        The model of the response with ``status``, or its media type if the response has no model.
    query, body
        Models of the query and of the JSON body; ``texts`` are the media types of other bodies.
    is_keyed
        Whether it honours an ``Idempotency-Key``. Its responses are stored, so they must not contain secrets.
    is_tagged, is_conditional
        Whether its response has an ``ETag``, and whether it honours ``If-Match``.
    most_bytes
        Maximum size of a body.
    also
        Other statuses with the same response.
    raises
        Statuses of problems, apart from those that every endpoint can have.
    within
        How a token that is bound to some profiles may ask it; ``None`` if it may not.

    Examples
    --------
    >>> async def health(request: web.Request) -> _Answer:
    ...     return wire.WireModel()
    >>> Endpoint("GET", "/healthz", None, health, wire.WireModel).status
    200
    """

    method: str
    path: str
    scope: Scope | None
    handler: Callable[[web.Request], Awaitable[_Answer]]
    answer: type[wire.WireModel] | str
    query: type[wire.WireModel] | None = None
    body: type[wire.WireModel] | None = None
    texts: tuple[str, ...] = ()
    status: int = 200
    also: tuple[int, ...] = ()
    raises: tuple[int, ...] = ()
    token_in_query: bool = False
    is_keyed: bool = False
    most_bytes: int = MOST_BYTES
    is_tagged: bool = False
    is_conditional: bool = False
    within: Within | None = None

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Run the handler and write its response; an endpoint without a query refuses one."""
        if self.query is None and request.query and self.scope is not None:  # monitors add queries of their own
            raise BadRequestError(f"this endpoint takes no query parameters; remove {', '.join(sorted(request.query))}")
        answer = await self.handler(request)
        if not isinstance(answer, wire.WireModel):
            return answer
        return json_response(answer, self.status)


def listing(
    path: str,
    find: Callable[..., _Answer | Awaitable[_Answer]],
    answer: type[wire.WireModel] | str,
    query: type[wire.WireModel] | None = None,
    *,
    scope: Scope = "read",
    raises: tuple[int, ...] = (),
    within: Within | None = None,
) -> Endpoint:
    """Return a GET endpoint that answers what ``find`` returns for the names in the path and for the query."""

    @wraps(find)
    async def handler(request: web.Request) -> _Answer:
        asked = [] if query is None else [read_query(request, query)]
        found = find(*request.match_info.values(), *asked)
        return await found if isawaitable(found) else found

    return Endpoint("GET", path, scope, handler, answer, query, raises=raises, within=within)


def json_response(model: wire.WireModel, status: int = 200) -> web.Response:
    """Return a model as a JSON response.

    >>> json_response(wire.WireModel()).body
    b'{}'
    """
    body = model.model_dump_json(by_alias=True).encode()
    return web.Response(status=status, body=body, content_type="application/json")


def read_query(request: web.Request, model: type[_Read]) -> _Read:
    """Return the query of a request as a model; raises ``FaultsError`` naming each wrong parameter."""
    given = {name: request.query[name] for name in request.query if name != "token"}
    if repeated := sorted(name for name in given if len(request.query.getall(name)) > 1):
        raise BadRequestError(f"give {repeated[0]} only once")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        faults = [wire.Fault(detail=each["msg"], parameter=str(*each["loc"][:1])) for each in error.errors()]
        raise FaultsError(400, "Bad request", faults) from error


async def read_bytes(request: web.Request) -> bytes:
    """Return the body of a request; raises ``HTTPRequestTimeout`` if it does not arrive within ``BODY_S``.

    Raises ``BadRequestError`` if the client goes or sends no valid body, which would be logged as a bug.
    """
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except (ConnectionError, web.RequestPayloadError) as error:
        raise BadRequestError("the body ended too early, or cannot be read") from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {BODY_S:g} s") from error


async def read_parts(request: web.Request, most: int, most_parts: int) -> dict[str, str]:
    """Return the parts of a form of at most ``most`` bytes that may hold files; raises as ``read_bytes`` does."""
    try:
        async with asyncio.timeout(BODY_S):
            return await _parts_of(request, most, most_parts)
    except (ValueError, LookupError, RuntimeError, ConnectionError, web.RequestPayloadError) as error:
        raise BadRequestError("the form cannot be read; go back, reload the page and try again") from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"the form did not arrive within {BODY_S:g} s") from error


async def _parts_of(request: web.Request, most: int, most_parts: int) -> dict[str, str]:
    """Return the parts of a form as UTF-8, whatever charsets and encodings they name."""
    # A client may name one that takes hours: Python's punycode needs time that grows with the square of the length
    found: dict[str, str] = {}
    size = 0
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or part.name is None or len(found) >= most_parts:
            raise ValueError("not a form of ours")
        data = bytearray()
        while chunk := await part.read_chunk():
            data += chunk
            if (size := size + len(chunk)) > most:
                raise web.HTTPRequestEntityTooLarge(most, size)
        found[part.name] = data.decode("utf-8", "replace")
    return found


async def read_body(request: web.Request, model: type[_Read]) -> _Read:
    """Return the JSON body of a request as a model; raises ``FaultsError`` with a pointer to each wrong member."""
    return model_of_body(await _read_json(request), model)


async def _read_json(request: web.Request) -> Any:
    """Return the JSON value in the body of a request."""
    return json_of(await read_bytes(request))


def json_of(body: bytes) -> Any:
    """Return the JSON value in a body."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error


def model_of_body(value: Any, model: type[_Read]) -> _Read:
    """Return a JSON value as a model."""
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        faults = [wire.Fault(detail=each["msg"], pointer=pointer(each["loc"])) for each in error.errors()]
        raise FaultsError(422, "The body is not valid", faults) from error


def pattern(path: str) -> str:
    """Return a path as a pattern of the router, in which names may contain braces.

    >>> pattern("/rules/{name}/test")
    '/rules/{name:[^/]+}/test'
    """
    return re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", path)


def pointer(place: tuple[str | int, ...]) -> str:
    """Return a JSON pointer (RFC 6901).

    >>> pointer(("a/b", 0))
    '/a~1b/0'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
