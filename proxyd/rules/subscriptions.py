"""Push where a source offers it (WebSub): when to subscribe, renew, and stop believing a hub. Pure.

A hub that pushes spares the probes of its sources but for a few: a safety probe finds out whether it still pushes
everything, and a hub that missed items twice in a row is left for a week.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from proxyd.model.item import EventKind
from proxyd.model.outcome import HubLinks
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
