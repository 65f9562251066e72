"""Pictures of pages: each is stored once, until no notification has it or all pictures together are too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from proxyd.core.model.outcome import Picture
from proxyd.core.rules.known.state import Notification
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.statements import execute_many
from proxyd.store.writer import Writer

MOST_DELETED = 100  # pictures in one commit: each may have half a megabyte
_c = t.pictures.c
_TAKE_AGAIN = update(t.pictures).where(_c.sha256 == bindparam("of_picture")).values(taken_s=bindparam("again_s"))


def record_pictures(connection: Connection, taken: Mapping[str, Picture], sent: Sequence[Notification]) -> None:
    """Store the pictures that notifications have, by their hashes; one that is stored already counts as new again."""
    wanted = {each.picture: each.created_s for each in sent if each.picture in taken and each.picture is not None}
    if not wanted:
        return
    found = set(connection.scalars(select(_c.sha256).where(_c.sha256.in_(sorted(wanted)))))
    new = [_row(sha256, taken[sha256], at_s) for sha256, at_s in wanted.items() if sha256 not in found]
    execute_many(connection, insert(t.pictures), new)
    execute_many(connection, _TAKE_AGAIN, [{"of_picture": each, "again_s": wanted[each]} for each in found])


def _row(sha256: str, picture: Picture, at_s: float) -> dict[str, Any]:
    row = {"sha256": sha256, "media_type": picture.media_type, "data": picture.data}
    return row | {"size": len(picture.data), "taken_s": at_s}


async def read_picture(read: StoreReader, of: Select[*tuple[Any, ...]]) -> Picture | None:
    """Return the picture whose hash a query gives, or ``None`` if it is not stored."""
    found = await read(select(_c.media_type, _c.data).where(_c.sha256.in_(of)))
    return Picture(found[0].media_type, bytes(found[0].data)) if found else None


async def expire_pictures(writer: Writer, *, most_bytes: int) -> int:
    """Delete, in parts, pictures that no notification has, and the oldest above ``most_bytes``; return how many."""
    deleted = 0
    for part in (_delete_unused, lambda connection: _delete_oldest(connection, most_bytes)):
        while gone := await writer.submit(part):
            deleted += gone
    return deleted


def _delete_unused(connection: Connection) -> int:
    """Delete some of the pictures that no notification has, and return how many."""
    has_one = select(t.notifications.c.position).where(t.notifications.c.picture == _c.sha256).exists()
    some = select(_c.sha256).where(~has_one).limit(MOST_DELETED)
    return connection.execute(delete(t.pictures).where(_c.sha256.in_(some))).rowcount


def _delete_oldest(connection: Connection, most_bytes: int) -> int:
    """Delete some of the oldest pictures above a size, and return how many; their notifications stay."""
    excess = (connection.scalar(select(func.sum(_c.size))) or 0) - most_bytes
    oldest = connection.execute(select(_c.sha256, _c.size).order_by(_c.taken_s, _c.sha256).limit(MOST_DELETED)).all()
    freed = accumulate((row.size for row in oldest), initial=0)  # bytes of all rows before each
    gone = [row.sha256 for row, _ in takewhile(lambda pair: pair[1] < excess, zip(oldest, freed, strict=False))]
    if gone:
        notifications = update(t.notifications).where(t.notifications.c.picture.in_(gone))
        connection.execute(notifications.values(picture=None))
        connection.execute(delete(t.pictures).where(_c.sha256.in_(gone)))
    return len(gone)
