"""Rules that an earlier version accepted: what they do differently is said once, and their counters stay."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from proxyd.cli.main import main
from proxyd.core.language import MEANING, SourceText, check
from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_connections, open_store
from proxyd.store.declared_rows import StoredText
from tests.fleets import DOMAIN, decider, declaration, rule, source
from tests.former import V0_1, former_file, without_rows

RULES = {
    "plain": rule("plain", when="COUNT(*) % 3 = 0"),
    "matching": rule("matching", when="title LIKE 'a%'"),
    "mixed": rule("mixed", when="COUNT(*) > 3 AND title LIKE 'a%'"),
    "narrow": rule("narrow", query="SELECT title FROM RSS WHERE title LIKE 'b%'"),
}
TEXT = DOMAIN + source("s") + "".join(RULES.values())


async def database_of_the_version_before(path: Path, fingerprints: dict[str, str]) -> None:
    def fill(connection: Connection) -> None:
        add_rule = text("INSERT INTO rules (name, fingerprint, accepted_s) VALUES (:name, :fingerprint, 1e9)")
        connection.execute(add_rule, [{"name": n, "fingerprint": f} for n, f in fingerprints.items()])
        columns = "rule, source_id, counts, fired_seq, fired_s, captured, missed, utility"
        add_stream = text(f"INSERT INTO streams ({columns}) VALUES (:rule, 's', :counts, 7, 1e9, 2, 1, 2.0)")
        counted = [[5, 5.0, None, None, None]]
        connection.execute(add_stream, [{"rule": n, "counts": json.dumps(counted)} for n in fingerprints])

    async with open_connections(without_rows(former_file(V0_1, path))) as connections:
        await connections.writer.call(fill)


@pytest.mark.parametrize("of", ["fresh", "known"])
async def test_check_names_the_rules_whose_meaning_changed_until_they_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], of: str
) -> None:
    profile, database = tmp_path / "a.profile", tmp_path / "proxyd.db"
    profile.write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("PROXYD_DATABASE", str(database))
    checked = check([SourceText("a", TEXT)])
    assert checked.declaration is not None
    fingerprints = {r.name: r.fingerprint for r in checked.declaration.rules.values()}
    if of == "known":
        await database_of_the_version_before(database, fingerprints)
    assert await asyncio.to_thread(main, ["check", str(profile)]) == 0
    told = [line.rpartition(" means ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    names = ["matching", "mixed", "narrow"] if of == "known" else []
    assert told == [f"note: rule {name}" for name in names]
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        before = await store.declarations.meanings()
        rules = checked.declaration.rules.values()
        accepted = await store.declarations.accept([StoredText("a", "file", TEXT)], rules, 2e9)
        streams = await store.load_streams()
        after = await store.declarations.meanings()
    assert set(after.values()) == {MEANING}
    if of == "known":
        assert set(before.values()) == {1}
        assert set(accepted.values()) == {1e9}
        assert {(name, each.count, each.seen) for (name, _), each in streams.items()} == {(n, 5, 5) for n in RULES}
    assert await asyncio.to_thread(main, ["check", str(profile)]) == 0
    assert "means something else" not in capsys.readouterr().out


async def test_check_names_the_counters_that_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, database = tmp_path / "a.profile", tmp_path / "proxyd.db"
    monkeypatch.setenv("PROXYD_DATABASE", str(database))
    before, after = (
        DOMAIN + source("s") + rule("r", when=when) + rule("same", when="COUNT(*) = 2")
        for when in ("COUNT(*) % 3 = 0", "COUNT(*) % 4 = 0 AND COUNT(DISTINCT link) > 2 AND MAX(title) > 'a'")
    )
    declared = check([SourceText("a", before)]).declaration
    assert declared is not None
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.accept([], declared.rules.values(), 2e9)
    profile.write_text(after, encoding="utf-8")
    assert await asyncio.to_thread(main, ["check", str(profile)]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    counters = "COUNT(DISTINCT channel.item.link), MAX(channel.item.title)"
    kept = "its NOW, its other counters and what was sent are kept"
    assert told == [f"note: rule r: {counters} start again; {kept}"]
    assert await asyncio.to_thread(main, ["check", str(profile), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"] == {"r": counters.split(", ")}


@pytest.mark.parametrize("is_edited", [False, True])
async def test_an_earlier_versions_counters_go_on_unless_the_rule_was_edited_meanwhile(
    tmp_path: Path, *, is_edited: bool
) -> None:
    database = tmp_path / "proxyd.db"
    declared = check([SourceText("a", TEXT)]).declaration
    assert declared is not None
    known = {r.name: "of another text" if is_edited else r.fingerprint for r in declared.rules.values()}
    await database_of_the_version_before(database, known)
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        accepted = await store.declarations.accept([], declared.rules.values(), 2e9)
        streams = await store.load_streams()
    found = decider(declaration(), now_s=1e9)
    found.restore({}, streams)
    found.declare(declared, accepted, 2e9)
    stream = found.known.streams["matching", "s"]
    assert (stream.count, stream.captured) == (0 if is_edited else 5, 2)
    assert stream.fired_seq == 7
    assert set(accepted.values()) == {1e9}


async def test_check_knows_what_the_api_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles, database = tmp_path / "profiles", tmp_path / "proxyd.db"
    profiles.mkdir()
    monkeypatch.setenv("PROXYD_DATABASE", str(database))
    monkeypatch.setenv("PROXYD_PROFILES", str(profiles))
    file, reading = profiles / "a.profile", "CREATE SOURCE s OF FEED AT 'https://a.example/s';\n"
    watch = "WATCH 'https://a.example/w' AS w;\n"
    of_s = (
        'CREATE PROFILE P; INSERT NOTIFICATION r INTO P SET TRIGGER "ON INSERT TO FEED" SET QUERY "SELECT * FROM FEED"'
    )
    api = [
        StoredText("api:notification:w", "api", watch),
        StoredText("api:notification:r", "api", f"{of_s} FROM SOURCES s;"),
    ]
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.accept(api, (), 1e9)

    async def checked(text: str, path: Path) -> tuple[int, str]:
        file.write_text(text, encoding="utf-8")
        code = await asyncio.to_thread(main, ["check", str(path)])
        return code, capsys.readouterr().out

    assert await checked(reading, profiles) == (0, "1 file, 0 profiles, 0 rules, 1 source\n")  # the API's rule reads it
    code, said = await checked(reading + watch, profiles)
    assert (code, "'w' is declared twice; the first is at api:notification:w:1:32" in said) == (1, True)
    code, said = await checked("CREATE PROFILE Q;", profiles)
    assert (code, "there is no source 's'" in said) == (1, True)
    assert (await checked("CREATE PROFILE Q;", file))[0] == 0  # other files may declare it
