"""What other programs keep becomes sources: of files that they wrote, or that are written as their documents say."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from proxyd.cli.main import main

EXPORTS = Path(__file__).parent / "exports"
Import = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Import:
    """Return how an import ended, the profile without layout, and what was said of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()

    def run(file: Path, *options: str) -> tuple[int, str, list[str]]:
        code = main(["import", str(file), "--out", "profiles/moved.profile", *options])
        said = capsys.readouterr()
        out = tmp_path / "profiles/moved.profile"
        text = re.sub(r"\s+", " ", out.read_text(encoding="utf-8")) if out.exists() else ""
        return code, text, [*said.out.splitlines(), *said.err.splitlines()]

    return run


def test_the_pages_of_a_backup_of_changedetection_io_are_watched_as_there(imported: Import) -> None:
    code, text, (counts, *notes) = imported(EXPORTS / "changedetection.zip", "--to", "me@example.org")
    assert (code, counts) == (0, "7 new sources in profiles/moved.profile, 0 already there, 4 left out in part")
    for statement in (
        "WATCH 'https://shop.example.org/terms' OF PAGE INTO \"legal\" AS \"Terms\" TELL MAIL 'me@example.org';",
        "CLASS::VALUE( value:String FROM CSS '#hours');",
        "WHERE value ILIKE '%closed%' TELL MAIL 'me@example.org';",
        "CLASS::VALUE( value:String FROM XPATH '//ul[@id=''jobs'']');",
        "HEADER 'Accept-Language' 'de' FETCH BROWSER;",
        "CLASS::VALUE( value:String FROM JSON '$.status');",
        'WATCH \'https://shop.example.org/lamp\' OF PRICE INTO "shopping" AS "Lamp"',
    ):
        assert statement in text
    assert notes == [
        "Opening hours: not taken over: ignored text",
        "Jobs: not taken over: what is removed from the page",
        "Old: not taken over: it is paused there, its method or body",
        "news.example.org: not taken over: selectors but 'h1'",
    ]
    again = imported(EXPORTS / "changedetection.zip", "--to", "me@example.org")
    assert again[:2] == (0, text)
    assert again[2][0] == "0 new sources, 7 already there, 0 left out in part"


def test_a_backup_of_an_older_changedetection_io_has_its_watches_in_one_file(imported: Import, tmp_path: Path) -> None:
    tags = {"application": {"tags": {"u": {"title": "legal"}}, "notification_urls": ["tgram://a/b"]}}
    watch = {"url": "https://example.org/a", "tags": ["u"], "ignore_text": ["/Views: \\d+/i"], "title": "A"}
    kept = {"watching": {"w": watch | {"notification_urls": ["mailto://a"]}}, "settings": tags}
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("url-watches.json", json.dumps(kept))
    _, text, (_, note) = imported(tmp_path / "old.zip")
    assert text.strip() == ("WATCH 'https://example.org/a' OF PAGE IGNORE '/(?i)Views: \\d+/' INTO \"legal\" AS \"A\";")
    assert note.endswith("its notification addresses are not taken over: add TELL CHANNEL, or take --to")


@pytest.mark.parametrize(
    ("file", "counts", "statements", "notes"),
    [
        (
            "urlwatch.yaml",
            "5 new sources",
            ["FROM CSS '#hours'", 'FETCH BROWSER AS "Jobs"', "FROM XPATH '//ul[@id=''jobs'']'", "FROM CSS '#main'"],
            [
                "left out: Disk, which is no address",
                "Jobs: not taken over: lines that are removed",
                "Views: not taken over: the filter shellpipe",
                "Post: not taken over: data",
            ],
        ),
        (
            "webchanges.yaml",
            "4 new sources",
            ["FROM CSS 'ul#jobs'", 'FETCH BROWSER AS "Jobs"', "FROM JSON '$.status'"],
            ["Jobs: not taken over: lines that are removed", "example.org: not taken over: it is off there"],
        ),
        (
            "uptime-kuma.json",
            "4 new sources",
            [
                "WATCH 'https://shop.example.org' OF SITE AS \"Shop\";",
                "WATCH 'https://blog.example.org/' OF SITE HOLDING 'Welcome' AS \"Blog\";",
                "WATCH 'tcp://db.example.org:5432' OF SITE AS \"Database\";",
            ],
            [
                "left out: Router, which is of the kind ping",
                "Database: not taken over: it is paused there",
                "API: not taken over: its method or body, its headers",
            ],
        ),
        (
            "newsboat.txt",
            "2 new sources",
            ['CREATE PROFILE "news"', 'CREATE SOURCE "My A" OF "news".ARTICLE'],
            ["query"],
        ),
        ("freshrss.opml", "2 new sources", ['CREATE SOURCE "CPython" OF "Releases".ARTICLE'], []),
        ("miniflux.opml", "2 new sources", ['CREATE SOURCE "CPython" OF "Releases".ARTICLE'], []),
    ],
    ids=["urlwatch", "webchanges", "Uptime Kuma", "newsboat", "FreshRSS", "Miniflux"],
)
def test_what_a_program_keeps_is_taken_over_and_the_rest_is_named(
    imported: Import, file: str, counts: str, statements: list[str], notes: list[str]
) -> None:
    code, text, said = imported(EXPORTS / file)
    assert (code, said[0].partition(" in ")[0]) == (0, counts)
    assert [each for each in statements if each not in text] == []
    assert len(said) - 1 == len(notes)
    assert all(note in line for note, line in zip(notes, said[1:], strict=True))


@pytest.mark.skipif(shutil.which("newsboat") is None, reason="newsboat is not installed")
def test_the_opml_that_newsboat_makes_of_its_urls_is_taken_over(imported: Import, tmp_path: Path) -> None:
    """Without tags, which it does not export."""
    command = ["newsboat", "--export-to-opml", "--url-file", str(EXPORTS / "newsboat.txt"), "--cache-file", "cache.db"]
    alone = os.environ | {"HOME": str(tmp_path)}
    made = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, check=True, timeout=60)
    (tmp_path / "feeds.opml").write_bytes(made.stdout)
    code, text, said = imported(tmp_path / "feeds.opml")
    assert (code, said[0].partition(" in ")[0]) == (0, "2 new sources")
    assert 'CREATE SOURCE "My A" OF "Imported".ARTICLE AT \'https://a.example.org/feed\';' in text
    assert "AT 'https://b.example.org/feed'" in text


def test_the_feeds_of_a_database_of_reader_are_taken_over(imported: Import, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db.sqlite")) as connection:
        connection.executescript((EXPORTS / "reader.sql").read_text(encoding="utf-8"))
    code, text, said = imported(tmp_path / "db.sqlite")
    assert (code, said[0].partition(" in ")[0]) == (0, "3 new sources")
    assert 'CREATE SOURCE "My A" OF "Imported".ARTICLE AT \'https://a.example.org/feed\';' in text
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.executescript("CREATE TABLE feeds (url)")
    assert (imported(tmp_path / "other.db")[0], "no database of reader" in imported(tmp_path / "other.db")[2][0]) == (
        1,
        True,
    )


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.zip", b"PK\x03\x04 cut off", "is a damaged archive"),
        ("a.json", b'{"monitorList": [{"type": "ping", "name": "Router"}]}', "holds nothing that proxyd can watch"),
        ("a.json", b'{"other": 1}', "is neither a backup of Uptime Kuma nor one of changedetection.io"),
        ("a.json", b'{"watching": ', "is not JSON that can be read"),
        ("a.yaml", b"name: [", "is not YAML that can be read"),
        ("a.yaml", b"name: a\nurl: ftp://example.org/\n", "a, whose address cannot be watched"),
        ("a.yaml", b"x" * (8 * 2**20 + 1), "a file may have 8388608 bytes at most"),
        ("a.json", b'{"watching": [' + b" " * 2**23, "is larger than 8 MiB"),
        ("a.txt", b"x\n" * 100_001, "lists more than 100000 addresses"),
        ("a.txt", b" " * (2**24 + 1), "a file may have 16777216 bytes at most"),
        ("a.json", b'{"watching": [%s]}' % b",".join([b"{}"] * 20_001), "holds more than 20000 jobs"),
    ],
)
def test_what_cannot_be_read_is_refused_and_writes_nothing(
    imported: Import, tmp_path: Path, name: str, body: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(body)
    code, text, lines = imported(tmp_path / name)
    assert (code, text, said in "\n".join(lines)) == (1, "", True)


def test_a_selector_that_cannot_be_read_is_left_out_and_its_page_watched(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: A\nurl: https://example.org/\nfilter: [{xpath: '//a['}]\n")
    code, text, said = imported(tmp_path / "a.yaml")
    assert (code, text.strip()) == (0, "WATCH 'https://example.org/' OF PAGE AS \"A\";")
    assert said[1] == "A: not taken over: the selector '//a['"


def test_without_a_reader_of_yaml_it_says_what_to_install(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    code, _, said = imported(EXPORTS / "urlwatch.yaml")
    assert (code, said[0].endswith("to read YAML, install proxyd[moving]")) == (1, True)


def test_a_list_may_come_through_a_pipe(imported: Import) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"https://example.org/feed\n")
    os.close(writing)
    code, text, said = imported(Path(f"/dev/fd/{reading}"))
    os.close(reading)
    assert (code, said[0].partition(" in ")[0], "AT 'https://example.org/feed'" in text) == (0, "1 new source", True)


@pytest.mark.parametrize(
    ("jobs", "counts", "notes"),
    [
        ("{url: https://a.example, name: A, filter: ['grepi: (?!x)a']}", 1, ["A: not taken over: lines that are left"]),
        ("{url: https://a.example, name: A, headers: {Host: b}}", 1, ["A: not taken over: headers of its own"]),
        (
            (
                "{url: https://a.example, name: A, filter: ['css:#a'], headers: {X: y}}\n---\n"
                "{url: https://a.example, name: B, filter: ['css:#b'], headers: {X: y}}\n---\n"
                "{navigate: https://a.example, name: C, headers: {X: z}, filter: ['grepi:ads']}"
            ),
            3,
            ["B: not taken over: headers of its own", "C: not taken over: "],
        ),
        (
            (
                "{url: https://a.example, name: A, headers: {X: y}}\n---\n"
                "{url: http://a.example, name: B, headers: {X: y}}"
            ),
            2,
            ["B: not taken over: headers of its own"],
        ),
        ("\n---\n".join(f"{{url: https://a.example, name: N{n}, filter: ['css:#a{n}']}}" for n in range(6)), 6, []),
    ],
    ids=["pattern", "header", "same address", "two schemes", "many values"],
)
def test_a_job_that_cannot_be_said_as_a_whole_does_not_end_the_import(
    imported: Import, tmp_path: Path, jobs: str, counts: int, notes: list[str]
) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "urls.yaml").write_text(jobs)
    code, text, (said, *told) = imported(tmp_path / "urls.yaml")
    assert (code, text.count("WATCH ")) == (0, counts), told
    assert said.startswith(f"{counts} new source")
    assert [line for note, line in zip(notes, told, strict=True) if note not in line] == []


def test_a_monitor_that_cannot_be_taken_over_is_named(imported: Import, tmp_path: Path) -> None:
    monitors = [
        {"type": "port", "name": "Six", "hostname": "2001:db8::1", "port": 5432},
        {"type": "port", "name": "Nowhere", "port": 1},
        {"type": "keyword", "name": "Not", "url": "https://a.example", "keyword": "error", "invertKeyword": True},
        {"type": "http", "name": "Paused", "url": "https://b.example", "active": 0},
    ]
    (tmp_path / "kuma.json").write_text(json.dumps({"monitorList": monitors}))
    code, text, (said, *told) = imported(tmp_path / "kuma.json")
    assert (code, said.partition(" in ")[0]) == (0, "3 new sources"), told
    assert "WATCH 'tcp://[2001:db8::1]:5432' OF SITE" in text
    assert told[0] == f"{tmp_path / 'kuma.json'}: left out: Nowhere, whose address cannot be watched"
    assert told[1:] == [
        "Not: not taken over: that its word must not be there",
        "Paused: not taken over: it is paused there",
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("urls.yaml", "a: &a [*a]\nurl: https://a.example"),
        ("urls.yaml", "- " * 100_000),
        ("urls.yaml", "[" * 100_000),
        ("urls.yaml", "? [a]\n: b"),
        ("urls.yaml", "a: !!bool foo"),
        ("urls.yaml", "a: !!timestamp foo"),
        ("backup.json", '{"watching": {}, "settings": []}'),
        ("backup.json", '{"watching": {}, "settings": {"application": {"tags": []}}}'),
        ("backup.json", '{"monitorList": {"1": {"type": "http", "active": []}}}'),
        ("backup.json", '{"watching": [' * 100_000),
        ("backup.json", "[" * 100_000),
        ("backup.json", '{"watching": {"1": {"url": "https://a.example", "title": %s}}}' % ("1" * 5000)),
    ],
)
def test_a_damaged_file_is_one_error(imported: Import, tmp_path: Path, file: str, text: str) -> None:
    pytest.importorskip("yaml")
    (tmp_path / file).write_text(text)
    code, written, told = imported(tmp_path / file)
    assert (code, written) == (1, "")
    assert "Traceback" not in "".join(told)
    assert file in told[-1]


def test_a_backup_that_grows_beyond_all_bounds_is_refused(imported: Import, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(100):
            archive.writestr(f"{number}/watch.json", b'{"url": "https://a.example"}' + b" " * (1 << 20))
    code, written, told = imported(tmp_path / "many.zip")
    assert (code, written) == (1, "")
    assert told[-1].endswith("many.zip: its watches are larger than 16 MiB")


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_backup_with_damaged_bytes_is_one_error(imported: Import, tmp_path: Path, packed: int) -> None:
    path, name = tmp_path / "broken.zip", "url-watches.json"
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr(name, b'{"watching": {"1": {"url": "https://a.example"}}}' * 20)
    body = bytearray(path.read_bytes())
    begin = 30 + len(name) + 8  # behind the header of the member, and that of LZMA
    body[begin : begin + 12] = b"\xff" * 12
    path.write_bytes(body)
    code, written, told = imported(path)
    assert (code, written) == (1, "")
    assert "broken.zip is a damaged archive" in told[-1]


_ALIASES = [
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 9)
]  # each stands for ten of the former one, which took 18 s and 1.7 GB


@pytest.mark.parametrize(
    "text",
    [
        f"a0: &a0 {{x: 1}}\n{''.join(_ALIASES)}url: https://a.example",
        f"a0: &a0 [x]\n{''.join(_ALIASES).replace('{<<: [', '[').replace(']}', ']')}url: https://a.example\nname: *a8",
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\nurl: https://a.example",
        f"a: [{'1, ' * 1_000_000}1]\nurl: https://a.example",
    ],
    ids=["merge keys", "lists", "a long text", "many values"],
)
def test_yaml_that_stands_for_more_than_can_be_read_is_refused(imported: Import, tmp_path: Path, text: str) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "urls.yaml").write_text(text)
    code, written, told = imported(tmp_path / "urls.yaml")
    assert (code, written) == (1, "")
    assert told[-1].endswith("urls.yaml holds more than can be read, in itself or through its aliases; split it")


def test_a_few_aliases_and_merge_keys_stand_for_what_they_mean(imported: Import, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    text = "d: &d {use_browser: true}\n<<: *d\nurl: https://a.example\nname: &n Prices\nnote: *n\n"
    (tmp_path / "urls.yaml").write_text(text)
    code, written, told = imported(tmp_path / "urls.yaml")
    assert (code, written.strip()) == (0, "WATCH 'https://a.example' OF PAGE FETCH BROWSER AS \"Prices\";")
    assert told[1:] == ["Prices: not taken over: d"]


@pytest.mark.parametrize("name", ["2024-13-45", "007", f"0x{'f' * 5000}", "1:" * 1_000_000 + "1"])
def test_numbers_and_dates_of_yaml_stay_as_they_are_written(imported: Import, tmp_path: Path, name: str) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "urls.yaml").write_text(f"name: {name}\nurl: https://a.example")
    code, written, _ = imported(tmp_path / "urls.yaml")
    assert (code, written.strip()) == (0, f"WATCH 'https://a.example' OF PAGE AS \"{name[:100]}\";")


@pytest.mark.parametrize(
    "at",
    [
        *({"hostname": host, "port": 1} for host in ("[x", "x]", "a b", "a/b", "::g", "\u2100", "a@b", ["a"], None)),
        *({"hostname": "a", "port": port} for port in ("b", float("nan"), 70_000, -1, 0, 2**70, [1], None)),
        *({"type": "http", "url": url} for url in ("https://[x", "http://a:b/", "https://a\u2100b/", ["x"], None)),
    ],
    ids=repr,
)
def test_a_monitor_whose_address_is_none_is_named_and_the_rest_taken(
    imported: Import, tmp_path: Path, at: dict[str, object]
) -> None:
    other = {"type": "http", "name": "B", "url": "https://b.example"}
    (tmp_path / "kuma.json").write_text(json.dumps({"monitorList": [{"type": "port", "name": "A"} | at, other]}))
    code, written, told = imported(tmp_path / "kuma.json")
    assert (code, written.strip()) == (0, "WATCH 'https://b.example' OF SITE AS \"B\";")
    assert told[1:] == [f"{tmp_path / 'kuma.json'}: left out: A, whose address cannot be watched"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_backup_is_read_in_each_encoding_of_json(imported: Import, tmp_path: Path, encoding: str) -> None:
    kept = {"watching": {"1": {"url": "https://a.example", "title": ["no text"], "tag": {}, "headers": {"X": [["y"]]}}}}
    (tmp_path / "backup").write_text(" " * 100 + json.dumps(kept), encoding=encoding)
    code, written, _ = imported(tmp_path / "backup")
    assert (code, "'https://a.example'" in written) == (0, True)


@pytest.mark.parametrize(
    ("path", "said"), [("/dev/zero", "a file may have 16777216 bytes at most"), ("pipe", "nothing came through this")]
)
def test_what_never_ends_is_not_waited_for(imported: Import, tmp_path: Path, path: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, written, told = imported(tmp_path / path)
    assert (code, written, said in told[-1]) == (1, "", True)


_READER = "PRAGMA application_id = 1919246692;"
_COUNT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
_TABLE = f"{_READER} CREATE TABLE feeds(url, title, user_title, added);"


def _database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            f"CREATE VIEW feeds AS {_COUNT} x AS url, x AS title, x AS user_title, x AS added FROM n",
            "are no plain table",
        ),
        ("CREATE TABLE feeds(url, title, user_title AS (hex(zeroblob(1000000000))), added)", "are no plain table"),
        (f"CREATE TABLE feeds(url, title DEFAULT '{'x' * 101}', user_title, added)", "are no plain table"),
        ("CREATE VIRTUAL TABLE feeds USING fts5(url, title, user_title, added)", "are no plain table"),
        ("CREATE TABLE other(a)", "are no plain table"),
        ("CREATE TABLE feeds(url)", "cannot be read: no such column"),
    ],
    ids=["endless view", "computed column", "long default", "virtual table", "none", "other columns"],
)
def test_a_database_of_reader_runs_nothing_of_its_own(imported: Import, tmp_path: Path, script: str, said: str) -> None:
    code, written, told = imported(_database(tmp_path / "db.sqlite", f"{_READER} {script};"))
    assert (code, written, len(told)) == (1, "", 1)
    assert "db.sqlite" in told[0]
    assert said in told[0]


def test_a_database_of_reader_whose_values_are_too_long_or_too_many_is_refused(
    imported: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = f"{_TABLE} INSERT INTO feeds(url, title) VALUES ('https://a.example', hex(zeroblob(50000)));"
    code, _, told = imported(_database(tmp_path / "long.sqlite", long))
    assert (code, told[0].endswith("long.sqlite cannot be read: string or blob too big")) == (1, True)
    many = f"{_TABLE} INSERT INTO feeds {_COUNT} 'https://a.example/' || x, '', '', x FROM n LIMIT 100001;"
    code, _, told = imported(_database(tmp_path / "many.sqlite", many))
    assert (code, told[0].endswith("lists more than 100000 addresses; import it in parts")) == (1, True)
    monkeypatch.setattr("proxyd.cli.other_programs._MOST_STEPS", 100_000)
    code, _, told = imported(tmp_path / "many.sqlite")
    assert (code, told[0].endswith("many.sqlite cannot be read: interrupted")) == (1, True)


def test_values_of_another_kind_in_a_database_of_reader_are_named_or_left_out(imported: Import, tmp_path: Path) -> None:
    rows = (
        "(NULL, 'a', NULL), (x'0102', 'b', NULL), ('https://c.example', 5, x'00'), "
        "('https://d.example', CAST(x'ff' AS TEXT), 1.5)"
    )
    code, written, told = imported(
        _database(tmp_path / "db.sqlite", f"{_TABLE} INSERT INTO feeds(url, title, user_title) VALUES {rows};")
    )
    assert (code, told[0].partition(" in ")[0]) == (0, "2 new sources")
    assert 'CREATE SOURCE "5" OF "Imported".ARTICLE AT \'https://c.example\'' in written
    assert [line.partition(": ")[2] for line in told[1:]] == [
        "'' is not an http or https address; correct or remove it"
    ] * 2


def test_an_archive_whose_names_are_no_text_is_one_error(imported: Import, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("\u00fc/watch.json", "{}")
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"\xc3\xbc", b"\xff\xff"))
    code, _, told = imported(tmp_path / "a.zip")
    assert (code, "a.zip is a damaged archive" in told[-1]) == (1, True)
