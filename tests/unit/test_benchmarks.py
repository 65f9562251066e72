"""The benchmarks still run; what they measure is not asserted."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
CHARTS = FOLDER / "charts.py"
BENCHMARKS = sorted({*FOLDER.glob("*.py")} - {CHARTS})
SLOW = {
    "outbox",
    "fleet",
    "prober",
    "rules",
    "interfaces",
    "planning",
    "scheduling",
    "shards",
    "hub",
    "worlds",
    "traces",
}


def benchmark(path: Path) -> object:
    marks = [pytest.mark.long] if path.stem in SLOW else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [benchmark(path) for path in BENCHMARKS])
def test_it_runs(path: Path) -> None:
    command = [sys.executable, str(path), "--quick", "--json"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    lines = json.loads(ended.stdout)
    assert all(line.get("seconds", line.get("gigabytes", 0.0)) > 0 for line in lines)
    assert any("ratio" in line for line in lines)


@pytest.mark.long
@pytest.mark.parametrize("program", ["proxyd", "newsboat"])
def test_each_program_tells_all_once_and_proxyd_also_if_it_is_killed(program: str, tmp_path: Path) -> None:
    if program == "newsboat" and shutil.which(program) is None:
        pytest.skip("newsboat is not installed")
    script = Path(__file__).parents[2] / "benchmarks" / "peers" / "run.py"
    command = [sys.executable, str(script), "--quick", "--json", "--programs", program, "--mixes", "uneven", "faults"]
    command.append("--here")  # without a package index
    ended = subprocess.run([*command, "--environments", str(tmp_path)], check=False, capture_output=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (0, b""), ended.stderr.decode()
    found = json.loads(ended.stdout)
    calm, faults = [(each["lost"], each["doubled"], each["old told"]) for each in found]
    assert calm == (0, 0, 0)
    assert faults == (0, 0, 0) or program == "newsboat"  # one that is killed while it notes what it told tells it twice
    assert all(each["news"] > 10 and each["requests"] > 50 for each in found)


def test_the_peers_table_shows_shares_as_percent_and_counts_as_numbers() -> None:
    report = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "peers" / "report.py"))
    found = [
        defaultdict(int, {"program": "a", "mix": mix, "within 1 h": 0.25, "inside a Retry-After": 20 + seed})
        for seed in range(3)
        for mix in ("uneven", "limits")
    ]
    text = report["tables"](found)
    assert re.findall(r"\d+%", text) == ["25%"]
    assert "| requests inside a Retry-After: limits |\n|---|---|\n| a | 21 (20 to 22) |" in text


def test_what_was_measured_is_drawn_in_a_plot_for_each_world(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    measured = [
        {"world": world, "policy": policy, "delay_h": 1.0 + seed}
        for world in ("one", "another")
        for policy in ("even", "proxyd")
        for seed in (1, 2)
    ]
    (tmp_path / "worlds.json").write_text(json.dumps(measured))
    (tmp_path / "traces.json").write_text(json.dumps([{"trace": "forums", "policy": "index", "delay_h": 3.25}]))
    image = tmp_path / "out.svg"
    files = [tmp_path / "worlds.json", tmp_path / "traces.json"]
    subprocess.run([sys.executable, CHARTS, image, *files], check=True, timeout=120)
    drawn = image.read_text()
    assert [drawn.count(f">{text}<") for text in ("one", "another", "forums", " 2.50 h", " 3.25 h")] == [1, 1, 1, 4, 1]
