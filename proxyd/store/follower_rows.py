"""Subscribers of the feeds of profiles (WebSub), and up to which notification each has been sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from proxyd.base.doers import current_doer
from proxyd.store.audit_rows import note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.rows import as_type
from proxyd.store.statements import is_one_of
from proxyd.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Follower:
    """A subscriber of a feed of a profile, or of one of its rules (``rule``, empty for all).

    It reads under a token, and is sent the notifications after ``sent_position`` up to ``owed_position``, from
    ``due_s`` on.
    """

    follower_id: str
    callback: str
    host: str
    profile: str
    rule: str
    form: str
    token_id: str
    secret: str
    lease_until_s: float
    sent_position: int
    owed_position: int
    due_s: float = 0.0
    failures: int = 0

    @property
    def topic(self) -> str:
        """What it follows, in words."""
        return f"rule {self.rule} of profile {self.profile}" if self.rule else f"profile {self.profile}"


class FollowerCounts(NamedTuple):
    """The number of followers: all, those with a callback at a host, and those of a token."""

    all: int
    of_host: int
    of_token: int


class SqlFollowers:
    """Stores the followers."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def counts(self, host: str, token_id: str) -> FollowerCounts:
        """Return how many followers there are."""
        c = t.followers.c
        each = (func.count(), func.count().filter(c.host == host), func.count().filter(c.token_id == token_id))
        return FollowerCounts(*(await self._read(select(*each)))[0])

    async def are_any(self) -> bool:
        """Return whether there is a follower."""
        return bool(await self._read(select(t.followers.c.follower_id).limit(1)))

    async def find(self, follower_id: str) -> Follower | None:
        """Return a follower, or ``None``."""
        found = await self._read(select(t.followers).where(t.followers.c.follower_id == follower_id))
        return as_type(Follower, found[0]) if found else None

    async def keep(self, follower: Follower, now_s: float) -> None:
        """Store a follower; one that is known keeps its place in the notifications."""
        doer = current_doer()
        kept = ("secret", "token_id", "lease_until_s")

        def write(connection: Connection) -> None:
            same = t.followers.c.follower_id == follower.follower_id
            row = asdict(follower)
            renewed = update(t.followers).where(same).values(**{name: row[name] for name in kept})
            if not connection.execute(renewed).rowcount:
                connection.execute(insert(t.followers).values(row))
                note_deed(connection, doer, now_s, "follow", follower.topic, f"pushed to {follower.host}")

        await self._writer.submit(write)

    async def drop(self, follower: Follower, now_s: float) -> None:
        """Forget a follower."""
        doer = current_doer()
        gone = delete(t.followers).where(t.followers.c.follower_id == follower.follower_id)

        def write(connection: Connection) -> None:
            if connection.execute(gone).rowcount:
                note_deed(connection, doer, now_s, "unfollow", follower.topic, f"pushed to {follower.host}")

        await self._writer.submit(write)

    async def rules_after(self, position: int) -> list[str]:
        """Return the rules of the notifications after a position."""
        c = t.notifications.c
        return [row.rule for row in await self._read(select(c.rule).where(c.position > position).distinct())]

    async def owe(self, profiles: Collection[str], rules: Collection[str], newest: int) -> None:
        """Let the followers of some profiles and rules be sent the notifications up to a position."""
        c = t.followers.c
        of_profile = and_(is_one_of(c.profile, profiles), c.rule == "")
        owed = update(t.followers).where(or_(of_profile, is_one_of(c.rule, rules))).values(owed_position=newest)
        await self._writer.submit(lambda connection: connection.execute(owed))

    async def owe_all(self, newest: int) -> None:
        """Let all followers be sent the notifications up to the newest."""
        c = t.followers.c
        # the database may be an older copy, where less has been told
        back = update(t.followers).where(c.sent_position > newest).values(sent_position=newest)

        def write(connection: Connection) -> None:
            connection.execute(back)
            connection.execute(update(t.followers).values(owed_position=newest))

        await self._writer.submit(write)

    async def due(self, now_s: float, *, limit: int) -> Sequence[Follower]:
        """Return the followers that may be sent something now, those of one feed together."""
        c = t.followers.c
        is_due = and_(c.owed_position > c.sent_position, c.due_s <= now_s, c.lease_until_s > now_s)
        # those that fail come last: they must not keep others out of the limit
        order = (c.failures > 0, c.token_id, c.profile, c.rule, c.form, c.sent_position, c.follower_id)
        found = await self._read(select(t.followers).where(is_due).order_by(*order).limit(limit))
        return [as_type(Follower, row) for row in found]

    async def note_sent(self, follower_id: str, position: int) -> None:
        """Note that a follower has the notifications up to a position."""
        values = {"sent_position": position, "failures": 0, "due_s": 0.0}
        sent = update(t.followers).where(t.followers.c.follower_id == follower_id).values(**values)
        await self._writer.submit(lambda connection: connection.execute(sent), may_wait=True)

    async def note_failure(self, follower_id: str, due_s: float) -> None:
        """Note that an attempt failed, and when the next one is due."""
        c = t.followers.c
        failed = update(t.followers).where(c.follower_id == follower_id)
        failed = failed.values(due_s=due_s, failures=c.failures + 1)
        await self._writer.submit(lambda connection: connection.execute(failed), may_wait=True)
