"""Sources from OPML and lists of addresses, and out again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from proxyd.cli.main import main

OPML = """<?xml version="1.0"?><opml version="1.0"><body>
<outline text="News"><outline type="rss" text="A &quot;quoted&quot; feed" xmlUrl="https://example.org/a?b=1&amp;c='2'"/>
<outline type="rss" title="Same" xmlUrl="https://example.org/b"/></outline>
<outline type="rss" title="Same" xmlUrl="feed:https://example.org/c"/>
<outline type="rss" title="Again" xmlUrl="https://example.org/b"/>
<outline type="rss" text="Umlaut ü" xmlURL="feed://example.org/d"/>
</body></opml>"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_feeds_come_in_and_go_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setenv("PROXYD_PROFILES", str(folder))
    assert main(["import", write(tmp_path, "feeds.opml", OPML), "--out", str(folder / "in.profile")]) == 0
    said = f"4 new sources in {folder / 'in.profile'}, 0 already there, 1 listed again, 0 left out\n"
    assert capsys.readouterr().out == said
    assert main(["check", str(folder)]) == 0
    assert "2 profiles, 2 rules, 4 sources" in capsys.readouterr().out
    assert main(["export"]) == 0
    outlines = list(ElementTree.fromstring(capsys.readouterr().out.split("\n", 1)[1]).iter("outline"))
    folders = {outline.attrib["text"]: len(outline) for outline in outlines if len(outline)}
    assert folders == {"Imported": 2, "News": 2}
    outlines = [each for each in outlines if not len(each)]
    assert {outline.attrib["xmlUrl"] for outline in outlines} == {
        "https://example.org/a?b=1&c='2'",
        "https://example.org/b",
        "https://example.org/c",
        "http://example.org/d",
    }
    assert sorted(outline.attrib["text"] for outline in outlines) == ['A "quoted" feed', "Same", "Same 2", "Umlaut ü"]


def test_what_the_daemon_was_told_to_watch_is_not_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "proxyd.db")) as database, database:
        database.execute("CREATE TABLE texts (name, origin, position, text)")
        kept = [("api", "WATCH 'https://example.org/a';"), ("file", "WATCH 'https://example.org/b';")]
        database.executemany("INSERT INTO texts VALUES ('', ?, 0, ?)", kept)
    listed = write(tmp_path, "urls.txt", "https://example.org/a\nhttps://example.org/b\n")
    assert main(["import", listed, "--out", "profiles/in.profile"]) == 0
    assert capsys.readouterr().out == "1 new source in profiles/in.profile, 1 already there, 0 left out\n"
    assert "https://example.org/b" in (tmp_path / "profiles/in.profile").read_text(encoding="utf-8")
    jobs = write(
        tmp_path, "kuma.json", '{"monitorList": [{"name": "a", "type": "http", "url": "https://example.org/a"}]}'
    )
    assert main(["import", jobs, "--out", "profiles/sites.profile"]) == 0
    assert capsys.readouterr().out.startswith("0 new sources, 1 already there, ")


def test_a_list_of_addresses_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = "# mine\nhttps://example.org/a\n\nhttps://example.org/b\n"
    assert main(["import", write(tmp_path, "urls.txt", listed), "--name", "Pages"]) == 0
    printed, told = capsys.readouterr()
    counts, advice = told.splitlines()
    assert counts == "2 new sources printed, 0 already there, 0 left out"
    assert advice.startswith("nothing is watched by that: `--out profiles/FILE.profile` writes it")
    assert printed.count("CREATE SOURCE") == 2
    assert '"example.org 2"' in printed
    assert 'CREATE DOMAIN "Pages"' in printed


def test_two_lists_stand_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        listed = write(tmp_path, f"{name}.txt", f"https://{name}.example.org/\n")
        assert main(["import", listed, "--name", name, "--out", str(tmp_path / f"{name}.profile")]) == 0
    assert main(["check", str(tmp_path)]) == 0
    assert "2 files, 2 profiles, 2 rules, 2 sources" in capsys.readouterr().out


def test_a_list_of_pages_tells_what_changes_on_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = write(tmp_path, "urls.txt", "https://example.org/a\n")
    out = tmp_path / "pages.profile"
    assert main(["import", listed, "--pages", "--name", "Watched", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert """OF "Watched".WEBPAGE AT 'https://example.org/a'""" in text
    assert "ON UPDATE TO WEBPAGE" in text
    assert 'NOTIFICATION "Watched: changes"' in text
    assert main(["check", str(out)]) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no feed"),
        ("<opml><body/></opml>", "lists no feed"),
        ("<opml><body>", "in.opml:1: not well-formed XML"),
        ('<!DOCTYPE o [<!ENTITY a "b">]><opml/>', "has a DOCTYPE"),
        ("ftp://example.org/a", "in.opml:1: 'ftp://example.org/a' is not an http or https address"),
        (
            '<opml><outline xmlUrl="javascript:alert(1)"/></opml>',
            "in.opml:1: 'javascript:alert(1)' is not an http or https",
        ),
        ("a\nc", "in.opml:2: 'c' is not an http or https address"),
        ("b.example/c", "in.opml:1: 'b.example/c' is not an http or https address; write 'https://b.example/c'"),
        ("a\n" * 30, "in.opml: and 10 more"),
    ],
    ids=["empty", "no outline", "cut off", "entities", "ftp", "script", "a later line", "no scheme", "many"],
)
def test_what_cannot_be_imported_is_named(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", write(tmp_path, "in.opml", text)]) == 1
    assert says in capsys.readouterr().err


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = write(tmp_path, "mine.profile", "mine")
    assert main(["import", write(tmp_path, "u.txt", "https://example.org/a"), "--out", there]) == 1
    assert "mine.profile:1:1" in capsys.readouterr().err
    assert Path(there).read_text(encoding="utf-8") == "mine"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("out", "said"), [("none/a.profile", "there is no such folder"), ("a.opml", "profiles are files that end with")]
)
def test_a_file_that_nobody_would_read_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, said: str
) -> None:
    file = tmp_path / out
    assert main(["import", write(tmp_path, "u.txt", "https://example.org/a"), "--out", str(file)]) == 1
    assert f"{file}: {said}" in capsys.readouterr().err
    assert not file.exists()


def test_an_import_into_another_folder_says_which_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.profile"
    assert main(["import", write(tmp_path, "u.txt", "https://example.org/a"), "--out", str(out)]) == 0
    assert f"{out} is not watched: the daemon here reads the profiles in" in capsys.readouterr().out


def test_an_import_tells_a_webhook_with_its_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = write(tmp_path, "u.txt", "https://example.org/a")
    assert main(["import", listed, "--to", "https://hook.example/"]) == 1
    assert "--secret" in capsys.readouterr().err
    assert main(["import", listed, "--to", "https://hook.example/", "--secret", "SECRET_HOOK"]) == 0
    assert "WEBHOOK 'https://hook.example/' SECRET ENV 'SECRET_HOOK'" in capsys.readouterr().out


def test_the_pages_of_an_export_are_named_and_taken_back_as_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXYD_PROFILES", str(tmp_path))
    outlines = '<outline type="rss" text="a" xmlUrl="https://a.example/feed"/>\n<outline type="link" text="c" url="https://c.example/"/>'
    listed = write(tmp_path, "sources.opml", f"<opml><body>{outlines}</body></opml>")
    assert main(["import", listed, "--out", str(tmp_path / "feeds.profile")]) == 0
    assert (
        "sources.opml:2: 'https://c.example/' is a page; import the list once more, with --pages"
        in capsys.readouterr().out
    )
    assert main(["import", listed, "--pages", "--name", "Pages", "--out", str(tmp_path / "pages.profile")]) == 0
    assert "1 new source in" in capsys.readouterr().out
    assert """OF "Pages".WEBPAGE AT 'https://c.example/'""" in (tmp_path / "pages.profile").read_text(encoding="utf-8")


def test_an_import_is_repeated_and_adds_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXYD_PROFILES", str(tmp_path))
    out, mine = tmp_path / "in.profile", tmp_path / "mine.profile"
    mine.write_text(
        """CREATE DOMAIN "D" AS CLASS::PAGE; CREATE SOURCE "Same" OF PAGE AT 'https://example.org/b';""",
        encoding="utf-8",
    )
    arguments = ["import", write(tmp_path, "feeds.opml", OPML), "--out", str(out)]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(f"3 new sources in {out}, 1 already there")
    first = out.read_text(encoding="utf-8")
    assert main(arguments) == 0
    assert capsys.readouterr().out == "0 new sources, 4 already there, 1 listed again, 0 left out\n"
    assert out.read_text(encoding="utf-8") == first
    write(tmp_path, "feeds.opml", OPML.replace("org/b", "org/new").replace("feed:https", "mailto:x"))
    out.write_text(f"-- mine\n{first}", encoding="utf-8")
    assert main(arguments) == 0
    *_, count, fault = capsys.readouterr().out.splitlines()
    assert count == f"1 new source in {out}, 2 already there, 1 listed again, 1 left out"
    assert "feeds.opml:4: 'mailto:x://example.org/c' is not an http or https address" in fault
    text = out.read_text(encoding="utf-8")
    assert text.startswith(f"-- mine\n{first}")
    assert text.removeprefix(f"-- mine\n{first}").split("\n") == [
        "",
        """CREATE SOURCE "Same 3" OF "News".ARTICLE AT 'https://example.org/new';""",
        "",
    ]
    assert main(["check", str(tmp_path)]) == 0
    assert main(["fmt", str(out)]) == 0
    assert capsys.readouterr().out.endswith(text)


def test_feed_readers_are_not_given_pages_and_sites_as_feeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    text = "WATCH 'https://a.example/feed'; WATCH 'https://b.example' OF SITE; WATCH 'https://c.example' OF PAGE;"
    (tmp_path / "profiles" / "a.profile").write_text(text, encoding="utf-8")
    assert main(["export"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "<outline" in line]
    assert lines == [
        '<outline type="rss" text="a.example/feed" xmlUrl="https://a.example/feed" />',
        '<outline type="link" text="b.example" url="https://b.example" />',
        '<outline type="link" text="c.example" url="https://c.example" />',
    ]
