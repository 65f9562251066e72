"""API tokens, and stored answers to requests that may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select

from proxyd.base.doers import NO_LIMITS, OwnerLimits, current_doer
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.store.audit_rows import named, note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.statements import Upsert, execute_many
from proxyd.store.writer import Writer

Scope: TypeAlias = Literal["read", "write", "admin"]
ME = "me"
"""For whom tokens of nobody mark items, and the first person."""
PERSON = "person:"
"""What begins the id of the bearer of a session that a person has signed in to; no token has such an id."""


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, of which only the secret's hash is stored. A wider scope includes the narrower ones."""

    token_id: str
    name: str
    scope: Scope
    sha256: str
    created_s: float
    expires_s: float | None
    profiles: tuple[str, ...] = ()  # the only ones that it reads and writes; empty: all
    person: str | None = None  # whose it is: it ends with the person, and does no more than the person may
    fever_sha256: str | None = None  # the hash of what clients of Fever send for it
    limits: OwnerLimits = NO_LIMITS  # of what may belong to its profiles
    marks_as: str = ME  # for whom it marks items; not stored with it

    @property
    def who(self) -> str:
        """Who has it: the token itself, or the person who has signed in."""
        return self.name if self.token_id.startswith(PERSON) else f"token {self.name}"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to a bearer's request with a key; ``request`` distinguishes it from others with the same key."""

    bearer: str
    key: str
    request: str
    status: int
    content_type: str
    body: bytes
    answered_s: float


KEPT_ANSWERS_S = 86400.0
_UPSERT_ANSWER = Upsert(t.answers)


class SqlAccess:
    """API tokens, and stored answers by the key of their request."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def add_token(self, token: Token) -> None:
        """Store a token; its name must be new."""
        doer = current_doer()
        reads = f", of {named(token.profiles)}" if token.profiles else ""

        def write(connection: Connection) -> None:
            same = connection.execute(select(t.tokens.c.name).where(t.tokens.c.name == token.name))
            if same.first() is not None:
                raise ConflictError(f"a token named {token.name!r} already exists")
            values = {c.name: getattr(token, c.name) for c in t.tokens.columns} | {"profiles": [*token.profiles]}
            values["limits"] = token.limits.set
            connection.execute(insert(t.tokens).values(values))
            note_deed(connection, doer, token.created_s, "make token", token.name, f"scope {token.scope}{reads}")

        await self._writer.submit(write)

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token with that id as it may be used now, or ``None``; also what a person's session may do.

        A person's token does no more than its person, and nothing if they read none of its profiles.
        """
        c = t.people.c
        if token_id.startswith(PERSON):
            people = await self._read(select(t.people).where(c.name == token_id.removeprefix(PERSON)))
            return bearer_of(people[0].name, people[0].scope, people[0]) if people else None
        return await self._find(t.tokens.c.token_id == token_id)

    async def find_fever(self, sha256: str) -> Token | None:
        """Return the token for which a client of Fever sends what has this hash, as it may be used now."""
        return await self._find(t.tokens.c.fever_sha256 == sha256)

    async def _find(self, which: ColumnElement[bool]) -> Token | None:
        c = t.people.c
        its = [
            c.scope.label("most"),
            *(c[name].label(f"its_{name}") for name in ("profiles", "reader", "limits", "since_s")),
        ]
        tokens = t.tokens.outerjoin(t.people, c.name == t.tokens.c.person)
        found = await self._read(select(t.tokens, *its).select_from(tokens).where(which))
        return _narrow(found[0]) if found else None

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""
        return [_token(row) for row in await self._read(select(t.tokens).order_by(t.tokens.c.name))]

    async def drop_token(self, name: str, now_s: float) -> None:
        """Delete a token and the stored answers to its requests."""
        doer = current_doer()

        def write(connection: Connection) -> bool:
            named = select(t.tokens.c.token_id).where(t.tokens.c.name == name)
            connection.execute(delete(t.answers).where(t.answers.c.bearer.in_(named)))
            is_gone = connection.execute(delete(t.tokens).where(t.tokens.c.name == name)).rowcount > 0
            if is_gone:
                note_deed(connection, doer, now_s, "revoke token", name)
            return is_gone

        if not await self._writer.submit(write):
            raise NotFoundError(f"there is no token {name!r}; `proxyd token list` shows them")

    async def find_answer(self, bearer: str, key: str, *, now_s: float) -> StoredAnswer | None:
        """Return the answer to a key from the last day, or ``None``."""
        c, since_s = t.answers.c, now_s - KEPT_ANSWERS_S
        found = await self._read(select(t.answers).where(c.bearer == bearer, c.key == key, c.answered_s >= since_s))
        return StoredAnswer(**found[0]._asdict()) if found else None

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer to a key."""
        await self._writer.submit(lambda connection: execute_many(connection, _UPSERT_ANSWER, [asdict(answer)]))


def bearer_of(name: str, scope: Scope, person: Any) -> Token:
    """Return what a session of a person (with ``since_s``, ``profiles`` and ``reader``) may do, as a token.

    No request can send it.
    """
    bearer = Token(f"{PERSON}{name}", name, scope, "", person.since_s, None, tuple(person.profiles))
    return replace(bearer, marks_as=person.reader, limits=OwnerLimits(**person.limits))


def _narrow(row: Row[Any]) -> Token | None:
    """Return a token as its person, of whom the row holds ``most`` and what begins with ``its_``."""
    values = row._asdict()
    most, only, reader = values.pop("most"), values.pop("its_profiles"), values.pop("its_reader")
    limits, since_s = OwnerLimits(**values.pop("its_limits") or {}), values.pop("its_since_s")
    token = Token(**values | {"profiles": tuple(values["profiles"]), "limits": OwnerLimits(**values["limits"])})
    if token.person is None:
        return token
    both = [each for each in token.profiles if each in only]
    if most is None or (token.profiles and only and not both):
        return None
    profiles = both if token.profiles and only else token.profiles or only
    scope = min(token.scope, most, key=get_args(Scope).index)
    # what the token may do began when the person got other rights, if that was later
    token = replace(token, created_s=max(token.created_s, since_s))
    return replace(token, scope=scope, profiles=tuple(profiles), marks_as=reader, limits=token.limits.stricter(limits))


def _token(row: Row[Any]) -> Token:
    values = row._asdict()
    return Token(**values | {"profiles": tuple(values["profiles"]), "limits": OwnerLimits(**values["limits"])})
