"""The demo as a user runs it: a process of its own, in a folder that has nothing to do with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "proxyd.toml").write_text("this is not for the demo", encoding="utf-8")
    done = run_demo(folder, "--for", "8s", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert [path.name for path in folder.iterdir()] == ["proxyd.toml"]
    objects: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return objects


def test_each_schedule_is_an_object(shown: dict[str, dict[str, Any]]) -> None:
    assert list(shown) == SCHEDULES
    for name in SCHEDULES:
        assert {"completeness", "mean_delay_s", "p95_delay_s", "probes"} <= shown[name].keys()
        assert 0.0 <= shown[name]["completeness"] <= 1.0
        assert 0.0 <= shown[name]["mean_delay_s"] <= shown[name]["p95_delay_s"] <= 8.0
        assert shown[name]["probes"] > 0


def test_every_notification_arrives_once_and_well_signed(shown: dict[str, dict[str, Any]]) -> None:
    proxyd = shown["proxyd"]
    assert proxyd["notifications"] == proxyd["verified"] > 0
    assert (proxyd["duplicates"], proxyd["out_of_order"], proxyd["undelivered"]) == (0, 0, 0)
    assert proxyd["notifications"] <= proxyd["items"]


def test_the_baselines_use_no_more_probes(shown: dict[str, dict[str, Any]]) -> None:
    assert shown["uniform"]["probes"] == shown["proxyd"]["probes"]
    assert shown["clairvoyant"]["probes"] <= shown["proxyd"]["probes"]


def test_knowing_every_item_is_fastest(shown: dict[str, dict[str, Any]]) -> None:
    assert shown["clairvoyant"]["mean_delay_s"] <= min(shown[name]["mean_delay_s"] for name in SCHEDULES)


def test_a_demo_too_short_to_show_anything_is_refused(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--for", "100ms")
    assert (done.returncode, done.stdout) == (1, "")
    assert "shows nothing" in done.stderr


@pytest.mark.alone
def test_a_minute_of_the_demo_has_six_tenths_of_the_delay_of_uniform_probing(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--for", "60s", "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["uniform"]["probes"] == found["proxyd"]["probes"]
    assert found["proxyd"]["mean_delay_s"] <= 0.6 * found["uniform"]["mean_delay_s"], done.stdout
