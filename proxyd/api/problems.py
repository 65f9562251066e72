"""Errors on the wire: RFC 9457 problem+json."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from proxyd.errors import BusyError, ConflictError, NotFoundError, ProfileError, RuleError


class BadRequestError(ValueError):
    """The request cannot be understood."""


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def problem(status: int, title: str, detail: str = "", **members: Any) -> web.Response:
    """Return a problem document."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}
    return web.Response(
        status=status, body=json.dumps(body, ensure_ascii=False).encode(), content_type="application/problem+json"
    )


def later(detail: str) -> web.Response:
    """Return a problem document that asks to come again."""
    answer = problem(503, "Busy", detail)
    answer.headers["Retry-After"] = "5"
    return answer


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn expected errors into problem documents; a bug stays a 500 without details."""
    try:
        return await handler(request)
    except ProfileError as error:
        found = [_rule_error(one) for one in error.errors]
        return problem(
            422,
            "The text has errors",
            f"{len(found)} error{'s' * (len(found) != 1)}; nothing was changed",
            errors=found,
        )
    except (NotFoundError, ConflictError, BusyError) as error:
        return _refusal(error)
    except BadRequestError as error:
        return problem(400, "Bad request", str(error))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        answer = problem(error.status, error.reason, error.text or "")
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer


def _refusal(error: NotFoundError | ConflictError | BusyError) -> web.Response:
    if isinstance(error, BusyError):
        return later(error.message)
    is_missing = isinstance(error, NotFoundError)
    return problem(404 if is_missing else 409, "Not found" if is_missing else "Conflict", error.message)


def _rule_error(error: RuleError) -> dict[str, object]:
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "detail": error.message,
        "source_line": error.source_line,
    }
