"""`proxyd token create` while a daemon starts: it holds the database and does not listen yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proxyd.cli import administration
from proxyd.cli.main import main
from proxyd.core.errors import UnreachableError
from proxyd.store.databases.sqlite import file_lock
from tests.databases import migrated_file


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROXYD_DATABASE", str(tmp_path / "p.db"))
    return migrated_file(tmp_path / "p.db")


def answering_after(times: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let a daemon answer after it was asked so often; return the pauses between."""
    pauses: list[float] = []

    def ask(_options: object, _question: Callable[[object], object]) -> dict[str, str]:
        if len(pauses) < times:
            raise UnreachableError("no daemon listens")
        return {"name": "me", "scope": "read", "token": "pxd_made_by_the_daemon"}

    monkeypatch.setattr(administration, "ask", ask)
    monkeypatch.setattr("proxyd.cli.administration.time.sleep", pauses.append)
    return pauses


def test_a_daemon_that_starts_is_waited_for(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = answering_after(5, monkeypatch)
    with file_lock(database):
        assert main(["token", "create", "--name", "me", "--scope", "read"]) == 0
    assert capsys.readouterr().out == "pxd_made_by_the_daemon\n"
    assert len(pauses) == 5


def test_a_daemon_that_never_listens_is_named(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = answering_after(10_000, monkeypatch)
    with file_lock(database):
        assert main(["token", "create", "--name", "me", "--scope", "read"]) == 1
    assert "is in use by a proxyd that does not answer; see its log" in capsys.readouterr().err
    assert sum(pauses) == pytest.approx(30.0)
