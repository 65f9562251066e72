"""Machines whose cable is pulled: they go on believing in themselves, and nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, eventually
from tests.cluster.hosts import Hosts, hosts
from tests.cluster.networks import Network, network
from tests.cluster.support import LEASE_S, Cluster, cluster
from tests.cluster.test_machines import SLOW_S, delivered, recovers
from tests.servers import PostgresServer, postgres_server

pytestmark = pytest.mark.usefixtures("measured")


@pytest.fixture
def cables() -> Iterator[Network]:
    with network() as made:
        yield made


@asynccontextmanager
async def working(
    folder: Path, cables: Network, inside: str, *outside: str, delay_s: float = 0.0
) -> AsyncIterator[tuple[Cluster, Hosts, Daemon]]:
    """Yield a cluster, its origin, and the one machine that is inside a network of its own."""
    with postgres_server("0.0.0.0") as server:
        async with (
            hosts(cables.hosts, delay_s) as origin,
            cluster(folder, server, nats_host="0.0.0.0", allow_networks="10.0.0.0/8,127.0.0.0/8") as machines,
        ):
            machines.declare(origin.texts(machines.receiver.url("each")))
            far = {"database": reached(server, machines, cables), "nats": machines.nats.url_at(cables.servers)}
            victim = await machines.machine(inside, prefix=cables.prefix, address=cables.inside, **far)
            await victim.started()
            for role in outside:
                await machines.machine(role)
            await delivered(machines, origin)
            yield machines, origin, victim


def reached(server: PostgresServer, machines: Cluster, cables: Network) -> str:
    return machines.database.replace("127.0.0.1", cables.servers)


@pytest.mark.long
async def test_a_planner_cut_off_from_the_servers(tmp_path: Path, cables: Network) -> None:
    async with working(tmp_path, cables, "planner", "planner", "prober", "notifier") as (machines, origin, victim):

        async def pull() -> None:
            cables.pull_servers()

        await recovers(machines, origin, pull)
        await eventually(lambda: "lost leadership" in victim.log, "it has noticed", state=lambda: victim.log)


@pytest.mark.long
async def test_a_prober_that_still_reaches_origins_but_no_server(tmp_path: Path, cables: Network) -> None:
    roles = ("planner", "prober", "notifier")
    async with working(tmp_path, cables, "prober", *roles, delay_s=SLOW_S) as (machines, origin, victim):

        async def pull() -> None:
            origin.delay_s = LEASE_S / 2.0
            await victim.metric_reaches("proxyd_prober_hosts", 2)
            cables.pull_servers()
            origin.delay_s = SLOW_S

        await recovers(machines, origin, pull)
        planner = machines.machines[1]
        await planner.metric_reaches("proxyd_lost_probes_total", 1)
