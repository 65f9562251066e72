"""Who may ask, and how often: bearer tokens ``pxd_<id>_<secret>``, of which only the hash of the secret is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import get_args

from aiohttp import web

from proxyd.api.bounds import Bounds, answer_bound
from proxyd.api.endpoint import Endpoint
from proxyd.api.problems import BadRequestError, Handler, problem, too_many
from proxyd.api.queries import Queries
from proxyd.base.doers import NO_LIMITS, Doer, OwnerLimits, acting
from proxyd.core.model.profile import MARK
from proxyd.daemon.reading import NOBODY, ItemReader
from proxyd.store.api_rows import Scope, Token

SCOPES: tuple[Scope, ...] = get_args(Scope)
BEARER = web.RequestKey("bearer", Token)
"""The token of a request; absent if the endpoint requires none."""
_NO_TOKEN = "send Authorization: Bearer TOKEN; create a token with `proxyd token create`"
_WRONG_TOKEN = "this token is wrong, has expired or was revoked; create another one with `proxyd token create`"
_FEVER_KEY = re.compile(r"[0-9a-fA-F]{32}")
_FORM = re.compile(r"pxd_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def new_token(
    name: str,
    scope: Scope,
    *,
    now_s: float,
    expires_in_s: float | None,
    profiles: Sequence[str] = (),
    person: str | None = None,
    limits: OwnerLimits = NO_LIMITS,
) -> tuple[Token, str]:
    """Return a token's record, and the text that its bearer sends, which is never stored; ``person`` is whose it is."""
    if scope not in SCOPES:
        raise BadRequestError(f"scope must be one of {', '.join(SCOPES)}")
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise BadRequestError("a token's name must have 1 to 100 printable characters")
    if name in {".", ".."}:
        raise BadRequestError("'.' and '..' cannot be names, because URLs drop them")
    if expires_in_s is not None and not 0 <= expires_in_s < inf:
        raise BadRequestError("expires_in_s must be a number of seconds")
    check_bounds(scope, profiles, limits)
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires_s = None if expires_in_s is None else now_s + expires_in_s
    made, shown = Token(token_id, name, scope, _digest(secret), now_s, expires_s), f"pxd_{token_id}_{secret}"
    fever = None if person is None else _digest(fever_key(person, shown))
    bound = replace(made, profiles=tuple(dict.fromkeys(profiles)), limits=limits)
    return replace(bound, person=person, fever_sha256=fever), shown


def fever_key(person: str, token: str) -> str:
    """Return what clients of the Fever API send for a person's token: an MD5, which is all that the API knows.

    >>> fever_key("you@yourdomain.com", "b3stp4s4wd3v4")
    '22233baf0b67c4e7cbee08486fba3861'
    """
    return hashlib.md5(f"{person}:{token}".encode(), usedforsecurity=False).hexdigest()


async def token_of_fever(queries: Queries, key: str) -> Token | None:
    """Return the token for which a client of the Fever API sends a key, or ``None`` if it is not valid."""
    if _FEVER_KEY.fullmatch(key) is None:
        return None
    token = await queries.access.find_fever(_digest(key.lower()))
    return None if token is None or _is_over(token, queries) else token


def _is_over(token: Token, queries: Queries) -> bool:
    return token.expires_s is not None and token.expires_s <= queries.clock.time_s()


def check_bounds(scope: Scope, profiles: Sequence[str], limits: OwnerLimits = NO_LIMITS) -> None:
    """Raise ``BadRequestError`` if nobody can be bound to some profiles with a scope and limits."""
    if limits.set and not profiles:
        raise BadRequestError("limits are for who is bound to some profiles: name these, too")
    if profiles and scope == "admin":
        raise BadRequestError("who is bound to some profiles has the scope read or write; admin is for all")
    for each in profiles if scope == "write" else ():
        if not 1 <= len(each) <= 100 or not each.isprintable() or MARK in each or each in {".", ".."}:
            raise BadRequestError(f"{each!r} cannot be the name of a profile that somebody writes alone")


def written_profiles(written: str, known: Collection[str]) -> list[str]:
    """Return the profiles that a field of a form names, with commas between; the name of a known one may have commas.

    >>> written_profiles(" a, b,a", {"a"}), written_profiles("a, b", {"a, b"}), written_profiles("", ())
    (['a', 'b'], ['a, b'], [])
    """
    if written in known:
        return [written]
    return list(dict.fromkeys(name for each in written.split(",") if (name := each.strip())))


async def token_of(queries: Queries, header: str, *, may_be_bound: bool = False) -> Token | None:
    """Return the token of an ``Authorization`` header, or ``None`` if it is not valid.

    One that reads only some profiles is valid only for a caller that checks its bounds (``may_be_bound``).
    """
    kind, _, value = header.partition(" ")
    match = _FORM.fullmatch(value.strip())
    if kind.lower() != "bearer" or match is None:
        return None
    token = await queries.access.find_token(match[1])
    is_right = hmac.compare_digest("" if token is None else token.sha256, _digest(match[2]))
    if token is None or not is_right:
        return None
    if _is_over(token, queries):
        return None
    return None if token.profiles and not may_be_bound else token


def reader_of(request: web.Request) -> ItemReader:
    """Return who reads by a request."""
    token = request.get(BEARER)
    return NOBODY if token is None else ItemReader(token.marks_as, token.profiles)


def require(endpoint: Endpoint, queries: Queries, quotas: Quotas | None, handler: Handler) -> Handler:
    """Return ``handler`` behind a check of the token, its scope and, if there is one, its quota."""
    scope = endpoint.scope
    assert scope is not None

    async def guard(request: web.Request) -> web.StreamResponse:
        header = request.headers.get("Authorization")
        if header is None and endpoint.token_in_query and "token" in request.query:
            header = f"Bearer {request.query['token']}"
        token = await token_of(queries, header or "", may_be_bound=True)
        if token is None:
            return refusal_of_wrong_token(header or "")
        if quotas is not None:
            left = request[_LEFT] = quotas.take(token.token_id, queries.clock.time_s())
            if left.is_over:
                return too_many(left.reset_s)
        if SCOPES.index(token.scope) < SCOPES.index(scope):
            return problem(403, "Forbidden", f"this needs a token of scope {scope}; yours is {token.scope}")
        request[BEARER] = token
        with acting(doer_of(request, token, "api")):
            if token.profiles:
                bounds = Bounds(endpoint.within, is_to_change=scope != "read")
                return await answer_bound(request, bounds, token.profiles, queries, handler)
            return await handler(request)

    return guard


AGENTS: web.AppKey[dict[str, str]] = web.AppKey("agents", dict[str, str])
"""The addresses of agents that ask just now, by what their tools send as ``AGENT_HEADER``."""
AGENT_HEADER = "Proxyd-Agent"


def doer_of(request: web.Request, token: Token, way: str) -> Doer:
    """Return who sends a request with a token; an agent's tools ask over loopback."""
    agent = request.config_dict.get(AGENTS, {}).get(request.headers.get(AGENT_HEADER, ""))
    way, address = (way, request.remote or "") if agent is None else ("agent", agent)
    return Doer(token.who, way, address, token.profiles, token.limits, token.created_s)


def refusal_of_wrong_token(header: str) -> web.Response:
    """Return the answer to a request whose ``Authorization`` header is missing, or holds no valid token."""
    answer = problem(401, "Unauthorized", _WRONG_TOKEN if header else _NO_TOKEN)
    answer.headers["WWW-Authenticate"] = 'Bearer realm="proxyd"'
    return answer


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Quota:
    """The maximum number of requests of a bearer in a window, which begins with the first of them."""

    requests: int
    window_s: float


@dataclass(frozen=True, slots=True)
class _Left:
    """The requests that a bearer has left in its window; ``is_over`` if this request exceeded the quota."""

    quota: Quota
    requests: int
    reset_s: float
    is_over: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell the client (draft-ietf-httpapi-ratelimit-headers).

        >>> _Left(Quota(60, 60.0), 59, 59.5).headers
        {'RateLimit-Policy': '"token";q=60;w=60', 'RateLimit': '"token";r=59;t=60'}
        """
        return {
            "RateLimit-Policy": f'"token";q={self.quota.requests};w={ceil(self.quota.window_s)}',
            "RateLimit": f'"token";r={self.requests};t={ceil(self.reset_s)}',
        }


_LEFT = web.RequestKey("left", _Left)


class Quotas:
    """The windows of all bearers.

    Examples
    --------
    >>> quotas = Quotas(Quota(2, 60.0))
    >>> [quotas.take("a", now_s).is_over for now_s in (0.0, 1.0, 2.0, 60.0)]
    [False, False, True, False]
    >>> quotas.take("a", 61.0).requests
    0
    """

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, bearer: str, now_s: float) -> _Left:
        """Count a request; return how many are left after it."""
        began_s, used = self._windows.get(bearer, (now_s, 0))
        if not 0.0 <= now_s - began_s < self._quota.window_s:
            began_s, used = now_s, 0
        if used == 0:
            self._forget(now_s)
        left = self._quota.requests - used
        self._windows[bearer] = began_s, used + min(1, left)
        return _Left(self._quota, max(0, left - 1), began_s + self._quota.window_s - now_s, is_over=left == 0)

    def _forget(self, now_s: float) -> None:
        """Forget past windows once there are many."""
        if len(self._windows) >= _MOST_KEPT:
            limit_s = now_s - self._quota.window_s
            self._windows = {name: each for name, each in self._windows.items() if each[0] > limit_s}


async def add_quota_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the remaining quota of the bearer to the headers of a response."""
    if (left := request.get(_LEFT)) is not None:
        response.headers.update(left.headers)
