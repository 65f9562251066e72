"""WebSub subscriptions: when to subscribe, when to renew, and how far to believe a hub. No I/O.

A source whose hub pushes needs fewer probes, by what the hub leaves out: safety probes find that. A hub that leaves out
too many is not relied on, but what it pushes is taken in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from proxyd.core.model.outcome import HubLinks, OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import StoredEvent

LEASE_S = 10 * 86400.0  # the lease that is asked for
SHORTEST_LEASE_S, LONGEST_LEASE_S = 300.0, 30 * 86400.0  # a shorter lease is not worth it, a longer one is not believed
_RENEW_AT = 2 / 3  # part of the lease after which it is renewed
_VERIFY_WITHIN_S = 3600.0  # a hub that accepted a request has this long to verify it
FIRST_RETRY_S, LONGEST_RETRY_S = 300.0, 86400.0
_CHANGE_S = 86400.0  # a source may name another hub once in this time
_REMEMBERED = 32  # items; with more, both kinds are halved, so that a hub that changes is noticed
_BELIEVED = 0.4  # the largest part left out with which a hub saves probes
_GRACE_S = 60.0  # a push may come this long after its item
JITTER = 0.1


class SubscriptionStatus(Enum):
    """The states of a subscription."""

    WANTED = "wanted"  # to be requested at ``due_s``
    REQUESTED = "requested"  # accepted by the hub, not verified yet
    ACTIVE = "active"
    DENIED = "denied"  # by the hub; requested again at ``due_s``


@dataclass(frozen=True, slots=True)
class Subscription:
    """A source's subscription at a hub."""

    source_id: str
    url: str  # the source's address; the subscription is not valid for another address
    # ``hub``, ``topic``: the hub's address, and the name by which it knows the source
    hub: str
    topic: str
    status: SubscriptionStatus = SubscriptionStatus.WANTED
    # ``callback_id``, ``secret``: the unguessable part of the callback's address, and the key for the hub's
    # signatures; empty before the first request
    callback_id: str = ""
    secret: str = ""
    is_asked: bool = False  # whether a request is outstanding; only then may the hub verify
    due_s: float = 0.0  # when the next request is due: a first one, another try or a renewal; unix seconds
    # ``verified_s``, ``lease_until_s``: when the hub last verified it, and until when the hub pushes
    verified_s: float = 0.0
    lease_until_s: float = 0.0
    failures: int = 0  # requests in a row that failed or were not verified
    # ``told``, ``misses``: of the last items, those that were pushed and those that a probe found before
    told: int = 0
    misses: int = 0
    pushes: int = 0  # the total number of pushes received
    # ``last_push_s``, ``chosen_s``: when the last push came, and when the source named this hub
    last_push_s: float | None = None
    chosen_s: float = 0.0

    def is_active(self, now_s: float) -> bool:
        """Whether the hub has promised to push everything until later."""
        return self.status is SubscriptionStatus.ACTIVE and now_s < self.lease_until_s

    @property
    def left_out(self) -> float:
        """The part of the source's items that the hub is expected not to push (Jeffreys' estimate).

        >>> [replace(_NEW, told=told, misses=misses).left_out for told, misses in ((0, 0), (9, 0), (1, 8))]
        [0.5, 0.05, 0.85]
        """
        return (self.misses + 0.5) / (self.told + self.misses + 1.0)

    @property
    def is_relied_on(self) -> bool:
        """Whether its pushes save probes: a new one's do, and those of one that leaves out little."""
        return self.left_out <= _BELIEVED or not (self.told or self.misses)

    @property
    def relied_on_until_s(self) -> float:
        """Until when the hub saves probes, in unix seconds; 0 if it leaves out too much."""
        return self.lease_until_s if self.is_relied_on else 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether a request must be sent."""
        return now_s >= self.due_s


_NEW = Subscription("", "", "", "")


def discover_hubs(
    known: Subscription | None, source_id: str, url: str, links: HubLinks, *, now_s: float
) -> Subscription:
    """Return the subscription after a document named its hubs."""
    if known is not None:
        same = known.hub in links.hubs and known.topic == links.topic
        # a document that names another hub at each probe does not make us ask them all
        if same or now_s < known.chosen_s + _CHANGE_S:
            return known
    hub = next((hub for hub in links.hubs if hub.startswith("https:")), links.hubs[0])
    failures, due_s = (0, now_s) if known is None or not known.failures else (known.failures, known.due_s)
    return Subscription(source_id, url, hub, links.topic, failures=failures, due_s=due_s, chosen_s=now_s)


def after_acceptance(known: Subscription, *, now_s: float) -> Subscription:
    """Return the subscription after the hub accepted the request; a renewed subscription stays active meanwhile."""
    return known if known.is_active(now_s) else replace(known, status=SubscriptionStatus.REQUESTED)


def answer(known: Subscription, query: Mapping[str, str], *, now_s: float) -> tuple[str | None, Subscription]:
    """Return the challenge to answer a hub's callback with, ``None`` if we did not ask, and the subscription after it.

    A hub may deny at any time. It may verify an outstanding request and grants a lease; a lease of minutes counts as a
    denial.
    """
    mode, challenge = query.get("hub.mode"), query.get("hub.challenge")
    if query.get("hub.topic") != known.topic:
        return None, known
    if mode == "denied":
        return "", _denial(known, now_s)
    if mode != "subscribe" or not challenge or not known.is_asked:
        return None, known
    granted = query.get("hub.lease_seconds", "")
    lease_s = float(granted) if granted.isascii() and granted.isdecimal() and len(granted) < 12 else LEASE_S
    if lease_s < SHORTEST_LEASE_S:
        return challenge, _denial(known, now_s)
    lease_s = min(lease_s, LONGEST_LEASE_S)
    verified = replace(
        known,
        status=SubscriptionStatus.ACTIVE,
        is_asked=False,
        due_s=now_s + _RENEW_AT * lease_s,
        verified_s=now_s,
        lease_until_s=now_s + lease_s,
        failures=0,
    )
    return challenge, verified


def _denial(known: Subscription, now_s: float) -> Subscription:
    return replace(
        known, status=SubscriptionStatus.DENIED, is_asked=False, due_s=now_s + LONGEST_RETRY_S, lease_until_s=0.0
    )


def _after_probe(known: Subscription, found: Sequence[StoredEvent], *, started_s: float) -> Subscription:
    """Return the subscription after a probe ``found`` events of its source, none of them pushed before."""
    if not known.is_active(started_s):
        return known
    # items of the last minute may still be on their way; the time of an item that carries none is when it was found
    late = [
        event
        for event in found
        if not event.seed
        and known.verified_s < event.event_s
        and (event.event_s < started_s - _GRACE_S or not event.exact)
    ]
    return _count(known, 0, len(late))


def _count(known: Subscription, told: int, misses: int) -> Subscription:
    """Return the subscription after so many more items were pushed or left out."""
    told, misses = known.told + told, known.misses + misses
    while told + misses > _REMEMBERED:
        told, misses = told // 2, misses // 2
    return replace(known, told=told, misses=misses)


class Hubs:
    """The subscriptions of the sources, and which sources may have one."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._known: dict[str, Subscription] = {}
        self._by_callback: dict[str, str] = {}
        self._allowed: dict[str, str] = {}
        self._left: list[Subscription] = []

    def restore(self, known: Mapping[str, Subscription]) -> None:
        """Take over the subscriptions that a store remembers."""
        self._known = dict(known)
        self._by_callback = {each.callback_id: each.source_id for each in known.values() if each.callback_id}

    def take_over(self, subscriptions: Iterable[Subscription]) -> None:
        """Take over subscriptions that another planner has looked after."""
        for each in subscriptions:
            self.keep(each)

    def release(self, is_ours: Callable[[Subscription], bool]) -> None:
        """Forget, without cancelling them, the subscriptions that another planner looks after."""
        for each in [each for each in self._known.values() if not is_ours(each)]:
            self._forget(each)

    def asking(self, known: Subscription, now_s: float) -> Subscription:
        """Return a subscription whose hub is being asked; a previous request that was not verified is a failure."""
        failures = known.failures + known.is_asked
        due_s = now_s + max(_VERIFY_WITHIN_S, self._retry_s(failures))  # unless the hub verifies it meanwhile
        return replace(known, is_asked=True, failures=failures, due_s=due_s)

    def refuse(self, known: Subscription, now_s: float) -> Subscription:
        """Return a subscription after a request failed; the wait for the next try doubles from 5 minutes to a day."""
        failures = known.failures + 1
        return replace(known, is_asked=False, failures=failures, due_s=now_s + self._retry_s(failures))

    def _retry_s(self, failures: int) -> float:
        wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(max(0, failures - 1), 32))
        return wait_s * (1.0 + JITTER * float(self._rng.random()))

    def allow(self, source_id: str, url: str | None) -> None:
        """Allow a subscription for a source at this address alone, or none; another is to be cancelled."""
        if url is None:
            self._allowed.pop(source_id, None)
        else:
            self._allowed[source_id] = url
        known = self._known.get(source_id)
        if known is not None and known.url != url:
            self._leave(known)

    def subscriptions(self) -> dict[str, Subscription]:
        """Return all subscriptions by source."""
        return dict(self._known)

    def of(self, source_id: str) -> Subscription | None:
        """Return a source's subscription, if it has one."""
        return self._known.get(source_id)

    def subscription_called(self, callback_id: str) -> Subscription | None:
        """Return the subscription whose callback has this unguessable id."""
        return self._known.get(self._by_callback.get(callback_id, ""))

    def keep(self, subscription: Subscription) -> None:
        """Take in the new state of a subscription."""
        before = self._known.get(subscription.source_id)
        if before is not None and before.callback_id != subscription.callback_id:
            self._by_callback.pop(before.callback_id, None)
        self._known[subscription.source_id] = subscription
        if subscription.callback_id:
            self._by_callback[subscription.callback_id] = subscription.source_id

    def trust_since(self, source_id: str, now_s: float) -> None:
        """Let nothing count against a source's hub that happened before ``now_s``: its pushes were not read."""
        known = self._known.get(source_id)
        if known is not None and known.is_active(now_s):
            self.keep(replace(known, verified_s=now_s))

    def _leave(self, subscription: Subscription) -> None:
        self._forget(subscription)
        self._left.append(subscription)

    def _forget(self, subscription: Subscription) -> None:
        del self._known[subscription.source_id]
        self._by_callback.pop(subscription.callback_id, None)

    def due(self, now_s: float) -> list[Subscription]:
        """Return the subscriptions for which a request to the hub is due."""
        return [each for each in self._known.values() if each.is_due(now_s)]

    def take_left(self) -> list[Subscription]:
        """Return, once, the subscriptions to cancel."""
        left, self._left = self._left, []
        return left

    def count_active(self, now_s: float) -> int:
        """Return the number of sources whose hubs push."""
        return sum(each.is_active(now_s) for each in self._known.values())

    def pushes_until_s(self, source_id: str) -> float:
        """Return until when a source's hub saves probes, in unix seconds, or 0 if none does."""
        known = self._known.get(source_id)
        return 0.0 if known is None else known.relied_on_until_s

    def left_out(self, source_id: str) -> float:
        """Return the part of a source's items that its hub is expected not to push; 1 without one."""
        known = self._known.get(source_id)
        return 1.0 if known is None else known.left_out

    def follow(self, outcome: ProbeOutcome, found: Sequence[StoredEvent]) -> Subscription | None:
        """Return the source's subscription if an outcome, and the events ``found`` by it, changed it."""
        before = after = self._known.get(outcome.source_id)
        url = self._allowed.get(outcome.source_id)
        is_read = outcome.kind is OutcomeKind.CHANGED  # only then may the document name its own address
        if outcome.hub_links is not None and (is_read or before is None) and url is not None:
            after = discover_hubs(before, outcome.source_id, url, outcome.hub_links, now_s=outcome.finished_s)
            if before is not None and before.callback_id and after.hub != before.hub:
                self._leave(before)
        if after is not None and outcome.is_push:
            after = _count(after, sum(not event.seed for event in found), 0)
            after = replace(after, pushes=after.pushes + 1, last_push_s=outcome.finished_s)
        elif after is not None and outcome.kind.is_success:
            after = _after_probe(after, found, started_s=outcome.started_s)
        if after is None or after == before:
            return None
        self.keep(after)
        return after
