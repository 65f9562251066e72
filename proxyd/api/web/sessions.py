"""The sessions of browsers at one listener, and what one planner tells another of them."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from pydantic import TypeAdapter

from proxyd.api import wire
from proxyd.api.queries import Queries
from proxyd.store.api_rows import PERSON, Token

SESSION_S = 8 * 3600.0
_MOST, _MOST_NOTES = 1000, 30
_MOST_TOLD = 4000  # bytes of notes that planners tell each other, in one header
_SHORT = 300  # characters, of at most 12 bytes each


class Note(NamedTuple):
    """A message for the next page; ``kind`` is good or warn."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """The session of a browser; ``csrf`` is in each of its forms, ``streams`` are its open streams."""

    session_id: str
    token_id: str
    csrf: str
    until_s: float
    begun_s: float = 0.0
    where: str = ""  # the address and the browser of whoever has signed in, as they say
    streams: set[asyncio.Task[None]] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def say(self, text: str, *warnings: str) -> None:
        """Show a message on the next page, and warnings below it."""
        self.notes.extend([Note(text, "good"), *(Note(each, "warn") for each in warnings)])
        del self.notes[:-_MOST_NOTES]  # some clients never open a page

    def take_notes(self) -> list[Note]:
        """Return the messages for the next page, and forget them."""
        notes = list(self.notes)
        self.notes.clear()
        return notes

    # -- what planners tell each other, in headers

    def told(self, notes: list[Note]) -> str:
        """Return what another planner must know of the session to answer one request of it."""
        told = _Told(token_id=self.token_id, csrf=self.csrf, until_s=self.until_s, begun_s=self.begun_s, notes=notes)
        return json.dumps(told.model_dump())

    def lend(self) -> list[Note]:
        """Return the newest notes, as many as a header holds, and forget them: who answers the request shows them.

        One that is too long alone is shortened.
        """
        sizes = accumulate(len(json.dumps(each)) for each in reversed(self.notes))
        count = sum(size <= _MOST_TOLD for size in sizes) or min(1, len(self.notes))
        kept = len(self.notes) - count
        lent = self.notes[kept:]
        del self.notes[kept:]
        if len(lent) == 1 and len(json.dumps(lent)) > _MOST_TOLD:
            lent = [Note(f"{lent[0].text[:_SHORT]}…", lent[0].kind)]
        return lent

    def take_back(self, notes: list[Note]) -> None:
        """Show on the next page what was lent and not shown, or said by who answered the request."""
        self.notes.extend(notes)


class _Told(wire.WireModel):
    """What one planner tells another of a session."""

    token_id: str
    csrf: str
    until_s: float
    begun_s: float = 0.0  # planners of the last version do not tell it
    notes: list[Note]


_NOTES = TypeAdapter(list[Note])


def written_notes(notes: list[Note]) -> str:
    """Return notes for ``read_notes`` of another planner."""
    return json.dumps(notes)


def read_notes(text: str) -> list[Note]:
    """Return the notes that another planner has written."""
    return _NOTES.validate_json(text)


@dataclass(frozen=True, slots=True)
class Signed:
    """A session and its token, which expires with the session."""

    session: Session
    token: Token


class Sessions:
    """The sessions of one listener, in memory only."""

    def __init__(self, queries: Queries) -> None:
        self._access = queries.access
        self._people = queries.people
        self._clock = queries.clock
        self._open: dict[str, Session] = {}

    def begin(self, token: Token, *, where: str = "") -> Session:
        """Return a new session of a token or a person; if too many are open, the oldest ends."""
        now_s = self._clock.time_s()
        for each in [each for each in self._open.values() if each.until_s <= now_s]:
            self.end(each)
        if len(self._open) >= _MOST:
            self.end(next(iter(self._open.values())))
        until_s = min(now_s + SESSION_S, token.expires_s if token.expires_s is not None else now_s + SESSION_S)
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = Session(secret, token.token_id, csrf, until_s, now_s, where)
        self._open[session.session_id] = session
        return session

    async def begin_of(self, name: str, *, where: str) -> Signed | None:
        """Return a new session of a person, or ``None`` if there is none of that name."""
        person = await self._people.find(name)
        return None if person is None else Signed(self.begin(person.bearer, where=where), person.bearer)

    def end(self, session: Session) -> None:
        """End a session and its streams."""
        self._open.pop(session.session_id, None)
        for stream in session.streams:
            stream.cancel()

    def end_id(self, session_id: str) -> None:
        """End the session with this id, if there is one."""
        if (session := self._open.get(session_id)) is not None:
            self.end(session)

    def of_bearer(self, token_id: str) -> list[Session]:
        """Return the sessions of a token or a person, the latest first."""
        now_s = self._clock.time_s()
        found = (each for each in self._open.values() if each.token_id == token_id and each.until_s > now_s)
        return sorted(found, key=lambda each: -each.begun_s)

    async def find(self, session_id: str) -> Signed | None:
        """Return a session, or ``None`` if it has ended: its token was revoked, or its person has another password."""
        session = self._open.get(session_id)
        if session is None:
            return None
        signed = await self._session_of(session)
        if signed is None or session_id not in self._open:
            self.end(session)
            return None
        return signed

    async def of_planner(self, told: str) -> Signed | None:
        """Return the session that another planner has told, for one request; ``None`` as ``find``."""
        found = _Told.model_validate_json(told)
        session = Session("", found.token_id, found.csrf, found.until_s, found.begun_s, notes=found.notes)
        return await self._session_of(session)

    async def _session_of(self, session: Session) -> Signed | None:
        if session.until_s <= self._clock.time_s():
            return None
        token = await self._access.find_token(session.token_id)
        if token is not None and session.token_id.startswith(PERSON) and session.begun_s < token.created_s:
            return None  # they have another password, or other rights
        if token is None:
            return None
        return Signed(session, replace(token, expires_s=session.until_s))
