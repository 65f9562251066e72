"""The wheel and what it can be built of: the same bytes wherever they are built, and enough by themselves."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from proxyd import __version__
from tests.acceptance.wheels import build, build_sdist, copy_project, interpreters, run
from tests.deployment import DEPLOY, ROOT

HERE = interpreters(11, 12, 13, 14)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    return build(copy_project(folder, changed_s=1_600_000_000, mode=0o644), folder)


def test_it_has_the_same_bytes_wherever_and_whenever_it_is_built(wheel: Path, tmp_path: Path) -> None:
    other = build(copy_project(tmp_path / "deeper", changed_s=1_700_000_000, mode=0o600), tmp_path)
    assert wheel.name == other.name == f"proxyd-{__version__}-py3-none-any.whl"
    assert sha256(wheel) == sha256(other)


def test_a_source_distribution_has_the_same_bytes_and_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    one, other = copy_project(tmp_path, changed_s=1_600_000_000, mode=0o644), tmp_path / "elsewhere"
    other = copy_project(other, changed_s=1_700_000_000, mode=0o600)
    (other / "notes").mkdir()
    (other / "notes/private.txt").touch()
    sdist = build_sdist(one, tmp_path / "dist")
    assert sdist.name == f"proxyd-{__version__}.tar.gz"
    assert sha256(sdist) == sha256(build_sdist(other, tmp_path / "dist2"))
    assert sha256(build(sdist, tmp_path)) == sha256(wheel)


def test_it_holds_all_that_runs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    needed = {"proxyd/py.typed", "proxyd/migrations/env.py"}
    assert needed | {"proxyd/api/web/static/style.css"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"proxyd", f"proxyd-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".db", ".lock"))]


def test_every_link_and_picture_of_its_page_on_pypi_leads_to_a_file_of_this_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"proxyd-{__version__}.dist-info/METADATA"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"(!?)\[[^]]*\]\(([^)#\s]+)", str(metadata.get_payload()))
    assert len(links) > 30
    for mark, link in links:
        _, start, path = link.partition(f"proxyd/proxyd/{'raw' if mark else 'blob'}/v{__version__}/")
        assert link.startswith("https://"), link
        assert (ROOT / path).is_file() if start else "proxyd/proxyd" not in link, link


@pytest.mark.long
def test_it_runs_where_it_was_unpacked(wheel: Path, tmp_path: Path) -> None:
    """With what is installed here; the long form installs everything by the lock."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    own = {"PYTHONPATH": str(tmp_path / "site")}
    asked = "import proxyd; print(proxyd.__file__)"
    assert run(sys.executable, "-c", asked, cwd=tmp_path, **own) == f"{tmp_path / 'site/proxyd/__init__.py'}\n"
    assert run(sys.executable, "-m", "proxyd", "version", cwd=tmp_path, **own) == f"proxyd {__version__}\n"
    shown = json.loads(run(sys.executable, "-m", "proxyd", "demo", "--for", "8s", "--json", cwd=tmp_path, **own))
    assert shown["proxyd"]["notifications"] == shown["proxyd"]["verified"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_runs_in_an_environment_of_its_own_that_the_hashed_lock_fills(wheel: Path, tmp_path: Path) -> None:
    """As the image and docs/install.md do it."""
    program = tmp_path / "opt/bin"
    run(sys.executable, "-m", "venv", tmp_path / "opt", cwd=tmp_path)
    pip = (program / "pip", "install", "--quiet")
    run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", DEPLOY / "requirements.lock", cwd=tmp_path)
    run(*pip, "--no-deps", wheel, cwd=tmp_path)
    assert run(program / "pip", "check", cwd=tmp_path).strip() == "No broken requirements found."
    assert run(program / "proxyd", "version", cwd=tmp_path) == f"proxyd {__version__}\n"
    shown = json.loads(run(program / "proxyd", "demo", "--for", "5s", "--json", cwd=tmp_path))
    assert shown["proxyd"]["notifications"] == shown["proxyd"]["verified"] > 0
    assert shown["proxyd"]["undelivered"] == 0
    assert not (tmp_path / "data").exists()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", HERE.values(), ids=HERE)
def test_it_runs_alone_with_each_python_that_is_here(wheel: Path, python: str, tmp_path: Path) -> None:
    """As somebody installs it by name: without extras, with the newest packages."""
    program = tmp_path / "own/bin"
    run(python, "-m", "venv", "--without-pip", tmp_path / "own", cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", program / "python")
    run(*pip, "install", "--quiet", "--only-binary", ":all:", wheel, cwd=tmp_path)
    assert len(json.loads(run(*pip, "list", "--format=json", cwd=tmp_path))) <= 45
    used = sum(path.stat().st_blocks for path in (tmp_path / "own").rglob("*") if not path.is_symlink()) * 512
    assert used <= 220e6
    assert run(program / "proxyd", "version", cwd=tmp_path) == f"proxyd {__version__}\n"
    run(program / "proxyd", "init", cwd=tmp_path)
    run(program / "proxyd", "check", "profiles", cwd=tmp_path)
    shown = json.loads(run(program / "proxyd", "demo", "--for", "5s", "--json", cwd=tmp_path))
    assert shown["proxyd"]["notifications"] == shown["proxyd"]["verified"] > 0
