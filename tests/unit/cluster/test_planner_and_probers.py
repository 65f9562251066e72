"""What planner and probers say to each other, and what they do when messages are lost, late, repeated or forged."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from unittest.mock import Mock

import pytest
import structlog

from proxyd.base.ports import Unmade
from proxyd.cluster.messages import (
    ANSWERS,
    BATCHES,
    CALL,
    HELLO,
    HELLOS,
    REPORT,
    REPORTS,
    AnswerMessage,
    Batch,
    Hello,
    ProbeReport,
    report_to,
    work_of,
)
from proxyd.cluster.prober_roster import HELLO_EVERY_S
from proxyd.core.errors import ClusterError, UnreadableError
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from tests.unit.cluster.bus import HOLD_S, REQUEST, Machines, Origin, asked_of, ended, settled


@pytest.fixture
async def machines() -> AsyncIterator[Machines]:
    made = Machines()
    yield made
    await made.end()


async def test_a_probe_costs_three_messages_and_an_idle_cluster_almost_none(machines: Machines) -> None:
    planner, _ = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    machines.bus.sent.clear()
    for number in range(5):
        await ended(planner, ProbeRequest(f"s{number}", f"https://{number}.example/"))
    await settled()
    assert sorted(machines.bus.kinds()) == sorted(["batch", "7", "recorded"] * 5)  # reports to the planner of term 7
    machines.bus.sent.clear()
    await machines.clock.advance(2.5 * HELLO_EVERY_S)
    assert machines.bus.kinds() == ["hello", "answer"] * 2


async def test_a_batch_that_takes_long_stays_with_its_prober(machines: Machines) -> None:
    origin, other = Origin(machines.clock, takes_s=5.0 * HOLD_S), Origin(machines.clock)
    planner, _ = machines.planner(), machines.prober(origin)
    await settled()
    asked = asked_of(planner)
    await settled()
    machines.prober(other, "q")
    await machines.clock.advance(5.0 * HOLD_S)
    assert isinstance(await asked, ProbeOutcome)
    assert (origin.asked, other.asked) == (["s"], [])


async def test_one_lost_answer_ends_no_batch(machines: Machines) -> None:
    planner, _ = machines.planner(), machines.prober(Origin(machines.clock, takes_s=2.0 * HOLD_S))
    await settled()
    asked = asked_of(planner)
    await settled()
    lost = ["answer", "hello"]

    def fate(subject: str) -> list[float]:
        kind = subject.rpartition(".")[2]
        return [] if kind in lost and not lost.remove(kind) else [0.0]  # type: ignore[func-returns-value]

    machines.bus.fate = fate
    await machines.clock.advance(2.0 * HOLD_S)
    assert isinstance(await asked, ProbeOutcome)
    assert lost == []


async def test_a_prober_that_hears_nothing_stops_before_its_batch_is_planned_again(machines: Machines) -> None:
    deaf, other = Origin(machines.clock, takes_s=100.0), Origin(machines.clock)
    planner, prober = machines.planner(), machines.prober(deaf)
    await settled()
    asked = asked_of(planner)
    await settled()
    machines.prober(other, "q")
    await settled()
    with prober._link.cut():  # type: ignore[attr-defined]
        while not asked.done():
            await machines.clock.advance(0.1)
            assert deaf.now == 0 or not asked.done()
        assert await asked is Unmade.LOST
        assert deaf.now == 0
        assert isinstance(await ended(planner), ProbeOutcome)
        assert other.asked == ["s"]


async def test_a_batch_that_was_held_up_longer_than_its_hold_is_not_made(machines: Machines) -> None:
    origin = Origin(machines.clock)
    planner, _ = machines.planner(), machines.prober(origin, ahead_s=1e5)
    await settled()
    machines.bus.fate = lambda subject: [1.1 * HOLD_S if subject.endswith("batch") else 0.0]
    asked = asked_of(planner)
    await machines.clock.advance(3.0 * HOLD_S)
    assert await asked is Unmade.LOST
    assert origin.asked == []
    machines.bus.fate = lambda _: [0.9 * HOLD_S]
    asked = asked_of(planner)
    await machines.clock.advance(3.0 * HOLD_S)
    assert origin.asked == ["s"]


async def test_a_prober_whose_questions_come_late_asks_until_it_can_tell_the_clock_of_the_planner(
    machines: Machines,
) -> None:
    origin = Origin(machines.clock)
    machines.bus.fate = lambda subject: [1.1 * HOLD_S if subject == HELLO else 0.0]
    planner, _ = machines.planner(), machines.prober(origin)
    await machines.clock.advance(1.15 * HOLD_S)
    machines.bus.fate = lambda _: [0.0]
    await machines.clock.advance(1.1 * HOLD_S)
    assert isinstance(await ended(planner), ProbeOutcome)


async def test_a_batch_that_comes_again_is_not_made_again(machines: Machines) -> None:
    origin = Origin(machines.clock)
    planner, prober = machines.planner(), machines.prober(origin)
    await settled()
    await ended(planner)
    (batch,) = [each for each in machines.bus.sent if each[0].endswith("batch")]
    await machines.bus.links[0].send(*batch)
    await settled()
    assert origin.asked == ["s"]
    assert prober._held == {}


async def test_a_batch_for_a_prober_that_is_gone_goes_to_another_at_once(machines: Machines) -> None:
    gone, other = Origin(machines.clock), Origin(machines.clock)
    planner = machines.planner()
    machines.prober(gone)
    dying = machines.tasks[-1]
    await settled()
    dying.cancel()
    machines.prober(other, "q")
    await settled()
    results = [await ended(planner) for _ in range(3)]
    assert results.count(Unmade.NOT_BEGUN) == 1
    assert (gone.asked, other.asked) == ([], ["s", "s"])


async def test_a_report_that_is_lost_is_sent_again_and_taken_in(machines: Machines) -> None:
    planner, _ = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    tries: list[str] = []

    def fate(subject: str) -> list[float]:
        if subject.startswith(REPORT):
            tries.append(subject)
        return [0.0] if not subject.startswith(REPORT) or len(tries) > 2 else []

    machines.bus.fate = fate
    asked = asked_of(planner)
    await machines.clock.advance(4.0)
    assert isinstance(await asked, ProbeOutcome)
    assert tries == [report_to(7), REPORT, REPORT]


async def test_a_report_that_comes_after_its_batch_was_given_up_is_a_stray(machines: Machines) -> None:
    planner, _ = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    machines.bus.fate = lambda subject: [] if subject.startswith(REPORT) else [0.0]
    asked = asked_of(planner, replace(REQUEST, reading="r"))
    await machines.clock.advance(1.1 * HOLD_S)
    assert await asked is Unmade.LOST
    machines.bus.fate = lambda _: [0.0]
    await machines.clock.advance(60.0)
    assert machines.strays == [("s", "r")]
    machines.bus.sent.clear()
    await machines.clock.advance(300.0)
    assert REPORT not in [subject for subject, _ in machines.bus.sent]


async def test_a_report_is_recorded_once_however_often_it_comes(machines: Machines) -> None:
    planner, _ = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    machines.bus.fate = lambda subject: [] if subject.endswith("recorded") else [0.0]
    assert isinstance(await ended(planner), ProbeOutcome)
    await machines.clock.advance(10.0)
    reports = [subject for subject, _ in machines.bus.sent].count(REPORT)
    assert reports > 2
    machines.bus.fate = lambda _: [0.0]
    await machines.clock.advance(60.0)
    assert [subject for subject, _ in machines.bus.sent].count(REPORT) == reports + 1
    assert machines.strays == []


async def test_another_planner_takes_in_the_reports_of_one_that_has_ended(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=1.0)
    planner, _ = machines.planner(), machines.prober(origin)
    machines.planner(term=8, has=lambda _: False)
    dying = machines.tasks[0]
    await settled()
    asked = asked_of(planner)
    await settled()
    asked.cancel()
    dying.cancel()
    await machines.clock.advance(30.0)
    assert machines.strays == []
    machines.planner(term=9)
    await machines.clock.advance(60.0)
    assert machines.strays == [("s", "")]
    machines.bus.sent.clear()
    await machines.clock.advance(300.0)
    assert REPORT not in [subject for subject, _ in machines.bus.sent]


async def test_planners_share_the_probers(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=5.0 * HOLD_S)
    planners = [machines.planner(term, planners=2) for term in (7, 8)]
    prober = machines.prober(origin, hosts=4)
    await settled()
    requests = [ProbeRequest("s", f"https://{number}.example/") for number in range(6)]
    asked = [asked_of(planners[number % 2], request) for number, request in enumerate(requests)]
    await settled()
    assert origin.now == 4
    await machines.clock.advance(5.0 * HOLD_S + 0.1)
    assert [isinstance(await each, ProbeOutcome) for each in asked] == [True] * 4 + [False] * 2
    assert {*machines.kept.values()} == {frozenset({prober.prober_id})}


async def test_who_takes_over_waits_until_the_probers_have_stopped(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=100.0)
    first, prober = machines.planner(), machines.prober(origin)
    second = machines.planner(term=8)
    await settled()
    asked, other = asked_of(first), asked_of(second, ProbeRequest("t", "https://b.example/"))
    await settled()
    machines.tasks[0].cancel()
    asked.cancel()
    await settled()
    assert first.busy_s == HOLD_S
    second.succeed({prober.prober_id, "f" * 32}, [8], HOLD_S)  # one of them is not heard of
    await settled()
    assert (origin.now, origin.asked) == (1, ["s", "t"])  # its own goes on, the other's not
    await machines.clock.advance(0.9 * HOLD_S)
    assert not second.check_free()
    await machines.clock.advance(0.2 * HOLD_S)
    assert second.check_free()
    other.cancel()


async def test_who_takes_over_waits_no_longer_once_every_prober_has_said_that_it_has_stopped(
    machines: Machines,
) -> None:
    origin = Origin(machines.clock, takes_s=100.0)
    first, prober = machines.planner(), machines.prober(origin)
    second = machines.planner(term=8)
    await settled()
    asked = asked_of(first)
    await settled()
    assert machines.kept[7] == {prober.prober_id}
    machines.tasks[0].cancel()
    asked.cancel()
    machines.bus.fate = lambda subject: [] if subject.endswith("living") else [0.0]
    second.succeed(machines.kept[7], [8], HOLD_S)
    await settled()
    assert (origin.now, second.check_free()) == (1, False)  # it does not know yet, and works on
    machines.bus.fate = lambda _: [0.0]
    await machines.clock.advance(0.2 * HOLD_S)
    assert (origin.now, second.check_free()) == (0, True)
    again = asked_of(second)
    await settled()
    assert origin.asked == ["s", "s"]
    again.cancel()


async def test_a_prober_that_stops_has_not_stopped_before_its_last_request_has_ended(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=100.0)
    origin.ends_s = 2.0  # to clean up
    first, prober = machines.planner(), machines.prober(origin)
    second = machines.planner(term=8)
    await settled()
    asked = asked_of(first)
    await settled()
    machines.tasks[0].cancel()
    asked.cancel()
    prober.stop()
    second.succeed(machines.kept[7], [8], HOLD_S)
    await machines.clock.advance(1.5)
    assert (origin.now, second.check_free()) == (1, False)  # it is cancelled, and cleans up
    await machines.clock.advance(1.0)
    assert (origin.now, second.check_free()) == (0, True)
    origin.ends_s = 0.0


async def test_late_answers_of_several_planners_cause_no_storm_of_hellos(machines: Machines) -> None:
    for term in range(1, 5):
        machines.planner(term, planners=4)
    machines.bus.fate = lambda subject: [0.3 * HOLD_S if subject.endswith("answer") else 0.0]
    machines.prober(Origin(machines.clock))
    await machines.clock.advance(20.0 * HOLD_S)
    machines.bus.sent.clear()
    await machines.clock.advance(10.0 * HOLD_S)
    assert machines.bus.kinds().count("hello") < 40


async def test_probers_have_work_although_they_could_not_be_recorded_at_once(machines: Machines) -> None:
    machines.fails = ["the database is away"] * 2
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    assert planner.probers == 0
    await machines.clock.advance(2.0)
    assert isinstance(await ended(planner), ProbeOutcome)
    assert machines.kept[7] == {prober.prober_id}


async def test_a_planner_that_fails_knows_for_how_long_probers_work_for_it(machines: Machines) -> None:
    planner = machines.planner()
    machines.prober(Origin(machines.clock, takes_s=100.0))
    await settled()
    asked = asked_of(planner)
    await settled()

    def fail(_now_s: float) -> None:
        raise ValueError("a fault")

    planner._probers.check_free = fail  # type: ignore[method-assign, assignment]
    await machines.clock.advance(1.0)
    assert machines.tasks[0].done()
    assert planner.busy_s > 0.0
    asked.cancel()
    machines.tasks[0].exception()


async def test_what_a_planner_said_before_it_ended_does_nothing_afterwards(machines: Machines) -> None:
    origin = Origin(machines.clock)
    first, prober = machines.planner(), machines.prober(origin)
    second = machines.planner(term=8)
    await settled()
    machines.bus.fate = lambda subject: [0.5 * HOLD_S if subject.endswith("batch") else 0.0]
    asked = asked_of(first)
    await settled()
    machines.tasks[0].cancel()
    asked.cancel()
    machines.bus.fate = lambda _: [0.0]
    await machines.succeed(second, 8)
    answer = AnswerMessage(7, machines.clock.monotonic_s(), HOLD_S, machines.clock.monotonic_s())
    await machines.bus.links[0].send(f"{work_of(prober.prober_id)}.answer", ANSWERS.write(answer))
    await machines.clock.advance(HOLD_S)
    assert origin.asked == []
    await machines.clock.advance(2.0 * HOLD_S)
    machines.planner(term=7)  # it lives after all
    await settled()
    assert prober._sessions[7].is_known


async def test_a_planner_that_no_longer_leads_says_nothing(machines: Machines) -> None:
    leads = True
    planner, prober = machines.planner(may_send=lambda: leads), machines.prober(Origin(machines.clock, takes_s=99.0))
    await settled()
    asked = asked_of(planner)
    await settled()
    leads = False
    await machines.clock.advance(1.1 * HOLD_S)
    assert await asked is Unmade.LOST  # nothing has extended it
    machines.bus.sent.clear()
    assert await ended(planner) is Unmade.NOT_BEGUN
    await machines.clock.advance(HELLO_EVERY_S)
    assert set(machines.bus.kinds()) == {"hello"}
    assert prober._held == {}


async def test_a_term_that_cannot_be_stops_nothing(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    now_s = machines.clock.monotonic_s()
    forged = AnswerMessage(99_999_999_999, now_s, HOLD_S, echo_s=now_s)
    subject = work_of(prober.prober_id)
    link = machines.bus.links[0]
    await link.send(f"{subject}.answer", ANSWERS.write(forged))
    await link.send(CALL, b"99999999999")
    await link.send(f"{subject}.batch", BATCHES.write(Batch("0" * 32, 99_999_999_999, "a", 0.0, now_s + 9.0, ())))
    await settled()
    assert prober._held == {}
    assert isinstance(await ended(planner), ProbeOutcome)


async def test_what_cannot_be_read_is_dropped_and_named(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    await settled()
    with structlog.testing.capture_logs() as logged:
        kinds = [f"{work_of(prober.prober_id)}.{kind}" for kind in ("batch", "answer", "living")]
        for subject in (HELLO, REPORT, report_to(7), *kinds):
            for data in (b"", b"no message", REPORTS.write(_report(prober.prober_id))[:-3]):
                await machines.bus.links[0].send(subject, data)
        await settled()
    assert len([each for each in logged if each["log_level"] == "error"]) == 18
    assert isinstance(await ended(planner), ProbeOutcome)


async def test_a_report_of_a_batch_that_another_prober_has_is_dropped(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock, takes_s=3.0))
    await settled()
    asked = asked_of(planner)
    await settled()
    (batch_id,) = prober._held
    forged = replace(_report("f" * 32), batch_id=batch_id)
    with structlog.testing.capture_logs() as logged:
        await machines.bus.links[1].send(REPORT, REPORTS.write(forged))
        await settled()
    assert [each["event"] for each in logged] == ["a report of a batch that another prober has is dropped"]
    assert not asked.done()
    await machines.clock.advance(3.0)
    outcome = await asked
    assert isinstance(outcome, ProbeOutcome)
    assert outcome.kind is OutcomeKind.SAME_BODY


def _report(prober_id: str) -> ProbeReport:
    outcome = ProbeOutcome("s", OutcomeKind.GONE, 1e9, 1e9)
    return ProbeReport("b" * 32, 0, prober_id, "r", 1e9, outcome)


async def test_batches_wait_for_room_and_are_not_begun_if_there_is_none_for_long(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=3.0)
    planner = machines.planner(queue_s=5.0)
    early = asked_of(planner)
    await machines.clock.advance(6.0)
    assert await early is Unmade.NOT_BEGUN
    machines.prober(origin, hosts=2)
    await settled()
    asked = [asked_of(planner, ProbeRequest(f"s{n}", f"https://{n}.example/")) for n in range(6)]
    await settled()
    assert machines.metrics.registry.get_sample_value("proxyd_batches_waiting") == 4
    await machines.clock.advance(9.0)
    results = [await each for each in asked]
    assert origin.most == 2
    assert [type(each) for each in results] == [ProbeOutcome] * 4 + [Unmade] * 2
    assert results[-1] is Unmade.NOT_BEGUN
    assert machines.metrics.registry.get_sample_value("proxyd_batches_waiting") == 0


async def test_that_there_is_no_prober_is_said_once(machines: Machines) -> None:
    planner = machines.planner(queue_s=5.0)
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            asked = asked_of(planner)
            await machines.clock.advance(6.0)
            assert await asked is Unmade.NOT_BEGUN
        machines.prober(Origin(machines.clock))
        await settled()
        assert isinstance(await ended(planner), ProbeOutcome)
    said = [each["event"] for each in logs if each["log_level"] == "warning"]
    assert said == ["no prober is connected to NATS: nothing is probed; start one, or see why it does not reach NATS"]


async def test_what_could_not_be_sent_in_time_is_given_back_and_makes_no_burst(machines: Machines) -> None:
    origin = Origin(machines.clock)
    planner = machines.planner(queue_s=5.0)
    asked = []
    for second in range(20):
        asked += [asked_of(planner, ProbeRequest("s", f"https://{second}-{n}.example/")) for n in range(3)]
        await machines.clock.advance(1.0)
    machines.prober(origin, hosts=1000)
    await machines.clock.advance(0.5)
    results = [await each for each in asked]
    assert results.count(Unmade.NOT_BEGUN) == 48
    assert len(origin.asked) == 12  # of the last seconds


async def test_a_prober_that_stops_finishes_its_batches_and_reports_and_gets_no_more(machines: Machines) -> None:
    origin, other = Origin(machines.clock, takes_s=3.0), Origin(machines.clock)
    planner, prober = machines.planner(), machines.prober(origin)
    stopping = machines.tasks[-1]
    await settled()
    first = asked_of(planner)
    await settled()
    prober.stop()
    assert not prober.is_up
    machines.prober(other, "q")
    await settled()
    second = asked_of(planner, ProbeRequest("t", "https://b.example/"))
    await machines.clock.advance(3.0)
    assert isinstance(await first, ProbeOutcome)
    assert isinstance(await second, ProbeOutcome)
    await asyncio.wait_for(stopping, 60.0)
    await settled()
    assert (origin.asked, other.asked) == (["s"], ["t"])
    assert prober.prober_id not in machines.kept[7]


async def test_a_stop_gives_up_what_takes_too_long(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=1000.0)
    planner, prober = machines.planner(), machines.prober(origin)
    prober._settings = replace(prober._settings, drain_timeout_s=0.0)
    await settled()
    asked = asked_of(planner)
    await settled()
    prober.stop()
    await asyncio.wait_for(machines.tasks[-1], 60.0)
    assert origin.now == 0
    asked.cancel()


async def test_the_failures_of_a_prober_that_is_put_aside_are_not_those_of_sources(machines: Machines) -> None:
    bad, good = Origin(machines.clock, kind=OutcomeKind.BLOCKED), Origin(machines.clock)
    planner = machines.planner()
    machines.prober(bad, "bad", hosts=1)
    await settled()

    async def asked(number: int) -> ProbeOutcome | Unmade:
        return await ended(planner, ProbeRequest("s", f"https://{number}.example/"))

    for number in range(5):
        assert isinstance(await asked(number), ProbeOutcome)
    machines.prober(good, "good", hosts=1000)
    await settled()
    for number in range(5):  # those that are equally empty have their turns
        for _ in range(2):
            await asked(number)
    with structlog.testing.capture_logs() as logged:
        await machines.clock.advance(HOLD_S)
    assert [each["event"].split(":")[0] for each in logged] == ["a prober is put aside", "put aside"]
    assert list(planner.aside) == ["bad"]
    before = len(bad.asked)
    for number in range(10):
        assert isinstance(await asked(number), ProbeOutcome)
    assert len(bad.asked) == before
    await machines.clock.advance(700.0)
    assert planner.aside == {}
    results = [await asked(number) for number in range(4)]
    assert results.count(Unmade.LOST) == len(bad.asked) - before == 2
    planner.stop()
    await asyncio.wait_for(machines.tasks[0], 60.0)


async def test_a_prober_that_ends_while_it_is_aside_is_shown_no_more(machines: Machines) -> None:
    planner = machines.planner()
    machines.prober(Origin(machines.clock), "bad")
    await settled()
    planner._trust = Mock(aside=lambda _now_s: {"bad": "why"})
    with structlog.testing.capture_logs() as logged:
        await machines.clock.advance(HOLD_S)
        assert list(planner.aside) == ["bad"]
        machines.tasks[-1].cancel()  # it is killed, and says nothing
        await machines.clock.advance(HOLD_S)
    assert (planner.aside, planner.probers) == ({}, 0)
    assert "a prober may have work again" not in {each["event"] for each in logged}


async def test_losing_the_lead_while_a_prober_is_aside_ends_in_order(machines: Machines) -> None:
    planner = machines.planner()
    machines.prober(Origin(machines.clock))
    await settled()
    planner._aside = {"p": "why"}
    planner._metrics.prober_aside.labels("p").set(1)
    machines.tasks[0].cancel()
    await asyncio.wait([machines.tasks[0]])
    assert machines.tasks[0].cancelled()
    assert planner.aside == {}


@pytest.mark.parametrize(
    "forged",
    [
        {"started_s": float("nan")},
        {"finished_s": float("inf")},
        {"finished_s": 0.0},
        {"retry_after_s": float("nan")},
        {"body_bytes": 10**30},
        {"source_id": "another"},
    ],
)
async def test_a_report_that_cannot_be_true_is_dropped(machines: Machines, forged: dict[str, object]) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock, takes_s=3.0))
    await settled()
    asked = asked_of(planner)
    await settled()
    (batch_id,) = prober._held
    outcome = replace(ProbeOutcome("s", OutcomeKind.GONE, 1e9, 1e9), **forged)  # type: ignore[arg-type]
    for report_of in (batch_id, "d" * 32):
        report = ProbeReport(report_of, 0, prober.prober_id, "", 1e9, outcome)
        await machines.bus.links[1].send(REPORT, REPORTS.write(report))
    await settled()
    assert not asked.done()
    assert machines.strays == ([] if "source_id" not in forged else [("another", "")])
    await machines.clock.advance(3.0)
    assert isinstance(await asked, ProbeOutcome)


async def test_a_sending_time_that_cannot_be_true_does_not_hold_up_the_host(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock, takes_s=3.0))
    await settled()
    asked = asked_of(planner)
    await settled()
    (batch_id,) = prober._held
    far_s = machines.clock.time_s() + 1e9
    outcome = ProbeOutcome("s", OutcomeKind.GONE, far_s, far_s)
    await machines.bus.links[1].send(
        REPORT, REPORTS.write(ProbeReport(batch_id, 0, prober.prober_id, "", far_s, outcome))
    )
    found = await asked
    assert isinstance(found, ProbeOutcome)
    assert found.started_s <= machines.clock.time_s()
    again = asked_of(planner)
    await machines.clock.advance(4.0)
    assert isinstance(await again, ProbeOutcome)


async def test_reports_that_fail_together_are_sent_again(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock, takes_s=1.0))
    await settled()
    asked = [asked_of(planner, ProbeRequest("s", f"https://{number}.example/")) for number in range(2)]
    await settled()
    really_send, failing = prober._link.send, [True]

    async def send(subject: str, data: bytes = b"", *, reply: str = "") -> None:
        if subject.startswith(REPORT) and failing:
            await machines.clock.sleep(0.5)
            raise ClusterError("NATS failed")
        await really_send(subject, data, reply=reply)

    prober._link.send = send  # type: ignore[method-assign]
    await machines.clock.advance(1.7)
    failing.clear()
    await machines.clock.advance(4.0)
    assert [isinstance(await each, ProbeOutcome) for each in asked] == [True, True]


async def test_a_prober_that_lost_one_batch_soon_has_work_again(machines: Machines) -> None:
    lost, other = Origin(machines.clock), Origin(machines.clock)
    planner = machines.planner()
    machines.prober(lost, "p")
    await settled()
    machines.bus.fate = lambda subject: [] if subject.endswith("batch") else [0.0]
    asked = asked_of(planner)
    await machines.clock.advance(1.1 * HOLD_S)
    assert await asked is Unmade.LOST
    machines.bus.fate = lambda _: [0.0]
    machines.prober(other, "q")
    await machines.clock.advance(2.0 * HOLD_S)
    for number in range(10):
        await ended(planner, ProbeRequest("s", f"https://{number}.example/"))
    assert min(len(lost.asked), len(other.asked)) == 5


async def test_the_times_of_a_probe_are_the_same_each_time_that_it_is_reported(machines: Machines) -> None:
    planner = machines.planner()
    ahead = Origin(machines.clock)
    ahead.ahead_s = 20.0  # the wall clock of its machine
    machines.prober(ahead)
    await settled()
    machines.bus.fate = lambda subject: [] if subject.endswith("recorded") else [0.0]
    asked_s = machines.clock.time_s()
    found = await ended(planner)
    assert isinstance(found, ProbeOutcome)
    await machines.clock.advance(5.0)
    reports = [REPORTS.read(data) for subject, data in machines.bus.sent if subject.startswith(REPORT)]
    starts = {each.outcome.started_s for each in reports if each.outcome is not None}
    assert len(reports) > 2
    assert len(starts) == 1
    assert found.started_s == starts.pop() == pytest.approx(asked_s, abs=0.1)


async def test_who_takes_over_waits_until_the_last_request_has_ended(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=100.0)
    origin.ends_s = 0.6  # to clean up
    first = machines.planner()
    machines.prober(origin)
    await settled()
    asked = asked_of(first)
    await settled()
    machines.tasks[0].cancel()
    asked.cancel()
    second = machines.planner(term=8)
    await machines.succeed(second, 8)
    again = asked_of(second)
    await machines.clock.advance(2.0)
    assert (origin.most, len(origin.asked)) == (1, 2)
    origin.ends_s = 0.0
    again.cancel()


async def test_requests_do_not_wait_for_a_server_that_is_away(machines: Machines) -> None:
    planner = machines.planner(queue_s=1.0)
    with machines.bus.links[0].cut():
        asked = asked_of(planner)
        await machines.clock.advance(2.0)
        assert await asked is Unmade.NOT_BEGUN


def test_a_hostile_message_is_soon_refused_in_few_words() -> None:
    head = b'{"batch_id":"%s","number":0,"prober_id":"%s","reading":"","sent_s":1.0,"outcome":{"items":[' % (
        b"b" * 32,
        b"a" * 32,
    )
    data = zlib.compress(head + b"0," * 200_000 + b"0]}}", 9)
    assert REPORTS.is_long(data)
    with pytest.raises(UnreadableError) as caught:
        REPORTS.read(data)
    assert len(str(caught.value)) < 400
    assert not REPORTS.is_long(b"no message")


def test_messages_are_the_same_on_the_other_side() -> None:
    request = replace(ProbeRequest("s", "https://a.example/"), headers=(("Accept", "text/html"),), obeys_robots=True)
    batch = Batch("b" * 32, 3, "a.example", 1.5, 2.5, (request, request))
    hello = Hello("a" * 32, "host:1", "1.0", 4, 2.5, {3: ("b" * 32,), 4: ()}, ("c" * 32,))
    assert BATCHES.read(BATCHES.write(batch)) == batch
    assert HELLOS.read(HELLOS.write(hello)) == hello
