"""The audit log: who changed, tried or sent what, who signed in, or failed to; it holds no texts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, insert, select

from proxyd.base.doers import Doer, current_doer
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.rows import as_type
from proxyd.store.writer import Writer

_QUERY = re.compile(r"\?[^\s,]+")
_MOST_NAMED, _MOST_CHARACTERS = 20, 1000
_MOST_WAITING, _LOOK_S = 1000, 0.2
log = structlog.get_logger("store")


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did: ``did`` is a verb, ``subject`` what it was done to, ``detail`` how."""

    position: int
    at_s: float
    who: str
    way: str
    address: str
    did: str
    subject: str
    detail: str


class SqlAudit:
    """What was done, for people."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read
        self._waiting: set[asyncio.Task[None]] = set()

    async def find_deeds(self, *, before: int | None, limit: int) -> list[Deed]:
        """Return what was done, newest first; ``before`` is the position of a deed."""
        c = t.audit.c
        older = [c.position < before] if before is not None else []
        query = select(t.audit).where(*older).order_by(c.position.desc()).limit(limit)
        return [as_type(Deed, row) for row in await self._read(query)]

    async def note(self, did: str, subject: str, detail: str, *, now_s: float) -> None:
        """Note what somebody does that changes nothing in the store.

        While the database is busy it is not waited for: whoever comes to see why the disk is full must get in.
        """
        if len(self._waiting) >= _MOST_WAITING:
            log.warning("too much waits to be noted; this is not", did=did)
            return
        doer = current_doer()
        noting = self._writer.submit(lambda connection: note_deed(connection, doer, now_s, did, subject, detail))
        task = asyncio.create_task(noting, name="note a deed")
        self._waiting.add(task)
        task.add_done_callback(self._forget)
        while not task.done() and not self._writer.waits_for:
            await asyncio.wait([task], timeout=_LOOK_S)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a deed could not be noted", error=str(error))


def note_deed(connection: Connection, doer: Doer, now_s: float, did: str, subject: str, detail: str = "") -> None:
    """Note what somebody does, in the transaction that does it; names that are addresses stay without their query."""
    subject = _QUERY.sub("?…", subject)  # which may hold a password
    row = {"at_s": now_s, "who": doer.who, "way": doer.way, "address": doer.address, "did": did}
    row |= {"subject": subject[:_MOST_CHARACTERS], "detail": detail[:_MOST_CHARACTERS]}
    connection.execute(insert(t.audit).values(row))


def named(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are.

    >>> named(["source a", "rule b"]), named([str(number) for number in range(22)])[-17:]
    ('source a, rule b', '18, 19 and 2 more')
    """
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
