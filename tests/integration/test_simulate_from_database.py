"""The verb simulate on what a daemon's own decisions recorded in a real database."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, text

from proxyd.cli.main import main
from proxyd.core.errors import NotFoundError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_store, owner_lock
from proxyd.store.databases.sqlite import sqlite_connections
from proxyd.store.seen_events import read_past
from tests.databases import migrated_file
from tests.fleets import Drive, changed, decider, declaration, item, source
from tests.former import V0_1, former_file

DAY_S, HOUR_S = 86400.0, 3600.0
BEGUN_S = 1_790_000_000 // (7 * 86400) * 7 * DAY_S
DAYS, GAP_S, WINDOW = 20, 6 * HOUR_S, 12
RATES = {"busy": 4.0, "calm": 1.0, "untimed": 2.0, "new": 2.0}  # a day
FIRST_S = {"new": BEGUN_S + 17 * DAY_S}


def origin() -> dict[str, list[float]]:
    rng = np.random.default_rng(3)
    return {
        name: np.sort(rng.uniform(BEGUN_S - 10 * DAY_S, BEGUN_S + DAYS * DAY_S, int(rate * (DAYS + 10)))).tolist()
        for name, rate in RATES.items()
    }


async def watch(database: Path, *, days: float = DAYS) -> None:
    """Let a decider see the sources every few hours, and a store record it."""
    events = origin()
    declared = declaration(*(source(name) for name in RATES))
    async with open_store(migrated_file(database), ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.declare_sources(RATES, BEGUN_S)
        drive = Drive(decider(declared, now_s=BEGUN_S))
        drive.memory = store  # type: ignore[assignment]
        for number in range(int(days * DAY_S / GAP_S) + 1):
            for offset, name in enumerate(RATES):
                at_s = BEGUN_S + number * GAP_S + 60.0 * offset
                if at_s >= FIRST_S.get(name, 0.0):
                    shown = [time for time in events[name] if time <= at_s][-WINDOW:]
                    items = [item(f"{time!r}", None if name == "untimed" else time) for time in reversed(shown)]
                    await drive.see(changed(name, items, at_s))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "proxyd.db"
    asyncio.run(watch(path))
    return path


@pytest.fixture
def database(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data" / "own #1.db"
    path.parent.mkdir()
    shutil.copy(made, path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXYD_DATABASE", str(path))
    return path


def state_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["simulate", "--json", *arguments]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["simulate", *arguments]) == 1
    return capsys.readouterr().err


async def change(database: Path, *statements: str) -> None:
    def run(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    async with sqlite_connections(database) as connections:
        await connections.writer.call(run)


def test_policies_are_compared_at_about_the_daemons_own_probes(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, "--from-database")
    assert [row["policy"] for row in found] == ["auto", "uniform", "clairvoyant"]
    auto, uniform, best = found
    assert auto["own_probes_per_source_week"] == pytest.approx(28.0, rel=0.15)
    assert auto["own_mean_delay_s"] == pytest.approx(GAP_S / 2, rel=0.15)
    assert uniform["mean_delay_s"] == pytest.approx(GAP_S / 2, rel=0.25)
    assert best["mean_delay_s"] < auto["mean_delay_s"] < 1.1 * uniform["mean_delay_s"]
    assert uniform["probes"] == pytest.approx(3 * 10 / 7 * auto["own_probes_per_source_week"], rel=0.02)


def test_what_is_replayed_is_what_happened(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "--from-database", "--policies", "uniform")
    after_s = BEGUN_S + DAYS / 2 * DAY_S
    happened = {name: sum(time >= after_s for time in times) for name, times in origin().items() if name != "new"}
    assert row["events"] == pytest.approx(sum(happened.values()), abs=4)  # the last may not have been seen
    assert row["events_without_time"] == pytest.approx(happened["untimed"], abs=3)
    assert (row["sources"], row["sources_left_out"]) == (3, 1)


def test_items_of_first_contact_are_known_with_their_times(database: Path) -> None:
    past = {each.source_id: each for each in read_past(database)}
    assert list(past) == sorted(RATES)
    assert [int(each.seed.sum()) for each in past.values()] == [WINDOW] * len(RATES)
    busy, untimed = past["busy"], past["untimed"]
    assert busy.exact.all()
    assert set(busy.events_s) <= set(origin()["busy"])
    assert not untimed.exact.any()
    assert np.allclose((untimed.seen_s - untimed.events_s)[~untimed.seed], GAP_S / 2)


def test_people_are_told_how_well_it_is_known(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--from-database", str(database), "--policies", "uniform"]) == 0
    first, _, _, *notes = capsys.readouterr().out.splitlines()
    assert first.startswith("3 sources, ")
    own, placed, left_out, *_ = notes
    assert own.startswith("The daemon itself saw these events after ")
    assert "events have no time of their own" in placed
    assert left_out.startswith("Sources left out: 1, not watched both before and after ")


def test_the_other_options_hold(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--probes-per-source-week", "14", "--window", "6h", "--policies", "auto,adaptive,miniflux-frequency"]
    from_s = BEGUN_S + 18.5 * DAY_S
    found = rows(capsys, "--from-database", "--test-from", str(np.datetime64(int(from_s), "s")), *options)
    assert [row["sources"] for row in found] == [4, 4, 4]
    assert all(row["probes"] <= 14 * 4 * 1.6 / 7 for row in found)


@pytest.mark.parametrize("slot", ["30m", "8h"])
def test_no_more_probes_are_compared_than_a_replay_can_make(
    slot: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = rows(capsys, "--from-database", "--slot", slot, "--policies", "uniform")
    assert (row["probes"] / (3 * 10 / 7) < 0.8 * row["own_probes_per_source_week"]) == (slot == "8h")


def test_nothing_is_made_or_changed(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = state_of(database.parent)
    rows(capsys, "--from-database", "--policies", "uniform")
    assert state_of(database.parent) == before == {database.name: before[database.name]}


async def test_it_reads_beside_a_running_daemon(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with owner_lock(database):
        async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
            await store.declarations.declare_sources([*RATES, "another"], BEGUN_S)
            before = state_of(database.parent)
            found = await asyncio.to_thread(rows, capsys, "--from-database", "--policies", "uniform")
            after = state_of(database.parent)
            await store.writer.ping()
    assert found[0]["sources"] == 3
    assert {name for name in before if not name.endswith("-shm")} <= set(after)
    assert before[database.name] == after[database.name]
    assert before[database.name + "-wal"] == after[database.name + "-wal"]


def test_a_source_that_is_not_declared_any_more_is_not_replayed(database: Path) -> None:
    asyncio.run(change(database, "DELETE FROM declared WHERE source_id = 'calm'"))
    assert [each.source_id for each in read_past(database)] == ["busy", "new", "untimed"]


def test_events_of_the_page_that_a_source_was_before_are_not_replayed(database: Path) -> None:
    first_s = BEGUN_S + 5 * DAY_S
    asyncio.run(change(database, f"UPDATE sources SET first_contact_s = {first_s} WHERE source_id = 'busy'"))
    assert min(read_past(database)[0].seen_s) >= first_s


def test_a_missing_database_is_named_and_not_made(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFoundError, match="no such database"):
        read_past(database.parent / "other.db")
    assert f"{database.parent}: no such database" in complaint(capsys, "--from-database", str(database.parent))
    assert "none/other.db: no such database; name the file" in complaint(capsys, "--from-database", "none/other.db")
    assert not Path("none").exists()
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def test_another_kind_of_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.csv").write_text("source,timestamp\n" * 100)
    (tmp_path / "empty.db").touch()
    said = complaint(capsys, "--from-database", str(tmp_path / "trace.csv"))
    assert "trace.csv: the database failed: file is not a database" in said
    said = complaint(capsys, "--from-database", str(tmp_path / "empty.db"))
    assert "empty.db: this is not a database of proxyd" in said


def test_an_older_schema_is_not_migrated(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database.unlink()
    former_file(V0_1, database)
    before = state_of(database.parent)
    said = complaint(capsys, "--from-database")
    assert "its schema is 0016, this proxyd reads 00" in said
    assert "stop its daemon and run `proxyd db migrate`" in said
    assert state_of(database.parent) == before


def test_a_newer_schema_is_refused(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(change(database, "UPDATE alembic_version SET version_num = '9999'"))
    assert "its schema is 9999" in (said := complaint(capsys, "--from-database"))
    assert "a newer proxyd wrote it; use that version" in said


@pytest.mark.parametrize(
    ("days", "message"),
    [
        (None, "no source was seen yet; let the daemon run for a while"),
        (1.5, "sources were watched for 36.0 h, a replay needs 48 h; let the daemon run on"),
    ],
    ids=["no events", "little history"],
)
def test_too_little_is_said(
    days: float | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing() -> None:
        async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)):
            pass

    asyncio.run(nothing() if days is None else watch(tmp_path / "p.db", days=days))
    assert f"p.db: {message}" in complaint(capsys, "--from-database", str(tmp_path / "p.db"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test-from", "2099-01-01"], "lies behind the last event"),
        (
            ["--test-from", "2001-01-01"],
            "no source was watched before and after 2001-01-01T00:00Z; choose a --test-from",
        ),
        (["--test-from", "soon"], "--test-from 'soon' is not an ISO date"),
        (["--budget", "0"], "the budget allows no probe at all; raise it"),
    ],
    ids=["late", "early", "no date", "no budget"],
)
def test_bad_input_is_named(
    options: list[str], message: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in complaint(capsys, "--from-database", *options)


def test_another_kind_of_database_is_refused(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "--from-database", "postgresql://me@db.example/proxyd")
    assert "postgresql://[hidden]@db.example/proxyd: only a file can be replayed" in said
