"""Builds wheels and source distributions of this project, and runs what is installed from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deployment import ROOT

WANTED = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "migrations", "proxyd")
EPOCH = "1750000000"


def run(*arguments: str | Path, cwd: Path, **environ: str) -> str:
    """Run a program without this project's own path and settings, and return what it prints."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("PROXYD_")}
    done = subprocess.run(
        arguments, cwd=cwd, env=inherited | environ, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_project(folder: Path, *, changed_s: float, mode: int) -> Path:
    """Copy the project; its files changed at some time and have some mode."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in WANTED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    for path in source.rglob("*"):
        path.chmod(mode | 0o700 if path.is_dir() else mode)
        os.utime(path, (changed_s, changed_s))
    return source


def build(source: Path, folder: Path) -> Path:
    """Build a wheel of a folder or a source distribution."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source, cwd=folder, SOURCE_DATE_EPOCH=EPOCH)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_sdist(source: Path, folder: Path) -> Path:
    """Build a source distribution of a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=source, SOURCE_DATE_EPOCH=EPOCH)
    (made,) = folder.glob("*.tar.gz")
    return made


def interpreters(*minors: int) -> dict[str, str]:
    """Return the versions of Python 3 that are here, this one among them, each with its program."""
    found = {sys.version_info.minor: sys.executable}
    for minor in minors:
        name = f"python3.{minor}"
        for path in (shutil.which(name), *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))):
            # what pyenv puts before them exists even if it runs nothing
            if (
                path
                and minor not in found
                and subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0
            ):
                found[minor] = path
    return {f"Python 3.{minor}": path for minor, path in sorted(found.items())}
