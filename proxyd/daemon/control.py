"""The Control port over a running daemon."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from proxyd.config import SecretStore
from proxyd.core.language import Parsed, Statement, no_such
from proxyd.core.model.delivery import Delivery, WebhookDelivery, shown_endpoint
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.advice import Advice, advise
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.explanation import Explanation
from proxyd.core.rules.trial import PlanCost
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.notifying import Notifying
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.daemon.pushes import Pushes
from proxyd.errors import BusyError, DeliveryError, NotFoundError, StoreError
from proxyd.metrics import Metrics
from proxyd.notify import known_secret
from proxyd.ports import (
    Channel,
    Clock,
    DeclarationChanges,
    DeliveryTest,
    Message,
    OnlyIf,
    Report,
    StoredAnswer,
    Token,
    Transport,
    Wanted,
    WebhookState,
)
from proxyd.store import KEPT_ANSWERS_S, SqlStore

_FRESH_CHRONONS = 10
_PING_S = 2.0
_DAY_S = 86400.0


class Broadcast:
    """Wakes everybody who waits."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def ring(self) -> None:
        """Wake those who wait now."""
        self._next.set()
        self._next = asyncio.Event()

    @property
    def next(self) -> asyncio.Event:
        """What the next ring sets."""
        return self._next


@dataclass(frozen=True, slots=True)
class DaemonControl:
    """Answers the API and the command line from the parts of the daemon."""

    decider: Decider
    declarations: Declarations
    store: SqlStore
    notifying: Notifying
    probes: ProbeLoop
    pushes: Pushes
    transport: Transport
    channel: Channel
    secrets: SecretStore
    clock: Clock
    registry: Metrics
    bell: Broadcast

    @property
    def has_started(self) -> bool:
        """Whether the declaration is there."""
        return self.declarations.has_started

    @property
    def declaration(self) -> Declaration:
        """The running declaration."""
        return self.declarations.current

    def origin(self, file: str) -> str:
        """Return ``api``, or the file."""
        return self.declarations.origin(file)

    def text_of(self, profile: str) -> str:
        """Return a profile and its rules as text."""
        return self.declarations.text_of(profile)

    def statements_of(self, profile: str) -> Sequence[Statement]:
        """Return the statements of a profile and its rules."""
        return self.declarations.statements_of(profile)

    async def declare(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> DeclarationChanges:
        """Add texts of the API."""
        return await self.declarations.declare(*texts, only_if=only_if)

    async def try_out(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> tuple[DeclarationChanges, PlanCost]:
        """Check texts of the API alone."""
        return await self.declarations.try_out(*texts, only_if=only_if)

    async def drop_profile(self, name: str, *, only_if: Callable[[str], bool] | None = None) -> DeclarationChanges:
        """Remove a profile of the API and the rules in no other."""
        return await self.declarations.drop_profile(name, only_if=only_if)

    async def reload(self) -> tuple[str, ...]:
        """Check the files and swap them in."""
        return await self.declarations.reload()

    def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes."""
        return self.decider.explainer.plan(self._next_chronon(), limit=limit)

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes of one source: found in a thread, from a copy of its page."""
        preview = self.decider.explainer.preview_of(source_id, self._next_chronon())
        return await asyncio.to_thread(lambda: list(islice(preview, limit)))

    async def advise(self) -> Advice:
        """Return what other budgets would buy: found in a thread, from a copy of the pages that rules want in time."""
        decider = self.decider
        ahead, week = decider.explainer.ahead(self._next_chronon()), decider.planner.week
        return await asyncio.to_thread(lambda: advise(decider.settings.planner, week, ahead.forecast()))

    async def report(self, *, days: int) -> Report:
        """Return what was found and predicted day by day, and which sources' models are off."""
        since_s = self.clock.time_s() - (days - 1) * _DAY_S
        return Report(tuple(await self.store.accounts(since_s)), tuple(self.decider.explainer.misfits()))

    def explain(self, source_id: str) -> Explanation | None:
        """Return why and when a source is probed next."""
        return self.decider.explainer.explain(source_id, self._next_chronon())

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""
        return self.decider.explainer.failing()

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the probes of a source in the last days, newest first."""
        self._known_source(source_id)
        return await self.store.made_probes(source_id, before=before, limit=limit)

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[tuple[float, float]]:
        """Return when items of a source came and when each was seen, newest first."""
        self._known_source(source_id)
        return await self.store.seen_items(source_id, self.clock.time_s() - days * _DAY_S, limit=limit)

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[dict[str, Any]]:
        """Return the execution intervals of a rule that were decided in the last days, newest first."""
        self._must_have_started()
        if rule not in self.declaration.rules:
            raise no_such("rule", rule, self.declaration.rules)
        return await self.store.intervals(rule, self.clock.time_s() - days * _DAY_S, limit=limit)

    def _must_have_started(self) -> None:
        if not self.has_started:
            raise BusyError("the daemon is starting")

    def _known_source(self, source_id: str) -> None:
        self._must_have_started()
        if source_id not in self.declaration.sources:
            raise no_such("source", source_id, self.declaration.sources)

    def fates(self, rules: Iterable[str]) -> CaptureCounts:
        """Return what became of the execution intervals of some rules."""
        return self.decider.known.capture_counts(rules)

    async def notifications(self, wanted: Wanted, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return notifications, newest first."""
        return await self.store.find_notifications(wanted, before=before, limit=limit)

    async def notifications_between(
        self, wanted: Wanted, after: int, until: int, *, limit: int
    ) -> list[dict[str, Any]]:
        """Return notifications, oldest first."""
        return await self.store.find_between(wanted, after, until, limit=limit)

    async def newest_position(self) -> int:
        """Return the position of the newest notification."""
        return await self.store.newest_position()

    def next_news(self) -> asyncio.Event:
        """Return what will be set when notifications were recorded."""
        return self.bell.next

    async def trace(self, notification_id: str) -> dict[str, Any]:
        """Return all that led to a notification, and what became of it."""
        found = await self.store.trace(notification_id)
        if found is None:
            raise NotFoundError(f"there is no notification {notification_id!r}")
        return found | {"attempts": await self.store.delivery_attempts(notification_id)}

    async def test_deliveries(self, rule: str) -> list[DeliveryTest]:
        """Send a test message to every webhook, mail address and channel of a rule."""
        declared = self.declaration.rules.get(rule)
        if declared is None:
            raise no_such("rule", rule, self.declaration.rules)
        return [await self._test(delivery, rule) for delivery in declared.deliveries]

    async def _test(self, delivery: Delivery, rule: str) -> DeliveryTest:
        """Send a test message; an endpoint that accepts it gets notifications again, whatever it answered before."""
        shown = shown_endpoint(delivery.kind, delivery.endpoint)
        try:
            said = await self.channel.deliver(self._test_message(delivery, rule))
        except DeliveryError as error:
            return DeliveryTest(shown, error.message)
        await self.store.enable(rule, delivery.endpoint)
        if isinstance(delivery, WebhookDelivery):
            await self.store.webhooks.answered(delivery, WebhookState.CONFIRMED, self.clock.time_s(), said)
            self.notifying.wake_pings()
        self.notifying.wake()
        return DeliveryTest(shown, None)

    def _test_message(self, delivery: Delivery, rule: str) -> Message:
        now_s = self.clock.time_s()
        body = json.dumps({"type": "proxyd.test", "timestamp": iso_time(now_s), "data": {"rule": rule}}).encode()
        message = Message(f"test_{now_s:.3f}", rule, delivery.endpoint, body, self.clock.wall_s(), delivery.kind)
        if not isinstance(delivery, WebhookDelivery):
            return message
        secret = known_secret(self.secrets.resolve, delivery.secret)
        return replace(message, form=delivery.form.value, secret=secret)

    async def webhooks(self) -> list[dict[str, Any]]:
        """Return every webhook, whether it answered its ping, and which rules it wants nothing of any more."""
        refused: dict[tuple[str, str], list[str]] = defaultdict(list)
        for each in await self.store.disabled_endpoints():
            refused[each["endpoint"], each["declared"]].append(each["rule"])
        found = []
        for each in await self.store.webhooks.all():
            declared = " ".join(("webhook", each["form"], each.pop("secret_kind"), each["secret_name"]))
            found.append(each | {"refused": refused[each["endpoint"], declared]})
        return found

    async def dead_letters(self, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the deliveries that were given up, newest first."""
        return await self.store.dead_letters(before=before, limit=limit)

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every one that was given up."""
        count = await self.store.replay(notification_id, self.clock.time_s())
        self.notifying.wake()
        return count

    async def add_token(self, token: Token) -> None:
        """Store a token."""
        await self.store.access.add_token(token)

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token of that id, or ``None``."""
        return await self.store.access.find_token(token_id)

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""
        return await self.store.access.tokens()

    async def drop_token(self, name: str) -> None:
        """Let a token open nothing any more."""
        if not await self.store.access.drop_token(name):
            raise NotFoundError(f"there is no token {name!r}; `proxyd token list` shows them")

    async def find_answer(self, bearer: str, key: str) -> StoredAnswer | None:
        """Return what was answered to a key within the last day."""
        return await self.store.access.find_answer(bearer, key, since_s=self.clock.time_s() - KEPT_ANSWERS_S)

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer."""
        await self.store.access.keep_answer(answer)

    async def verify_push(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge where a hub asks rightly, ``None`` where it may not push."""
        if not self.has_started:
            raise BusyError
        return await self.pushes.verify(callback_id, query)

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a hub that calls there is subscribed to; at the start nobody knows yet."""
        if not self.has_started:
            raise BusyError
        return self.pushes.is_subscribed(callback_id)

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Take in what a hub pushed."""
        await self.pushes.push(callback_id, content_type, signature, body)

    async def metrics(self) -> bytes:
        """Return the metrics with fresh gauges."""
        metrics = self.registry
        depth, oldest_s, held, dead = await self.store.outbox_depth()
        metrics.outbox_depth.set(depth)
        metrics.outbox_held.set(held)
        metrics.outbox_age.set(0.0 if oldest_s is None else max(0.0, self.clock.time_s() - oldest_s))
        metrics.outbox_dead.set(dead)
        metrics.endpoints_disabled.set(len(await self.store.disabled_endpoints()))
        fates = self.decider.known.capture_counts(self.declaration.rules)
        metrics.completeness.set(1.0 if fates.completeness is None else fates.completeness)
        metrics.models_off.set(len(self.decider.explainer.misfits()))
        metrics.utility.set(1.0 if fates.utility is None else fates.utility)
        return metrics.render()

    async def readiness(self) -> dict[str, bool]:
        """Return whether the writer commits and the plan is fresh; migrations ran before anything listened."""
        try:
            async with asyncio.timeout(_PING_S):
                await self.store.ping()
            writes = True
        except (StoreError, TimeoutError):
            writes = False
        age_s = self.clock.time_s() - self.probes.last_chosen_s
        fresh_s = _FRESH_CHRONONS * self.decider.settings.grid.length_s
        return {
            "migrations": True,
            "writer": writes,
            "plan": 0 <= age_s <= fresh_s,
            "transport": self.transport.is_up,
            "serving": not self.probes.is_draining,
        }

    def time_s(self) -> float:
        """Return unix seconds."""
        return self.clock.time_s()

    async def wait_until(self, time_s: float) -> None:
        """Return once that time is there: the machine's clock may be put back, and forward, meanwhile."""
        while (left_s := time_s - self.clock.time_s()) > 0:
            await self.clock.sleep(left_s)

    def _next_chronon(self) -> int:
        return self.decider.settings.grid.chronon_at(self.clock.time_s()) + 1
