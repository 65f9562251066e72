"""The workflows are valid and run what there is; a release is made only of a commit that is ready for one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxyd import __version__
from tests.deployment import DEPLOY, ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
BIN = Path(sys.executable).parent


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_valid_and_asks_for_no_more_than_it_names(workflow: Path) -> None:
    command = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(workflow)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert set(yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"].items()) <= {("contents", "read")}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_uses_no_action_of_others(workflow: Path) -> None:
    assert [step for step in steps(workflow) if "uses" in step] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_makes_what_there_is(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join(step["run"] for step in steps(workflow))
    made = {target for line in re.findall(r"^make (.+)$", code, re.MULTILINE) for target in line.split()}
    assert made
    assert made <= targets
    files = re.findall(r"(?<![\w/.])(?:\.ci|deploy)/[\w./-]+\w", code)
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_citation_names_this_version_and_the_five_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert len(citation["references"]) == 5
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


# -- releasing


def commit(folder: Path) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    subprocess.run(["git", *author, "commit", "--quiet", "--message", "a"], cwd=folder, check=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with what the script looks at, and a make that always succeeds."""
    folder = tmp_path / "project"
    shutil.copytree(DEPLOY, folder / "deploy")
    (folder / "proxyd").mkdir()
    (folder / "docs").mkdir()
    (folder / "proxyd/__init__.py").write_text(f'__version__ = "{__version__}"\n')
    (folder / "docs/licences.md").write_text("all\n")
    (folder / "migrations/versions").mkdir(parents=True)
    (folder / "migrations/versions/0007_more.py").touch()
    (folder / "tests/upgrades").mkdir(parents=True)
    written = "INSERT INTO \"alembic_version\" VALUES('0007');\n"
    (folder / f"tests/upgrades/{__version__.rpartition('.')[0]}.sql").write_text(written)
    year = subprocess.run(["date", "+%Y"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "docs/CHANGELOG.md").write_text(f"## {__version__} - {year}-01-01\n")
    (folder / ".gitignore").write_text(".venv\n__pycache__\n")
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/make").write_text(
        "#!/bin/sh\nfor each; do\n"
        'case $each in DIST=*) mkdir -p "${each#DIST=}"; echo a > "${each#DIST=}/a.whl";; esac\ndone\n'
    )
    (tmp_path / "bin/make").chmod(0o755)
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", folder], check=True)
    commit(folder)
    return folder


def release(project: Path, version: str, answer: str = "y\n") -> tuple[int, str, str]:
    """Return the exit code, what was written, and the tags afterwards."""
    path = f"{project.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    identity = {f"GIT_{role}_{key}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environ = {**os.environ, **identity, "PATH": path, "PYTHONPATH": ""}
    command = ["deploy/release.sh", version]
    done = subprocess.run(
        command, cwd=project, env=environ, input=answer, capture_output=True, text=True, check=False, timeout=60
    )
    tags = subprocess.run(["git", "tag"], cwd=project, capture_output=True, text=True, check=True).stdout
    return done.returncode, done.stdout, tags.strip()


def test_a_commit_that_is_ready_is_tagged(project: Path) -> None:
    code, said, tags = release(project, __version__)
    assert (code, tags) == (0, f"v{__version__}"), said
    assert "FAILED" not in said


def test_nothing_is_tagged_where_a_target_fails(project: Path) -> None:
    (project.parent / "bin/make").write_text("#!/bin/sh\nexit 1\n")
    code, said, tags = release(project, __version__)
    assert (code, tags) == (1, ""), said
    assert "FAILED  docs/licences.md is current" in said


def test_a_fix_of_the_minor_version_before_is_made_on_its_branch(project: Path) -> None:
    for branch, ends in (("topic", 1), (f"release/{__version__.rpartition('.')[0]}", 0)):
        subprocess.run(["git", "checkout", "--quiet", "-b", branch], cwd=project, check=True)
        code, said, _ = release(project, __version__)
        assert code == ends, said


def test_nothing_is_tagged_without_a_yes(project: Path) -> None:
    code, _, tags = release(project, __version__, "\n")
    assert (code, tags) == (1, "")


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("docs/CHANGELOG.md", "## Unreleased\n", "docs/CHANGELOG.md has a dated part for it"),
        ("proxyd/__init__.py", '__version__ = "0.0.9"\n', f"proxyd is of version {__version__}"),
        ("migrations/versions/0008_less.py", "", "tests/upgrades has data that it wrote"),
        ("deploy/Dockerfile", "FROM scratch\n", f"images and chart are of version {__version__}"),
    ],
    ids=[
        "without a part in the changes",
        "of another version",
        "without data of its tables",
        "with an image of another version",
    ],
)
def test_a_commit_is_not_released(project: Path, path: str, text: str, what: str) -> None:
    (project / path).write_text(text)
    commit(project)
    code, said, tags = release(project, __version__)
    assert (code, tags) == (1, "")
    assert [line for line in said.splitlines() if line.startswith("FAILED")] == [f"FAILED  {what}"]


def test_what_is_not_committed_is_not_released(project: Path) -> None:
    (project / "more").write_text("a")
    code, said, tags = release(project, __version__)
    assert (code, tags) == (1, "")
    assert "FAILED  nothing is uncommitted" in said
