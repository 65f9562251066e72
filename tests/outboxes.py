"""What an outbox would send, as tests ask for it."""

from __future__ import annotations

from collections.abc import Collection

from proxyd.base.ports import DueDelivery
from proxyd.store.outbox import SqlOutbox


async def due_deliveries(
    store: SqlOutbox,
    now_s: float,
    *,
    hold_s: float = 600.0,
    limit: int = 99,
    busy: Collection[str] = (),
    shut: Collection[str] = (),
) -> list[DueDelivery]:
    """Return the first deliveries that may be sent now, outside ``busy`` lanes; leave them to whoever claims them."""
    claimed = await store.claim_deliveries(now_s, hold_s=hold_s, until_s=now_s + 60.0, limit=99, shut=shut)
    await store.give_back(claimed.deliveries, 0.0)
    return [each for each in claimed.deliveries if each.lane not in busy][:limit]


async def next_due_s(store: SqlOutbox, now_s: float, *, shut: Collection[str] = ()) -> float | None:
    """Return when something is due outside ``shut`` endpoints, if nothing is due now."""
    claimed = await store.claim_deliveries(now_s, hold_s=600.0, until_s=now_s + 60.0, limit=99, shut=shut)
    assert not claimed.deliveries
    return claimed.next_s
