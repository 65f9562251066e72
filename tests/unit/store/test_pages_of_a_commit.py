"""What a probe that finds nothing new writes: every page of a commit is synced to the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store.backups import open_store
from tests.observations import observed

_PAGE, _HEAD_OF_LOG, _HEAD_OF_PAGE = 4096, 32, 24


async def test_a_quiet_probe_writes_five_pages(tmp_path: Path) -> None:
    database, log = tmp_path / "proxyd.db", tmp_path / "proxyd.db-wal"
    async with open_store(str(database), ChrononGrid(1.0)) as store, store.writer.running():
        for number in range(20):
            outcome = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, float(number), number + 0.5, 304)
            seen = observed(SourceState("s", "https://s.example/", last_start_s=float(number)), outcome)
            before = log.stat().st_size if log.exists() else 0
            await store.record(
                replace(
                    seen,
                    probe=Probe("s", number, Reason.DETECTION),
                    calibration=Calibration(1),
                    fleet=FleetRecord((1.0,), (float(number),), (0.0,)),
                )
            )
        written = log.stat().st_size - before
    # sources, probes and its index by source, accounts, fleet
    assert written <= 5 * (_PAGE + _HEAD_OF_PAGE) + _HEAD_OF_LOG
    assert written > 0
