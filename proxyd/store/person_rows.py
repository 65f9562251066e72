"""People who sign in to the dashboard, each with a password, and the links by which they choose one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from proxyd.base.doers import OwnerLimits, current_doer
from proxyd.core.errors import NotFoundError
from proxyd.store.api_rows import ME, PERSON, Scope, Token, bearer_of
from proxyd.store.audit_rows import note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who signs in. Of the password and of the link only hashes are stored."""

    name: str
    scope: Scope
    reader: str  # the name under which their marks are stored
    since_s: float  # since when their sessions are valid: they were added, or chose the present password
    profiles: tuple[str, ...] = ()  # the only ones that they read and write; empty: all
    password: str | None = None  # its argon2 hash; ``None`` before they have chosen one
    invitation: str | None = None  # the SHA-256 of what their link holds, until they have used it
    invited_until_s: float | None = None
    subject: str | None = None  # the account elsewhere by which they have signed in first
    mail: str | None = None  # where links are sent
    link: str | None = None  # the SHA-256 of what the link holds by which they may sign in once
    link_until_s: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  # of what may belong to their profiles, by name

    @property
    def bearer(self) -> Token:
        """What a session of theirs may do, in the form of a token that no request can send."""
        return bearer_of(self.name, self.scope, self)


class SqlPeople:
    """The people who sign in."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def all(self) -> Sequence[Person]:
        """Return everybody, by name."""
        return [_person(row) for row in await self._read(select(t.people).order_by(t.people.c.name))]

    async def are_there(self) -> bool:
        """Return whether anybody has a password."""
        return bool(await self._read(select(t.people.c.name).where(t.people.c.password.is_not(None)).limit(1)))

    async def find(self, name: str) -> Person | None:
        """Return the person of that name, or ``None``."""
        found = await self._read(select(t.people).where(t.people.c.name == name))
        return _person(found[0]) if found else None

    async def find_invited(self, invitation: str, *, now_s: float) -> Person | None:
        """Return whose link this is, or ``None`` if it was used, replaced or has expired."""
        c = t.people.c
        found = await self._read(select(t.people).where(c.invitation == invitation, c.invited_until_s > now_s))
        return _person(found[0]) if found else None

    async def find_addressed(self, written: str) -> Person | None:
        """Return who has this name or, alone, this mail address; only of those to whom links are sent."""
        c = t.people.c
        is_theirs = or_(c.name == written, func.lower(c.mail) == written.lower())
        found = await self._read(select(t.people).where(is_theirs, c.mail.is_not(None)).limit(2))
        return _person(found[0]) if len(found) == 1 else None

    async def keep_link(self, name: str, link: str, *, until_s: float) -> None:
        """Let a person sign in once by a link, which replaces an earlier one."""
        of_name = update(t.people).where(t.people.c.name == name)
        await self._writer.submit(lambda on: on.execute(of_name.values(link=link, link_until_s=until_s)))

    async def find_linked(self, link: str, *, now_s: float) -> Person | None:
        """Return who may sign in by this link, or ``None`` if it was used, replaced or has expired."""
        c = t.people.c
        found = await self._read(select(t.people).where(c.link == link, c.link_until_s > now_s))
        return _person(found[0]) if found else None

    async def use_link(self, link: str, *, now_s: float) -> Person | None:
        """Return who signs in by this link, which ends it, or ``None`` as ``find_linked``."""
        c = t.people.c
        valid = update(t.people).where(c.link == link, c.link_until_s > now_s).values(link=None).returning(t.people)

        def write(connection: Connection) -> Person | None:
            row = connection.execute(valid).first()
            return None if row is None else _person(row)

        return await self._writer.submit(write)

    async def invite(
        self,
        name: str,
        scope: Scope,
        profiles: Sequence[str],
        *,
        invitation: str,
        until_s: float,
        now_s: float,
        mail: str | None = None,
    ) -> None:
        """Add a person, or give one another scope; the link replaces an earlier one, and not yet the password.

        ``mail`` is where links are sent from now on, nowhere if it is empty, and as before if it is ``None``.

        Other rights end their sessions and streams. The first person has the marks of before, and shares them with
        tokens that are nobody's.
        """
        doer = current_doer()

        def write(connection: Connection) -> None:
            invited: dict[str, object] = {
                "subject": None,
                "scope": scope,
                "profiles": [*profiles],
                "invitation": invitation,
                "invited_until_s": until_s,
            }
            if mail is not None:  # a link to the address before ends
                invited |= {"mail": mail or None, "link": None}
            known = connection.execute(select(t.people).where(t.people.c.name == name)).first()
            if known is None:
                is_first = connection.execute(select(t.people.c.name).limit(1)).first() is None
                added = {"name": name, "reader": ME if is_first else f"{PERSON}{name}", "since_s": now_s}
                connection.execute(insert(t.people).values(invited | added))
            else:
                if (known.scope, tuple(known.profiles)) != (scope, tuple(profiles)):
                    invited["since_s"] = now_s
                connection.execute(update(t.people).where(t.people.c.name == name).values(invited))
            note_deed(connection, doer, now_s, "invite", f"person {name}", f"scope {scope}")

        await self._writer.submit(write)

    async def accept(self, invitation: str, password: str, *, now_s: float) -> bool:
        """Set the password of a link that is valid, which ends the link and their sessions; return whether it was."""
        doer = current_doer()

        def write(connection: Connection) -> bool:
            c, chosen = t.people.c, {"password": password, "since_s": now_s, "invitation": None, "link": None}
            valid = update(t.people).where(c.invitation == invitation, c.invited_until_s > now_s)
            name = connection.scalar(valid.values(chosen).returning(c.name))
            if name is not None:
                note_deed(connection, doer, now_s, "choose password", f"person {name}", "by a link")
            return name is not None

        return await self._writer.submit(write)

    async def bind(self, name: str, subject: str) -> bool:
        """Bind a person to an account elsewhere if there is none yet; return whether it is theirs."""

        def write(connection: Connection) -> bool:
            c = t.people.c
            free = update(t.people).where(c.name == name, or_(c.subject.is_(None), c.subject == subject))
            return connection.execute(free.values(subject=subject)).rowcount > 0

        return await self._writer.submit(write)

    async def set_password(self, name: str, password: str, *, now_s: float) -> None:
        """Replace the password of a person, which ends their sessions and links."""
        doer = current_doer()

        def write(connection: Connection) -> None:
            chosen = {"password": password, "since_s": now_s, "invitation": None, "link": None}
            connection.execute(update(t.people).where(t.people.c.name == name).values(chosen))
            note_deed(connection, doer, now_s, "choose password", f"person {name}")

        await self._writer.submit(write)

    async def limit(self, name: str, limits: OwnerLimits, *, now_s: float) -> None:
        """Say how much may belong to the profiles of a person; raises ``NotFoundError``."""
        doer = current_doer()

        def write(connection: Connection) -> bool:
            of_name = update(t.people).where(t.people.c.name == name).values(limits=limits.set)
            is_there = connection.execute(of_name).rowcount > 0
            if is_there:
                told = ", ".join(f"{what} {most}" for what, most in limits.set.items()) or "none"
                note_deed(connection, doer, now_s, "limit", f"person {name}", told)
            return is_there

        if not await self._writer.submit(write):
            raise NotFoundError(f"there is no person {name!r}; `proxyd person list` shows them")

    async def drop(self, name: str, now_s: float) -> None:
        """Remove a person, whose sessions and tokens end; their marks are to be forgotten separately."""
        doer = current_doer()

        def write(connection: Connection) -> bool:
            connection.execute(delete(t.tokens).where(t.tokens.c.person == name))
            is_gone = connection.execute(delete(t.people).where(t.people.c.name == name)).rowcount > 0
            if is_gone:
                note_deed(connection, doer, now_s, "remove", f"person {name}")
            return is_gone

        if not await self._writer.submit(write):
            raise NotFoundError(f"there is no person {name!r}; `proxyd person list` shows them")


def _person(row: Row[Any]) -> Person:
    values = row._asdict()
    return Person(**values | {"profiles": tuple(values["profiles"])})
