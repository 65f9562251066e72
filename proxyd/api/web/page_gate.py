"""The gate of the dashboard: forms, sessions, scopes, forged requests, and the headers of every answer."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Literal
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.typedefs import Middleware
from yarl import URL

from proxyd.api import wire
from proxyd.api.auth import BEARER, SCOPES, doer_of
from proxyd.api.bounds import Bounds, Within, answer_with_plain_names, look_up, with_plain_names
from proxyd.api.endpoint import read_bytes, read_parts
from proxyd.api.forwarding import NOTES, NOTES_HEADER
from proxyd.api.peers import Peers
from proxyd.api.problems import BadRequestError, Handler, problem, problems
from proxyd.api.queries import Queries
from proxyd.api.web.sessions import SESSION_S, Session, Sessions, Signed, read_notes, written_notes
from proxyd.base.doers import Doer, acting
from proxyd.store.api_rows import PERSON, Scope, Token

COOKIE = "proxyd_session"
_MOST_WRITTEN = 60  # characters of what a browser says of itself
_MOST_WITH_FILES = web.RequestKey("the bytes of a form with files", int)
_FIELDS = web.RequestKey("the fields of a form with files", dict[str, str])
SIGNED = web.RequestKey("signed", Signed)
"""The session of a request to a page that requires one."""
_BEGUN = web.RequestKey("the session that begins with a request", Session)
_ASK_FOR_ONE = "whoever runs proxyd adds one with `proxyd person invite NAME --scope read`"
_PROGRAMS = frozenset({"api", "healthz", "readyz", "metrics", "websub", "fever", "static"})
"""The first segments of paths that are not pages."""
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:{web}; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY.format(web=""),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


POLICY_OF_ARTICLES = f"{_POLICY.format(web=' http: https:')}; media-src http: https:"
"""The policy of pages that show what others wrote with its pictures; a route names it by ``policy``."""


@dataclass(frozen=True, slots=True)
class WebRoute:
    """A route of the dashboard."""

    method: Literal["GET", "POST"]
    path: str
    scope: Scope | None  # required of the session's token; `None` means no session
    handler: Handler
    most_bytes: int | None = None  # the maximum size of a body if it is not the usual one
    is_of_source: bool = False  # answered by the planner of the source `name`
    within: Within | None = None  # how people who are bound to some profiles ask for it; ``None`` if they may not
    policy: str | None = None  # the Content-Security-Policy of its pages if it is not the usual one


@dataclass(frozen=True, slots=True)
class HeaderSignIn:
    """A header in which a reverse proxy names the person who asks, whom it has let in; from others it is ignored."""

    name: str
    networks: Sequence[IPv4Network | IPv6Network]

    def person_of(self, request: web.Request) -> str | None:
        """Return who asks, if one of the proxies says so, once."""
        said = request.headers.getall(self.name, ())
        try:
            address = ip_address(request.remote or "")
        except ValueError:
            return None
        address = getattr(address, "ipv4_mapped", None) or address
        return said[0].strip() or None if len(said) == 1 and any(address in each for each in self.networks) else None


class PageGate:
    """Passes requests to the handlers of routes or to another planner, or refuses them."""

    def __init__(
        self,
        queries: Queries,
        sessions: Sessions,
        show: Callable[[web.Request, wire.Problem], Awaitable[web.Response]],
        peers: Peers,
        header: HeaderSignIn | None = None,
    ) -> None:
        self._queries = queries
        self._sessions = sessions
        self._show = show
        self._peers = peers
        self._header = header

    def guard(self, route: WebRoute) -> Handler:
        """Return a route's handler behind the gate; problems become pages."""

        async def admit(request: web.Request) -> web.StreamResponse:
            return await self._admit(request, route)

        async def answer_guarded(request: web.Request) -> web.StreamResponse:
            if route.most_bytes is not None:
                request = request.clone(client_max_size=route.most_bytes)
                request[_MOST_WITH_FILES] = route.most_bytes
            try:
                answer = await problems(request, admit)
            except web.HTTPRedirection as error:
                answer = web.Response(status=error.status, headers={"Location": error.headers["Location"]})
            shown = await self._shown(request, answer)
            if route.policy is not None and not shown.prepared:
                shown.headers["Content-Security-Policy"] = route.policy
            if _BEGUN in request and not shown.prepared:
                give_session(request, shown, request[_BEGUN])
            return self._as_seen(request, shown)

        return answer_guarded

    def _as_seen(self, request: web.Request, shown: web.StreamResponse) -> web.StreamResponse:
        """Return an answer with the names as whoever asks writes them, who may be bound to some profiles."""
        profiles = request[SIGNED].token.profiles if SIGNED in request else ()
        if profiles and "Location" in shown.headers:
            shown.headers["Location"] = with_plain_names(shown.headers["Location"].encode(), profiles).decode()
        return answer_with_plain_names(shown, profiles)

    @property
    def show_not_found(self) -> Middleware:
        """A middleware that shows browsers a page for an unknown address or method."""

        @web.middleware
        async def answer_with_page(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.match_info.http_exception is None or not _is_for_browsers(request):
                return await handler(request)
            if (signed := await self._sessions.find(request.cookies.get(COOKIE, ""))) is not None:
                request[SIGNED] = signed
            return await self._shown(request, await problems(request, handler))

        return answer_with_page

    async def _shown(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        """Return an answer with the headers for browsers, and a page instead of a problem document."""
        if answer.content_type == "application/problem+json" and isinstance(answer, web.Response):
            answer = await self._page_of(request, answer)
        if not answer.prepared:
            answer.headers.update(_HEADERS)
            answer.headers.setdefault("Cache-Control", "no-store")
            if self._peers.session_from_peer(request) is not None and SIGNED in request:
                answer.headers[NOTES_HEADER] = written_notes(request[SIGNED].session.lend())
        return answer

    async def _page_of(self, request: web.Request, answer: web.Response) -> web.Response:
        assert isinstance(answer.body, bytes)
        page = await self._show(request, wire.Problem.model_validate_json(answer.body))
        for name in ("Retry-After", "Allow"):
            if name in answer.headers:
                page.headers[name] = answer.headers[name]
        return page

    async def _admit(self, request: web.Request, route: WebRoute) -> web.StreamResponse:
        if route.method == "POST" and not _is_own(request):
            return problem(403, "Forbidden", "the request came from another site")
        if route.scope is None:
            with acting(Doer("somebody", "dashboard", request.remote or "")):
                return await route.handler(request)
        told = self._peers.session_from_peer(request)
        signed = await self._find_session(request) if told is None else await self._sessions.of_planner(told)
        if signed is None:
            return _sign_in_first(request)
        request[SIGNED], request[BEARER] = signed, signed.token
        if (refusal := _refusal(request, route, signed.token)) is not None:
            return refusal
        with acting(doer_of(request, signed.token, "dashboard")):
            return await self._answer(request, route, signed, is_told=told is not None)

    async def _answer(
        self, request: web.Request, route: WebRoute, signed: Signed, *, is_told: bool
    ) -> web.StreamResponse:
        """Answer a request of a session; ``is_told`` if another planner has told it."""
        if profiles := signed.token.profiles:
            bounds = Bounds(route.within, is_to_change=route.scope != "read")
            found = await look_up(request, bounds, profiles, self._queries)
            if isinstance(found, web.Response):
                return found
            request = found
        if route.is_of_source and not is_told:
            answer = await self._elsewhere(request, signed.session)
            if answer is not None:
                return answer
        return await self._answer_session(request, route, signed.session)

    async def _find_session(self, request: web.Request) -> Signed | None:
        """Return the session of a request; a new one if a reverse proxy has let in somebody else, or the first time."""
        signed = await self._sessions.find(request.cookies.get(COOKIE, ""))
        name = None if self._header is None else self._header.person_of(request)
        if name is None or (signed is not None and signed.token.token_id == f"{PERSON}{name}"):
            return signed
        if signed is not None:
            self._sessions.end(signed.session)
        is_new = not self._sessions.of_bearer(f"{PERSON}{name}")  # a client without cookies begins one each time
        found = await self._sessions.begin_of(name, where=whereabouts(request))
        if found is None:
            raise web.HTTPForbidden(text=f"there is no person {name!r} here: {_ASK_FOR_ONE}")
        if is_new:
            await note_session(request, self._queries, found.token, "sign in", "by a reverse proxy")
        request[_BEGUN] = found.session
        return found

    async def _answer_session(self, request: web.Request, route: WebRoute, session: Session) -> web.StreamResponse:
        if route.method == "POST" and not await _has_csrf(request, session.csrf):
            return problem(403, "Forbidden", "the form is from another session; go back, reload the page and try again")
        return await route.handler(request)

    async def _elsewhere(self, request: web.Request, session: Session) -> web.StreamResponse | None:
        """Return the answer of the planner that plans a request's source; ``None`` if that is this one.

        The notes of the session are lent to it: it returns those that it did not show, and its own.
        """
        notes = session.lend()
        try:
            answer = await self._peers.page_of_source(request, request.match_info["name"], session.told(notes))
            if answer is not None and NOTES in answer:
                notes = read_notes(answer[NOTES])
        finally:
            session.take_back(notes)
        return answer


def _is_for_browsers(request: web.Request) -> bool:
    """Return whether a browser requests a page, not an address for programs."""
    is_page = request.path.strip("/").partition("/")[0] not in _PROGRAMS
    return is_page and "text/html" in request.headers.get("Accept", "").lower()


def _is_own(request: web.Request) -> bool:
    """Return whether the browser says that a request came from one of our pages."""
    # Under our Referrer-Policy browsers send the origin `null`, and on plain http they do not send the site: then only
    # the CSRF token of the form decides
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None or origin == "null":
        return True
    try:
        return URL(origin).authority.lower() == URL(f"//{request.host}").authority.lower()
    except ValueError:
        return False


async def _has_csrf(request: web.Request, expected: str) -> bool:
    """Return whether the form of a request contains the CSRF token of its session."""
    given = (await read_form(request)).get("csrf", "")
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def local_path(place: str) -> str:
    r"""Return ``place`` if it is a path on this server, or else ``/``.

    >>> local_path("/sources?cursor=x"), local_path("//evil.example"), local_path("https://evil.example")
    ('/sources?cursor=x', '/', '/')
    >>> local_path("/a\\b")
    '/'
    """
    is_local = place.startswith("/") and not place.startswith("//") and "\\" not in place
    return place if is_local and place.isascii() and place.isprintable() else "/"


def give_session(request: web.Request, answer: web.StreamResponse, session: Session) -> None:
    """Give a browser the cookie of its session."""
    answer.set_cookie(COOKIE, session.session_id, path="/", max_age=int(SESSION_S), **cookie_flags(request))


async def note_session(request: web.Request, queries: Queries, bearer: Token, did: str, detail: str = "") -> None:
    """Note that somebody's session begins or ends."""
    with acting(doer_of(request, bearer, "dashboard")):
        await queries.audit.note(did, "", detail, now_s=queries.clock.time_s())


def cookie_flags(request: web.Request) -> dict[str, Any]:
    """Return what holds of all our cookies."""
    return {"httponly": True, "samesite": "Strict", "secure": came_by_https(request)}


def whereabouts(request: web.Request) -> str:
    """Return from where somebody signs in, and with which browser."""
    return f"{request.remote or 'this machine'}, {request.headers.get('User-Agent', '')[:_MOST_WRITTEN] or 'unnamed'}"


def came_by_https(request: web.Request) -> bool:
    """Return whether the browser uses TLS, with proxyd or with a reverse proxy."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip() == "https"


def _refusal(request: web.Request, route: WebRoute, token: Token) -> web.Response | None:
    """Return the refusal of what a token may not do; whoever has only some profiles begins at what they read."""
    if token.profiles and request.path == "/":
        raise web.HTTPSeeOther("/read")
    if SCOPES.index(token.scope) < SCOPES.index(route.scope or "read"):
        return problem(403, "Forbidden", f"this needs scope {route.scope}; yours is {token.scope}")
    return None


def _sign_in_first(request: web.Request) -> web.Response:
    if request.method not in {"GET", "HEAD"} or request.headers.get("Sec-Fetch-Mode") not in {None, "navigate"}:
        return problem(401, "Signed out", "the session has ended; sign in again")
    raise web.HTTPSeeOther(URL("/sign-in").with_query({"next": request.path_qs} if request.path_qs != "/" else {}))


_MEDIA_TYPE, _WITH_FILES = "application/x-www-form-urlencoded", "multipart/form-data"
_MOST_FIELDS = 1_100  # a list of 500 rows, all of them chosen, and the buttons


async def read_chosen(request: web.Request) -> tuple[list[str], dict[str, str]]:
    """Return the names chosen in the form around a list, or all that it showed if ``all`` is, and its other fields."""
    form = await read_form(request)
    pairs = parse_qsl((await read_bytes(request)).decode("utf-8"), errors="replace", max_num_fields=_MOST_FIELDS)
    wanted = "shown" if "all" in form else "name"
    return list(dict.fromkeys(value for name, value in pairs if name == wanted)), form


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form with invalid UTF-8 replaced; raises ``BadRequestError`` for other bodies.

    A file is the text that it holds; only routes that say how much a body may hold accept any.
    """
    if request.content_type == _WITH_FILES and _MOST_WITH_FILES in request:
        return await _read_files(request)
    if request.content_type != _MEDIA_TYPE:
        raise BadRequestError(f"send the form as {_MEDIA_TYPE}")
    try:
        text = (await read_bytes(request)).decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise BadRequestError("the form cannot be read; go back, reload the page and try again") from error


async def _read_files(request: web.Request) -> dict[str, str]:
    """Return the fields and the files of a form, which are kept for a second reader."""
    if _FIELDS not in request:
        request[_FIELDS] = await read_parts(request, request[_MOST_WITH_FILES], _MOST_FIELDS)
    return request[_FIELDS]
