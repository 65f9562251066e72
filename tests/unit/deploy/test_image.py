"""The Dockerfile, read: nothing here builds an image, but tests/acceptance/test_wheel.py takes its steps."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from proxyd import __version__
from tests.deployment import DEPLOY, ROOT, named_settings, pinned, unknown_settings
from tests.pages import options_of

TEXT = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def steps() -> list[tuple[str, str]]:
    """Return instructions with their arguments, lines joined and comments left out."""
    lines = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last_stage() -> list[tuple[str, str]]:
    all_steps = steps()
    begins = max(n for n, (word, _) in enumerate(all_steps) if word == "FROM")
    return all_steps[begins:]


def values(word: str) -> list[str]:
    return [rest for found, rest in last_stage() if found == word]


@pytest.mark.parametrize("file", ["Dockerfile", "browser/Dockerfile"])
def test_hadolint_finds_no_fault(file: str) -> None:
    linted = subprocess.run([Path(sys.executable).with_name("hadolint"), DEPLOY / file], capture_output=True, text=True)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_base_is_pinned_and_every_stage_begins_with_it() -> None:
    (base,) = [rest.partition("=")[2] for word, rest in steps() if word == "ARG"]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert {rest.split()[0] for word, rest in steps() if word == "FROM"} == {"${BASE}"}


def test_it_runs_as_a_numbered_user_that_is_not_root() -> None:
    (user,) = values("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    words = [word for word, _ in last_stage()]
    assert set(words[words.index("USER") :]).isdisjoint({"RUN", "COPY", "ADD"})


def test_what_it_runs_and_how_it_is_asked_for_its_health_are_verbs() -> None:
    (entry,), (command,), (health,) = values("ENTRYPOINT"), values("CMD"), values("HEALTHCHECK")
    assert json.loads(entry) == ["proxyd"]
    options_of(json.loads(command))
    options, _, asked = health.partition("CMD")
    program, *arguments = json.loads(asked)
    assert program == "proxyd"
    timeout_s = re.search(r"--timeout=(\d+)s", options)
    assert timeout_s is not None
    assert options_of(arguments).timeout < int(timeout_s[1])


def test_it_stops_as_the_daemon_does_and_says_which_version_it_is() -> None:
    assert values("STOPSIGNAL") == ["SIGTERM"]
    labels = dict(word.split("=", 1) for label in values("LABEL") for word in shlex.split(label))
    assert labels["org.opencontainers.image.version"] == __version__


def ignored(path: str) -> bool:
    """Return whether .dockerignore keeps a path out: its last line that fits says so."""
    out = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
        if fnmatch(path, line.removeprefix("!")):
            out = not line.startswith("!")
    return out


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    copied = [rest.split()[:-1] for word, rest in steps() if word == "COPY" and not rest.startswith("--from")]
    sources = [name for names in copied for name in names]
    assert {"proxyd", "migrations", "deploy/requirements.lock"} <= set(sources)
    assert [name for name in sources if not (ROOT / name).exists() or ignored(name)] == []
    assert ignored("deploy/secrets")
    assert ignored("data")


def test_every_package_comes_with_its_hash() -> None:
    installs = re.findall(r"pip[^&]*? install [^&]*", " ".join(rest for word, rest in steps() if word == "RUN"))
    assert len(installs) == 3
    assert all("--require-hashes --only-binary :all:" in line or "--no-deps /wheels/" in line for line in installs)


def test_it_holds_no_secret_and_every_variable_is_a_setting() -> None:
    named = named_settings(TEXT)
    assert "PROXYD_LISTEN" in named
    assert unknown_settings(named) == set()
    assert not re.search(r"PASSWORD|TOKEN|_DATABASE|_NATS", TEXT)


def test_the_locks_agree() -> None:
    everything, run, built = (
        pinned(path) for path in (ROOT / "requirements.lock", DEPLOY / "requirements.lock", DEPLOY / "build.lock")
    )
    assert len(run) > 50
    for lock in (run, built):
        assert {name: versions for name, versions in lock.items() if versions != everything.get(name)} == {}
    assert set(run).isdisjoint({"pytest", "mypy", "ruff", "hatchling"})
