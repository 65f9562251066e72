"""Which webhooks have answered their ping; deliveries to the others are held in the outbox."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, tuple_, update

from proxyd.base.ports import UnconfirmedWebhook, WebhookState
from proxyd.core.model.delivery import SecretRef, WebhookDelivery, WebhookForm
from proxyd.core.model.profile import NotificationRule
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.lanes import mark_due
from proxyd.store.rows import as_type, way_of_declaration
from proxyd.store.statements import execute_many
from proxyd.store.writer import Writer, take_all

_Key: TypeAlias = tuple[str, str, str, str]

_KEY = ("endpoint", "form", "secret_kind", "secret_name")
_COLUMNS = tuple(t.webhooks.c[name] for name in _KEY)
_OF_KEY = and_(*(t.webhooks.c[name] == bindparam(f"of_{name}") for name in _KEY))
_TO_KEY = and_(t.outbox.c.kind == "webhook", *(t.outbox.c[name] == bindparam(f"of_{name}") for name in _KEY))
_RELEASE = (
    update(t.outbox).where(_TO_KEY, t.outbox.c.state == "held").values(state="pending").returning(t.outbox.c.lane)
)
_GIVE_UP = (
    update(t.outbox)
    .where(_TO_KEY, or_(*(t.outbox.c.state == state for state in ("held", "gathering", "muted", "released"))))
    .values(state="dead", done_s=bindparam("at_s"), last_error="its webhook was removed before it had accepted a ping")
    .returning(t.outbox.c.lane)
)


class _Answer(NamedTuple):
    """The result of a ping."""

    key: _Key
    state: WebhookState
    now_s: float
    detail: str


@dataclass(frozen=True, slots=True)
class KnownWebhook:
    """A declared webhook, the time since which it is in its state, and the rules that it permanently ``refused``."""

    endpoint: str
    form: str
    secret_kind: str
    secret_name: str
    state: str
    since_s: float
    detail: str
    refused: tuple[str, ...] = ()

    @property
    def declared(self) -> str:
        """The declaration, as ``DisabledEndpoint`` has it."""
        return way_of_declaration(WebhookDelivery.kind, self.form, self.secret_kind, self.secret_name)


class SqlWebhooks:
    """The Webhooks port over SQLAlchemy."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read
        self._answers: deque[_Answer] = deque()

    async def list_unconfirmed(self) -> list[UnconfirmedWebhook]:
        """Return the declared webhooks that have not answered yet."""
        query = select(t.webhooks).where(t.webhooks.c.state == WebhookState.UNCONFIRMED.value)
        return [
            UnconfirmedWebhook(
                WebhookDelivery(row.endpoint, SecretRef(row.secret_kind, row.secret_name), WebhookForm(row.form)),
                row.since_s,
            )
            for row in await self._read(query.order_by(t.webhooks.c.since_s, t.webhooks.c.endpoint))
        ]

    async def claim(self, webhooks: Collection[WebhookDelivery], now_s: float, until_s: float) -> list[WebhookDelivery]:
        """Claim unconfirmed webhooks until ``until_s``, and return those that nobody else had claimed."""
        keys = {_key_of(each): each for each in webhooks}

        def write(connection: Connection) -> list[WebhookDelivery]:
            among = tuple_(*_COLUMNS).in_(list(keys))
            free = _LOCKED.where(among, t.webhooks.c.claimed_until_s <= now_s)
            won = [tuple(row)[:4] for row in connection.execute(free)]
            claiming = update(t.webhooks).where(_OF_KEY).values(claimed_until_s=until_s)
            execute_many(connection, claiming, [_of(key) for key in won])
            return [keys[key] for key in won]

        return await self._writer.submit(write)

    async def extend_claims(self, webhooks: Collection[WebhookDelivery], until_s: float) -> None:
        """Let claims of webhooks last until ``until_s``."""
        among = tuple_(*_COLUMNS).in_([_key_of(each) for each in webhooks])
        locked = tuple_(*_COLUMNS).in_(select(*_COLUMNS).where(among).order_by(*_COLUMNS).with_for_update())
        extending = update(t.webhooks).where(locked).values(claimed_until_s=until_s)
        await self._writer.submit(lambda connection: connection.execute(extending))

    async def record_ping(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        """Record a ping's result and release held deliveries; after an earlier answer, only that it accepts again."""
        self._answers.append(_Answer(_key_of(webhook), state, now_s, detail))
        await self._writer.submit(self._write_answers)

    def _write_answers(self, connection: Connection) -> None:
        """Write the answers of all webhooks that wait for the same commit, whose rows are locked in order."""
        answers = take_all(connection, self._answers)
        if not answers:
            return
        among = tuple_(*_COLUMNS).in_([each.key for each in answers])
        stored = {tuple(row)[:4]: row.state for row in connection.execute(_LOCKED.where(among))}
        for key, state, now_s, detail in answers:
            if state is not WebhookState.CONFIRMED and stored.get(key) != WebhookState.UNCONFIRMED.value:
                continue
            if state is WebhookState.UNCONFIRMED:
                connection.execute(update(t.webhooks).where(_OF_KEY).values(detail=detail), [_of(key)])
                continue
            values = {"state": state.value, "since_s": now_s, "detail": detail}
            connection.execute(update(t.webhooks).where(_OF_KEY).values(**values), [_of(key)])
            mark_due(connection, connection.scalars(_RELEASE, _of(key)), now_s)
            stored[key] = state.value

    async def all(self) -> list[KnownWebhook]:
        """Return every webhook."""
        query = select(t.webhooks).order_by(*(t.webhooks.c[name] for name in _KEY))
        return [as_type(KnownWebhook, row) for row in await self._read(query)]

    def declare(self, connection: Connection, rules: Iterable[NotificationRule], now_s: float) -> None:
        """Forget the webhooks that are no longer declared, and record the new ones as unconfirmed."""
        # Deliveries held for a removed webhook are given up: nobody knows who would get them
        webhooks = {each for rule in rules for each in rule.deliveries if isinstance(each, WebhookDelivery)}
        declared = {_key_of(each) for each in webhooks}
        stored = {tuple(row)[:4]: row.state for row in connection.execute(_LOCKED)}
        unconfirmed = {key for key, state in stored.items() if state == WebhookState.UNCONFIRMED.value}
        for key in unconfirmed - declared:
            mark_due(connection, connection.scalars(_GIVE_UP, _of(key) | {"at_s": now_s}), now_s)
        if gone := [_of(key) for key in stored.keys() - declared]:
            connection.execute(delete(t.webhooks).where(_OF_KEY), gone)
        fresh = {"state": WebhookState.UNCONFIRMED.value, "since_s": now_s, "detail": ""}
        if new := [dict(zip(_KEY, key, strict=True)) | fresh for key in declared - stored.keys()]:
            connection.execute(insert(t.webhooks), new)


def held(connection: Connection, endpoint: str | None = None) -> frozenset[_Key]:
    """Return the webhooks, of one endpoint or all, that have not answered; they cannot before this transaction ends."""
    # Otherwise, deliveries that another process releases would never go: it cannot see this transaction's rows
    query = _HELD if endpoint is None else _HELD.where(t.webhooks.c.endpoint == endpoint)
    return frozenset(tuple(row) for row in connection.execute(query))


def state_of(row: Mapping[str, Any], held: Collection[_Key]) -> str:
    """Return the state of a new row of the outbox: held if its webhook has not answered."""
    is_held = row["kind"] == "webhook" and tuple(row[name] for name in _KEY) in held
    return "held" if is_held else "pending"


def _key_of(webhook: WebhookDelivery) -> _Key:
    """Return the key of a webhook: one with another declaration is another webhook."""
    return webhook.url, webhook.form.value, webhook.secret.kind, webhook.secret.name


_HELD = (  # all who lock several rows do so in this order, so that none waits for another in a circle
    select(*_COLUMNS)
    .where(t.webhooks.c.state == WebhookState.UNCONFIRMED.value)
    .order_by(*_COLUMNS)
    .with_for_update(read=True)
)
_LOCKED = select(*_COLUMNS, t.webhooks.c.state).order_by(*_COLUMNS).with_for_update()


def _of(key: Iterable[str]) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in zip(_KEY, key, strict=True)}
