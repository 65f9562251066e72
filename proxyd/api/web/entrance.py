"""Signing in and out: by name and password, by a token, or by a link; and what somebody's account shows."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from math import ceil, inf
from typing import Any

from aiohttp import web

from proxyd.api.auth import new_token, token_of
from proxyd.api.passwords import Attempts, MailedLinks, PasswordError, Passwords, invitation_of
from proxyd.api.problems import BadRequestError, problem
from proxyd.api.queries import Queries
from proxyd.api.web.page_gate import (
    COOKIE,
    SIGNED,
    came_by_https,
    cookie_flags,
    give_session,
    local_path,
    note_session,
    read_form,
    whereabouts,
)
from proxyd.api.web.rendering import Renderer
from proxyd.api.web.sessions import Session, Sessions
from proxyd.api.web.single_sign_on import OidcSettings, SignOnError, SingleSignOn
from proxyd.api.wire import converters as payloads
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.core.model.field_values import iso_time
from proxyd.store.api_rows import PERSON, Scope, Token

_FORM_COOKIE = "proxyd_sign_in"
_WRONG_TOKEN = "The token is wrong, expired or revoked, or reads only some profiles."
_MOST_WRITTEN = 254  # characters of a name or a mail address
_FAILED, _MOST_FAILURES, _HOUR_S = "fail to sign in", 60, 3600.0
_MOST_TOKENS = 50  # of a person
_NOT_A_PERSON = "This session is a token's: sign in by name and password."
_WRONG_PASSWORD = "The name or the password is wrong. Whoever runs proxyd can make a new link for you."


class Entrance:
    """Handlers of the pages at which people sign in, choose a password and see their sessions."""

    def __init__(
        self,
        queries: Queries,
        renderer: Renderer,
        sessions: Sessions,
        links: MailedLinks,
        elsewhere: OidcSettings | None = None,
    ) -> None:
        self._queries = queries
        self._people = queries.people
        self._clock = queries.clock
        self._renderer = renderer
        self._sessions = sessions
        self._passwords = Passwords()
        self._elsewhere = None if elsewhere is None else SingleSignOn(elsewhere, queries.clock)
        self._by_name, self._by_address = Attempts(most=10), Attempts(most=50)
        self._failures = _NotedFailures(queries)
        self._links, self._links_by_address = links, Attempts(most=20)
        self._compiling: asyncio.Task[None] | None = None

    async def form(self, request: web.Request) -> web.Response:
        """Show the sign-in form; a cookie proves that the form is ours.

        All pages begin here after a start: while somebody types a password, the other pages are made ready.
        """
        if self._compiling is None:
            self._compiling = asyncio.create_task(asyncio.to_thread(self._renderer.compile_all), name="templates")
        return await self._form(request, local_path(request.query.get("next", "/")))

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Exchange a name and its password, or a token, for a session."""
        given = await read_form(request)
        # attempts are counted by name: 10,000 names of 256 KB would take all memory
        back, name = local_path(given.get("next", "/")), given.get("name", "").strip()[:_MOST_WRITTEN]
        if not _is_ours(request, given):
            return await self._form(request, back, status=403, error="The form has expired; try again.")
        if "token" in given:
            token = await token_of(self._queries, f"Bearer {given['token']}")
            if token is None:
                await self._failures.note("", "by a token")
                return await self._form(request, back, status=401, error=_WRONG_TOKEN)
            return await self._begin(request, token, back, "by a token")
        now_s, address = self._clock.time_s(), request.remote or ""
        if (wait_s := max(self._by_name.wait_s(name, now_s), self._by_address.wait_s(address, now_s))) > 0:
            return _wait(wait_s)
        self._by_name.begin(name, now_s)
        self._by_address.begin(address, now_s)
        person = await self._people.find(name)
        stored = None if person is None else person.password
        if not await self._passwords.is_right(stored, given.get("password", "")) or person is None:
            # whoever types the password in the wrong place does not want it in a log
            await self._failures.note("an unknown name" if person is None else f"person {name}", "by password")
            return await self._form(request, back, name=name, status=401, error=_WRONG_PASSWORD)
        self._by_name.forget(name)
        self._by_address.take_back(address)
        return await self._begin(request, person.bearer, back, "by password")

    # -- the link by which somebody signs in once

    async def ask_for_link(self, request: web.Request) -> web.Response:
        """Have a link sent, and say the same whoever asked for it."""
        given, now_s, address = await read_form(request), self._clock.time_s(), request.remote or ""
        if not self._queries.mails.is_possible:
            raise web.HTTPNotFound(text="no links are sent here: smtp, mail_from or public_url is empty")
        if not _is_ours(request, given):
            return await self._form(request, "/", status=403, error="The form has expired; try again.")
        if (wait_s := self._links_by_address.wait_s(address, now_s)) > 0:
            return _wait(wait_s)
        self._links_by_address.begin(address, now_s)
        self._links.ask(given.get("name", "").strip()[:_MOST_WRITTEN])
        return self._renderer.page(request, "link.html", person=None, is_sent=True)

    async def show_link(self, request: web.Request) -> web.Response:
        """Show the button of a link; opening it, as mail programs do, does not use it up."""
        person = await self._people.find_linked(invitation_of(request.match_info["secret"]), now_s=self._clock.time_s())
        status = 404 if person is None else 200
        return self._with_mark(request, "link.html", status=status, person=person, is_sent=False)

    async def use_link(self, request: web.Request) -> web.StreamResponse:
        """Sign in by a link, which ends it."""
        link = invitation_of(request.match_info["secret"])
        if not _is_ours(request, await read_form(request)):
            return await self.show_link(request)
        person = await self._people.use_link(link, now_s=self._clock.time_s())
        if person is None:
            return await self.show_link(request)
        return await self._begin(request, person.bearer, "/", "by a link in a mail")

    # -- an account elsewhere

    async def go_elsewhere(self, request: web.Request) -> web.Response:
        """Send a browser to the provider that knows the people."""
        if self._elsewhere is None:
            raise web.HTTPNotFound(text="nobody signs in elsewhere here: the setting oidc_issuer is empty")
        back = local_path(request.query.get("next", "/"))
        try:
            return await self._elsewhere.begin(request, back, is_secure=came_by_https(request))
        except SignOnError as error:
            return await self._form(request, back, status=502, error=str(error))

    async def come_back(self, request: web.Request) -> web.Response:
        """Sign in whom the provider has sent back, if they have been invited."""
        if self._elsewhere is None:
            raise web.HTTPNotFound(text="nobody signs in elsewhere here: the setting oidc_issuer is empty")
        try:
            name, subject, back = await self._elsewhere.finish(request, is_secure=came_by_https(request))
        except SignOnError as error:
            await self._failures.note("", "with an account elsewhere")
            return await self._form(request, "/", status=401, error=str(error))
        person = await self._people.find(name)
        if person is None:
            unknown = f"There is no person {name!r} here: ask whoever runs proxyd to invite you by this name."
            return await self._form(request, "/", status=403, error=unknown)
        if not await self._people.bind(name, subject):
            # names may change hands at a provider, its subjects never do
            other = f"{name!r} has signed in with another account: ask whoever runs proxyd for another invitation."
            return await self._form(request, "/", status=403, error=other)
        # a page, because browsers send a strict cookie only after our own site has sent them on
        answer = self._renderer.page(request, "arrived.html", back=local_path(back))
        give_session(request, answer, self._sessions.begin(person.bearer, where=whereabouts(request)))
        await note_session(request, self._queries, person.bearer, "sign in", "with an account elsewhere")
        self._elsewhere.forget(answer)
        return answer

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        """End the session."""
        self._sessions.end(request[SIGNED].session)
        await note_session(request, self._queries, request[SIGNED].token, "sign out")
        answer = web.Response(status=303, headers={"Location": "/sign-in"})
        answer.del_cookie(COOKIE, path="/")
        return answer

    # -- the link by which somebody chooses a password

    async def welcome(self, request: web.Request) -> web.Response:
        """Show the form of a link; opening it, as mail programs do, does not use it up."""
        return await self._welcome(request)

    async def choose_password(self, request: web.Request) -> web.StreamResponse:
        """Set the password of a link, which ends it, and sign in."""
        given, invitation = await read_form(request), invitation_of(request.match_info["secret"])
        if not _is_ours(request, given):
            return await self._welcome(request, status=403, error="The form has expired; try again.")
        person = await self._people.find_invited(invitation, now_s=self._clock.time_s())
        if person is None:
            return await self._welcome(request)
        try:
            chosen = await self._passwords.hash(given.get("password", ""))
        except PasswordError as error:
            return await self._welcome(request, status=422, error=f"{error}".capitalize())
        if not await self._people.accept(invitation, chosen, now_s=self._clock.time_s()):
            return await self._welcome(request)
        return await self._begin(request, person.bearer, "/", "by an invitation")

    async def _welcome(self, request: web.Request, *, status: int = 200, error: str = "") -> web.Response:
        now_s = self._clock.time_s()
        person = await self._people.find_invited(invitation_of(request.match_info["secret"]), now_s=now_s)
        status = 404 if person is None else status
        return self._with_mark(request, "welcome.html", status=status, person=person, error=error)

    # -- the account

    async def account(self, request: web.Request) -> web.Response:
        """Show whoever has signed in their sessions here and their tokens, and let them change their password."""
        return await self._account(request)

    async def change_password(self, request: web.Request) -> web.StreamResponse:
        """Replace a password; other sessions end."""
        signed, given, now_s = request[SIGNED], await read_form(request), self._clock.time_s()
        name = signed.token.name
        if not signed.token.token_id.startswith(PERSON):
            return await self._account(request, status=409, error=_NOT_A_PERSON)
        if (wait_s := self._by_name.wait_s(name, now_s)) > 0:
            return _wait(wait_s)
        self._by_name.begin(name, now_s)
        person = await self._people.find(name)
        if not await self._passwords.is_right(None if person is None else person.password, given.get("old", "")):
            return await self._account(request, status=401, error="The present password is wrong.")
        self._by_name.forget(name)
        try:
            chosen = await self._passwords.hash(given.get("password", ""))
        except PasswordError as error:
            return await self._account(request, status=422, error=f"{error}".capitalize())
        await self._people.set_password(name, chosen, now_s=self._clock.time_s())
        self._end_sessions(signed.token.token_id)
        answer = await self._begin(request, signed.token, "/account", "by another password")
        self._sessions.of_bearer(signed.token.token_id)[0].say("The password was changed; other sessions have ended.")
        return answer

    async def make_token(self, request: web.Request) -> web.Response:
        """Create a token for a phone or a program of whoever has signed in; only this page shows it."""
        own, given = request[SIGNED].token, await read_form(request)
        if not own.token_id.startswith(PERSON):
            return await self._account(request, status=409, error=_NOT_A_PERSON)
        scope: Scope = "read" if own.scope == "read" else "write"
        label, now_s = given.get("name", "").strip(), self._clock.time_s()
        count = sum(each.person == own.name for each in await self._queries.access.tokens())
        if not label or count >= _MOST_TOKENS:
            error = "Say what the token is for." if not label else f"You have {count} tokens: drop one first."
            return await self._account(request, status=422, error=error)
        try:
            token, made = new_token(f"{own.name}: {label}", scope, now_s=now_s, expires_in_s=None, person=own.name)
            await self._queries.access.add_token(token)
        except (BadRequestError, ConflictError) as error:
            return await self._account(request, status=422, error=str(error))
        return await self._account(request, status=201, made=made)

    async def drop_token(self, request: web.Request) -> web.StreamResponse:
        """Revoke a token of whoever has signed in."""
        name, own = request.match_info["name"], request[SIGNED].token
        if not any(each.name == name and each.person == own.name for each in await self._queries.access.tokens()):
            raise NotFoundError(f"you have no token {name!r}")
        await self._queries.access.drop_token(name, self._clock.time_s())
        request[SIGNED].session.say("The token was revoked.")
        raise web.HTTPSeeOther("/account")

    async def end_others(self, request: web.Request) -> web.StreamResponse:
        """End the other sessions of whoever has signed in."""
        signed = request[SIGNED]
        count = self._end_sessions(signed.token.token_id, but=signed.session)
        if count:
            await note_session(request, self._queries, signed.token, "sign out", f"other sessions: {count}")
        signed.session.say("Signed out elsewhere." if count else "There was no other session.")
        raise web.HTTPSeeOther("/account")

    def _end_sessions(self, token_id: str, but: Session | None = None) -> int:
        others = [each for each in self._sessions.of_bearer(token_id) if each is not but]
        for each in others:
            self._sessions.end(each)
        return len(others)

    async def _account(self, request: web.Request, *, status: int = 200, **facts: Any) -> web.Response:
        signed = request[SIGNED]
        sessions = [
            {"begun": iso_time(each.begun_s), "where": each.where, "is_this": each is signed.session}
            for each in self._sessions.of_bearer(signed.token.token_id)
        ]
        is_person = signed.token.token_id.startswith(PERSON)
        tokens = await self._queries.access.tokens() if is_person else ()
        person = await self._people.find(signed.token.name) if is_person else None
        shown = {"error": "", "made": "", "sessions": sessions, "is_person": is_person}
        shown["has_password"] = person is not None and person.password is not None
        shown["tokens"] = [payloads.token(each) for each in tokens if each.person == signed.token.name]
        return self._renderer.page(request, "account.html", status=status, **{**shown, **facts})

    # -- how

    async def _begin(self, request: web.Request, bearer: Token, back: str, how: str) -> web.Response:
        """Return the answer that begins a session, which is noted."""
        self._sessions.end_id(request.cookies.get(COOKIE, ""))
        session = self._sessions.begin(bearer, where=whereabouts(request))
        answer = web.Response(status=303, headers={"Location": back})
        give_session(request, answer, session)
        answer.del_cookie(_FORM_COOKIE, path="/")
        await note_session(request, self._queries, bearer, "sign in", how)
        return answer

    async def _form(
        self, request: web.Request, back: str, *, name: str = "", status: int = 200, error: str = ""
    ) -> web.Response:
        has_people = await self._people.are_there()
        facts = {"next": back, "name": name, "error": error, "has_people": has_people}
        facts |= {"elsewhere": self._elsewhere is not None, "sends_links": self._queries.mails.is_possible}
        return self._with_mark(request, "sign_in.html", status=status, **facts)

    def _with_mark(self, request: web.Request, template: str, *, status: int, **facts: Any) -> web.Response:
        """Return a page whose form only our own page can send: before a session there is no CSRF token."""
        mark = secrets.token_urlsafe(32)
        page = self._renderer.page(request, template, status=status, mark=mark, **facts)
        page.set_cookie(_FORM_COOKIE, mark, path="/", max_age=3600, **cookie_flags(request))
        return page


class _NotedFailures:
    """Notes who fails to sign in, so many times an hour that no guesser fills the log; the others are counted."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._began_s, self._noted, self._left_out = -inf, 0, 0

    async def note(self, subject: str, how: str) -> None:
        """Note a failure, if there were not too many of them."""
        now_s = self._queries.clock.time_s()
        if now_s - self._began_s >= _HOUR_S:
            left_out, self._began_s, self._noted, self._left_out = self._left_out, now_s, 0, 0
            if left_out:
                await self._queries.audit.note(_FAILED, "", f"{left_out:,} more before", now_s=now_s)
        if self._noted >= _MOST_FAILURES:
            self._left_out += 1
            return
        self._noted += 1
        await self._queries.audit.note(_FAILED, subject, how, now_s=now_s)


def _is_ours(request: web.Request, given: dict[str, str]) -> bool:
    """Return whether a form before a session is one that we have shown to this browser."""
    mark, sent = request.cookies.get(_FORM_COOKIE, ""), given.get("mark", "")
    return bool(mark) and hmac.compare_digest(mark.encode(errors="replace"), sent.encode(errors="replace"))


def _wait(wait_s: float) -> web.Response:
    answer = problem(429, "Too many attempts", f"try again in {ceil(wait_s)} s")
    answer.headers["Retry-After"] = str(ceil(wait_s))
    return answer
