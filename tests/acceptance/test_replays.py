"""Replays of real update traces: the delays that proxyd promises, measured by the verb that users run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxyd.cli.main import main

TRACES = Path(__file__).parents[3] / "shared" / "traces"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="no traces beside the project")
HOUR_S = 3600.0


def replays(capsys: pytest.CaptureFixture[str], trace: str, *options: str) -> dict[str, dict[str, Any]]:
    assert main(["simulate", "--trace", str(TRACES / trace), "--json", *options]) == 0
    return {row["policy"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.mark.long
def test_package_recipes_are_found_in_less_than_eight_hours(capsys: pytest.CaptureFixture[str]) -> None:
    rows = replays(
        capsys,
        "vcpkg_ports.csv",
        "--test-from=2025-08-18",
        "--probes-per-source-week=7",
        "--policies=auto,uniform",
    )
    assert rows["auto"]["mean_delay_s"] <= 8.0 * HOUR_S
    assert rows["uniform"]["mean_delay_s"] == pytest.approx(11.95 * HOUR_S, rel=0.01)
    assert rows["auto"]["probes"] <= rows["uniform"]["probes"] + 1


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_forums_are_found_sooner_than_by_any_other_policy(capsys: pytest.CaptureFixture[str]) -> None:
    rows = replays(capsys, "forums2013.csv", "--test-from=2013-07-15", "--probes-per-source-week=28", "--policies=all")
    ours = rows["auto"]["mean_delay_s"]
    assert ours <= 0.92 * rows["uniform"]["mean_delay_s"]
    others = {name: row["mean_delay_s"] for name, row in rows.items() if name not in {"auto", "index", "clairvoyant"}}
    assert ours <= 1.01 * min(others.values())
    assert all(row["probes"] <= rows["uniform"]["probes"] + 1 for row in rows.values())
