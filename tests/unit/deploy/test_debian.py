"""The scripts of the Debian package: what they refuse, and that a purge leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deployment import DEPLOY, pinned

SCRIPTS = DEPLOY / "debian"
pytestmark = pytest.mark.skipif(shutil.which("deb-systemd-helper") is None, reason="this is no Debian")


def run(name: str, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script as dpkg does for an installation below a folder."""
    environ = os.environ | {"DPKG_ROOT": str(root), "DPKG_MAINTSCRIPT_PACKAGE": "proxyd"}
    return subprocess.run([SCRIPTS / name, *arguments], env=environ, capture_output=True, text=True, check=False)


def files_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_an_installation_by_hand_is_not_written_over(tmp_path: Path) -> None:
    assert run("preinst", tmp_path, "install").returncode == 0
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/proxyd").symlink_to("proxyd-1.0.0")
    done = run("preinst", tmp_path, "install")
    assert done.returncode == 1
    assert "remove that first" in done.stderr


def test_a_purge_removes_settings_secrets_and_data_and_a_removal_keeps_them(tmp_path: Path) -> None:
    unit = tmp_path / "usr/lib/systemd/system/proxyd.service"
    unit.parent.mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd/proxyd.service", unit)
    for kept in ("var/lib/private/proxyd/proxyd.db", "etc/proxyd/secrets/hook", "etc/proxyd/environment"):
        (tmp_path / kept).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kept).touch()
    (tmp_path / "var/lib/proxyd").symlink_to("private/proxyd")
    (tmp_path / "var/cache/private/proxyd-prober").mkdir(parents=True)
    (tmp_path / "var/cache/private/proxyd-prober/numba").touch()
    (tmp_path / "var/cache/proxyd-prober").symlink_to("private/proxyd-prober")
    assert run("postinst", tmp_path, "configure", "").returncode == 0
    link = "etc/systemd/system/multi-user.target.wants/proxyd.service"
    assert link in files_in(tmp_path)
    unit.unlink()
    assert run("postrm", tmp_path, "remove").returncode == 0
    assert {"var/lib/private/proxyd/proxyd.db", "etc/proxyd/secrets/hook"} < set(files_in(tmp_path))
    assert run("postrm", tmp_path, "purge").returncode == 0
    assert files_in(tmp_path) == []
    assert not (tmp_path / "etc/proxyd").exists()


@pytest.mark.parametrize(
    ("named", "has_own", "read"),
    [
        (None, False, "/etc/proxyd/proxyd.toml"),
        (None, True, ""),
        ("/mine.toml", False, "/mine.toml"),
        ("/mine.toml", True, "/mine.toml"),
    ],
    ids=["those of the machine", "those of this folder", "those that are named", "those that are named first"],
)
def test_a_command_reads_these_settings(tmp_path: Path, named: str | None, has_own: bool, read: str) -> None:
    if has_own:
        (tmp_path / "proxyd.toml").touch()
    environ = {"PATH": os.environ["PATH"]} | ({} if named is None else {"PROXYD_CONFIG": named})
    text = (SCRIPTS / "proxyd").read_text(encoding="utf-8")
    script = re.sub(r"(?m)^exec .*$", 'printf "%s" "$PROXYD_CONFIG"', text)
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == read


def test_only_the_compiler_is_left_out_of_the_package() -> None:
    text = (SCRIPTS / "build.sh").read_text(encoding="utf-8")
    (left_out,) = re.findall(r"!/\^\(([a-z|]+)\)==/", text)
    assert set(left_out.split("|")) == {"numba", "llvmlite"} <= pinned(DEPLOY / "requirements.lock").keys()
