"""Push where a source offers it (WebSub): when to subscribe, renew, and stop believing a hub. Pure.

A hub that pushes spares the probes of its sources but for a few: a safety probe finds out whether it still pushes
everything, and a hub that missed items twice in a row is left for a week.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from hmac import compare_digest
from types import MappingProxyType

import numpy as np

from proxyd.model.item import EventKind
from proxyd.model.outcome import HubLinks, OutcomeKind, ProbeOutcome
from proxyd.rules.state import StoredEvent

LEASE_S = 10 * 86400.0  # what is asked for
SHORTEST_LEASE_S, LONGEST_LEASE_S = 300.0, 30 * 86400.0
RENEW_AT = 2 / 3  # of the lease
VERIFY_WITHIN_S = 3600.0  # after a hub accepted a request it has so long to verify it
FIRST_RETRY_S, LONGEST_RETRY_S = 300.0, 86400.0
DEMOTED_S = 7 * 86400.0
MISSES = 2  # safety probes in a row that find what was not pushed
GRACE_S = 60.0  # a push may come so long after its item
JITTER = 0.1


class SubscriptionStatus(Enum):
    """Where a subscription stands."""

    WANTED = "wanted"  # to be asked for at ``due_s``
    REQUESTED = "requested"  # accepted by the hub, not verified yet
    ACTIVE = "active"
    DENIED = "denied"  # by the hub; asked for again at ``due_s``
    DEMOTED = "demoted"  # it missed items; asked for again at ``due_s``


@dataclass(frozen=True, slots=True)
class Subscription:
    """A source's subscription at a hub.

    Parameters
    ----------
    hub, topic
        The hub's address and what it knows the source by.
    callback_id, secret
        What makes the callback's address unguessable, and what the hub signs with; empty before the first request.
    due_s
        When something is to be done: to ask, to ask again, to renew; unix seconds.
    lease_until_s
        Until when the hub pushes.
    failures
        Requests in a row that failed.
    misses, pushes
        Safety probes in a row that found what was not pushed, and pushes received in all.
    last_push_s
        When the last push came.
    """

    source_id: str
    hub: str
    topic: str
    status: SubscriptionStatus = SubscriptionStatus.WANTED
    callback_id: str = ""
    secret: str = ""
    due_s: float = 0.0
    lease_until_s: float = 0.0
    failures: int = 0
    misses: int = 0
    pushes: int = 0
    last_push_s: float | None = None

    def is_active(self, now_s: float) -> bool:
        """Whether the hub is believed to push everything."""
        return self.status is SubscriptionStatus.ACTIVE and now_s < self.lease_until_s

    def is_due(self, now_s: float) -> bool:
        """Whether a request is to be sent."""
        return now_s >= self.due_s


def discovered(known: Subscription | None, source_id: str, links: HubLinks, *, now_s: float) -> Subscription:
    """Return the subscription after a document named its hubs: the known one while its hub and topic still hold."""
    if known is not None and known.hub in links.hubs and known.topic == links.topic:
        return known
    return Subscription(source_id, links.hubs[0], links.topic, due_s=now_s)


def requested(known: Subscription, *, now_s: float) -> Subscription:
    """Return the subscription after the hub accepted the request; a renewal goes on meanwhile."""
    due_s = now_s + VERIFY_WITHIN_S
    if known.is_active(now_s):
        return replace(known, failures=0, due_s=due_s)
    return replace(known, status=SubscriptionStatus.REQUESTED, failures=0, due_s=due_s)


def refused(known: Subscription, *, now_s: float, rng: np.random.Generator) -> Subscription:
    """Return the subscription after a request failed: tried again after 5 minutes doubling to a day."""
    failures = known.failures + 1
    wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 32))
    return replace(known, failures=failures, due_s=now_s + wait_s * (1.0 + JITTER * float(rng.random())))


def verified(known: Subscription, *, now_s: float, lease_s: float | None) -> Subscription:
    """Return the subscription after its hub verified it for ``lease_s``."""
    lease_s = min(max(LEASE_S if lease_s is None else lease_s, SHORTEST_LEASE_S), LONGEST_LEASE_S)
    return replace(
        known,
        status=SubscriptionStatus.ACTIVE,
        due_s=now_s + RENEW_AT * lease_s,
        lease_until_s=now_s + lease_s,
        failures=0,
        misses=0,
    )


def denied(known: Subscription, *, now_s: float) -> Subscription:
    """Return the subscription after its hub denied it, which it may do at any time."""
    return replace(known, status=SubscriptionStatus.DENIED, due_s=now_s + LONGEST_RETRY_S, lease_until_s=0.0)


def pushed(known: Subscription, *, now_s: float) -> Subscription:
    """Return the subscription after a push."""
    return replace(known, pushes=known.pushes + 1, last_push_s=now_s)


def probed(known: Subscription, found: Sequence[StoredEvent], *, started_s: float) -> Subscription:
    """Return the subscription after a safety probe found ``found``, none of which was pushed before.

    What came within the last minute may still be on its way.
    """
    if not known.is_active(started_s):
        return known
    inserted = [event for event in found if event.kind is EventKind.INSERT and not event.seed]
    if not any(event.event_s < started_s - GRACE_S for event in inserted):
        return replace(known, misses=0)
    if known.misses + 1 < MISSES:
        return replace(known, misses=known.misses + 1)
    return replace(
        known,
        status=SubscriptionStatus.DEMOTED,
        misses=0,
        due_s=started_s + DEMOTED_S,
        lease_until_s=0.0,
    )


class Hubs:
    """The subscriptions of the sources, and which sources may have one."""

    def __init__(self, known: Mapping[str, Subscription] = MappingProxyType({})) -> None:
        self._known = dict(known)
        self._allowed: frozenset[str] = frozenset()

    def allow(self, source_ids: Iterable[str]) -> None:
        """Let only these sources be subscribed to; the others are ``strangers`` from now on."""
        self._allowed = frozenset(source_ids)

    def of(self, source_id: str) -> Subscription | None:
        """Return a source's subscription, if it has one."""
        return self._known.get(source_id)

    def called(self, callback_id: str) -> Subscription | None:
        """Return the subscription whose callback has that id, compared in a time that tells nothing."""
        named = (each for each in self._known.values() if each.callback_id)
        return next((each for each in named if compare_digest(each.callback_id, callback_id)), None)

    def keep(self, subscription: Subscription) -> None:
        """Take in what became of a subscription."""
        self._known[subscription.source_id] = subscription

    def drop(self, source_id: str) -> None:
        """Forget a source's subscription."""
        del self._known[source_id]

    def due(self, now_s: float) -> list[Subscription]:
        """Return the subscriptions at whose hubs something is to be asked for."""
        return [each for each in self._known.values() if each.source_id in self._allowed and each.is_due(now_s)]

    def strangers(self) -> list[Subscription]:
        """Return the subscriptions of sources that may not have one any more."""
        return [each for each in self._known.values() if each.source_id not in self._allowed]

    def count_active(self, now_s: float) -> int:
        """Return how many sources' hubs push."""
        return sum(each.is_active(now_s) for each in self._known.values())

    def pushes_until_s(self, source_id: str) -> float:
        """Return until when a source's hub pushes, in unix seconds; 0 where none does."""
        known = self._known.get(source_id)
        return known.lease_until_s if known is not None and source_id in self._allowed else 0.0

    def follow(self, outcome: ProbeOutcome, found: Sequence[StoredEvent]) -> Subscription | None:
        """Return the source's subscription where an outcome, and the events ``found`` by it, changed it."""
        before = after = self._known.get(outcome.source_id)
        is_read = outcome.kind is OutcomeKind.CHANGED  # only then it may say what it calls itself
        if outcome.hub_links is not None and (is_read or before is None) and outcome.source_id in self._allowed:
            after = discovered(before, outcome.source_id, outcome.hub_links, now_s=outcome.finished_s)
        if after is not None and outcome.is_push:
            after = pushed(after, now_s=outcome.finished_s)
        elif after is not None:
            after = probed(after, found, started_s=outcome.started_s)
        if after is None or after == before:
            return None
        self.keep(after)
        return after
