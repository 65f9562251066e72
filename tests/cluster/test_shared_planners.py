"""Planners over one PostgreSQL share the sources; whatever happens to one, nothing is lost, and nothing comes twice."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, eventually
from tests.acceptance.test_upgrades import MIGRATED
from tests.cluster.hosts import Hosts, hosts
from tests.cluster.support import Cluster, cluster
from tests.cluster.test_machines import delivered, exactly_once, known, recovers, share
from tests.next_version import make_next_version
from tests.servers import PostgresServer

HOSTS = 12


@asynccontextmanager
async def planning(folder: Path, postgresql: PostgresServer, planners: int) -> AsyncIterator[tuple[Cluster, Hosts]]:
    """Yield a cluster of planners without NATS that know every host, and share them."""
    async with hosts(HOSTS) as origin, cluster(folder, postgresql, nats="") as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        for _ in range(planners):
            await machines.machine("all")
        await share(*machines.machines)
        await delivered(machines, origin)
        yield machines, origin


TEXT = {"Content-Type": "text/plain"}


async def is_planned(asked: Daemon, token: str, name: str) -> bool:
    status, _, explained = await asked.request("GET", f"/api/v1/explain/{name}", token=token)
    return status == 200 and bool(explained["next_probe"])


async def first_of(machines: Cluster) -> tuple[Daemon, list[Daemon]]:
    """Return the planner that looks after the declaration, and the others."""
    (first,) = [each for each in machines.machines if "this planner looks after the declaration" in each.log]
    return first, [each for each in machines.machines if each is not first]


async def test_planners_share_and_every_item_is_told_once(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with planning(tmp_path, postgresql, 2) as (machines, origin):
        await delivered(machines, origin)
        more = await machines.machine("all")
        await share(*machines.machines)
        await delivered(machines, origin)
        await more.stop()
        machines.machines.remove(more)
        await share(*machines.machines)
        await delivered(machines, origin)
        for machine in machines.machines:
            await machine.stop()
        exactly_once(machines, origin)


@pytest.mark.parametrize(
    "other", [pytest.param({"nats": ""}, marks=pytest.mark.long), {}], ids=["without NATS", "with NATS"]
)
async def test_a_host_to_which_redirects_lead_is_asked_in_turn_by_all(
    tmp_path: Path, postgresql: PostgresServer, other: dict[str, str]
) -> None:
    settings = {"host_spacing": "1s", "budget": "20/s", **other}
    async with hosts(HOSTS) as origin, cluster(tmp_path, postgresql, **settings) as machines:
        origin.leads_to = origin.names[0]
        machines.declare(origin.texts(machines.receiver.url("each"), "UNIFORM(2 SECONDS)"))
        for _ in range(2):
            await machines.machine("all")
        await share(*machines.machines)

        def asked_s() -> list[float]:
            return [at_s for at_s, url in origin.asked if url.host == origin.leads_to]

        began = len(asked_s())
        await eventually(lambda: len(asked_s()) >= began + 12, "twelve requests have come")
        first, *_, last = asked_s()[began : began + 12]
        assert last - first > 9.0  # twelve turns of one second; half of that if each planner spaced its own


@pytest.mark.long
@pytest.mark.parametrize("which", ["first", "other"])
async def test_a_planner_killed(tmp_path: Path, postgresql: PostgresServer, which: str) -> None:
    async with planning(tmp_path, postgresql, 3) as (machines, origin):
        first, others = await first_of(machines)
        victim = first if which == "first" else others[0]

        async def kill() -> None:
            await victim.kill()
            machines.machines.remove(victim)

        await recovers(machines, origin, kill)
        await share(*machines.machines, evenly=False)  # shards are shared evenly; so few hosts may all be in one half
        await delivered(machines, origin)


@pytest.mark.long
@pytest.mark.parametrize("which", ["first", "other"])
async def test_a_planner_frozen_and_thawed(tmp_path: Path, postgresql: PostgresServer, which: str) -> None:
    async with planning(tmp_path, postgresql, 3) as (machines, origin):
        first, others = await first_of(machines)
        victim = first if which == "first" else others[0]
        machines.machines.remove(victim)

        async def freeze() -> None:
            victim.signal(signal.SIGSTOP)

        await recovers(machines, origin, freeze)
        victim.signal(signal.SIGCONT)
        machines.machines.append(victim)
        await share(*machines.machines, evenly=False)
        await delivered(machines, origin)


@pytest.mark.long
async def test_what_is_declared_is_planned_by_whoever_has_it(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with planning(tmp_path, postgresql, 2) as (machines, origin):
        first, (other,) = await first_of(machines)
        token = (await first.cli("token", "create", "--name", "me", "--scope", "write")).out.strip()
        for asked in (first, other):
            status, _, listed = await asked.request("GET", "/api/v1/sources", token=token)
            assert (status, sum(each["next_probe"] is not None for each in listed["items"])) == (200, HOSTS)
            for name in origin.names:
                status, _, explained = await asked.request("GET", f"/api/v1/explain/{name}", token=token)
                assert (status, bool(explained["next_probe"])) == (200, True)
        status, _, probed = await other.request("POST", "/api/v1/probe", token=token, json={"name": "each"})
        assert (status, len(probed["items"])) == (200, HOSTS)
        paused = origin.names[0]
        status, _, _ = await other.request("POST", "/api/v1/pause", token=token, json={"source": paused})
        assert status == 200
        await eventually(lambda: sum_is(machines, HOSTS - 1), "the source is paused")
        status, _, _ = await first.request("POST", "/api/v1/resume", token=token, json={"source": paused})
        assert status == 200
        await share(*machines.machines)
        await known(machines, origin)


@pytest.mark.long
async def test_owners_ask_any_planner_of_theirs_by_the_names_they_write(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    async with planning(tmp_path, postgresql, 2) as (machines, origin):
        first, (other,) = await first_of(machines)
        made = await first.cli("token", "create", "--name", "kids", "--scope", "write", "--profile", "Kids")
        theirs = made.out.strip()
        text = "".join(f"WATCH 'http://{name}:{origin.port}/' AS \"their {name}\";\n" for name in origin.names)
        status, _, _ = await first.request("POST", "/api/v1/profiles", token=theirs, data=text, headers=TEXT)
        assert status == 201
        for asked in (first, other):
            status, _, listed = await asked.request("GET", "/api/v1/sources", token=theirs)
            assert (status, len(listed["items"])) == (200, HOSTS)
            for name in [each["source"] for each in listed["items"]]:
                await eventually(partial(is_planned, asked, theirs, name), "its planner answers its owner")
                status, _, probed = await asked.request("POST", "/api/v1/probe", token=theirs, json={"name": name})
                assert (status, [each["source"] for each in probed["items"]]) == (200, [name])


@pytest.mark.long
async def test_one_of_several_planners_upgrades_and_nothing_is_lost(tmp_path: Path, postgresql: PostgresServer) -> None:
    code = make_next_version(tmp_path / "next")
    async with planning(tmp_path, postgresql, 2) as (machines, origin):
        for old in machines.machines:
            await old.stop()
        machines.machines.clear()
        origin.publish()
        for _ in range(2):
            await machines.machine("all", code=code)
        await share(*machines.machines)
        assert sum(each.log.count(MIGRATED) for each in machines.machines) == 1
        await machines.receiver.received("each", 2 * HOSTS)
        await delivered(machines, origin)


@pytest.mark.long
async def test_processes_of_one_machine_share_the_sources(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(HOSTS) as origin, cluster(tmp_path, postgresql, nats="") as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        machine = await machines.machine("all", prefix=("env",), planners="3")
        for number in (1, 2):
            beside = copy(machine)
            beside.port += number
            machines.machines.append(beside)
        await share(*machines.machines)
        await delivered(machines, origin)
        children = planners_of(machine.pid)
        os.kill(children[0], signal.SIGKILL)
        await eventually(lambda: "is started again" in machine.log, "it is noticed", state=lambda: machine.log[-2000:])
        await share(*machines.machines)
        await delivered(machines, origin)
        await machine.stop()
        await eventually(lambda: not any(map(is_there, children)), "all have ended")


def planners_of(pid: int) -> list[int]:
    """Return the planner processes that a process has started: those that have parsers of their own."""
    return [each for each in children_of(pid) if children_of(each)]


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for thread in threads for each in thread.read_text().split()]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def sum_is(machines: Cluster, planned: int) -> bool:
    return sum([await each.metric("proxyd_planned_sources") for each in machines.machines]) == planned
