"""Errors on the wire: RFC 9457 problem+json."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from math import ceil

import structlog
from aiohttp import web

from proxyd.api import wire
from proxyd.core.errors import (
    BadSearchError,
    BusyError,
    ChangedError,
    ConflictError,
    ListingError,
    NotFoundError,
    ProfileError,
    RuleError,
    StoreBusyError,
    StoreError,
    StoreUnreachableError,
)


class BadRequestError(ValueError):
    """The request cannot be understood."""


class FaultsError(ValueError):
    """A request has several faults, each with its place."""

    def __init__(self, status: int, title: str, faults: Sequence[wire.Fault]) -> None:
        self.status, self.title, self.faults = status, title, tuple(faults)
        super().__init__(title)


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
EXPECTED = (
    *(ProfileError, ListingError, FaultsError, NotFoundError, ConflictError, BusyError, BadRequestError),
    *(BadSearchError, StoreBusyError, StoreUnreachableError),
)
"""The errors that handlers raise to refuse a request."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = structlog.get_logger("api")


def problem(status: int, title: str, detail: str = "", errors: Sequence[wire.Fault] = ()) -> web.Response:
    """Return a problem document."""
    told = wire.Problem(title=title, status=status, detail=detail, errors=list(errors) or None)
    return web.Response(
        status=status, body=told.model_dump_json(exclude_none=True).encode(), content_type="application/problem+json"
    )


def later(detail: str) -> web.Response:
    """Return a problem document that asks the client to try again later."""
    answer = problem(503, "Busy", detail)
    answer.headers["Retry-After"] = "5"
    return answer


def too_many(reset_s: float) -> web.Response:
    """Return a problem document for a bearer that exceeded its quota; ``reset_s`` is the rest of its window."""
    wait_s = ceil(reset_s)
    answer = problem(429, "Too many requests", f"try again in {wait_s} s; api_rate limits the requests of a token")
    answer.headers["Retry-After"] = str(wait_s)
    return answer


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn expected errors into problem documents; a bug stays a 500 without details."""
    if any(_UNSTORABLE.search(part) for part in (*request.match_info.values(), *request.query.values())):
        return problem(400, "Bad Request", "names cannot contain U+0000 or unpaired surrogates")
    try:
        return await handler(request)
    except EXPECTED as error:
        return answer_to(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        answer = problem(error.status, error.reason, _said(error, request.path))
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer


def _said(error: web.HTTPException, path: str) -> str:
    if isinstance(error, web.HTTPNotFound):
        routes = "; GET /api/v1/openapi.json lists what there is" if path.startswith("/api/") else ""
        return f"nothing has this address{routes}"
    return (error.text or "").rstrip(".") + "; send it in several requests" * (error.status == 413)


def answer_to(error: Exception) -> web.Response:
    """Return the problem document of one of the expected errors."""
    if isinstance(error, ProfileError):
        return _faulty(422, "The text has errors", [fault_of_text(one) for one in error.errors])
    if isinstance(error, FaultsError):
        return _faulty(error.status, error.title, error.faults)
    if isinstance(error, ListingError):
        return problem(422, "The list cannot be read", error.message)
    if isinstance(error, NotFoundError | ConflictError | BusyError):
        return _refusal(error)
    if isinstance(error, StoreError):
        log.warning("a request was refused, because the database cannot do it now", error=str(error))
        return later("the database cannot do it now; try again in a few seconds")
    return problem(400, "Bad request", str(error))


def _refusal(error: NotFoundError | ConflictError | BusyError) -> web.Response:
    if isinstance(error, BusyError):
        return later(error.message)
    if isinstance(error, ChangedError):
        return problem(412, "Precondition failed", error.message)
    is_missing = isinstance(error, NotFoundError)
    return problem(404 if is_missing else 409, "Not found" if is_missing else "Conflict", error.message)


def _faulty(status: int, title: str, faults: Sequence[wire.Fault]) -> web.Response:
    said = f"{len(faults)} error{'s' * (len(faults) != 1)}" + "; nothing was changed" * (status != 400)
    return problem(status, title, said, faults)


def fault_of_text(error: RuleError) -> wire.Fault:
    """Return an error of a text in the rule language, with its place there."""
    return wire.Fault(
        file=error.file, line=error.line, column=error.column, detail=error.message, source_line=error.source_line
    )
