"""What every store keeps of suspensions: itself, and the deliveries that a muted rule keeps back."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from proxyd.base.ports import Gathered, WebhookState
from proxyd.core.model.delivery import Delivery, LogDelivery, MailDelivery, SecretRef, WebhookDelivery
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import EVERYTHING, Key, Subject, Suspension
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.listed_rows import Wanted
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore
from tests.fleets import DOMAIN, WEBHOOK, declaration, rule, source
from tests.outboxes import due_deliveries
from tests.worlds import declared as declared_in

LOG, MAIL = LogDelivery("one"), MailDelivery("a@example.org")
ONE, TWO = LOG.endpoint, MAIL.endpoint
DECLARED = declaration(source("a"), rule("r"), rule("other"))
MUTE = Suspension(Subject.RULE, "r", 5.0, "me")


def notification(name: str, *deliveries: Delivery, rule_name: str = "r", created_s: float = 2.0) -> Notification:
    return Notification(name, rule_name, "a", 1.0, created_s, False, name.encode(), deliveries or (LOG,))


async def put(store: SqlStore, *sent: Notification) -> None:
    await store.record_results(RuleResults(notifications=sent))


async def suspend(store: SqlStore, *wanted: Suspension, now_s: float = 5.0, declared: Declaration = DECLARED) -> int:
    def edit(_known: dict[Key, Suspension]) -> Iterable[Suspension]:
        return wanted

    return (await store.suspensions.change(edit, declared, now_s)).released


async def muted(store: SqlStore) -> frozenset[str]:
    return await store.writer.submit(lambda connection: store.suspensions.mutes_among(DECLARED.rules, connection))


def joined(gathered: Gathered) -> bytes:
    return b"+".join(gathered.bodies)


async def sent(store: SqlStore, now_s: float) -> list[tuple[str, bytes]]:
    """Make the digests that are due, deliver everything that is due, and return endpoints and bodies."""
    await store.make_digests(now_s, joined)
    found = []
    while due := await due_deliveries(store, now_s, limit=9):
        for each in due:
            await store.record_delivery(each, now_s)
            found.append((each.endpoint, each.body))
    return found


async def states(store: SqlStore) -> dict[str, list[str]]:
    listed = (await store.history.find_notifications(Wanted(), before=None, limit=99)).rows
    return {each.notification_id: [one.state for one in each.deliveries] for each in listed}


async def test_suspensions_are_stored_until_their_time_or_their_subject_is_over(store: SqlStore) -> None:
    paused = Suspension(Subject.SOURCE, "a", 5.0, "me")
    short = Suspension(Subject.PROFILE, "P", 5.0, "token x", until_s=60.0)
    unknown = Suspension(Subject.RULE, "gone", 5.0, "me")
    await suspend(store, paused, short, unknown, MUTE)
    assert await store.suspensions.load() == [short, MUTE, paused]
    assert await muted(store) == {"r", "other"}
    found = await store.suspensions.change(lambda known: known.values(), declaration(source("a"), rule("other")), 60.0)
    assert found.suspensions == {paused.key: paused}
    assert await muted(store) == frozenset()


async def test_what_a_muted_rule_kept_comes_as_one_digest_for_each_receiver(store: SqlStore) -> None:
    await suspend(store, MUTE)
    await put(store, notification("1", LOG, MAIL), notification("x", rule_name="other"), notification("2", LOG, MAIL))
    assert await sent(store, 10.0) == [(ONE, b"x")]
    assert await states(store) == {"1": ["muted", "muted"], "2": ["muted", "muted"], "x": ["delivered"]}
    listed = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert [each.muted for each in listed] == [True, False, True]
    assert await suspend(store, now_s=20.0) == 2
    await put(store, notification("3", LOG, MAIL, created_s=20.0))
    assert await due_deliveries(store, 20.0, limit=9) == []  # the digest comes first
    assert await sent(store, 20.0) == [
        (ONE, b"1+2"),
        (TWO, b"1+2"),
        (ONE, b"3"),
        (TWO, b"3"),
    ]
    assert {state for each in (await states(store)).values() for state in each} == {"delivered"}
    assert await suspend(store, now_s=30.0) == 0


async def test_everything_is_muted_also_what_is_declared_later(store: SqlStore) -> None:
    everything = Suspension(Subject.ALL, EVERYTHING, 5.0, "me")
    fewer = declaration(source("a"), rule("r"))
    await suspend(store, everything, declared=fewer)
    await suspend(store, everything)
    assert await muted(store) == {"r", "other"}
    await put(store, notification("kept"), notification("kept too", rule_name="other"))
    assert await sent(store, 6.0) == []
    assert await suspend(store, now_s=7.0) == 2
    assert [endpoint for endpoint, _ in await sent(store, 7.0)] == [ONE]


async def test_what_was_not_sent_before_goes_on_as_it_was(store: SqlStore) -> None:
    await put(store, notification("tried"), notification("queued"))
    attempted = (await due_deliveries(store, 3.0, limit=9))[0]
    await store.record_failure(attempted, 3.0, next_s=4.0, error="503")
    under_way = (await due_deliveries(store, 4.0, limit=9))[0]
    await suspend(store, MUTE)
    await put(store, notification("new"))
    await store.record_failure(under_way, 6.0, next_s=7.0, error="503")
    assert await sent(store, 1000.0) == []
    assert await states(store) == {"tried": ["stopped"], "queued": ["stopped"], "new": ["muted"]}
    await suspend(store, now_s=1000.0)
    assert await sent(store, 1000.0) == [(ONE, b"tried"), (ONE, b"queued"), (ONE, b"new")]


async def test_an_answer_that_comes_after_the_mute_counts(store: SqlStore) -> None:
    await put(store, notification("1"))
    under_way = (await due_deliveries(store, 3.0, limit=9))[0]
    await suspend(store, MUTE)
    await store.record_delivery(under_way, 6.0)
    assert await suspend(store, now_s=7.0) == 0
    assert await sent(store, 7.0) == []


async def test_what_is_dropped_is_never_sent_unless_it_is_asked_for(store: SqlStore) -> None:
    await put(store, notification("before"))
    under_way = (await due_deliveries(store, 3.0, limit=9))[0]
    await suspend(store, MUTE)
    await put(store, notification("1"), notification("2"))
    found = await store.suspensions.change(lambda _: (), DECLARED, 9.0, dropped={"r"})
    assert found.released == 3
    await store.record_failure(under_way, 9.5, next_s=9.5, error="503")
    assert await sent(store, 10.0) == []
    assert await states(store) == {"before": ["dropped"], "1": ["dropped"], "2": ["dropped"]}
    assert await store.replay("1", 11.0) == 1
    assert await sent(store, 11.0) == [(ONE, b"1")]


async def test_a_digest_rule_gets_no_digest_while_it_is_muted(store: SqlStore) -> None:
    digest = declaration(
        source("a"), rule("r", clauses="SET DELIVERY LOG 'one' SET DIGEST EVERY 1 HOUR AT MOST 7 ITEMS")
    )
    await store.declarations.accept([], digest.rules.values(), 1.0)
    await put(store, notification("1", created_s=10.0))
    await suspend(store, MUTE, declared=digest)
    await put(store, notification("2", created_s=20.0), notification("3", created_s=4000.0))
    assert await store.next_digest_s() is None
    assert await sent(store, 9000.0) == []
    await suspend(store, declared=digest, now_s=9000.0)
    assert await sent(store, 9000.0) == [(ONE, b"1+2+3")]


async def test_a_digest_made_before_the_mute_waits_whole(store: SqlStore) -> None:
    digest = declaration(source("a"), rule("r", clauses="SET DELIVERY LOG 'one' SET DIGEST EVERY 1 HOUR"))
    await store.declarations.accept([], digest.rules.values(), 1.0)
    await put(store, notification("1", created_s=10.0), notification("2", created_s=20.0))
    await store.make_digests(3600.0, joined)
    await suspend(store, MUTE, declared=digest)
    assert await sent(store, 4000.0) == []
    await suspend(store, declared=digest, now_s=5000.0)
    assert await sent(store, 5000.0) == [(ONE, b"1+2")]
    assert {state for each in (await states(store)).values() for state in each} == {"delivered"}


async def test_what_a_removed_rule_kept_is_given_up_and_can_be_replayed(store: SqlStore) -> None:
    await suspend(store, MUTE)
    await put(store, notification("1"))
    await suspend(store, MUTE, declared=declaration(source("a"), rule("other")), now_s=9.0)
    (letter,) = await store.history.dead_letters(before=None, limit=9)
    assert (letter.notification_id, letter.last_error) == ("1", "its rule was removed while it was muted")
    assert await store.replay(None, 10.0) == 1
    assert await sent(store, 10.0) == [(ONE, b"1")]


async def test_a_webhook_that_has_not_answered_is_pinged_before_the_digest(store: SqlStore) -> None:
    declared = declaration(source("a"), rule("r", clauses=WEBHOOK))
    await store.declarations.accept([], declared.rules.values(), 1.0)
    webhook = WebhookDelivery("https://receiver.example/hook", SecretRef("env", "SECRET_A"))
    await put(store, notification("1", webhook))
    await suspend(store, MUTE, declared=declared)
    await put(store, notification("2", webhook))
    await suspend(store, declared=declared, now_s=9.0)
    assert await sent(store, 9.0) == []
    await store.webhooks.record_ping(webhook, WebhookState.CONFIRMED, 10.0, "")
    assert await sent(store, 10.0) == [("https://receiver.example/hook", b"1+2")]


async def test_what_is_kept_does_not_expire(store: SqlStore) -> None:
    await suspend(store, MUTE)
    await put(store, notification("1"), notification("2"))
    assert await expire(store.writer, 1e6, retention_s=10.0) == 1  # what the audit log says of the mute
    await suspend(store, now_s=1e6)
    assert await sent(store, 1e6) == [(ONE, b"1+2")]


@pytest.mark.parametrize("drop", [False, True])
async def test_only_the_rules_of_the_profile_are_released(store: SqlStore, *, drop: bool) -> None:
    profile = Suspension(Subject.PROFILE, "P", 5.0, "me")
    await suspend(store, profile, MUTE)
    await put(store, notification("1"), notification("2", rule_name="other"))
    dropped = DECLARED.rules if drop else ()
    found = await store.suspensions.change(lambda _: [MUTE], DECLARED, 9.0, dropped=frozenset(dropped))
    assert found.released == 1
    assert await sent(store, 9.0) == ([] if drop else [(ONE, b"2")])
    assert (await states(store))["1"] == ["muted"]


ALL = Suspension(Subject.PROFILE, "P", 5.0, "me")


async def test_a_receiver_of_several_rules_gets_one_digest_that_holds_back_what_is_newer(store: SqlStore) -> None:
    await suspend(store, ALL)
    await put(store, notification("1"), notification("2", rule_name="other"), notification("3", LOG, MAIL))
    await suspend(store, now_s=20.0)
    await put(store, notification("4", rule_name="other", created_s=20.0))
    gathered: list[Gathered] = []

    def kept(each: Gathered) -> bytes:
        gathered.append(each)
        return joined(each)

    await store.make_digests(20.0, kept)
    assert sorted((each.rule, each.ids) for each in gathered) == [("r", ("3",)), ("r, other", ("1", "2", "3"))]
    first, second = await due_deliveries(store, 20.0, limit=9)
    assert [(each.endpoint, each.body) for each in (first, second)] == [(ONE, b"1+2+3"), (TWO, b"3")]
    await store.record_failure(first, 21.0, next_s=30.0, error="503")
    assert [each.body for each in await due_deliveries(store, 500.0, limit=9, busy={second.lane})] == [b"1+2+3"]
    assert [each.body for each in await due_deliveries(store, 622.0, limit=9)] == [b"1+2+3", b"3", b"4"]
    again = (await due_deliveries(store, 500.0, limit=9))[0]
    await store.record_delivery(again, 500.0)
    assert await sent(store, 500.0) == [(TWO, b"3"), (ONE, b"4")]
    assert {state for each in (await states(store)).values() for state in each} == {"delivered"}


async def test_a_digest_of_several_rules_is_given_up_dropped_and_replayed_whole(store: SqlStore) -> None:
    await suspend(store, ALL)
    await put(store, notification("1"), notification("2", rule_name="other"))
    await suspend(store, now_s=20.0)
    await store.make_digests(20.0, joined)
    await suspend(store, MUTE, now_s=21.0)
    assert await states(store) == {"1": ["stopped"], "2": ["gathered"]}
    await store.suspensions.change(lambda _: (), DECLARED, 22.0, dropped={"r"})
    assert await states(store) == {"1": ["dropped"], "2": ["dropped"]}
    assert await store.replay("2", 23.0) == 1
    (delivery,) = await due_deliveries(store, 23.0, limit=9)
    await store.record_failure(delivery, 23.0, next_s=None, error="410", disables=True)
    assert await states(store) == {"1": ["dead"], "2": ["dead"]}
    await suspend(store, ALL, now_s=30.0)
    await put(store, notification("3"), notification("4", rule_name="other"))
    await suspend(store, now_s=31.0)
    assert await sent(store, 31.0) == [(ONE, b"3"), (ONE, b"4")]  # the first is refused: its receiver wants no more


async def test_what_was_released_is_kept_again_if_it_is_muted_before_its_digest(store: SqlStore) -> None:
    await suspend(store, MUTE)
    await put(store, notification("1"))
    await suspend(store, now_s=20.0)
    assert await store.next_digest_s() == 20.0
    await suspend(store, MUTE, now_s=21.0)
    await put(store, notification("2"))
    assert await store.next_digest_s() is None
    await suspend(store, now_s=30.0)
    await store.declarations.accept([], DECLARED.rules.values(), 25.0)  # the clock was set back
    assert await sent(store, 25.0) == [(ONE, b"1+2")]


NIGHT = " DELIVER TO LOG 'one' QUIET DURING '22:00-07:00'"
EVENING_S, MORNING_S = 23 * 3600.0, 31 * 3600.0


def at_night(*rules: str, defaults: str = NIGHT) -> Declaration:
    text = (DOMAIN + source("a") + "".join(rules)).replace('USER "u")', f'USER "u"){defaults}')
    return declared_in(text)


async def test_what_comes_in_quiet_hours_comes_as_one_digest_for_each_receiver_at_their_end(store: SqlStore) -> None:
    declared = at_night(rule("r"), rule("other"), rule("loud", clauses="SET QUIET NONE"))
    await store.declarations.accept([], declared.rules.values(), 1.0)
    await put(store, notification("day", created_s=EVENING_S - 3600.001))
    assert await sent(store, EVENING_S - 3600.0) == [(ONE, b"day")]
    at_s = EVENING_S
    await put(store, notification("1", LOG, MAIL, created_s=at_s), notification("2", rule_name="other", created_s=at_s))
    await put(store, notification("3", rule_name="loud", created_s=at_s))
    assert await sent(store, MORNING_S - 1.0) == [(ONE, b"3")]
    assert await store.next_digest_s() == MORNING_S
    assert await sent(store, MORNING_S) == [(ONE, b"1+2"), (TWO, b"1")]
    await put(store, notification("4", created_s=MORNING_S))
    assert await sent(store, MORNING_S) == [(ONE, b"4")]


async def test_a_digest_that_ends_in_quiet_hours_waits_for_their_end(store: SqlStore) -> None:
    declared = at_night(rule("r", clauses="SET DIGEST EVERY 1 HOUR"))
    await store.declarations.accept([], declared.rules.values(), 1.0)
    await put(store, notification("1", created_s=EVENING_S - 7200.0), notification("2", created_s=EVENING_S))
    assert await sent(store, EVENING_S) == []
    assert await sent(store, MORNING_S) == [(ONE, b"1+2")]


async def test_quiet_hours_survive_a_declaration_and_end_with_their_clause(store: SqlStore) -> None:
    declared = at_night(rule("r"))
    await store.declarations.accept([], declared.rules.values(), 1.0)
    await put(store, notification("1", created_s=EVENING_S))
    await store.declarations.accept([], declared.rules.values(), EVENING_S + 1.0)
    assert await sent(store, EVENING_S + 2.0) == []
    loud = at_night(rule("r"), defaults=" DELIVER TO LOG 'one'")
    await store.declarations.accept([], loud.rules.values(), EVENING_S + 3.0)
    assert await sent(store, EVENING_S + 3.0) == [(ONE, b"1")]


async def test_a_rule_that_is_muted_in_quiet_hours_stays_muted_after_them(store: SqlStore) -> None:
    await store.declarations.accept([], at_night(rule("r"), rule("other")).rules.values(), 1.0)
    await put(store, notification("1", created_s=EVENING_S))
    await suspend(store, MUTE, now_s=EVENING_S + 1.0)
    assert await sent(store, MORNING_S) == []
    assert await suspend(store, now_s=MORNING_S + 1.0) == 1
    assert await sent(store, MORNING_S + 1.0) == [(ONE, b"1")]
