"""systemd itself says whether the unit is right, and how much it exposes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from proxyd.config.loading import load
from tests.deployment import DEPLOY, named_settings, unknown_settings
from tests.pages import options_of

UNIT, UNIT_OF_A_ROLE = DEPLOY / "systemd" / "proxyd.service", DEPLOY / "systemd" / "proxyd@.service"
TEXT, TEXT_OF_A_ROLE = (each.read_text(encoding="utf-8") for each in (UNIT, UNIT_OF_A_ROLE))
pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
MOST_EXPOSED = 1.5  # of 10


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, check=False)


def settings_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def verified(root: Path, text: str, name: str = "proxyd.service") -> subprocess.CompletedProcess[str]:
    """Ask systemd about a unit in a system where its programs are installed."""
    for installed in ("opt/proxyd/bin/proxyd", "bin/kill"):
        program = root / installed
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    unit = root / "etc/systemd/system" / name
    unit.parent.mkdir(parents=True)
    unit.write_text(text, encoding="utf-8")
    return analyze("verify", f"--root={root}", "--man=no", "--recursive-errors=no", unit.name)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    done = verified(tmp_path, TEXT)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_of_a_role_is_that_of_the_daemon_but_for_its_name_and_its_folders(tmp_path: Path) -> None:
    done = verified(tmp_path, TEXT_OF_A_ROLE, name="proxyd@planner.service")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    one, other = settings_of(TEXT), settings_of(TEXT_OF_A_ROLE)
    differing = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    folders = {"StateDirectory", "CacheDirectory", "WorkingDirectory", "Environment", "EnvironmentFile"}
    assert differing == {"Description", "ExecStart", *folders}
    for role in ("planner", "prober", "notifier"):
        arguments = other["ExecStart"].replace("%i", role).split()[1:]
        assert options_of(arguments).role == role


def test_systemd_would_say_so_if_something_were(tmp_path: Path) -> None:
    done = verified(tmp_path, TEXT.replace("WatchdogSec=3min", "WatchdogSec=sometimes"))
    assert "sometimes" in done.stderr


def test_the_unit_exposes_little() -> None:
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", str(UNIT))
    assert done.returncode == 0, done.stdout
    exposure = re.search(r"Overall exposure level for proxyd.service: ([\d.]+)", done.stdout)
    assert exposure is not None
    assert 0 < float(exposure[1]) <= MOST_EXPOSED


def test_the_daemon_speaks_what_the_unit_expects() -> None:
    unit = settings_of(TEXT)
    assert (unit["Type"], unit["ExecReload"]) == ("notify", "/bin/kill -HUP $MAINPID")
    program, *arguments = unit["ExecStart"].split()
    assert program == "/opt/proxyd/bin/proxyd"
    options = options_of(arguments)
    assert str(options.config) == "/etc/proxyd/proxyd.toml"


def test_what_the_filter_of_system_calls_lets_through_is_enough_for_files_and_limits() -> None:
    """``prlimit64`` raises open files, ``@file-system`` is SQLite's: neither may go with what the unit takes away."""
    taken = "".join(analyze("syscall-filter", name).stdout for name in ("@privileged", "@resources"))
    calls = set(re.findall(r"^    (\w+)$", taken, re.MULTILINE))
    assert "setrlimit" in calls
    assert calls.isdisjoint({"prlimit64", "fsync", "fdatasync", "ftruncate", "clone3", "socketpair", "memfd_create"})


def test_every_variable_of_the_unit_is_a_setting() -> None:
    named = named_settings(TEXT)
    assert "PROXYD_SECRETS" in named
    assert unknown_settings(named) == set()


def test_memory_is_bounded_and_never_written_to_a_core_dump() -> None:
    unit = settings_of(TEXT)
    assert (unit["LimitCORE"], unit["MemoryMax"]) == ("0", "4G")


@pytest.mark.parametrize("folder", ["/var/lib/proxyd", "/etc/proxyd"])
def test_the_settings_file_keeps_to_the_units_folders(folder: str) -> None:
    settings = load(UNIT.with_name("proxyd.toml"), environ={})
    assert folder in {str(settings.profiles.parent), str(Path(settings.database).parent)}
