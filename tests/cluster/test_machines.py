"""Several machines, some of which are killed, stopped or cut off: nothing is lost, nothing comes twice."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from proxyd.cluster.link import ClusterSettings, Received, open_link
from proxyd.cluster.messages import ANSWERS, CALL
from tests.acceptance.support import PATIENCE_S, Daemon, eventually
from tests.cluster import support
from tests.cluster.hosts import Hosts, hosts
from tests.cluster.relay import relay
from tests.cluster.support import LEASE_S, Cluster, cluster
from tests.servers import PostgresServer, postgres_server

pytestmark = pytest.mark.usefixtures("measured")
HOSTS = 12
SLOW_S = 0.3


@asynccontextmanager
async def working(
    folder: Path,
    postgresql: PostgresServer,
    *roles: str,
    delay_s: float = 0.0,
    leases: Sequence[str] = (),
    many_endpoints: bool = False,
    nats_of: Mapping[str, str] = MappingProxyType({}),
    **settings: str,
) -> AsyncIterator[tuple[Cluster, Hosts]]:
    """Yield a cluster whose machines know every host, and whose webhooks are confirmed.

    ``leases`` are theirs, ``nats_of`` the NATS servers of each role.
    """
    async with hosts(HOSTS, delay_s) as origin, cluster(folder, postgresql, **settings) as machines:
        hook = machines.receiver.url("each")
        machines.declare(origin.texts_of_many(hook) if many_endpoints else origin.texts(hook))
        for number, role in enumerate(roles):
            own = {"nats": nats_of[role]} if nats_of else {}
            await machines.machine(role, **own, **({"lease": leases[number]} if leases else {}))
        await delivered(machines, origin)
        yield machines, origin


async def delivered(machines: Cluster, origin: Hosts, *, within_s: float = PATIENCE_S) -> None:
    """Publish an item on every host and wait until each was notified, once."""
    await known(machines, origin)
    wanted = len(machines.receiver.guids("each")) + HOSTS
    origin.publish()
    await machines.receiver.received("each", wanted, timeout_s=within_s)
    exactly_once(machines, origin)


async def known(machines: Cluster, origin: Hosts) -> None:
    """Wait until every host was asked once more: what comes then is news."""
    before = dict(origin.answered)
    await eventually(
        lambda: all(origin.answered[name] > before.get(name, 0) + 1 for name in origin.names),
        "every host is asked",
        state=lambda: [machine.log[-1500:] for machine in machines.machines],
    )


def exactly_once(machines: Cluster, origin: Hosts) -> None:
    """Fail where an item was not notified or twice, a signature was wrong, or two asked a host at once."""
    machines.receiver.check()
    published = [guid for feed in origin.feeds.values() for guid in feed.guids]
    assert sorted(machines.receiver.guids("each")) == sorted(published)
    assert origin.in_turn, origin.most_at_once


async def recovers(machines: Cluster, origin: Hosts, fault: Callable[[], Awaitable[None]]) -> None:
    """Cause a fault while items come; everything must be delivered, and probes go on, within two leases if measured."""
    wanted = len(machines.receiver.guids("each")) + 2 * HOSTS
    origin.publish()
    await fault()
    since_s = time.monotonic()
    origin.publish()
    before = dict(origin.answered)
    await eventually(
        lambda: sum(origin.answered[name] > before.get(name, 0) for name in origin.names) > HOSTS // 2,
        "most hosts are asked again",
        state=lambda: [machine.log[-1500:] for machine in machines.machines],
    )
    passed_s = time.monotonic() - since_s
    assert not support.is_measured or passed_s < 2.0 * LEASE_S + 1.0  # and a second to begin with
    await machines.receiver.received("each", wanted)
    await known(machines, origin)
    exactly_once(machines, origin)


async def share(*planners: Daemon, evenly: bool = True) -> None:
    """Wait until each source has a planner, and none has all unless it is alone, or not ``evenly``."""

    async def do() -> bool:
        try:
            planned = [await machine.metric("proxyd_planned_sources") for machine in planners]
        except OSError:  # one does not listen yet
            return False
        return sum(planned) == HOSTS and (max(planned) < HOSTS or len(planned) == 1 or not evenly)

    await eventually(do, "they share the sources", state=lambda: [each.log[-2500:] for each in planners])


async def test_the_machines_share_the_work_and_every_item_is_told_once(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "prober", "notifier") as (machines, origin):
        await delivered(machines, origin)
        made = [await m.metric('proxyd_batches_total{result="made"}') for m in machines.machines[1:3]]
        assert min(made) > 0
        for machine in machines.machines:
            await machine.stop()
        exactly_once(machines, origin)


@pytest.mark.long
async def test_a_prober_killed_while_it_holds_batches(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "prober", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, delay_s=SLOW_S) as (machines, origin):
        victim = machines.machines[1]

        async def kill() -> None:
            origin.delay_s = LEASE_S  # what it is killed in lasts longer than killing it
            await victim.metric_reaches("proxyd_prober_hosts", HOSTS // 4)
            await victim.kill()
            origin.delay_s = SLOW_S

        await recovers(machines, origin, kill)
        await machines.machines[0].metric_reaches("proxyd_lost_probes_total", 1)


@pytest.mark.long
async def test_machines_that_have_different_leases_never_ask_a_host_at_once(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    leases = (f"{LEASE_S:g}s", "60s", "1s", "10s")
    roles = ("planner", "prober", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, delay_s=SLOW_S, leases=leases) as (machines, origin):
        for victim in machines.machines[1:3]:

            async def freeze(victim: Daemon = victim) -> None:
                await victim.metric_reaches("proxyd_prober_hosts", 2)
                victim.signal(signal.SIGSTOP)  # what it has begun ends at the origin before its hold does

            await recovers(machines, origin, freeze)
            victim.signal(signal.SIGCONT)
            await delivered(machines, origin)


@pytest.mark.long
async def test_messages_that_come_again_or_are_forged_do_nothing(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "prober", "prober", "notifier")
    async with AsyncExitStack() as stack:
        machines, origin = await stack.enter_async_context(working(tmp_path, postgresql, *roles))
        rogue = await stack.enter_async_context(open_link(ClusterSettings([machines.nats.url], "rogue")))
        await eventually(lambda: rogue.is_up, "it is connected")
        heard: list[Received] = []
        async with rogue.heeding("proxyd.>", heard.append):
            await rogue.send(CALL)
            await delivered(machines, origin)
        answer = ANSWERS.read(next(each.data for each in heard if each.last_word == "answer"))
        for prober in {each.subject.rpartition(".")[0] for each in heard if each.last_word == "batch"}:
            for term in (0, answer.term + 1, 99_999_999_999):
                forged = replace(answer, term=term)
                await rogue.send(f"{prober}.answer", ANSWERS.write(forged))
                await rogue.send(f"{prober}.answer", ANSWERS.write(replace(forged, echo_s=None)))
        for each in heard:
            await rogue.send(each.subject, each.data)
            await rogue.send(each.subject, b"no message")
        await delivered(machines, origin)


@pytest.mark.long
async def test_a_prober_in_a_wrong_network_is_put_aside(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "notifier") as (machines, origin):
        planner, wrong = machines.machines[0], await machines.machine("prober", allow_networks="10.99.0.0/16")
        name = f"{socket.gethostname()}:{wrong.pid}"
        await eventually(
            lambda: "a prober is put aside" in planner.log and "put aside: this prober fails" in wrong.log,
            "both have said it",
            state=lambda: [machine.log[-1500:] for machine in machines.machines],
        )
        assert f'"prober": "{name}"' in planner.log
        await delivered(machines, origin)
        assert await planner.metric(f'proxyd_prober_aside{{prober="{name}"}}') == 1.0


async def test_a_planner_killed_at_work(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "planner", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, delay_s=SLOW_S) as (machines, origin):
        victim, other = machines.machines[:2]
        await share(victim, other)
        await recovers(machines, origin, victim.kill)
        await share(other)


@pytest.mark.long
async def test_a_planner_that_reaches_no_prober_has_no_sources_until_it_does(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "notifier") as (machines, origin):
        first = machines.machines[0]
        async with relay(None) as way:
            other = await machines.machine("planner", nats=f"nats://127.0.0.1:{way.port}")
            await eventually(lambda: '"event": "running"' in other.log, "it runs", state=lambda: other.log)
            await delivered(machines, origin)
            assert [await each.metric("proxyd_planned_sources") for each in (first, other)] == [HOSTS, 0]
            way.lead_to(machines.nats.port)
            await share(first, other)
            await delivered(machines, origin)
            way.lead_to(None)
            await first.metric_reaches("proxyd_planned_sources", HOSTS)
            await delivered(machines, origin)
            way.lead_to(machines.nats.port)
            await share(first, other)


@pytest.mark.long
async def test_a_planner_that_was_taken_for_dead_comes_back(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "planner", "prober", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, delay_s=SLOW_S) as (machines, origin):
        victim, other = machines.machines[:2]
        await share(victim, other)

        async def freeze() -> None:
            victim.signal(signal.SIGSTOP)

        await recovers(machines, origin, freeze)
        await share(other)
        victim.signal(signal.SIGCONT)
        await delivered(machines, origin)
        await eventually(lambda: "lost leadership" in victim.log, "it has noticed", state=lambda: victim.log)
        await share(victim, other)
        await delivered(machines, origin)


@pytest.mark.long
async def test_planners_and_their_prober_end_together(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "planner", "planner", "prober", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, delay_s=SLOW_S) as (machines, origin):
        (*victims, other), prober = machines.machines[:3], machines.machines[3]
        await share(*victims, other)

        async def kill() -> None:
            origin.delay_s = LEASE_S / 2.0  # what they are killed in lasts longer than killing them
            await prober.metric_reaches("proxyd_prober_hosts", 2)
            for each in (*victims, prober):
                await each.kill()
            origin.delay_s = SLOW_S

        await recovers(machines, origin, kill)
        await share(other)


@pytest.mark.long
async def test_planners_come_and_go_under_load(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "prober", "notifier") as (machines, origin):
        first = machines.machines[0]
        origin.publish(5)
        second = await machines.machine("planner")
        await share(first, second)
        origin.publish(5)
        await first.stop()
        origin.publish(5)
        await share(second)
        await machines.receiver.received("each", len([g for feed in origin.feeds.values() for g in feed.guids]))
        exactly_once(machines, origin)


@pytest.mark.long
@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
async def test_machines_whose_clocks_are_wrong_tell_every_item_once_and_at_once(
    tmp_path: Path, postgresql: PostgresServer, off_s: float
) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "notifier") as (machines, origin):
        right = machines.machines[0]
        wrong = [await machines.machine(role, off_s=str(off_s)) for role in ("planner", "prober", "notifier")]
        await share(right, wrong[0])
        await delivered(machines, origin)
        for each in machines.machines[:3]:
            await each.stop()
        await delivered(machines, origin)
        await eventually(lambda: "the machine's clock is wrong" in wrong[0].log, "the clock is noticed")
        assert await wrong[0].metric("proxyd_clock_off_seconds") == pytest.approx(off_s, abs=1.0)
        await wrong[0].kill()
        successor = await machines.machine("planner")
        await share(successor)
        await delivered(machines, origin)


async def test_a_notifier_killed_at_work(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with notifying(tmp_path, postgresql) as (machines, origin, (victim, _)):
        await recovers(machines, origin, victim.kill)


@pytest.mark.long
async def test_a_notifier_frozen_and_thawed(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with notifying(tmp_path, postgresql) as (machines, origin, (victim, _)):

        async def freeze() -> None:
            victim.signal(signal.SIGSTOP)

        await recovers(machines, origin, freeze)
        victim.signal(signal.SIGCONT)
        await delivered(machines, origin)


@pytest.mark.long
async def test_notifiers_come_and_go_under_load(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with notifying(tmp_path, postgresql) as (machines, origin, (first, _)):
        origin.publish(20)
        third = await machines.machine("notifier")
        await third.started()
        origin.publish(20)
        await first.stop()
        await machines.receiver.received("each", len([g for feed in origin.feeds.values() for g in feed.guids]))
        exactly_once(machines, origin)
        at_each = [each.webhook_id for each in machines.receiver.arrivals["each"]]
        assert len(at_each) == len(set(at_each))  # nothing was sent twice either


@asynccontextmanager
async def notifying(
    folder: Path, postgresql: PostgresServer
) -> AsyncIterator[tuple[Cluster, Hosts, tuple[Daemon, Daemon]]]:
    """Yield a cluster, its origin, and two notifiers; each rule has an endpoint of its own."""
    roles = ("planner", "prober", "notifier", "notifier")
    async with working(folder, postgresql, *roles, many_endpoints=True) as (machines, origin):
        first, second = machines.machines[2:]
        for each in (first, second):
            await each.metric_reaches('proxyd_role_active{role="notifier"}', 1)
        yield machines, origin, (first, second)


@pytest.mark.long
async def test_nats_is_restarted(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with working(tmp_path, postgresql, "planner", "prober", "prober", "notifier") as (machines, origin):

        async def restart() -> None:
            machines.nats.stop()
            machines.nats.start()

        await recovers(machines, origin, restart)


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [pytest.param(signal.SIGQUIT, id="in a crash"), pytest.param(signal.SIGINT, id="in order", marks=pytest.mark.long)],
)
async def test_postgresql_is_restarted(tmp_path: Path, how: signal.Signals) -> None:
    with postgres_server() as server:
        async with working(tmp_path, server, "planner", "prober", "notifier") as (machines, origin):

            async def restart() -> None:
                server.stop(how)
                server.start()

            await recovers(machines, origin, restart)


@pytest.mark.long
async def test_one_machine_does_everything_and_another_takes_over(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with working(tmp_path, postgresql, "all", "all") as (machines, origin):
        victim, other = machines.machines
        await share(victim, other)
        await recovers(machines, origin, victim.kill)
        await share(other)


@pytest.mark.long
async def test_the_budget_holds_when_the_first_prober_comes(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(300) as origin, cluster(tmp_path, postgresql, budget="20/s", chronon="1s") as machines:
        machines.declare(origin.texts(machines.receiver.url("each"), "UNIFORM(5 SECONDS)"))
        planner = await machines.machine("planner")
        await planner.started()
        await planner.metric_reaches("proxyd_budget_probes_total", 200)
        prober = await machines.machine("prober")
        await eventually(lambda: len(origin.asked) > 150, "the probers work")
        prober.signal(signal.SIGSTOP)
        planned = await planner.metric("proxyd_budget_probes_total")
        await planner.metric_reaches("proxyd_budget_probes_total", planned + 100)
        prober.signal(signal.SIGCONT)
        before = len(origin.asked)
        await eventually(lambda: len(origin.asked) > before + 150, "they work again")
        assert origin.most_within(1.0) <= 30  # what a chronon allows, and what waited for a quarter of one


@pytest.mark.long
async def test_forty_thousand_sources_at_a_short_lease_begin_and_go_on(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    settings = {"lease": "5s", "budget": "500/s", "chronon": "1s", "host_spacing": "0s"}
    async with hosts(400, pages=100) as origin, cluster(tmp_path, postgresql, **settings) as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        planners = [await machines.machine("planner") for _ in range(2)]
        await machines.machine("prober")
        await eventually(
            lambda: len({url for _, url in origin.asked}) > 5_000,
            "sources are asked",
            timeout_s=4 * PATIENCE_S,
            state=lambda: [machine.log[-1500:] for machine in machines.machines],
        )
        for each in planners:
            assert "lost leadership" not in each.log
            assert each.log.count('"event": "sharing the work"') == 1
