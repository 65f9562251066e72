"""When to subscribe, renew, and stop believing a hub."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import HubLinks, OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.known.subscriptions import (
    Hubs,
    Subscription,
    SubscriptionStatus,
    after_acceptance,
    answer,
    discover_hubs,
)

T0 = 1_000_000_000.0
URL, TOPIC = "https://example.org/feed", "https://example.org/topic"
HOUR_S = 3600.0
ASKED = Subscription("s", URL, "https://hub.example/", TOPIC, callback_id="c", secret="k", is_asked=True)
GRANTED = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.challenge": "x", "hub.lease_seconds": "864000"}


def links(hub: str = "https://hub.example/", topic: str = TOPIC) -> HubLinks:
    return HubLinks((hub,), topic)


def active() -> Subscription:
    return answer(ASKED, GRANTED, now_s=T0)[1]


def found(kind: EventKind, at_s: float, *, seed: bool = False) -> StoredEvent:
    return StoredEvent(1, Item("i", {}, None, "h"), at_s, at_s + 1, False, seed, kind)


def probe(at_s: float, kind: OutcomeKind = OutcomeKind.CHANGED) -> ProbeOutcome:
    return ProbeOutcome("s", kind, at_s, at_s)


def hubs() -> Hubs:
    made = Hubs(np.random.default_rng(1))
    made.restore({"s": active()})
    made.allow("s", URL)
    return made


def test_a_hub_verifies_only_what_was_asked_for() -> None:
    assert active().status is SubscriptionStatus.ACTIVE
    assert answer(active(), GRANTED, now_s=T0 + 1)[0] is None
    for missing in GRANTED:
        if missing != "hub.lease_seconds":
            query = {name: value for name, value in GRANTED.items() if name != missing}
            assert answer(ASKED, query, now_s=T0) == (None, ASKED)


def test_a_lease_of_minutes_is_as_good_as_a_denial() -> None:
    challenge, after = answer(ASKED, GRANTED | {"hub.lease_seconds": "60"}, now_s=T0)
    assert (challenge, after.status) == ("x", SubscriptionStatus.DENIED)


def test_a_hub_that_accepts_and_never_verifies_is_asked_less_and_less() -> None:
    known, waits, now_s = replace(ASKED, is_asked=False), [], T0
    for _ in range(12):
        known = after_acceptance(hubs().asking(known, now_s), now_s=now_s)
        waits.append(known.due_s - now_s)
        now_s = known.due_s
    assert waits[0] == HOUR_S
    assert waits == sorted(waits)
    assert waits[-1] >= 86400


def test_a_document_that_names_another_hub_at_each_probe_makes_us_ask_one_a_day() -> None:
    known = discover_hubs(None, "s", URL, links(), now_s=T0)
    for n in range(1, 24):
        assert discover_hubs(known, "s", URL, links(f"https://hub{n}.example/"), now_s=T0 + n * HOUR_S) == known
    failed = hubs().refuse(known, T0 + 24 * HOUR_S)
    changed = discover_hubs(failed, "s", URL, links("https://other.example/"), now_s=T0 + 25 * HOUR_S)
    assert (changed.hub, changed.failures, changed.due_s) == ("https://other.example/", 1, failed.due_s)


def test_a_hub_over_tls_is_chosen_before_one_in_the_clear() -> None:
    named = HubLinks(("http://a.example/", "https://b.example/"), TOPIC)
    assert discover_hubs(None, "s", URL, named, now_s=T0).hub == "https://b.example/"


def test_anything_that_was_not_pushed_counts_as_left_out_and_failures_count_for_nothing() -> None:
    made = hubs()
    for n, kind in ((1, EventKind.UPDATE), (2, EventKind.DELETE)):
        made.follow(probe(T0 + n * 6 * HOUR_S), [found(kind, T0 + n * 6 * HOUR_S - HOUR_S)])
        made.follow(probe(T0 + n * 6 * HOUR_S + 60, OutcomeKind.TIMEOUT), [])
    known = made.of("s")
    assert known is not None
    assert (known.told, known.misses, known.status) == (0, 2, SubscriptionStatus.ACTIVE)
    assert made.pushes_until_s("s") == 0.0


def test_an_item_without_a_time_counts_as_left_out_by_whoever_finds_it() -> None:
    made = hubs()
    made.follow(probe(T0 + HOUR_S), [found(EventKind.INSERT, T0 + HOUR_S)])
    assert made.left_out("s") == 0.75


def test_a_hub_that_changes_is_believed_and_doubted_within_some_items() -> None:
    made, at_s = hubs(), T0

    def after(pushed: int, probed: int) -> float:
        nonlocal at_s
        for n in range(pushed + probed):
            at_s += HOUR_S
            outcome = replace(probe(at_s), is_push=n < pushed)
            made.follow(outcome, [found(EventKind.INSERT, at_s - 120.0)])
        return made.left_out("s")

    assert after(100, 0) < 0.03
    assert after(0, 20) > 0.4
    assert made.pushes_until_s("s") == 0.0
    assert after(12, 0) < 0.4
    assert made.pushes_until_s("s") == T0 + 10 * 86400.0


def test_what_came_before_the_hub_verified_was_not_its_business() -> None:
    made = hubs()
    made.follow(probe(T0 + 600), [found(EventKind.INSERT, T0 - 60)])
    known = made.of("s")
    assert known is not None
    assert known.misses == 0


def test_a_source_with_another_address_leaves_its_hub() -> None:
    made = hubs()
    made.allow("s", "https://example.org/elsewhere")
    assert made.of("s") is None
    assert made.subscription_called("c") is None
    assert [left.callback_id for left in made.take_left()] == ["c"]
    assert made.take_left() == []
