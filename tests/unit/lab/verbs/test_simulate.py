"""The verb simulate: its rows, its table, and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyd.cli.main import main

DAY_S = 86400.0
MONDAY_S = 1_700_000_000 // (7 * 86400) * 7 * 86400 + 4 * 86400


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    lines = ["source,timestamp"]
    for source in range(6):
        times = MONDAY_S + np.sort(rng.uniform(0, 28 * DAY_S, 200 // (source + 1)))
        lines += [f"feed{source},{time:.0f}" for time in times]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines))
    return path


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["simulate", *arguments, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.long
def test_every_policy_has_a_row_with_every_figure(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--trace", str(trace), "--probes-per-source-week", "14", "--policies", "all", "--window", "6h")
    names = [row["policy"] for row in found]
    assert names[0] == "auto"
    assert names[-1] == "clairvoyant"
    assert len(set(names)) == len(names) == 24
    figures = {
        "probes", "mean_delay_s", "median_delay_s", "p95_delay_s", "completeness", "undiscovered_mean",
        "peak_probes_per_slot", "seconds",
    }  # fmt: skip
    for row in found:
        assert figures <= set(row)
        assert 0 <= row["completeness"] <= 1
        assert 0 <= row["median_delay_s"] <= row["p95_delay_s"]
    best = min(row["mean_delay_s"] for row in found)
    assert best == found[-1]["mean_delay_s"]


@pytest.mark.long
def test_a_budget_by_chronon_is_kept(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(
        capsys, "--trace", str(trace), "--budget", "0.5", "--chronon", "10m", "--policies", "auto,uniform,index"
    )
    budget = round(0.5 * 14 * 24 * 6)
    for row in found:
        assert budget * 0.97 <= row["probes"] <= budget + 1
        assert row["peak_probes_per_slot"] <= 3


@pytest.mark.parametrize("model", ["poisson", pytest.param("bursts+drift", marks=pytest.mark.long)])
def test_a_model_stands_in_for_a_trace(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", model, "--sources", "20", "--probes-per-source-week", "7", "--policies", "auto,uniform"]
    first, again = rows(capsys, *options), rows(capsys, *options)
    assert first[0]["mean_delay_s"] < first[1]["mean_delay_s"]
    assert [row["mean_delay_s"] for row in first] == [row["mean_delay_s"] for row in again]


@pytest.mark.long
def test_noise_takes_away_what_the_week_taught(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", "poisson", "--sources", "20", "--probes-per-source-week", "7", "--policies", "auto"]
    (clear,), (noisy,) = rows(capsys, *options, "--fpn", "1"), rows(capsys, *options, "--fpn", "0")
    assert clear["mean_delay_s"] == rows(capsys, *options)[0]["mean_delay_s"] < noisy["mean_delay_s"]


def test_the_table_names_the_budget(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(trace), "--probes-per-source-week", "7", "--policies", "uniform"]) == 0
    first, header, row, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("6 sources, ")
    assert header.split()[:2] == ["policy", "probes"]
    assert row.split()[0] == "uniform"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policies", "best"], "there is no policy 'best'"),
        (["--test-from", "tomorrow"], "--test-from 'tomorrow' is not an ISO date; write 2025-08-18"),
        (["--test-from", "2099-01-01"], "lies behind the last event"),
        (["--slot", "50m"], "a week is not a whole number of slots of 3000 s; try 1800 s"),
        (["--chronon", "7m"], "--slot must be a whole number of chronons"),
        (["--slot", "0s"], "--slot and --chronon must be longer than 0 s"),
    ],
    ids=["policy", "date", "late date", "slot", "chronon", "no slot"],
)
def test_bad_input_is_named(options: list[str], message: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(trace), "--probes-per-source-week", "7", *options]) == 1
    assert message in capsys.readouterr().err


def test_a_budget_of_nothing_is_refused(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(trace), "--budget", "0"]) == 1
    assert "the budget allows no probe at all; raise it" in capsys.readouterr().err


def test_a_missing_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(tmp_path / "none.csv"), "--budget", "1"]) == 1
    assert "none.csv:1: it cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "nan"), "the budget"),
        (("--budget", "inf"), "the budget"),
        (("--probes-per-source-week", "nan"), "the budget"),
        (("--budget", "1", "--policies", ","), "--policies"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    arguments: tuple[str, ...], message: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace), *arguments]) != 0
    assert message in capsys.readouterr().err


def test_milliseconds_are_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ms.csv"
    path.write_text("\ufeffsource,timestamp\na,1700000000000\na,1800000000000\n", encoding="utf-8")
    assert main(["simulate", "--trace", str(path), "--probes-per-source-week", "7"]) != 0
    assert "milliseconds" in capsys.readouterr().err


def test_a_trace_needs_a_budget(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(trace)]) == 1
    assert "there is no budget; give --probes-per-source-week 7, or --budget 1" in capsys.readouterr().err
