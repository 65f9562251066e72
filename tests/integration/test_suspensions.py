"""Mutes and pauses in a daemon's parts, from the command to the receiver; over edits, restarts and kills."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from proxyd.app.wiring import Built, build
from proxyd.base.ports import Message
from proxyd.config.loading import load
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import Delivery, LogDelivery
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.daemon.suspensions import Suspensions
from proxyd.notify.channels.message_forms import digest
from proxyd.store.backups import open_store
from proxyd.store.listed_rows import Wanted
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, PoissonOrigin, changed, item, rule, source
from tests.integration.api_world import offline_parts, told

T0 = 1_000_000_000.0
KEPT = "what it finds meanwhile is kept, and comes as one digest when it is unmuted"
TEXT = (
    DOMAIN
    + source("a")
    + source("b", host="b.example")
    + rule("r", clauses="SET DELIVERY LOG 'one' SET DELIVERY LOG 'two'")
    + rule("other", clauses="SET DELIVERY LOG 'one'")
    + 'CREATE PROFILE "Q" AS (DOMAIN "D", USER "u");\n'
    + rule("quiet", clauses="SET DELIVERY LOG 'three'").replace('"P"', '"Q"')
)


class Inbox:
    """Keeps what it was sent; it refuses while it is ``closed``."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()

    async def deliver(self, message: Message) -> str:
        self._arrived.put_nowait(message)
        return "taken"

    async def next(self) -> tuple[str, list[str]]:
        """Return the receiver of the next message, and the ids of its notifications."""
        message = await self._arrived.get()
        data = json.loads(message.body)["data"]
        ids = [each["id"] for each in data["notifications"]] if "notifications" in data else [data["id"]]
        return message.endpoint, ids

    @property
    def is_empty(self) -> bool:
        return self._arrived.empty()


@dataclass
class Process:
    """The parts of a daemon between its start and its end."""

    built: Built
    inbox: Inbox
    clock: FakeClock

    @property
    def suspensions(self) -> Suspensions:
        return self.built.queries.suspensions

    async def fire(self, name: str, *endpoints: str, rule_name: str = "r") -> None:
        """Record a notification, as a probe would."""
        deliveries: tuple[Delivery, ...] = tuple(LogDelivery(each) for each in endpoints)
        made = told(name, rule_name=rule_name, at_s=self.clock.time_s())
        sent = Notification(name, rule_name, "a", made.event_s, made.created_s, False, made.body, deliveries)
        await self.built.resources.store.record_results(RuleResults(notifications=(sent,)))
        self.built.news.notify()

    async def states(self, name: str) -> list[str]:
        trace = await self.built.queries.deliveries.trace(name)
        return [each.state for each in trace.notification.deliveries]

    def chosen(self, chronons: int = 2000) -> set[str]:
        """Return the sources that are probed in the coming chronons; nothing is recorded."""
        first = self.built.decider.known.grid.chronon_at(self.clock.time_s()) + 1
        return {p.probe.source_id for n in range(chronons) for p in self.built.decider.choose(first + n).probes}


@dataclass
class World:
    """A folder of profiles and a database, over which processes run one after the other."""

    folder: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(T0))
    inbox: Inbox = field(default_factory=Inbox)

    def write(self, text: str) -> None:
        (self.folder / "profiles").mkdir(exist_ok=True)
        (self.folder / "profiles" / "a.profile").write_text(text, encoding="utf-8")

    @asynccontextmanager
    async def process(self, *, delivers: bool = True) -> AsyncIterator[Process]:
        """Start a process; at the end it is killed, whatever it is doing."""
        settings = load(environ={}, profiles=self.folder / "profiles")
        async with open_store(migrated_file(self.folder / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
            parts = replace(
                offline_parts(settings, store, self.clock, PoissonOrigin({}, self.clock.time_s)), channel=self.inbox
            )
            built = build(settings, parts)
            await built.declarations.start()
            tasks = [asyncio.create_task(built.declarations.suspensions.run())]
            tasks += [asyncio.create_task(built.loops.notifier.run())] if delivers else []
            try:
                yield Process(built, self.inbox, self.clock)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    migrated_file(tmp_path / "p.db")
    made = World(tmp_path)
    made.write(TEXT)
    return made


async def test_each_receiver_gets_one_digest_of_what_a_muted_rule_kept(world: World) -> None:
    async with world.process() as daemon:
        done = await daemon.suspensions.mute("r", "token me")
        assert done.said == f"rule r is muted until it is unmuted; {KEPT}"
        await daemon.fire("n1", "one", "two")
        await daemon.fire("n2", "one", "two")
        await daemon.fire("x", "one", rule_name="other")
        assert await daemon.inbox.next() == ("log:one", ["x"])
        assert await daemon.states("n1") == ["muted", "muted"]
        done = await daemon.suspensions.unmute("r")
        assert done.said.endswith("; 2 kept notifications are sent, as one digest for each receiver")
        await daemon.fire("n3", "one", "two")
        got = [await daemon.inbox.next() for _ in range(4)]
        assert sorted(got[:2]) == [("log:one", ["n1", "n2"]), ("log:two", ["n1", "n2"])]
        assert sorted(got[2:]) == [("log:one", ["n3"]), ("log:two", ["n3"])]
        assert daemon.inbox.is_empty


@pytest.mark.parametrize("is_made", [False, True], ids=["before the digest", "before its delivery"])
async def test_a_kill_after_the_unmute_neither_loses_nor_doubles_anything(world: World, *, is_made: bool) -> None:
    async with world.process(delivers=False) as daemon:
        await daemon.suspensions.mute("r", "token me")
        await daemon.fire("n1", "one")
        await daemon.fire("n2", "one")
        await daemon.suspensions.unmute("r")
        if is_made:
            await daemon.built.resources.store.make_digests(world.clock.time_s(), digest)
        assert daemon.inbox.is_empty
    async with world.process() as daemon:
        assert await daemon.inbox.next() == ("log:one", ["n1", "n2"])
        await daemon.fire("n3", "one")
        assert await daemon.inbox.next() == ("log:one", ["n3"])
    async with world.process() as daemon:
        await daemon.fire("n4", "one")
        assert await daemon.inbox.next() == ("log:one", ["n4"])


async def test_what_is_dropped_at_the_unmute_is_not_sent(world: World) -> None:
    async with world.process() as daemon:
        await daemon.suspensions.mute("r", "token me")
        await daemon.fire("n1", "one", "two")
        done = await daemon.suspensions.unmute("r", drop=True)
        assert (done.said, done.notifications) == ("rule r is no longer muted; 1 kept notification is dropped", 1)
        await daemon.fire("n2", "one")
        assert await daemon.inbox.next() == ("log:one", ["n2"])
        assert await daemon.states("n1") == ["dropped", "dropped"]


async def test_a_mute_whose_time_ends_while_the_daemon_is_down_ends_at_the_start(world: World) -> None:
    async with world.process() as daemon:
        done = await daemon.suspensions.mute("r", "token me", until_s=T0 + 60.0)
        assert "until 2001-09-09T01:47:40.000Z" in done.said
        await daemon.fire("n1", "one")
        await daemon.fire("n2", "one")
    world.clock.jump(3600.0)
    async with world.process() as daemon:
        assert await daemon.inbox.next() == ("log:one", ["n1", "n2"])
        assert daemon.suspensions.all() == []


async def test_a_mute_lasts_over_a_restart_and_an_edit_and_ends_when_its_time_is_over(world: World) -> None:
    async with world.process() as daemon:
        await daemon.suspensions.mute("r", "token me", until_s=T0 + 600.0)
        await daemon.fire("n1", "one")
    world.write(TEXT.replace("SELECT title FROM RSS", "SELECT link FROM RSS"))
    async with world.process() as daemon:
        await daemon.fire("n2", "one")
        await daemon.built.declarations.reload()
        (muted,) = daemon.suspensions.all()
        assert muted.told == "since 2001-09-09T01:46:40.000Z by token me, until 2001-09-09T01:56:40.000Z"
        await world.clock.advance(599.0)
        assert daemon.inbox.is_empty
        await world.clock.advance(2.0)
        assert await daemon.inbox.next() == ("log:one", ["n1", "n2"])


async def test_a_muted_profile_mutes_each_of_its_rules_for_each_receiver(world: World) -> None:
    async with world.process() as daemon:
        await daemon.suspensions.mute("P", "token me")
        await daemon.fire("n1", "one", "two")
        await daemon.fire("n2", "one", rule_name="other")
        await daemon.fire("n3", "one", "two")
        await daemon.fire("q", "three", rule_name="quiet")
        assert await daemon.inbox.next() == ("log:three", ["q"])
        assert daemon.suspensions.mute_of("r", ["P"]) == daemon.suspensions.of(Subject.PROFILE, "P")
        done = await daemon.suspensions.unmute("r")
        assert done.said.startswith("rule r is not muted, but profile P is, since 2001")
        await daemon.suspensions.mute("r", "token me")
        done = await daemon.suspensions.unmute("r")
        assert done.said.startswith("rule r is no longer muted itself, but profile P is, since 2001")
        await daemon.suspensions.unmute("P")
        await daemon.fire("n4", "one", rule_name="other")
        got = [await daemon.inbox.next() for _ in range(3)]
        assert sorted(got[:2]) == [("log:one", ["n1", "n2", "n3"]), ("log:two", ["n1", "n3"])]
        assert got[2] == ("log:one", ["n4"])


async def test_a_rule_that_leaves_a_muted_profile_is_sent_and_a_removed_one_takes_its_mute_along(
    world: World,
) -> None:
    async with world.process() as daemon:
        await daemon.suspensions.mute("Q", "token me")
        await daemon.suspensions.mute("other", "token me")
        await daemon.fire("n1", "three", rule_name="quiet")
        await daemon.fire("n2", "one", rule_name="other")
        gone = rule("other", clauses="SET DELIVERY LOG 'one'")
        world.write(TEXT.replace('INTO "Q"', 'INTO "P"').replace(gone, ""))
        assert await daemon.built.declarations.reload() == ()
        assert await daemon.inbox.next() == ("log:three", ["n1"])
        assert await daemon.states("n2") == ["dead"]
        assert [each.name for each in daemon.suspensions.all()] == ["Q"]
        world.write(TEXT)
        assert await daemon.built.declarations.reload() == ()
        assert [each.name for each in daemon.suspensions.all()] == ["Q"]


async def test_a_paused_source_is_not_probed_not_even_after_a_restart(world: World) -> None:
    async with world.process() as daemon:
        assert daemon.chosen() == {"a", "b"}
        assert (await daemon.suspensions.pause("a", "token me")).said == (
            "source a is paused: it is not probed until it is resumed"
        )
        assert daemon.built.decider.request("a", T0) is None
    world.clock.jump(86400.0)
    async with world.process() as daemon:
        assert daemon.chosen() == {"b"}
        assert (await daemon.built.declarations.reload()) == ()
        explained = daemon.built.queries.plans.explain("a")
        assert explained is not None
        assert (explained.blocked_by, explained.next_probe) == ("it is paused", None)
        assert explained.paused == daemon.suspensions.of(Subject.SOURCE, "a")
        again = await daemon.suspensions.pause("a", "another")
        assert again.said == "source a was already paused, since 2001-09-09T01:46:40.000Z by token me"
        assert (await daemon.suspensions.resume("a")).said == "source a is probed again"
        world.clock.jump(86400.0)
        assert daemon.chosen(20) == {"a"}  # the probe of the other is still under way
        assert (await daemon.suspensions.resume("a")).said == "source a is not paused"


async def test_a_resumed_source_keeps_to_its_budget_and_reports_what_changed_meanwhile(world: World) -> None:
    async with world.process() as daemon:
        decider = daemon.built.decider
        await daemon.built.loops.observer.take_in(changed("a", [item("old", T0 - 100)], T0 + 5.0))
        assert decider.known.states["a"].last_start_s == T0 + 5.0
        await daemon.suspensions.pause("a", "token me")
        assert "a" not in decider.planner.sources
        await daemon.suspensions.resume("a")
        assert decider.planner.sources["a"].log.starts_s == [T0 + 5.0]
        await daemon.built.loops.observer.take_in(
            changed("a", [item("old", T0 - 100), item("new", T0 + 50)], T0 + 90.0)
        )
        found = (
            await daemon.built.queries.history.find_notifications(Wanted(frozenset({"other"})), before=None, limit=9)
        ).rows
        assert [json.loads(each.body)["data"]["items"] for each in found] == [[{"channel.item.title": "new"}]]


async def test_an_unknown_name_gets_the_nearest_and_one_of_two_things_is_asked_for(world: World) -> None:
    world.write(TEXT.replace('"quiet"', '"Q"'))
    async with world.process() as daemon:
        with pytest.raises(NotFoundError, match="no source 'aa'"):
            await daemon.suspensions.pause("aa", "me")
        with pytest.raises(NotFoundError, match=r"no rule or profile 'othr'. Did you mean other\?"):
            await daemon.suspensions.mute("othr", "me")
        with pytest.raises(NotFoundError, match="no profile 'other'"):
            await daemon.suspensions.mute("other", "me", subject=Subject.PROFILE)
        with pytest.raises(ConflictError, match="a rule and a profile are called 'Q'"):
            await daemon.suspensions.mute("Q", "me")
        with pytest.raises(ConflictError, match="has passed"):
            await daemon.suspensions.mute("r", "me", until_s=T0)
        first = await daemon.suspensions.mute("Q", "me", subject=Subject.RULE)
        assert (first.is_new, daemon.suspensions.mute_of("Q", ["Q"])) == (True, first.suspension)
        again = await daemon.suspensions.mute("Q", "you", subject=Subject.RULE, until_s=T0 + 60.0)
        assert again.said.startswith("rule Q was already muted; now until 2001-09-09T01:47:40.000Z; ")
        assert again.suspension is not None
        assert (again.is_new, again.suspension.by) == (False, "me")
        assert (await daemon.suspensions.unmute("other")).said == "rule other is not muted"
