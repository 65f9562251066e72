"""The verb add: what is at an address, what it would tell, and the line that it writes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from proxyd.cli.main import main
from proxyd.core.language import Watch, parse
from proxyd.core.language.syntax.nodes import CreateSource

FEED = b"""<rss version="2.0"><channel><title>My Feed</title>
<item><title>A CVE</title><link>https://a.example/2</link><guid>2</guid></item>
<item><title>100 % new</title><guid isPermaLink="false">1</guid></item></channel></rss>"""
BLOG = b"""<html><head><link rel="alternate" type="application/rss+xml" href="/feed">
<link rel="alternate" type="application/rss+xml" href="/comments"></head><body>Hi</body></html>"""
LAMP = b"""<html><head><title>Lamp</title></head><body><h1>Lamp</h1>
<b itemprop="price">1.299</b> <i itemprop="priceCurrency">EUR</i></body></html>"""
PAGES = {"/feed": FEED, "/blog": BLOG, "/page": b"<html><body><p>Just words.</p></body></html>", "/lamp": LAMP}

LOADS = count(10)


class Origin(BaseHTTPRequestHandler):
    """A feed, a blog that links to it, and a page."""

    def do_GET(self) -> None:
        is_member = self.path == "/member" and self.headers.get("Cookie") == "sid=42"
        body = b"<p>Balance 7</p>" if is_member else PAGES.get(self.path.partition("?")[0], b"")
        body = b"<p>Terms of use</p><p>%d views today</p>" % next(LOADS) if self.path == "/counter" else body
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("PROXYD_ALLOW_NETWORKS", "127.0.0.0/8")
    monkeypatch.chdir(tmp_path)
    server = HTTPServer(("127.0.0.1", 0), Origin)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    return tmp_path / "profiles" / "news.profile"


def watches(file: Path) -> list[Watch]:
    parsed = parse(file.read_text(encoding="utf-8"))
    assert parsed.errors == ()
    return [each for each in parsed.statements if isinstance(each, Watch)]


def test_a_page_leads_to_its_feed_and_shows_what_would_be_told(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/blog", "--match", "cve", "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert f"the page links to the feed {origin}/feed\n  another one: {origin}/comments\n" in shown
    assert "2 items there now; of these it would have told:\n  A CVE https://a.example/2\n" in shown
    assert shown.splitlines()[-1].startswith("its news are on the dashboard and in `proxyd notifications --follow`;")
    assert file.read_text(encoding="utf-8") == f"WATCH '{origin}/feed' WHERE title ILIKE '%cve%';\n"


def test_the_folder_of_the_profiles_is_made(origin: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles" / "blog.profile"
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 0
    assert len(watches(file)) == 1


def test_a_folder_that_no_daemon_reads_is_not_made(
    origin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "news" / "blog.profile"
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 1
    said = f"{file}: there is no such folder; the daemon here reads the profiles in {tmp_path}/profiles"
    assert said in capsys.readouterr().err
    assert not file.parent.exists()


def test_a_dry_run_makes_no_folder(origin: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles" / "blog.profile"
    assert main(["add", f"{origin}/feed", "--dry-run", "--file", str(file)]) == 0
    assert not file.parent.exists()


def test_a_file_that_no_daemon_reads_promises_no_news(
    origin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "blog.profile"
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert f"{file} is not watched: the daemon here reads the profiles in {tmp_path}/profiles" in shown
    assert "its news are" not in shown


def test_a_page_without_a_feed_is_followed_by_its_text(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/page", "--name", "words", "--to", "me@example.org", "--file", str(file)]) == 0
    assert "a page without a feed: you are told when its text changes (11 characters now)" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == (
        f"WATCH '{origin}/page' OF PAGE AS \"words\" TELL MAIL 'me@example.org';\n"
    )


def test_a_page_with_a_price_offers_to_follow_it(origin: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", f"{origin}/lamp", "--locale", "de", "--dry-run"]) == 0
    assert "it states a price, 1299 EUR: --price follows that alone" in capsys.readouterr().out
    assert main(["add", f"{origin}/lamp", "--locale", "de", "--price", "--file", str(file)]) == 0
    assert "a page that states a price, 1299 EUR: you are told when it falls" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == (
        f"WATCH '{origin}/lamp' OF PRICE LOCALE 'de' WHERE NEW.price < OLD.price;\n"
    )


def test_a_page_without_a_price_cannot_be_followed_by_it(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", f"{origin}/page", "--price"]) != 0
    told = capsys.readouterr().err
    assert "cannot be watched: the page states no price" in told
    assert "(here: --css '.price')" in told


@pytest.mark.parametrize(
    ("options", "said", "reads", "compares"),
    [
        ([], "a value of the page, 1.299: you are told when it changes", "String", ""),
        (["--price", "--locale", "de"], "1299: you are told when it falls", "Decimal", " WHERE NEW.value < OLD.value"),
    ],
)
def test_a_value_is_followed_where_it_stands(
    origin: str,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
    reads: str,
    compares: str,
) -> None:
    assert main(["add", f"{origin}/lamp", "--css", "b", "--name", "Lamp", *options, "--file", str(file)]) == 0
    assert said in capsys.readouterr().out
    text = " ".join(file.read_text().split())
    assert f"value:{reads} FROM CSS 'b')" in text
    assert text.endswith(f'AS "Lamp"{compares};')


def test_another_place_of_a_value_takes_the_place_of_the_one_before(origin: str, file: Path) -> None:
    file.write_text("-- mine\n\n", encoding="utf-8")
    for selector, digest in [("b", []), ("i", ["--digest", "hourly"]), ("h1", [])]:
        assert main(["add", f"{origin}/lamp", "--css", selector, *digest, "--file", str(file)]) == 0
    name = f"{origin}/lamp".removeprefix("http://")
    assert file.read_text(encoding="utf-8") == (
        f"-- mine\n\nCREATE DOMAIN \"{name}\" AS\nCLASS::VALUE(\n  value:String FROM CSS 'h1');\n\n"
        f"WATCH '{origin}/lamp' OF \"{name}\".VALUE DIGEST EVERY 1 HOUR;\n"
    )


def test_a_new_cookie_takes_the_place_of_the_old_one(origin: str, file: Path) -> None:
    for cookie in ("a=1", "a=2"):
        assert main(["add", f"{origin}/page", "--header", f"Cookie: {cookie}", "--file", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert (text.count("CREATE SOURCE"), "a=1" in text, "'a=2'" in text) == (1, False, True)


def test_an_edit_takes_nothing_from_a_source_that_has_more_options(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/page", "--header", "Cookie: a=1", "--file", str(file)]) == 0
    written = file.read_text(encoding="utf-8").replace("'a=1'", "'a=1' ROBOTS IGNORE")
    file.write_text(written, encoding="utf-8")
    capsys.readouterr()
    assert main(["add", f"{origin}/page", "--header", "Cookie: a=2", "--file", str(file)]) == 1
    assert "is declared twice" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == written


def test_values_of_two_pages_that_differ_in_their_query_have_two_domains(origin: str, file: Path) -> None:
    for number, selector in [(1, "b"), (2, "h1")]:
        assert main(["add", f"{origin}/lamp?id={number}", "--css", selector, "--file", str(file)]) == 0
    assert file.read_text(encoding="utf-8").count("CREATE DOMAIN") == 2


def test_a_page_that_is_watched_does_not_become_a_value_unasked(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/lamp", "--file", str(file)]) == 0
    assert main(["add", f"{origin}/lamp", "--css", "b", "--file", str(file)]) != 0
    said = capsys.readouterr().err
    assert "is watched already as PAGE: leave out --css to edit that, or give this a --name" in said
    name = f"{origin}/lamp".removeprefix("http://")
    assert f"`proxyd remove {name} --file {file}` ends the one before" in said


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        ("OF PRICE", [], "as PRICE: add --price to edit that, or give this a --name"),
        ("OF PAGE", ["--price"], "as PAGE: leave out --price to edit that, or give this a --name"),
        ("OF FEED", [], "as FEED: now there is a PAGE; give this a --name"),
    ],
)
def test_an_edit_does_not_say_one_thing_and_declare_another(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str], before: str, options: list[str], said: str
) -> None:
    written = f"WATCH '{origin}/lamp' {before};\n"
    file.write_text(written, encoding="utf-8")
    assert main(["add", f"{origin}/lamp", *options, "--file", str(file)]) == 1
    shown = capsys.readouterr()
    assert f"{origin}/lamp is watched already {said}" in shown.err
    assert shown.out == ""
    assert file.read_text(encoding="utf-8") == written


def test_what_an_edit_leaves_of_the_statement_before_is_said(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"WATCH '{origin}/feed' WITHOUT 'cve', 'new' TELL MAIL 'me@example.org';", encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--match", "cve", "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "kept of the one before: WITHOUT 'cve', WITHOUT 'new', TELL MAIL 'me@example.org'\n" in shown
    assert f"written to {file}, in place of the one before" in shown


def test_a_second_watch_of_an_address_stands_beside_the_first(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"WATCH '{origin}/feed' AS one;", encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--name", "two", "--file", str(file)]) == 0
    assert f"written to {file}, beside 'one' of the same address" in capsys.readouterr().out


def test_the_name_of_another_address_is_not_taken(origin: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"WATCH '{origin}/feed' AS one;", encoding="utf-8")
    assert main(["add", f"{origin}/page", "--name", "one", "--file", str(file)]) == 1
    assert "there is a rule 'one' on something else; give this another --name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--css", "i", "--price"], "it holds no number"), (["--css", ".stock"], "nothing on the page matches .stock")],
)
def test_a_value_that_is_not_there_is_not_followed(
    origin: str, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    assert main(["add", f"{origin}/lamp", *options]) != 0
    assert problem in capsys.readouterr().err


def test_adding_an_address_again_edits_its_watch_and_nothing_else(origin: str, file: Path) -> None:
    file.write_text("-- mine\nWATCH 'https://b.example/feed'; -- keep\n", encoding="utf-8")
    for arguments in (["--match", "a", "--to", "me@example.org"], ["--match", "100 %", "--match", "b"]):
        assert main(["add", f"{origin}/feed", *arguments, "--file", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == (
        "-- mine\nWATCH 'https://b.example/feed'; -- keep\n\n"
        f"WATCH '{origin}/feed'\n"
        "  WHERE title ILIKE '%100 !%%' ESCAPE '!' OR title ILIKE '%b%'\n"
        "  TELL MAIL 'me@example.org';\n"
    )
    assert main(["add", f"{origin}/feed", "--name", "all", "--file", str(file)]) == 0
    assert [each.name.value for each in watches(file)][1:] == [origin.removeprefix("http://") + "/feed", "all"]


def test_of_several_watches_of_an_address_one_is_chosen_by_name(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"WATCH '{origin}/feed' AS one; WATCH '{origin}/feed' AS two", encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--match", "x", "--file", str(file)]) == 1
    assert "is watched 2 times; choose one by --name 'one' or --name 'two'" in capsys.readouterr().err
    assert main(["add", f"{origin}/feed", "--match", "x", "--name", "two", "--file", str(file)]) == 0
    assert [each.where is None for each in watches(file)] == [True, False]


def test_a_file_whose_last_statement_is_open_takes_one_more(origin: str, file: Path) -> None:
    file.write_text("WATCH 'https://b.example/feed'", encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 0
    assert len(watches(file)) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://example.org"], "'ftp://example.org' is not an address; it starts with https:// or http://"),
        (["{}/gone"], "{}/gone cannot be watched: status 404"),
        (
            ["{}/feed", "--to", "https://hook.example/", "--dry-run"],
            "a webhook is signed: add --secret with the variable that holds its secret",
        ),
        (["{}/feed", "--to", "nobody@", "--dry-run"], "'nobody@' is not a mail address"),
        (["{}/feed", "--file", "news.txt"], "news.txt: profiles are files that end with .profile"),
        (["{}/feed"], "or write the WATCH into a file with --file"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str],
    said: str,
    origin: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["add", *(each.format(origin) for each in arguments)]) != 0
    assert said.format(origin) in capsys.readouterr().err


@pytest.mark.parametrize("scheme", ["https://", ""])
def test_an_address_that_speaks_no_https_is_told_with_http(
    origin: str, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    address = origin.removeprefix("http://")
    assert main(["add", f"{scheme}{address}/feed"]) == 1
    said = capsys.readouterr().err
    assert f"https://{address}/feed cannot be watched" in said
    assert f"(it speaks no https: write http://{address}/feed)" in said


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_that_the_source_is_asked(
    origin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert main(["add", f"{origin}/gone"]) == 1
    assert (f"asking {origin}/gone, which may take half a minute\n" in capsys.readouterr().err) == is_terminal


def test_a_file_with_an_error_stays_as_it_is(origin: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("WATCH 'https://b.example/feed' OF NOTHING;\n", encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 1
    assert "there is no class NOTHING" in capsys.readouterr().err
    assert len(watches(file)) == 1


def test_a_dry_run_changes_nothing_and_json_says_it_all(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["add", f"{origin}/blog", "--to", "https://hook.example/", "--secret", "SECRET_A", "--dry-run", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {
        "address": f"{origin}/feed",
        "class": "FEED",
        "items": 2,
        "linked_feeds": [f"{origin}/feed", f"{origin}/comments"],
        "messages": ["A CVE https://a.example/2", "100 % new"],
        "statement": f"WATCH '{origin}/feed' TELL WEBHOOK 'https://hook.example/' SECRET ENV 'SECRET_A';",
        "done": "nothing was changed",
        "warnings": [],
    }


def test_a_private_file_stays_private_and_a_link_stays_a_link(origin: str, file: Path) -> None:
    kept = file.with_name("kept.txt")
    kept.write_text("WATCH 'https://b.example/feed';\n", encoding="utf-8")
    kept.chmod(0o600)
    file.symlink_to(kept)
    assert main(["add", f"{origin}/feed", "--file", str(file)]) == 0
    assert file.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(watches(kept)) == 2


def test_a_feed_that_cannot_be_read_is_not_the_end(
    origin: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PAGES, "/two", BLOG.replace(b'href="/feed"', b'href="/gone"').replace(b"/comments", b"/feed"))
    monkeypatch.setitem(PAGES, "/dead", BLOG.replace(b"/feed", b"/gone").replace(b"/comments", b"/away"))
    assert main(["add", f"{origin}/two", "--file", str(file)]) == 0
    assert f"the page links to the feed {origin}/feed" in capsys.readouterr().out
    assert main(["add", f"{origin}/dead", "--file", str(file)]) == 0
    assert f"it links to a feed that cannot be read: {origin}/gone" in capsys.readouterr().out


def test_the_watch_of_a_class_of_ones_own_is_edited_with_its_file(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = f"CREATE DOMAIN \"D\" AS CLASS::NEWS(channel.item.title:String);\nWATCH '{origin}/feed' OF NEWS;\n"
    file.write_text(declared, encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--to", "me@example.org", "--file", str(file)]) == 0
    assert f"WATCH '{origin}/feed' OF NEWS TELL MAIL 'me@example.org';" in file.read_text(encoding="utf-8")
    assert main(["add", f"{origin}/feed", "--match", "x", "--file", str(file)]) == 1
    assert (
        "words cannot be matched with NEWS, whose fields are its own; write the WHERE yourself"
        in capsys.readouterr().err
    )


def test_an_address_that_another_file_watches_is_edited_there(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"WATCH '{origin}/feed';\n", encoding="utf-8")
    other = file.with_name("other.profile")
    assert main(["add", f"{origin}/feed", "--file", str(other)]) == 1
    assert f"is watched in {file}: give --file {file}, or another --name" in capsys.readouterr().err
    assert not other.exists()


def test_a_watch_is_removed_from_its_file_and_nothing_else(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    above, below = (
        "-- Mine.\nWATCH 'https://a.example/x' AS x;\n\n",
        "\n\n-- Also mine.\nWATCH 'https://a.example/y' AS y;\n",
    )
    watch = "WATCH 'https://a.example/w' AS \"w\""
    for written in ("w", "https://a.example/w"):
        file.write_text(f"{above}{watch} ;{below}")
        assert main(["remove", written, "--file", str(file)]) == 0
        assert file.read_text() == above + below.lstrip()
        assert f"removed w from {file}\nto have it back:\n{watch};\n" in capsys.readouterr().out


def test_a_source_that_an_import_made_is_removed_too(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "feeds.txt"
    listed.write_text("https://a.example/1\nhttps://b.example/2\n", encoding="utf-8")
    assert main(["import", str(listed), "--out", str(file)]) == 0
    assert main(["remove", "https://a.example/1", "--file", str(file)]) == 0
    assert 'to have it back:\nCREATE SOURCE "a.example" OF' in capsys.readouterr().out
    assert re.findall("AT '(.*)'", file.read_text(encoding="utf-8")) == ["https://b.example/2"]
    other = file.with_name("other.profile")
    other.write_text("", encoding="utf-8")
    assert main(["remove", "b.example", "--file", str(other)]) == 1
    assert f"`proxyd remove b.example --file {file}` removes it there" in capsys.readouterr().err


def test_a_removed_statement_comes_back_with_its_comments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("-- Mine.\nWATCH 'https://a.example/x' AS x;\n", encoding="utf-8")
    assert main(["remove", "x", "--file", str(file)]) == 0
    returned = capsys.readouterr().out.partition("to have it back:\n")[2]
    (watch,) = parse(returned).statements
    assert watch.name.value == "x"


def test_what_another_file_watches_is_not_removed_but_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("WATCH 'https://a.example/x' AS x;\n", encoding="utf-8")
    other = file.with_name("other.profile")
    other.write_text("WATCH 'https://a.example/y' AS xy;\n", encoding="utf-8")
    assert main(["remove", "x", "--file", str(other)]) == 1
    said = f"x is watched in {file}, not in {other}: `proxyd remove x --file {file}` removes it there"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("z", "nothing watches 'z' in"),
        ("twise", "Did you mean twice?"),
        ("https://a.example/x", "is watched 2 times, as 'one' and 'twice'; give one of these names"),
        ("one", "there is no source 'one'"),
    ],
)
def test_what_cannot_be_removed_is_said(
    file: Path, capsys: pytest.CaptureFixture[str], written: str, said: str
) -> None:
    text = "WATCH 'https://a.example/x' AS one; WATCH 'https://a.example/x' AS twice;"
    trigger = 'SET TRIGGER "ON INSERT TO FEED" SET QUERY "SELECT * FROM FEED"'
    uses = f'INSERT NOTIFICATION n INTO "default" {trigger} FROM SOURCES one;'
    file.write_text(f"{text}\n{uses}\n")
    assert main(["remove", written, "--file", str(file)]) == 1
    assert said in capsys.readouterr().err
    assert file.read_text() == f"{text}\n{uses}\n"


def test_a_page_behind_a_login_is_asked_with_the_cookie_and_watched_with_it(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/member", "--header", "Cookie: sid=42", "--file", str(file)]) == 0
    assert "\n  Balance 7\n" in capsys.readouterr().out
    name = f"{origin}/member".removeprefix("http://")
    source = f"CREATE SOURCE \"{name}\" OF PAGE AT '{origin}/member' HEADER 'Cookie' 'sid=42'"
    assert " ".join(file.read_text(encoding="utf-8").split()) == f"{source}; WATCH '{origin}/member' OF PAGE;"


def test_a_cookie_is_given_to_a_page_that_is_watched_already(origin: str, file: Path) -> None:
    assert main(["add", f"{origin}/page", "--file", str(file)]) == 0
    assert main(["add", f"{origin}/page", "--header", "Cookie: sid=42", "--file", str(file)]) == 0
    source, watch = parse(file.read_text(encoding="utf-8")).statements
    assert isinstance(source, CreateSource)
    assert (source.page_class.name, isinstance(watch, Watch)) == ("PAGE", True)


def test_what_differs_each_time_is_left_out(origin: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", f"{origin}/counter", "--file", str(file)]) == 0
    assert "left out, because it differs each time: /^" in capsys.readouterr().out
    (watch,) = watches(file)
    assert watch.ignored is not None


def test_a_page_and_a_site_of_one_address_have_names_of_their_own(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", f"{origin}/page", "--file", str(file)]) == 0
    assert main(["add", f"{origin}/page", "--site", "--file", str(file)]) != 0
    assert "as PAGE: leave out --site to edit that, or give this a --name" in capsys.readouterr().err
    assert main(["add", f"{origin}/page", "--site", "--name", "up", "--file", str(file)]) == 0
    assert len(watches(file)) == 2


def test_a_page_for_a_browser_says_that_there_is_none(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", f"{origin}/page", "--browser"]) != 0
    assert "the setting browser is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "said"), [("page", "it answers: status 200"), ("no", "it does not answer now: status 404")]
)
def test_a_site_is_added_also_while_it_is_down(
    origin: str, file: Path, capsys: pytest.CaptureFixture[str], path: str, said: str
) -> None:
    assert main(["add", f"{origin}/{path}", "--site", "--holding", "words", "--file", str(file)]) == 0
    assert f"a site: you are told when it is down, and up again; {said}" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == f"WATCH '{origin}/{path}' OF SITE HOLDING 'words';\n"


def test_a_word_to_match_does_not_go_with_a_site(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", origin, "--site", "--match", "words"]) != 0
    assert "leave out --price, --css and --match" in capsys.readouterr().err


def test_a_webhook_without_a_secret_is_told_the_option(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", origin, "--to", "me@example.org", "--to", "https://hooks.example/x"]) != 0
    assert "add --secret with the variable" in capsys.readouterr().err
