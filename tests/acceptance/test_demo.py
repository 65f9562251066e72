"""The demo as a user runs it: a process of its own, in a folder that has nothing to do with it."""

from __future__ import annotations

import json
import subprocess
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from proxyd.cli.main import main

SCHEDULES = ["proxyd", "uniform", "clairvoyant"]


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proxyd", "demo", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.long
def test_a_demo_shows_three_schedules_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "proxyd.toml").write_text("this is not for the demo", encoding="utf-8")
    done = run_demo(tmp_path, "--for", "8s", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["proxyd.toml"]
    shown: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert list(shown) == SCHEDULES
    for name in SCHEDULES:
        assert 0.0 <= shown[name]["completeness"] <= 1.0
        assert 0.0 <= shown[name]["mean_delay_s"] <= shown[name]["p95_delay_s"] <= 8.0
    proxyd, uniform, clairvoyant = (shown[name] for name in SCHEDULES)
    assert 0 < proxyd["notifications"] == proxyd["verified"] <= proxyd["items"]
    assert (proxyd["duplicates"], proxyd["out_of_order"], proxyd["undelivered"]) == (0, 0, 0)
    assert 0 < clairvoyant["probes"] <= proxyd["probes"] == uniform["probes"]
    assert clairvoyant["mean_delay_s"] <= min(proxyd["mean_delay_s"], uniform["mean_delay_s"])


def test_a_demo_too_short_to_show_anything_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--for", "100ms"]) == 1
    assert "shows nothing" in capsys.readouterr().err


@pytest.mark.alone
def test_a_minute_of_the_demo_has_six_tenths_of_the_delay_of_uniform_probing(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--for", "60s", "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["uniform"]["probes"] == found["proxyd"]["probes"]
    by_chance = 1.0 + 1.64 * sqrt(2.0 / found["proxyd"]["items"])  # of two means of about exponential delays
    assert found["proxyd"]["mean_delay_s"] <= 0.6 * by_chance * found["uniform"]["mean_delay_s"], done.stdout
