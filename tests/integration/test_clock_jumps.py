"""The system's clock is put back or forward while the daemon runs: what was promised stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxyd.base.metrics import Metrics
from proxyd.core.language import CheckSettings
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.rules.decider import Decider
from proxyd.daemon import Declarations
from proxyd.store.backups import open_store
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, changed, decider, declaration, item, rule, source, stream_recall

T0 = 1_000_000_000.0
RULES = rule("each", query="SELECT title FROM RSS ORDER BY title") + rule("third", when="COUNT(*) % 3 = 0")
SHOWN = [("a",), ("b", "a"), ("d", "c", "b"), ("e", "d"), ("g", "f", "e")]


async def started(folder: Path, store: SqlStore, now_s: float) -> Decider:
    """Return what a process that starts now has."""
    found = decider(declaration(), now_s=T0)
    clock = FakeClock(now_s)
    await Declarations(folder, stream_recall(found, store), clock, CheckSettings(), Metrics(), lambda ref: b"s").start()
    return found


async def see(store: SqlStore, found: Decider, names: tuple[str, ...], at_s: float) -> None:
    outcome = changed("s", [item(name) for name in names], at_s)
    needed = found.outcomes.query_for(outcome)
    assert needed is not None
    observation = found.observe(outcome, await store.known("s", needed))
    assert observation is not None
    await store.record(observation)
    found.outcomes.finish(outcome, observation)


def profiles(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.profile").write_text(DOMAIN + source("s") + RULES)
    return folder


async def fired(folder: Path, *, jump_s: float, restart: bool) -> dict[str, list[tuple[str, list[str]]]]:
    """Return what each rule told, ids and rows, where the clock jumps after the second probe."""
    async with open_store(migrated_file(folder / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        found = await started(folder, store, T0)
        now_s = T0 + 7200.0  # no jump leads to before the rules' START
        for number, names in enumerate(SHOWN):
            now_s += 60.0
            if number == 2:
                now_s += jump_s
                found = await started(folder, store, now_s) if restart else found
            await see(store, found, names, now_s)
        told = {}
        for name in ("each", "third"):
            rows = (await store.history.find_notifications(Wanted(rules=frozenset({name})), before=None, limit=99)).rows
            data = [json.loads(row.body)["data"] for row in reversed(rows)]
            told[name] = [(each["id"], [" ".join(shown.values()) for shown in each["items"]]) for each in data]
    return told


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("jump_s", [-3600.0, 86400.0], ids=["an hour back", "a day forward"])
async def test_a_jump_changes_no_notification(tmp_path: Path, jump_s: float, *, restart: bool) -> None:
    steady = await fired(profiles(tmp_path / "steady"), jump_s=0.0, restart=False)
    assert [len(told) for told in steady.values()] == [6, 2]
    assert await fired(profiles(tmp_path / "jumped"), jump_s=jump_s, restart=restart) == steady


@pytest.mark.long
async def test_a_restart_after_an_hour_back_probes_and_counts_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    every = rule("each", clauses="SET POLICY UNIFORM(10 MINUTES)")
    (folder / "a.profile").write_text(DOMAIN + source("s") + every)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        found = await started(folder, store, T0)
        await see(store, found, ("a",), T0)
        found = await started(folder, store, T0 - 3600.0)
        grid = found.settings.grid
        now = grid.chronon_at(T0 - 3600.0 + 600.0)
        assert [planned.probe.source_id for planned in found.choose(now).probes] == ["s"]
        await see(store, found, ("b", "a"), T0 - 3000.0)
        told = (await store.history.find_notifications(Wanted(rules=frozenset({"each"})), before=None, limit=9)).rows
        assert len(told) == 1
