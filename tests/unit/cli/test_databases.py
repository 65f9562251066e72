"""The verbs on a database that no daemon holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from proxyd.cli.main import main
from proxyd.store.databases.sqlite import file_lock
from tests.databases import migrated_file
from tests.former import V0_1, former_file

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROXYD_DATABASE", str(tmp_path / "p.db"))
    return tmp_path / "p.db"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return how a verb ended, and what it printed."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(each) for each in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_copy_is_written_checked_and_brought_back(database: Path, tmp_path: Path, say: Say) -> None:
    migrated_file(database)
    copy = tmp_path / "copy.db"
    code, out, _ = say("backup", copy)
    assert (code, f" MiB, checked; `proxyd restore {copy}` brings it back\n" in out) == (0, True)
    assert json.loads(say("backup", copy, "--verify", "--json")[1]) == {
        "file": str(copy),
        "bytes": copy.stat().st_size,
    }
    code, out, _ = say("restore", copy)
    told, kept = out.rstrip().split("; the previous one is kept as ")
    assert (code, told) == (0, f"{database} is restored from {copy}")
    assert Path(kept).exists()
    assert database.exists()


def test_a_copy_moves_profiles_and_settings_to_another_machine(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for machine in (old, new):
        machine.mkdir()
    monkeypatch.chdir(old)
    (old / "profiles").mkdir()
    (old / "profiles" / "news.profile").write_text("WATCH 'https://example.org/feed';\n")
    (old / "proxyd.toml").write_text('database = "kept/p.db"\n')
    assert say("db", "migrate")[0] == 0
    code, out, _ = say("backup", tmp_path / "copy.db")
    assert code == 0
    assert "it holds profiles/news.profile, proxyd.toml, but no secrets" in out
    monkeypatch.chdir(new)
    assert say("restore", tmp_path / "copy.db")[0] == 0
    assert (new / "profiles" / "news.profile").read_text() == "WATCH 'https://example.org/feed';\n"
    assert (new / "kept" / "p.db").exists()
    (new / "profiles" / "news.profile").write_text("-- mine\n")
    code, out, _ = say("restore", tmp_path / "copy.db")
    assert (code, "profiles/news.profile is left as it is here" in out) == (0, True)
    assert say("db", "vacuum")[0] == 0


def test_what_is_no_copy_is_not_taken_for_one(database: Path, tmp_path: Path, say: Say) -> None:
    migrated_file(database)
    other = tmp_path / "notes.txt"
    other.write_text("no database" * 1000)
    assert say("backup", other, "--verify")[0] == 1
    assert say("restore", other)[0] == 1
    assert say("restore", tmp_path / "missing.db")[0] == 1


def test_a_nightly_copy_is_found_by_itself(
    database: Path, tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "name the file to write, or take --verify" in say("backup")[2]
    monkeypatch.setenv("PROXYD_BACKUP", "off")
    assert "no nightly copies are made (setting backup)" in say("backup", "--verify")[2]
    monkeypatch.setenv("PROXYD_BACKUP", str(tmp_path / "copies"))
    assert "there is no nightly copy in" in say("backup", "--verify")[2]


def test_the_schema_is_brought_up_and_rows_are_copied(database: Path, tmp_path: Path, say: Say) -> None:
    assert say("db", "migrate") == (0, f"{database} is at the newest schema\n", "")
    code, out, _ = say("db", "vacuum")
    assert (code, out.startswith(f"{database} is vacuumed: ")) == (0, True)
    target = tmp_path / "other.db"
    copied = json.loads(say("db", "copy", target, "--json")[1])
    assert (copied["database"], copied["rows"]["items"]) == (str(target), 0)


def test_a_database_that_a_daemon_holds_is_left_alone(database: Path, tmp_path: Path, say: Say) -> None:
    copy = tmp_path / "copy.db"
    migrated_file(database)
    assert say("backup", copy)[0] == 0
    with file_lock(database):
        for verb in (["restore", copy], ["db", "vacuum"], ["db", "copy", tmp_path / "other.db"]):
            code, _, err = say(*verb)
            assert (code, "is in use by another proxyd" in err) == (1, True), verb


def test_what_is_printed_for_scripts_is_not_mixed_with_the_log(database: Path, say: Say) -> None:
    former_file(V0_1, database)
    code, out, err = say("token", "create", "--name", "a", "--scope", "read")
    assert (code, out.startswith("pxd_"), out.count("\n")) == (0, True, 1)
    assert "tables are brought to the newest schema" in err
