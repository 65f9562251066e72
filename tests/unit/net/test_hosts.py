from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.net.host_turns import HostTokens
from tests.examples import examples
from tests.fakes import FakeClock, settle


async def _grant(
    tokens: HostTokens, clock: FakeClock, host: str, log: list[tuple[str, float]], gap_s: float = 0
) -> None:
    await tokens.take(host, gap_s)
    log.append((host, clock.monotonic_s()))


async def test_the_first_token_of_a_host_is_free() -> None:
    clock = FakeClock()
    await HostTokens(clock, 5.0).take("a.example")
    assert clock.sleepers == 0


async def test_requests_to_one_host_start_apart_and_in_order() -> None:
    clock, order = FakeClock(monotonic_s=0.0), list[int]()
    tokens = HostTokens(clock, 5.0)

    async def ask(number: int) -> None:
        await tokens.take("a.example")
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(ask(number))
        await settle()
        assert order == [0]
        await clock.advance(4.999)
        assert order == [0]
        await clock.advance(0.001)
        assert order == [0, 1]
        await clock.advance(10.0)
    assert order == [0, 1, 2, 3]


async def test_hosts_do_not_wait_for_each_other_and_case_and_final_dot_do_not_matter() -> None:
    clock = FakeClock()
    tokens = HostTokens(clock, 5.0)
    await tokens.take("a.example")
    await tokens.take("b.example")
    waiting = asyncio.create_task(tokens.take("A.Example."), name="same host")
    await settle()
    assert clock.sleepers == 1
    await clock.advance(5.0)
    await waiting


async def test_a_call_may_ask_for_more_spacing_but_not_for_less() -> None:
    clock, log = FakeClock(monotonic_s=0.0), list[tuple[str, float]]()
    tokens = HostTokens(clock, 5.0)
    async with asyncio.TaskGroup() as group:
        for gap_s in (0.0, 20.0, 1.0):
            group.create_task(_grant(tokens, clock, "a", log, gap_s))
        await clock.advance(30.0)
    assert log == [("a", 0.0), ("a", 20.0), ("a", 25.0)]


async def test_another_process_has_its_turn_after_the_request_before_was_sent() -> None:
    clock, given = FakeClock(monotonic_s=0.0), list[float]()
    tokens = HostTokens(clock, 5.0)

    async def give() -> None:
        await tokens.give("A")
        given.append(clock.monotonic_s())

    with await tokens.enter("a") as turn:
        waiting = asyncio.create_task(give())
        await settle()
        await clock.advance(7.0)  # it connects slowly
        assert given == []
        turn.sent()
        await settle()
        await clock.advance(5.0)
        await waiting
    assert given == [12.0]


async def test_a_cancelled_caller_spends_nothing() -> None:
    clock, log = FakeClock(monotonic_s=0.0), list[tuple[str, float]]()
    tokens = HostTokens(clock, 5.0)
    await tokens.take("a")
    first = asyncio.create_task(_grant(tokens, clock, "a", log), name="first")
    second = asyncio.create_task(_grant(tokens, clock, "a", log), name="second")
    await settle()
    first.cancel()
    await clock.advance(5.0)
    await second
    assert log == [("a", 5.0)]


async def test_idle_hosts_are_forgotten_and_busy_ones_are_not() -> None:
    clock = FakeClock()
    tokens = HostTokens(clock, 5.0, idle_s=60.0)
    for number in range(1024):
        await tokens.take(f"old{number}.example")
    await clock.advance(61.0)
    await tokens.take("busy.example")
    assert len(tokens) == 1
    for number in range(3000):
        await tokens.take(f"new{number}.example")
    assert len(tokens) == 3001


async def test_a_host_somebody_waits_for_is_not_forgotten() -> None:
    clock, log = FakeClock(monotonic_s=0.0), list[tuple[str, float]]()
    tokens = HostTokens(clock, 5.0, idle_s=5.0)
    await tokens.take("busy")
    waiting = asyncio.create_task(_grant(tokens, clock, "busy", log), name="woken late")
    await settle()
    clock._monotonic_s = 100.0  # the loop was stuck: the waiter is due but has not run yet
    for number in range(1030):
        await tokens.take(f"other{number}")
    late = asyncio.create_task(_grant(tokens, clock, "busy", log), name="late")
    await clock.advance(60.0)
    await asyncio.gather(waiting, late)
    assert log == [("busy", 100.0), ("busy", 105.0)]


async def _hold(tokens: HostTokens, host: str, log: list[str], name: str, release: asyncio.Event) -> None:
    async with tokens.turn(host):
        log.append(name)
        await release.wait()


async def test_one_turn_at_a_time_in_order_and_hosts_do_not_wait_for_each_other() -> None:
    tokens, log, first, rest = HostTokens(FakeClock(), 0.0), list[str](), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_hold(tokens, "a.example", log, "a1", first))
        group.create_task(_hold(tokens, "A.Example.", log, "a2", rest))
        group.create_task(_hold(tokens, "a.example", log, "a3", rest))
        group.create_task(_hold(tokens, "b.example", log, "b1", rest))
        await settle()
        assert log == ["a1", "b1"]
        rest.set()
        await settle()
        assert log == ["a1", "b1"]
        first.set()
    assert log == ["a1", "b1", "a2", "a3"]


async def test_several_turns_at_once_where_they_are_allowed() -> None:
    tokens, log, release = HostTokens(FakeClock(), 0.0, concurrency=2), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(_hold(tokens, "h", log, name, release))
        await settle()
        assert log == ["a", "b"]
        release.set()
    assert log == ["a", "b", "c"]


async def test_turns_at_once_are_spaced_by_when_their_requests_leave_however_slowly_they_connect() -> None:
    clock, sent = FakeClock(monotonic_s=0.0), list[float]()
    tokens = HostTokens(clock, 5.0, concurrency=3)

    async def ask(connect_s: float) -> None:
        with await tokens.enter("h") as turn:
            await clock.sleep(connect_s)
            turn.sent()
            sent.append(clock.monotonic_s())
            await clock.sleep(100.0)  # they are answered while others are sent

    async with asyncio.TaskGroup() as group:
        group.create_task(ask(20.0))
        group.create_task(ask(18.0))
        group.create_task(ask(1.0))
        await clock.advance(60.0)
        assert sent == [20.0, 43.0, 49.0]
        await clock.advance(200.0)


async def test_a_request_that_never_leaves_lets_the_next_one_go() -> None:
    tokens = HostTokens(FakeClock(), 0.0, concurrency=2)
    with pytest.raises(ZeroDivisionError), await tokens.enter("h"):
        raise ZeroDivisionError
    with await tokens.enter("h"):
        waiting = asyncio.create_task(tokens.enter("h"), name="waits for the request to leave")
        await settle()
        waiting.cancel()
    with await tokens.enter("h") as turn:
        turn.sent()
        with await tokens.enter("h"):
            pass


async def test_a_token_alone_does_not_wait_for_turns() -> None:
    tokens, log, release = HostTokens(FakeClock(), 0.0), list[str](), asyncio.Event()
    holding = asyncio.create_task(_hold(tokens, "h", log, "holder", release), name="holder")
    await settle()
    await tokens.take("h")
    release.set()
    await holding


async def test_turns_are_spaced_as_tokens_are() -> None:
    clock, starts = FakeClock(monotonic_s=0.0), list[float]()
    tokens = HostTokens(clock, 5.0)

    async def ask(spacing_s: float) -> None:
        async with tokens.turn("h", spacing_s):
            starts.append(clock.monotonic_s())

    async with asyncio.TaskGroup() as group:
        for spacing_s in (0.0, 20.0, 0.0):
            group.create_task(ask(spacing_s))
        await clock.advance(60.0)
    assert starts == [0.0, 20.0, 25.0]


async def test_a_turn_comes_back_from_an_error_from_a_holder_and_from_a_waiter_who_are_cancelled() -> None:
    clock, log, never = FakeClock(), list[str](), asyncio.Event()
    tokens = HostTokens(clock, 5.0)
    with pytest.raises(ZeroDivisionError):
        async with tokens.turn("h"):
            raise ZeroDivisionError
    spaced = asyncio.create_task(_hold(tokens, "h", log, "spaced", never), name="waits for the token")
    queued = asyncio.create_task(_hold(tokens, "h", log, "queued", never), name="waits for the turn")
    await settle()
    queued.cancel()
    spaced.cancel()
    await settle()
    holder = asyncio.create_task(_hold(tokens, "h", log, "holder", never), name="holds the turn")
    await clock.advance(5.0)
    holder.cancel()
    last = asyncio.create_task(_hold(tokens, "h", log, "last", never), name="last")
    await clock.advance(5.0)
    assert log == ["holder", "last"]
    last.cancel()
    await asyncio.gather(spaced, queued, holder, last, return_exceptions=True)


async def test_a_host_whose_turn_is_held_is_not_forgotten() -> None:
    clock, log, release = FakeClock(), list[str](), asyncio.Event()
    tokens = HostTokens(clock, 0.0, idle_s=1.0)
    holding = asyncio.create_task(_hold(tokens, "busy", log, "holder", release), name="holder")
    await settle()
    await clock.advance(100.0)
    for number in range(1100):
        await tokens.take(f"other{number}")
    waiting = asyncio.create_task(_hold(tokens, "busy", log, "waiter", release), name="waiter")
    await settle()
    assert log == ["holder"]
    release.set()
    await asyncio.gather(holding, waiting)


async def test_who_waits_for_others_in_vain_gives_the_turn_back() -> None:
    clock, asked = FakeClock(), list[tuple[str, float]]()
    tokens = HostTokens(clock, 0.0)

    async def fail(host: str, spacing_s: float) -> None:
        asked.append((host, spacing_s))
        raise ZeroDivisionError

    with tokens.share(fail):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await tokens.enter("A.example.", 3.0)
            await clock.advance(3.0)
    with await tokens.enter("a.example"):
        assert asked == [("a.example", 3.0)] * 2


@examples(60)
@given(
    asks=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.3, 2.0, 7.5]), st.sampled_from([0.0, 3.0])),
        max_size=25,
    )
)
def test_grants_of_a_host_are_never_closer_than_the_spacing(asks: list[tuple[str, float, float]]) -> None:
    asyncio.run(_check_spacing(asks))


async def _check_spacing(asks: list[tuple[str, float, float]]) -> None:
    clock, log = FakeClock(monotonic_s=0.0), list[tuple[str, float]]()
    tokens = HostTokens(clock, 1.0)
    async with asyncio.TaskGroup() as group:
        for host, pause_s, gap_s in asks:
            await clock.advance(pause_s)
            group.create_task(_grant(tokens, clock, host, log, gap_s))
        await clock.advance(200.0)
    grants: dict[str, list[float]] = defaultdict(list)
    for host, at_s in log:
        grants[host].append(at_s)
    assert len(log) == len(asks)
    for times in grants.values():
        assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in itertools.pairwise(times))
