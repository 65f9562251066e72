"""Turns that probers ask for at hosts to which redirects lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from proxyd.base.ports import MaySend, always
from proxyd.cluster.batch_prober import BatchProber
from proxyd.cluster.messages import TURN, work_of
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from tests.unit.cluster.bus import REQUEST, Machines, Origin, asked_of, settled

SPACING_S = 2.0


@pytest.fixture
async def machines() -> AsyncIterator[Machines]:
    made = Machines()
    yield made
    await made.end()


class Waiting:
    """A turn that a prober waits for."""

    def __init__(self, machines: Machines, prober: BatchProber, host: str, spacing_s: float = 0.0) -> None:
        self._clock = machines.clock
        self.given_s: float | None = None
        self.task = asyncio.create_task(self._wait(prober, host, spacing_s))

    async def _wait(self, prober: BatchProber, host: str, spacing_s: float) -> None:
        began_s = self._clock.monotonic_s()
        await prober.turns.wait(host, spacing_s)
        self.given_s = self._clock.monotonic_s() - began_s


def only(host: str) -> Callable[[str], bool]:
    return lambda each: each == host


async def test_a_turn_waits_for_the_batch_of_its_host_and_the_next_batch_for_the_turn(machines: Machines) -> None:
    origin = Origin(machines.clock, takes_s=3.0)
    planner, probers = machines.planner(spacing_s=SPACING_S), [machines.prober(origin) for _ in range(2)]
    planner.give_turns(only("a.example"))
    await settled()
    first = asked_of(planner)
    await settled()
    (other,) = [each for each in probers if not each._held]
    turn = Waiting(machines, other, "a.example")
    await settled()
    second = asked_of(planner, ProbeRequest("t", "https://a.example/t"))
    await machines.clock.advance(2.9)
    assert (turn.given_s, origin.asked) == (None, ["s"])
    await machines.clock.advance(0.1)
    assert isinstance(await first, ProbeOutcome)
    await settled()
    assert turn.given_s == pytest.approx(3.0)
    await machines.clock.advance(SPACING_S - 0.1)
    assert origin.asked == ["s"]
    await machines.clock.advance(0.2)
    assert origin.asked == ["s", "t"]
    await machines.clock.advance(3.0)
    assert isinstance(await second, ProbeOutcome)


async def test_turns_are_as_far_apart_as_they_ask_for(machines: Machines) -> None:
    planner, prober = machines.planner(spacing_s=SPACING_S), machines.prober(Origin(machines.clock))
    planner.give_turns(always_there)
    await settled()
    turns = [Waiting(machines, prober, "b.example", spacing_s) for spacing_s in (0.0, 0.0, 7.0)]
    await machines.clock.advance(10.0)
    assert [each.given_s for each in turns] == pytest.approx([0.0, SPACING_S, SPACING_S + 7.0])


def always_there(_host: str) -> bool:
    return True


async def test_only_the_planner_that_has_the_host_gives_turns(machines: Machines) -> None:
    first, second = machines.planner(7, spacing_s=SPACING_S), machines.planner(8, spacing_s=SPACING_S)
    first.give_turns(only("a.example"))
    second.give_turns(only("b.example"))
    prober = machines.prober(Origin(machines.clock))
    await settled()
    turns = [Waiting(machines, prober, host) for host in ("a.example", "b.example", "a.example")]
    await machines.clock.advance(1.5 * SPACING_S)
    assert [each.given_s for each in turns] == pytest.approx([0.0, 0.0, SPACING_S])


async def test_a_host_that_no_planner_has_is_asked_after_a_while_and_then_at_once(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    planner.give_turns(only("a.example"))
    await settled()
    turn = Waiting(machines, prober, "b.example")
    await machines.clock.advance(2.9)
    assert turn.given_s is None
    await machines.clock.advance(0.2)
    assert turn.given_s == pytest.approx(3.0)
    again = Waiting(machines, prober, "b.example")
    await settled()
    assert again.given_s == 0.0


async def test_the_host_of_its_batch_needs_no_turn(machines: Machines) -> None:
    class Same(Origin):
        """Follows a redirect on the host of the batch."""

        async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
            await prober.turns.wait(request.host, 0.0)
            return await super().probe(request, may_send)

    planner, prober = machines.planner(), machines.prober(Same(machines.clock))
    planner.give_turns(always_there)
    await settled()
    machines.bus.sent.clear()
    asked = asked_of(planner, REQUEST)
    await settled()
    assert isinstance(await asked, ProbeOutcome)
    assert "turn" not in machines.bus.kinds()


async def test_a_turn_is_asked_for_until_it_is_given(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    planner.give_turns(always_there)
    await settled()
    lost = [TURN, *[f"{work_of(prober.prober_id)}.turn"] * 2]  # the question, and what is said to the next one

    def fate(subject: str) -> list[float]:
        if lost and subject == lost[0]:
            del lost[0]
            return []
        return [0.0]

    machines.bus.fate = fate
    turn = Waiting(machines, prober, "b.example")
    await machines.clock.advance(3.0)
    assert not lost
    assert turn.given_s == pytest.approx(2.0)


@pytest.mark.parametrize("spacing_s", [0.0, 1000.0])
async def test_a_turn_that_nobody_asks_for_any_more_costs_nothing(machines: Machines, spacing_s: float) -> None:
    planner, prober = machines.planner(spacing_s=10.0), machines.prober(Origin(machines.clock))
    planner.give_turns(always_there)
    await settled()
    turns = [Waiting(machines, prober, "b.example", each_s) for each_s in (0.0, spacing_s, 0.0)]
    await settled()
    turns[1].task.cancel()
    await machines.clock.advance(10.5)
    assert turns[0].given_s == 0.0
    assert turns[2].given_s == pytest.approx(10.0)


class Redirected(Origin):
    """Follows redirects from each host to the other one."""

    prober: BatchProber

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        await self.clock.sleep(0.5)
        await self.prober.turns.wait("b.example" if request.host == "a.example" else "a.example", 0.0)
        return await super().probe(request, may_send)


async def test_two_hosts_that_redirect_to_each_other_do_not_wait_for_each_other(machines: Machines) -> None:
    planner, origins = machines.planner(spacing_s=SPACING_S), [Redirected(machines.clock) for _ in range(2)]
    planner.give_turns(always_there)
    for origin in origins:
        origin.prober = machines.prober(origin, hosts=1)
    await settled()
    both = [asked_of(planner, ProbeRequest(host, f"https://{host}.example/")) for host in ("a", "b")]
    await machines.clock.advance(2.0 * SPACING_S)
    assert all(each.done() and isinstance(each.result(), ProbeOutcome) for each in both)
    assert "turn" in machines.bus.kinds()


async def test_a_batch_that_may_wait_for_a_turn_of_its_prober_lets_it_pass_now_and_then(machines: Machines) -> None:
    planner, prober = machines.planner(spacing_s=SPACING_S), machines.prober(Origin(machines.clock, takes_s=25.0))
    planner.give_turns(always_there)
    await settled()
    asked = asked_of(planner)
    await settled()
    turns = [Waiting(machines, prober, "a.example") for _ in range(5)]
    await machines.clock.advance(24.0)
    assert not asked.done()
    assert [each.given_s for each in turns if each.given_s is not None] == pytest.approx([0.0, 10.0, 20.0])
    await machines.clock.advance(10.0)
    assert all(each.given_s is not None for each in turns)


async def test_a_source_that_has_moved_to_a_host_of_another_planner_needs_turns(machines: Machines) -> None:
    class Moved(Origin):
        """Waits for the turn of the host that is asked."""

        async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
            await prober.turns.wait(request.host, 0.0)
            return await super().probe(request, may_send)

    first, second = machines.planner(7, spacing_s=SPACING_S), machines.planner(8, spacing_s=SPACING_S)
    first.give_turns(only("a.example"))
    second.give_turns(only("b.example"))
    origin = Moved(machines.clock)
    prober = machines.prober(origin)
    await settled()
    for planner, source in ((first, "s"), (second, "t"), (second, "u")):
        machines.tasks.append(asked_of(planner, ProbeRequest(source, "https://a.example/")))  # type: ignore[arg-type]
        await settled()
    await machines.clock.advance(0.5 * SPACING_S)
    assert origin.asked == ["s"]
    await machines.clock.advance(SPACING_S)
    assert origin.asked == ["s", "t"]
    await machines.clock.advance(SPACING_S)
    assert origin.asked == ["s", "t", "u"]


async def test_a_planner_that_loses_the_host_or_its_lease_gives_no_turns(machines: Machines) -> None:
    may_send, host = True, "b.example"
    planner = machines.planner(spacing_s=SPACING_S, may_send=lambda: may_send)
    planner.give_turns(lambda each: each == host)
    prober = machines.prober(Origin(machines.clock))
    await settled()
    turns = [Waiting(machines, prober, "b.example") for _ in range(2)]
    await settled()
    host = "other.example"
    await machines.clock.advance(4.5)
    assert [each.given_s for each in turns] == pytest.approx([0.0, 4.0])  # after three more questions
    host, may_send = "c.example", False
    alone = Waiting(machines, prober, "c.example")
    await machines.clock.advance(3.5)
    assert alone.given_s == pytest.approx(3.0)


async def test_a_question_that_cannot_be_read_changes_nothing(machines: Machines) -> None:
    planner, prober = machines.planner(), machines.prober(Origin(machines.clock))
    planner.give_turns(always_there)
    await settled()
    await machines.bus.links[1].send(TURN, b"?")
    turn = Waiting(machines, prober, "b.example")
    await settled()
    assert turn.given_s == 0.0
