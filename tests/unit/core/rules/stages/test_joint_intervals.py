"""Intervals of several pages between the rule and the plan: who is probed when, and what outlives a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proxyd.base.metrics import Metrics
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import Item
from proxyd.core.model.profile import Declaration, Source
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings, Knowledge
from proxyd.core.rules.stages import captures
from proxyd.probing.prober import LocalTransport
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fakes import FakeClock, settle
from tests.fleets import Drive, PoissonOrigin, changed, item, probe_loop, stream_recall, unchanged

T0 = 1_000_000_000.0
NOW = int(T0 // 10)
TEXT = """CREATE DOMAIN "D" AS
CLASS::REPORT(channel.item.title:String, channel.item.pubDate:Timestamp)
CLASS::QUOTE(symbol:String FROM JSON '$.symbol', last:Decimal FROM JSON '$.last');
CREATE SOURCE "news" OF REPORT AT 'https://news.example/feed';
CREATE SOURCE "acme" OF QUOTE AT 'https://quotes.example/acme';
CREATE SOURCE "beta" OF QUOTE AT 'https://quotes.example/beta';
CREATE PROFILE "P" AS (DOMAIN "D");
INSERT NOTIFICATION "r" INTO "P"
SET QUERY "SELECT r.title, q.last FROM REPORT r JOIN QUOTE q ON q.symbol = r.title WHERE q.symbol = NEW.title"
SET TRIGGER "ON INSERT TO REPORT" START NOW END NEVER SET UTILITY STRICT SET LIFE WINDOW(30);
"""


def declared() -> Declaration:
    checked = check([SourceText("t", TEXT)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


def decider() -> Decider:
    planner = PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0))
    found = Decider(DeciderSettings(planner, source_spacing_s=20.0), np.random.default_rng(1))
    found.declare(declared(), {"r": T0}, T0)
    return found


def quote(symbol: str, last: float) -> Item:
    return Item("page", {"symbol": symbol, "last": last}, None, f"{symbol} {last}")


async def reported() -> Drive:
    """Return a drive in which acme's report was found in chronon 30."""
    drive = Drive(decider())
    await drive.see(changed("news", [item("old", T0 - 50)], T0))
    await drive.see(changed("acme", [quote("acme", 1.5)], T0 + 10))
    await drive.see(changed("beta", [quote("beta", 2.5)], T0 + 20))
    await drive.see(changed("news", [item("acme", T0 + 290), item("old", T0 - 50)], T0 + 300))
    return drive


def test_pages_of_the_query_are_left_alone_until_an_event_asks_for_them() -> None:
    found = decider()
    assert [planned.probe.source_id for planned in found.choose(NOW).probes] == ["news"]
    explained = Explainer.of(found).explain("acme", NOW)
    assert explained is not None
    assert explained.next_probe is None


async def test_an_event_has_the_pages_that_correlate_probed_at_once() -> None:
    drive = await reported()
    chosen = drive.decider.choose(NOW + 31).probes
    assert [(p.probe.source_id, p.probe.reason) for p in chosen] == [("acme", Reason.INTERVAL)]
    for planned in chosen:
        drive.decider.planner.start(planned, planned.start_s)
    seen = await drive.see(unchanged("acme", T0 + 315))
    assert [sent.rule for sent in seen.rules.notifications] == ["r"]
    assert not drive.decider.captures.wanting("acme")
    later = [p.probe.source_id for chronon in range(NOW + 32, NOW + 60) for p in drive.decider.choose(chronon).probes]
    assert "acme" not in later
    assert "beta" not in later


async def test_an_open_interval_outlives_a_restart(tmp_path: Path) -> None:
    drive = await reported()
    observation = drive.memory.observations[-1]
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        await store.record(observation)
        again = decider()
        states, streams = dict(drive.decider.known.states), dict(drive.decider.known.streams)
        again.restore(states, streams, {}, await store.plan.load_joint_intervals())
        again.declare(declared(), {"r": T0}, T0 + 400)
        again.captures.shown.see("acme", [quote("acme", 1.5)])
        resume = Drive(again)
        assert [p.probe.source_id for p in again.choose(NOW + 41).probes] == ["acme"]
        seen = await resume.see(unchanged("acme", T0 + 415))
        assert b'"items":[{"channel.item.title":"acme","last":1.5}]' in seen.rules.notifications[0].body
        await store.record(seen)
        assert await store.plan.load_joint_intervals() == []


async def test_a_stream_that_counted_nothing_goes_on_after_a_restart() -> None:
    drive = await reported()
    again = decider()
    streams = {key: replace(stream, windows=(), pending=()) for key, stream in drive.decider.known.streams.items()}
    again.restore(dict(drive.decider.known.states), streams)
    again.declare(declared(), {"r": T0}, T0 + 400)
    news = changed("news", [item("beta", T0 + 410), item("acme", T0 + 290), item("old", T0 - 50)], T0 + 420)
    resume = Drive(again)
    resume.memory = drive.memory
    assert len((await resume.see(news)).found.events) == 1


async def test_an_interval_of_a_rule_that_is_gone_is_forgotten() -> None:
    drive = await reported()
    drive.decider.declare(replace(declared(), rules={}), {}, T0 + 310)
    assert len(drive.decider.captures.take_orphans()) == 1
    assert drive.decider.captures.take_orphans() == []
    await drive.see(unchanged("acme", T0 + 320))


async def test_an_interval_of_a_page_that_is_taken_out_is_forgotten() -> None:
    drive = await reported()
    text = TEXT.replace("CREATE SOURCE \"acme\" OF QUOTE AT 'https://quotes.example/acme';\n", "")
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None
    drive.decider.declare(checked.declaration, {"r": T0}, T0 + 310)
    assert drive.decider.captures.overdue(T0 + 1e6) == []


async def test_a_page_that_no_probe_saw_in_time_was_missed_unseen() -> None:
    drive = await reported()
    ((interval, needed),) = drive.decider.captures.overdue(T0 + 2 * 86400.0)
    known = await drive.memory.known("news", needed)
    results = await drive.decider.outcomes.end_overdue(interval, known, T0 + 2 * 86400.0)
    assert results is not None
    assert [(each.source_id, each.captured, each.seen) for each in results.intervals] == [("acme", False, False)]


async def test_the_loop_ends_an_interval_that_no_probe_captured_in_time() -> None:
    drive, clock = await reported(), FakeClock(T0 + 2 * 86400.0)
    transport = LocalTransport(PoissonOrigin({"news": [], "acme": [], "beta": []}, clock.time_s))
    loop = probe_loop(drive.decider, transport, drive.memory, clock, Metrics())
    running = asyncio.create_task(loop.run())
    await settle()
    (given_up,) = drive.memory.fired
    assert [(each.source_id, each.captured) for each in given_up.intervals] == [("acme", False)]
    assert not drive.decider.captures.is_overdue(clock.time_s())
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await running


async def test_an_open_interval_sees_after_a_restart_what_its_pages_showed_and_is_deleted_with_its_rule(
    tmp_path: Path,
) -> None:
    drive = await reported()
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        for observation in drive.memory.observations:
            await store.record(observation)
        again = decider()
        known = drive.decider.known
        again.restore(dict(known.states), dict(known.streams), {}, await store.plan.load_joint_intervals())
        again.declare(declared(), {"r": T0}, T0 + 400)
        recall = stream_recall(again, store)
        await recall.refresh_query_rows()
        seen = await Drive(again).see(unchanged("acme", T0 + 415))
        assert b'"items":[{"channel.item.title":"acme","last":1.5}]' in seen.rules.notifications[0].body
        assert len(await store.plan.load_joint_intervals()) == 1  # what was seen is not recorded yet
        later = decider()
        later.restore(dict(known.states), dict(known.streams), {}, await store.plan.load_joint_intervals())
        later.declare(replace(declared(), rules={}), {}, T0 + 430)
        await stream_recall(later, store).refresh_query_rows()
        assert await store.plan.load_joint_intervals() == []


async def test_many_events_at_once_look_at_rates_once_and_at_a_bounded_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drive, looked = await reported(), []
    rate_per_s = Knowledge.rate_per_s

    def counted(self: Knowledge, source: Source, now_s: float) -> float:
        looked.append(source.source_id)
        return rate_per_s(self, source, now_s)

    news = [item("beta" if n == 59 else f"n{n}", T0 + 305) for n in range(60)]
    outcome = changed("news", news, T0 + 310)
    needed = drive.decider.outcomes.query_for(outcome)
    assert needed is not None
    known = await drive.memory.known("news", needed)
    monkeypatch.setattr(Knowledge, "rate_per_s", counted)
    monkeypatch.setattr(captures, "_MOST_CORRELATING", 300)
    seen = drive.decider.observe(outcome, known)
    assert seen is not None
    wanted = [each.wanted for each in seen.rules.joint if each.event.item.item_id != "acme"]
    assert wanted[0] == ("beta",)
    assert wanted[-1] == ("acme", "beta")
    assert looked.count("beta") <= 3
