"""Which webhooks have shown that they are there: nothing is sent to one before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, insert, select, update

from proxyd.model.profile import NotificationRule, SecretRef, WebhookDelivery, WebhookForm
from proxyd.ports import UnconfirmedWebhook, WebhookState
from proxyd.store import tables as t
from proxyd.store.engine import Reader
from proxyd.store.writer import Writer

_KEY = ("endpoint", "form", "secret_kind", "secret_name")
_OF_KEY = and_(*(t.webhooks.c[name] == bindparam(f"of_{name}") for name in _KEY))


class SqlWebhooks:
    """The Webhooks port over SQLAlchemy."""

    def __init__(self, writer: Writer, read: Reader) -> None:
        self._writer = writer
        self._read = read

    async def unconfirmed(self) -> list[UnconfirmedWebhook]:
        """Return those that were declared and have not answered yet."""
        query = select(t.webhooks).where(t.webhooks.c.state == WebhookState.UNCONFIRMED.value)
        return [
            UnconfirmedWebhook(
                WebhookDelivery(row.endpoint, SecretRef(row.secret_kind, row.secret_name), WebhookForm(row.form)),
                row.since_s,
            )
            for row in await self._read(query.order_by(t.webhooks.c.since_s, t.webhooks.c.endpoint))
        ]

    async def answered(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        """Note what came of asking; does nothing where it is declared no more."""
        statement = update(t.webhooks).where(_OF_KEY).values(state=state.value, since_s=now_s, detail=detail)
        values = {f"of_{name}": value for name, value in _key(webhook).items()}
        await self._writer.submit(lambda connection: connection.execute(statement, [values]))

    async def all(self) -> list[dict[str, Any]]:
        """Return every webhook for people: endpoint, form, secret_name, state, since_s and detail."""
        c = t.webhooks.c
        query = select(c.endpoint, c.form, c.secret_name, c.state, c.since_s, c.detail)
        return [row._asdict() for row in await self._read(query.order_by(c.endpoint, c.form, c.secret_name))]


def declare(connection: Connection, rules: Iterable[NotificationRule], now_s: float) -> None:
    """Forget the webhooks that are declared no more, and note the new ones as unconfirmed."""
    declared = {
        tuple(_key(delivery).values()): _key(delivery)
        for rule in rules
        for delivery in rule.deliveries
        if isinstance(delivery, WebhookDelivery)
    }
    stored = {tuple(row) for row in connection.execute(select(*(t.webhooks.c[name] for name in _KEY)))}
    gone = [{f"of_{name}": value for name, value in zip(_KEY, key, strict=True)} for key in stored - declared.keys()]
    if gone:
        connection.execute(delete(t.webhooks).where(_OF_KEY), gone)
    fresh = {"state": WebhookState.UNCONFIRMED.value, "since_s": now_s, "detail": ""}
    new = [values | fresh for key, values in declared.items() if key not in stored]
    if new:
        connection.execute(insert(t.webhooks), new)


def is_unconfirmed() -> ColumnElement[bool]:
    """Return whether a row of the outbox goes to a webhook that has not answered yet."""
    same = and_(*(t.webhooks.c[name] == t.outbox.c[name] for name in _KEY))
    return select(t.webhooks.c.endpoint).where(same, t.webhooks.c.state == WebhookState.UNCONFIRMED.value).exists()


def _key(webhook: WebhookDelivery) -> dict[str, str]:
    secret = webhook.secret
    values = (webhook.url, webhook.form.value, secret.kind, secret.name)
    return dict(zip(_KEY, values, strict=True))
