"""The verb probe, over a real socket."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from proxyd.cli.main import main

FEED = b"""<rss version="2.0"><channel><title>My Feed</title><ttl>30</ttl>
<item><title>One</title><guid>1</guid><pubDate>Thu, 19 Nov 2020 10:00:00 GMT</pubDate></item>
<item><title>Two</title><guid>2</guid></item></channel></rss>"""
PAGE = b'<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head><body>Hi</body></html>'


class Origin(BaseHTTPRequestHandler):
    """A feed, a page, a redirect and nothing else."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(301)
            self.send_header("Location", "/feed")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = {"/feed": FEED, "/page": PAGE}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Set-Cookie", "session=secret")
        self.send_header("Cache-Control", "max-age=60")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PROXYD_ALLOW_NETWORKS", "127.0.0.0/8")
    server = HTTPServer(("127.0.0.1", 0), Origin)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


DECLARED = """CREATE DOMAIN "D" AS CLASS::HI(text:String FROM CSS 'body', feed:URL FROM CSS 'link::attr(href)');
CREATE SOURCE "hi" OF HI AT '{origin}/page';
CREATE SOURCE "asked" OF HI AT '{origin}/page' METHOD POST BODY 'a=1';
"""


def test_a_declared_source_is_read_as_its_class(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.profile").write_text(DECLARED.format(origin=origin))
    monkeypatch.setenv("PROXYD_PROFILES", str(tmp_path))
    assert main(["probe", "hi"]) == 0
    shown = capsys.readouterr().out
    assert f"text=Hi, feed={origin}/feed" in shown
    assert "WATCH" not in shown
    assert main(["probe", "hii"]) == 1
    assert "not a declared source; an address starts with https:// or http://. Did you mean hi?" in (
        capsys.readouterr().err
    )


def test_what_was_declared_to_the_daemon_is_read_too(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE texts (name TEXT, text TEXT, origin TEXT, position INTEGER)")
        text = DECLARED.format(origin=origin)
        database.execute("INSERT INTO texts VALUES ('api:profile:D', ?, 'api', 1)", (text,))
    (tmp_path / "profiles").mkdir()
    monkeypatch.setenv("PROXYD_PROFILES", str(tmp_path / "profiles"))
    monkeypatch.setenv("PROXYD_DATABASE", str(tmp_path / "a.db"))
    assert main(["probe", "hi"]) == 0
    assert f"text=Hi, feed={origin}/feed" in capsys.readouterr().out


def test_a_request_is_shown_with_its_method(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.profile").write_text(DECLARED.format(origin=origin))
    monkeypatch.setenv("PROXYD_PROFILES", str(tmp_path))
    assert main(["probe", "asked", "--debug"]) == 0
    shown = capsys.readouterr().out
    assert f"> GET {origin}/robots.txt" in shown
    assert f"> POST {origin}/page" in shown


def test_a_feed_is_shown_with_the_statement_that_declares_it(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", f"{origin}/feed", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["outcome"], shown["status"], shown["fresh_for_s"], shown["period_s"]) == (
        "changed",
        200,
        60.0,
        1800.0,
    )
    assert [item["title"] for item in shown["items"]] == ["One", "Two"]
    assert shown["statement"] == f"WATCH '{origin}/feed' AS \"my-feed\";"


def test_every_hop_is_shown_and_secrets_are_not(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", f"{origin}/moved", "--debug"]) == 0
    shown = capsys.readouterr().out
    assert f"> GET {origin}/moved" in shown
    assert "< 301" in shown
    assert f"> GET {origin}/feed" in shown
    assert "< Set-Cookie: [hidden]" in shown
    assert "secret" not in shown


def test_a_feed_that_moved_for_good_is_declared_where_it_is(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", f"{origin}/moved"]) == 0
    assert f"WATCH '{origin}/feed' AS" in capsys.readouterr().out


def test_a_page_that_is_no_feed_can_be_followed_otherwise(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", f"{origin}/page"]) == 1
    said = capsys.readouterr().out
    assert f"to follow its text: `proxyd add {origin}/page`, or WATCH '{origin}/page' OF PAGE;\n" in said
    assert main(["probe", f"{origin}/none"]) == 1
    assert "to follow its text" not in capsys.readouterr().out


@pytest.mark.parametrize(("path", "says"), [("/page", "it links to the feeds"), ("/none", "status 404")])
def test_what_is_no_feed_fails_and_says_why(
    path: str, says: str, origin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", f"{origin}{path}"]) == 1
    assert says in capsys.readouterr().out


def test_a_refused_address_is_blocked_by_name(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "http://10.0.0.1/"]) == 1
    assert capsys.readouterr().out.startswith("blocked: 10.0.0.1 is refused: private")
