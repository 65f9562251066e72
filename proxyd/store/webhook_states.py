"""Which webhooks have answered their ping; deliveries to the others are held in the outbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update

from proxyd.core.model.delivery import SecretRef, WebhookDelivery, WebhookForm
from proxyd.core.model.profile import NotificationRule
from proxyd.core.model.shards import shard_of
from proxyd.ports import UnconfirmedWebhook, WebhookState
from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.rows import declared_as, typed
from proxyd.store.writer import Writer

Key: TypeAlias = tuple[str, str, str, str]

_KEY = ("endpoint", "form", "secret_kind", "secret_name")
_OF_KEY = and_(*(t.webhooks.c[name] == bindparam(f"of_{name}") for name in _KEY))
_TO_KEY = and_(t.outbox.c.kind == "webhook", *(t.outbox.c[name] == bindparam(f"of_{name}") for name in _KEY))
_RELEASE = update(t.outbox).where(_TO_KEY, t.outbox.c.state == "held").values(state="pending")
_GIVE_UP = (
    update(t.outbox)
    .where(_TO_KEY, or_(*(t.outbox.c.state == state for state in ("held", "gathering", "muted", "released"))))
    .values(state="dead", done_s=bindparam("at_s"), last_error="its webhook was removed before it had accepted a ping")
)


@dataclass(frozen=True, slots=True)
class KnownWebhook:
    """A declared webhook, and the time since which it is in its state."""

    endpoint: str
    form: str
    secret_kind: str
    secret_name: str
    state: str
    since_s: float
    detail: str

    @property
    def declared(self) -> str:
        """The declaration, as ``DisabledEndpoint`` has it."""
        return declared_as(WebhookDelivery.kind, self.form, self.secret_kind, self.secret_name)


class SqlWebhooks:
    """The Webhooks port over SQLAlchemy."""

    def __init__(self, writer: Writer, read: StoreReader, shards: Callable[[], Collection[int]] | None = None) -> None:
        self._writer = writer
        self._read = read
        self._shards = shards

    async def unconfirmed(self) -> list[UnconfirmedWebhook]:
        """Return the declared webhooks of our own shards that have not answered yet."""
        own = None if self._shards is None else frozenset(self._shards())
        query = select(t.webhooks).where(t.webhooks.c.state == WebhookState.UNCONFIRMED.value)
        return [
            UnconfirmedWebhook(
                WebhookDelivery(row.endpoint, SecretRef(row.secret_kind, row.secret_name), WebhookForm(row.form)),
                row.since_s,
            )
            for row in await self._read(query.order_by(t.webhooks.c.since_s, t.webhooks.c.endpoint))
            if own is None or shard_of(row.endpoint) in own
        ]

    async def answered(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        """Record a ping's result and release held deliveries; after an earlier answer, only that it accepts again."""
        await self._writer.submit(lambda connection: self._answered(connection, webhook, state, now_s, detail))

    def _answered(
        self, connection: Connection, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str
    ) -> None:
        key = key_of(webhook)
        if state is not WebhookState.CONFIRMED and key not in held(connection):
            return
        if state is WebhookState.UNCONFIRMED:
            connection.execute(update(t.webhooks).where(_OF_KEY).values(detail=detail), [_of(key)])
            return
        values = {"state": state.value, "since_s": now_s, "detail": detail}
        connection.execute(update(t.webhooks).where(_OF_KEY).values(**values), [_of(key)])
        connection.execute(_RELEASE, [_of(key)])

    async def all(self) -> list[KnownWebhook]:
        """Return every webhook."""
        query = select(t.webhooks).order_by(*(t.webhooks.c[name] for name in _KEY))
        return [typed(KnownWebhook, row) for row in await self._read(query)]

    def declare(self, connection: Connection, rules: Iterable[NotificationRule], now_s: float) -> None:
        """Forget the webhooks that are no longer declared, and record the new ones as unconfirmed.

        Deliveries held for a removed webhook are given up: nobody knows who would get them.
        """
        webhooks = {each for rule in rules for each in rule.deliveries if isinstance(each, WebhookDelivery)}
        declared = {key_of(each) for each in webhooks}
        stored = {tuple(row)[:4]: row.state for row in connection.execute(_STORED)}
        unconfirmed = {key for key, state in stored.items() if state == WebhookState.UNCONFIRMED.value}
        if lost := [_of(key) | {"at_s": now_s} for key in unconfirmed - declared]:
            connection.execute(_GIVE_UP, lost)
        if gone := [_of(key) for key in stored.keys() - declared]:
            connection.execute(delete(t.webhooks).where(_OF_KEY), gone)
        fresh = {"state": WebhookState.UNCONFIRMED.value, "since_s": now_s, "detail": ""}
        if new := [dict(zip(_KEY, key, strict=True)) | fresh for key in declared - stored.keys()]:
            connection.execute(insert(t.webhooks), new)


def held(connection: Connection) -> frozenset[Key]:
    """Return the webhooks that have not answered; they cannot answer before this transaction ends.

    Otherwise, deliveries that another process releases would never go: it cannot see this transaction's rows.
    """
    return frozenset(tuple(row) for row in connection.execute(_HELD))


def state_of(row: Mapping[str, Any], held: Collection[Key]) -> str:
    """Return the state of a new row of the outbox: held if its webhook has not answered."""
    is_held = row["kind"] == "webhook" and tuple(row[name] for name in _KEY) in held
    return "held" if is_held else "pending"


def key_of(webhook: WebhookDelivery) -> Key:
    """Return the key of a webhook: one with another declaration is another webhook."""
    return webhook.url, webhook.form.value, webhook.secret.kind, webhook.secret.name


_HELD = (
    select(*(t.webhooks.c[name] for name in _KEY))
    .where(t.webhooks.c.state == WebhookState.UNCONFIRMED.value)
    .with_for_update(read=True)
)
_STORED = select(*(t.webhooks.c[name] for name in _KEY), t.webhooks.c.state)


def _of(key: Iterable[str]) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in zip(_KEY, key, strict=True)}
