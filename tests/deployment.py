"""What is in deploy/ and docker-compose.yml, as tests see it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from proxyd.config.loading import PREFIX
from proxyd.config.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"


def build_site(folder: Path) -> Path:
    """Write the site of the documents into a folder, as `make docs` does, and return it; fail on a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(DEPLOY / "site/mkdocs.yml")]
    told = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, "--site-dir", str(folder)], env=told, capture_output=True, text=True, check=False, timeout=120
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def documents(path: Path) -> list[dict[str, Any]]:
    """Return every document of a YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found is not None]


def unknown_settings(names: set[str]) -> set[str]:
    """Return the variables that proxyd would refuse to start with."""
    known = set(Settings.model_fields)
    keys = {name: name.removeprefix(PREFIX).lower() for name in names if name.startswith(PREFIX)}
    return {name for name, key in keys.items() if key not in known and key.removesuffix("_file") not in known}


def named_settings(text: str) -> set[str]:
    """Return every PROXYD_ variable that a text names."""
    return set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", text))


def pinned(lock: Path) -> dict[str, set[str]]:
    """Return the versions of each package of a lock; some have one for each Python."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(name.lower(), set()).add(version)
    return found
