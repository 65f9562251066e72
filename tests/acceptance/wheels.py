"""Builds wheels of this project, and runs what is installed from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deployment import ROOT

WANTED = ("pyproject.toml", "README.md", "LICENSE", "migrations", "proxyd")
EPOCH = "1750000000"


def run(*arguments: str | Path, cwd: Path, **environ: str) -> str:
    """Run a program without this project's own path and settings, and return what it prints."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("PROXYD_")}
    done = subprocess.run(
        arguments, cwd=cwd, env=inherited | environ, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder: Path, *, changed_s: float, mode: int) -> Path:
    """Build a wheel of a copy of the project whose files changed at some time and have some mode."""
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
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source, cwd=folder, SOURCE_DATE_EPOCH=EPOCH)
    (wheel,) = folder.glob("*.whl")
    return wheel
