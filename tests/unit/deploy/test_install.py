"""The install notes: their shell can be read, their files are there, and their secrets fit together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from proxyd import __version__
from proxyd.cluster.nats_users import USERS
from tests.deployment import ROOT, documents
from tests.pages import Block, blocks

PAGE = ROOT / "docs" / "install.md"
SHELL = [block for block in blocks(PAGE) if block.language == "sh"]
MADE = {"deploy/secrets"}  # by the commands themselves


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_shell_can_read_it(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_file_of_ours_is_there() -> None:
    named = {
        path.rstrip("/*.") for block in SHELL for path in re.findall(r"\b((?:deploy|profiles)/[\w./*-]+)", block.text)
    }
    ours = {path for path in named if not any(path.startswith(made) for made in MADE)}
    assert "deploy/systemd/proxyd.service" in ours
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_the_version_is_this_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"version={__version__}\n" in text
    assert f"proxyd:{__version__}" in text
    named = re.findall(r"(?:ghcr\.io/[\w/-]+:|--version |/download/v|/proxyd_)(\d+\.\d+\.\d+)", text)
    assert len(named) >= 5
    assert set(named) == {__version__}


def test_what_it_fetches_is_what_a_release_publishes() -> None:
    """The image, the browser's, the chart and the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = project["urls"]["Repository"]
    owner, name = page.split("/")[-2:]
    published = {f"{owner}/{name}", f"{owner}/{name}-browser", f"{owner}/charts/{name}"}
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"ghcr\.io/([\w/-]+)", text)) == published
    package = f"{page}/releases/download/v{__version__}/proxyd_{__version__}_amd64.deb"
    assert package in text
    release = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    for pushed in ('$(tagged "$image")', '$(tagged "$image-browser")', '/charts"', "proxyd*.deb"):
        assert pushed in release
    (debian,) = re.findall(r"On (Debian \d+) a package does", text)
    codename = {"Debian 12": "bookworm", "Debian 13": "trixie"}[debian]
    job = yaml.safe_load(release)["jobs"]["packages"]
    assert job["container"].endswith(f"-{codename}")  # a package needs the Python of the Debian that built it


def test_the_copy_before_an_upgrade_is_named_by_the_schema_of_its_release() -> None:
    ((schema, version),) = re.findall(
        r"`proxyd\.db\.schema-(\d+)` for one of (\d+\.\d+)", PAGE.read_text(encoding="utf-8")
    )
    written = (ROOT / f"tests/upgrades/{version}.sql").read_text(encoding="utf-8")
    assert f"INSERT INTO \"alembic_version\" VALUES('{schema}')" in written


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_secrets_of_compose_are_made_and_fit_together(tmp_path: Path) -> None:
    (block,) = [block for block in SHELL if "deploy/secrets/postgres_password" in block.text]
    (tmp_path / "deploy").mkdir()
    command = f" proxyd:{__version__} \\\n  cluster init /secrets/nats "
    assert command in block.text
    docker = f'docker() {{ [ "$1" = compose ] || {sys.executable} -m proxyd "${{@:8}}"; }}\n'  # what follows the image
    script = docker + block.text.replace(command, command.replace("/secrets", "deploy/secrets"))
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-eu"], input=script, cwd=tmp_path, text=True, check=True, env=here)
    folder = tmp_path / "deploy/secrets"
    paths = [path for path in folder.rglob("*") if path.is_file()]
    (compose,) = documents(ROOT / "docker-compose.yml")
    assert {tmp_path / secret["file"] for secret in compose["secrets"].values()} == set(paths)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o444}
    made = {path.name: path.read_text(encoding="utf-8") for path in paths}
    database = urlsplit(made["database_url"])
    assert database.password == made["postgres_password"]
    assert database.hostname in compose["services"]
    for role in USERS:
        nats = urlsplit(made[f"nats_url_{role}"])
        assert nats.username == role
        assert nats.hostname in compose["services"]
    assert database.username == compose["services"]["postgres"]["environment"]["POSTGRES_USER"]
