"""The Debian package: built of a wheel, installed into a root of its own, run, upgraded, removed and purged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxyd import __version__
from tests.acceptance.wheels import EPOCH, build, copy_project, run
from tests.deployment import DEPLOY

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        shutil.which("deb-systemd-helper") is None or not Path("/usr/bin/python3").exists(), reason="this is no Debian"
    ),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deb")
    wheel = build(copy_project(folder, changed_s=1_600_000_000, mode=0o644), folder)
    run(
        DEPLOY / "debian/build.sh", wheel, folder, cwd=folder,
        SOURCE_DATE_EPOCH=EPOCH, PIP=f"{sys.executable} -m pip", TMPDIR=str(folder),
    )  # fmt: skip
    (made,) = folder.glob("*.deb")
    return made


def dpkg(root: Path, *arguments: str | Path) -> str:
    """Run dpkg for the packages of a folder, whose scripts write into it too; its dependencies are not there."""
    forced = ("--force-script-chrootless", "--force-depends", "--force-confold")
    return run("dpkg", f"--root={root}", f"--log={root}.log", *forced, *arguments, cwd=root)


def test_it_holds_what_the_notes_say_and_nothing_of_where_it_was_built(package: Path, tmp_path: Path) -> None:
    assert package.name.startswith(f"proxyd_{__version__}_")
    listed = [line.split(None, 5) for line in run("dpkg-deb", "--contents", package, cwd=tmp_path).splitlines()]
    assert {owner for _, owner, *_ in listed} == {"root/root"}
    assert [mode for mode, *_ in listed if "w" in mode[4:] and not mode.startswith("l")] == []
    run("dpkg-deb", "--extract", package, "all", cwd=tmp_path)
    for unit in ("proxyd.service", "proxyd@.service"):
        packed = tmp_path / "all/usr/lib/systemd/system" / unit
        assert packed.read_bytes() == (DEPLOY / "systemd" / unit).read_bytes()
    assert (tmp_path / "all/etc/proxyd/secrets").stat().st_mode & 0o777 == 0o700
    named = subprocess.run(["grep", "--recursive", "--files-with-matches", str(package.parent), "all"], cwd=tmp_path,
                           capture_output=True, text=True, check=False)  # fmt: skip
    assert named.stdout == ""


def test_it_is_installed_runs_and_is_removed_without_a_trace(package: Path, tmp_path: Path) -> None:
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("status", "available"):
        (tmp_path / "var/lib/dpkg" / file).touch()
    dpkg(tmp_path, "--install", package)
    program = (tmp_path / "opt/proxyd/bin/python", "-m", "proxyd")
    assert run(*program, "version", cwd=tmp_path) == f"proxyd {__version__}\n"
    assert "notifications" in run(*program, "demo", "--for", "3s", cwd=tmp_path)
    settings = tmp_path / "etc/proxyd/proxyd.toml"
    settings.write_text("# mine\n", encoding="utf-8")
    dpkg(tmp_path, "--install", package)
    assert settings.read_text(encoding="utf-8") == "# mine\n"
    dpkg(tmp_path, "--remove", "proxyd")
    assert settings.exists()
    assert not (tmp_path / "opt").exists()
    dpkg(tmp_path, "--purge", "proxyd")
    left = [path for path in tmp_path.rglob("*") if not path.is_dir() and "dpkg" not in path.parts]
    assert left == []
