"""Who is signed in: sessions in memory, each of a token that is looked up anew at every request."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace

from proxyd.ports import Control, Token

SESSION_S = 8 * 3600.0
_MOST = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A browser that showed a token; ``csrf`` is in each of its forms, ``streams`` are its open ones."""

    session_id: str
    token_id: str
    csrf: str
    until_s: float
    streams: set[asyncio.Task[None]] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def take_notes(self) -> list[str]:
        """Return what the next page is to say of the last form, once."""
        notes = list(self.notes)
        self.notes.clear()
        return notes


@dataclass(frozen=True, slots=True)
class Signed:
    """A session and its token as it is now, which ends with the session."""

    session: Session
    token: Token


class Sessions:
    """The sessions of one listener; they end with the process."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._open: dict[str, Session] = {}

    def begin(self, token: Token) -> Session:
        """Return a new session of a token; where too many are open the oldest ends."""
        now_s = self._control.time_s()
        for each in [each for each in self._open.values() if each.until_s <= now_s]:
            self.end(each)
        if len(self._open) >= _MOST:
            self.end(next(iter(self._open.values())))
        until_s = min(now_s + SESSION_S, token.expires_s if token.expires_s is not None else now_s + SESSION_S)
        session = Session(secrets.token_urlsafe(32), token.token_id, secrets.token_urlsafe(32), until_s)
        self._open[session.session_id] = session
        return session

    def end(self, session: Session) -> None:
        """Let a session open nothing any more, and end its streams."""
        self._open.pop(session.session_id, None)
        for stream in session.streams:
            stream.cancel()

    def end_id(self, session_id: str) -> None:
        """End the session of that id, where there is one."""
        if (session := self._open.get(session_id)) is not None:
            self.end(session)

    async def find(self, session_id: str) -> Signed | None:
        """Return a session that is neither over nor of a token that is gone."""
        session = self._open.get(session_id)
        if session is None:
            return None
        token = await self._control.find_token(session.token_id)
        if token is None or session.until_s <= self._control.time_s() or session_id not in self._open:
            self.end(session)
            return None
        return Signed(session, replace(token, expires_s=session.until_s))
