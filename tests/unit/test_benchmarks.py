"""The benchmarks still run; what they measure is not asserted."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [path.name, "--quick", "--json"])
    runpy.run_path(str(path), run_name="__main__")
    lines = json.loads(capsys.readouterr().out)
    assert all(line["seconds"] > 0 for line in lines)
    assert any("ratio" in line for line in lines)
