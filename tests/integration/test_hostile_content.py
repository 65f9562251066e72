"""Texts that pretend to be something else stay texts on every way out."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator
from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import feedparser
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from proxyd.base import log
from proxyd.base.ports import Message
from proxyd.cli.main import main
from proxyd.core.language.syntax.quoting import quote_name
from proxyd.core.texts.safe_text import for_xml, one_line, visible
from proxyd.notify.channels.mail import compose
from proxyd.notify.channels.message_forms import cloudevent, plain_text, subject
from tests.fleets import DOMAIN, rule, source
from tests.hostile import ALL, HUGE, NO_UTF8, SHORT, hidden_in
from tests.integration.api_world import Running, running_api, told
from tests.integration.dashboard_world import Browser

NAMES = {name: text for name, text in SHORT.items() if name not in NO_UTF8}
"""Those that can be names: of sources, rules, profiles and users."""
ATOM = "{http://www.w3.org/2005/Atom}"
OWN_TAGS = re.compile(
    "a|b|bdi|body|br|button|caption|circle|code|datalist|dd|details|div|dl|dt|figcaption|figure|footer|"
    "form|g|h[1-3]|head|header|html|input|label|fieldset|legend|li|line|link|main|meta|nav|ol|option|p|path|polyline|pre|"
    "rect|script|section|select|small|span|strong|summary|svg|table|tbody|td|text|textarea|tfoot|th|thead|"
    "time|title|tr|ul"
)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


def declared(name: str) -> str:
    """Return a profile whose names are all the same."""
    text = 'CREATE PROFILE "P" AS (DOMAIN "D", USER "x");\n' + source("x") + rule("x")
    return text.replace('"P"', quote_name(name)).replace('"x"', quote_name(name))


def row(text: str) -> dict[str, Any]:
    return {"channel.item.title": text, "channel.item.link": text, text: [text], "none": None}


class Page(HTMLParser):
    """A page's tags, addresses and text; fails on what runs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.places: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name in {"style", "srcdoc"}], (tag, attrs)
        places = {given[name] or "" for name in ("href", "src", "action", "formaction") if name in given}
        leads_out = tag == "a" and re.match(r"https?://", given.get("href") or "")
        assert not leads_out or given.get("rel") == "noopener noreferrer"
        self.places |= set() if leads_out else places
        assert tag != "script" or (given.get("src") or "").startswith("/static/")

    def handle_data(self, data: str) -> None:
        self.text += data


def shown_in(page: str) -> Page:
    """Return a page that shows texts as texts."""
    found = Page(page)
    assert [tag for tag in found.tags if not OWN_TAGS.fullmatch(tag)] == []
    assert all(re.match(r"/(?!/)|#", place) for place in found.places), found.places
    assert not hidden_in(re.sub(r"<textarea.*?</textarea>|<input[^>]*>", "", page, flags=re.DOTALL))
    return found


async def test_pages_show_hostile_names_as_text(running: Running) -> None:
    browser = Browser(running)
    await browser.sign_in("admin")
    for k, name in enumerate(NAMES.values()):
        await running.control.declarations.declare(declared(name))
        await running.give_up(f"dead {k}", error=name)
        await running.tell(told(f"n{k}", rule_name=name, source=name, url=name, profiles=[name]))
    for path in (
        "/",
        "/sources",
        "/rules",
        "/profiles",
        "/notifications",
        "/plan",
        "/hosts",
        "/budget",
        "/tokens",
        "/docs",
    ):
        status, page = await browser.get(path)
        found = shown_in(page)
        assert status == 200
        if path in {"/sources", "/rules", "/profiles"}:
            assert [each for each, name in NAMES.items() if visible(name)[:60] not in found.text] == [], path
    for each, name in NAMES.items():
        for kind in ("sources", "rules", "profiles"):
            async with running.client.get(URL(f"/{kind}/{quote(name, safe='')}", encoded=True)) as answer:
                assert answer.status == 200, (each, kind)
                assert visible(name)[:60] in shown_in(await answer.text()).text, (each, kind)
        async with running.client.get(URL(f"/notifications?rule={quote(name)}", encoded=True)) as answer:
            shown_in(await answer.text())


async def test_pages_show_what_a_file_declares_as_text(running: Running) -> None:
    for k, name in enumerate(NAMES.values()):
        alias = quote_name(name).replace('"', '""')
        text = declared(name).replace("title FROM", f"title AS {alias} FROM")
        (running.folder / f"file {k}.profile").write_bytes(text.encode())
    assert await running.control.declarations.reload() == ()
    browser = Browser(running)
    await browser.sign_in()
    for each, name in ((each, same_lines(name)) for each, name in NAMES.items()):
        async with running.client.get(URL(f"/profiles/{quote(name, safe='')}", encoded=True)) as answer:
            page = await answer.text()
        assert "<textarea" not in page, each
        assert visible(quote_name(name)) in shown_in(page).text, each


async def test_pages_show_hostile_items_as_text(running: Running) -> None:
    browser = Browser(running)
    await browser.sign_in()
    for k, (each, text) in enumerate(ALL.items()):
        rule_name = f"r{k}"  # each has pages of its own
        await running.control.declarations.declare(declared(rule_name))
        shown = told(f"n{k}", rule_name=rule_name, items=[row(text)], url=text, source=text, profiles=[text])
        await running.tell(shown)
        start = visible(" ".join(text.split())[:60])  # a title is one line
        for path in (f"/notifications?rule={rule_name}", f"/notifications/n{k}", f"/rules/{rule_name}"):
            status, page = await browser.get(path)
            assert status == 200, (each, path)
            assert " ".join(start.split())[:40] in " ".join(shown_in(page).text.split()), (each, path)
            assert len(page) < 100_000, (each, path)


@pytest.mark.parametrize("texts", [SHORT, *({name: text} for name, text in HUGE.items())], ids=["short", *HUGE])
async def test_feeds_hold_hostile_texts_as_text(running: Running, texts: dict[str, str]) -> None:
    for k, text in enumerate(texts.values()):
        await running.tell(told(f"{k}", items=[row(text)], url=text))
    headers = await running.token("read")
    async with running.client.get("/api/v1/profiles/P/feed.atom", headers=headers) as answer:
        body = await answer.read()
    assert feedparser.parse(body).bozo is False
    entries = list(reversed(ElementTree.fromstring(body).findall(f"{ATOM}entry")))
    titles = [for_xml(" ".join(text.split()))[:300] for text in texts.values()]
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == titles
    assert all(entry.find(f"{ATOM}link") is None for entry in entries)
    contents = [entry.findtext(f"{ATOM}content") or "" for entry in entries]
    async with running.client.get("/api/v1/profiles/P/feed.json", headers=headers) as answer:
        items = list(reversed((await answer.json(content_type="application/feed+json"))["items"]))
    assert [item["title"] for item in items] == titles
    assert not [item for item in items if "url" in item]
    for told_in in (contents, [item["content_html"] for item in items]):
        for text, content in zip(texts.values(), told_in, strict=True):
            found = Page(content)
            assert found.tags == {"p", "dl", "dt", "dd"}
            assert for_xml(same_lines(text)) in same_lines(found.text)


def same_lines(text: str) -> str:
    """Return a text as readers of XML give it back."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def test_a_feed_of_a_hostile_profile_is_one(running: Running) -> None:
    headers = await running.token("read")
    for each, name in NAMES.items():
        await running.control.declarations.declare(declared(name))
        await running.tell(told(each, rule_name=name))
        path = f"/api/v1/profiles/{quote(name, safe='')}/feed"
        async with running.client.get(URL(f"{path}.atom", encoded=True), headers=headers) as answer:
            assert answer.status == 200, (each, await answer.text())
            root = ElementTree.fromstring(await answer.read())
        assert same_lines(root.findtext(f"{ATOM}title") or "") == same_lines(for_xml(name)), each
        (entry,) = root.findall(f"{ATOM}entry")
        category = entry.find(f"{ATOM}category")
        assert category is not None
        assert category.attrib["term"] == for_xml(name), each
        async with running.client.get(URL(f"{path}.json", encoded=True), headers=headers) as answer:
            assert json.loads(await answer.read())["title"] == for_xml(name), each


# -- what is pushed


def body_of(text: str) -> bytes:
    return told("n", rule_name=text, items=[row(text)], url=text, source=f"of {text}").body


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_a_mail_has_no_header_or_part_from_outside(text: str) -> None:
    sent = compose(Message("n", text, "reader@example.org", body_of(text), 1e9, "mail"), "proxyd@example.net")
    mail = message_from_bytes(sent.as_bytes(), policy=default)
    assert sorted(set(mail)) == sorted(
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"]
    )
    assert (mail["To"], mail.get_content_type()) == ("reader@example.org", "multipart/alternative")
    plain, page = mail.iter_parts()
    assert (plain.get_content_type(), page.get_content_type()) == ("text/plain", "text/html")
    assert Page(page.get_content()).tags <= {"html", "body", "p", "strong", "small", "br"}
    assert mail["Subject"].strip() == subject(text, body_of(text)).strip()
    assert all(len(line) <= 998 for line in sent.as_bytes().splitlines())
    assert len(sent.as_bytes()) < 100_000


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_a_text_for_people_has_the_lines_that_are_ours(text: str) -> None:
    """What mail and channels send."""
    body = body_of(text)
    title, lines = subject(text, body), plain_text(text, body).split("\n")
    assert len(title) <= 200
    assert len(lines) == len(plain_text("x", body_of("x")).split("\n"))
    below = lines.index(f"Rule: {one_line(text, 2000)}")
    assert lines[below + 1] == f"Source: {one_line(f'of {text}', 2000)}"
    turning = hidden_in(title + "".join(lines), but="\u200b\ufeff\u00ad\u2060\U000e0041")
    assert turning == set()


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_bodies_in_other_forms_are_the_same_json(text: str) -> None:
    body = json.dumps(json.loads(body_of(text)), ensure_ascii=False).encode("utf-8", "replace")
    data = json.loads(body)["data"]
    name = text.encode("utf-8", "replace").decode()
    event = json.loads(cloudevent("n", name, body))
    assert (event["data"], event["id"], event["type"]) == (data, "n", "proxyd.notification")
    assert re.fullmatch(r"/proxyd/rules/[\w.~%-]*", event["source"], re.ASCII)
    assert cloudevent("n", name, body) == cloudevent("n", name, body)


async def test_a_stream_has_one_event_for_each_notification(running: Running) -> None:
    hostile = [told(f"n{k}", items=[row(text)], url=text) for k, text in enumerate(ALL.values())]
    listed = [told("before"), *hostile, told("after")]
    await running.tell(*listed)
    headers = await running.token("read")
    async with running.client.get("/api/v1/stream", headers=headers | {"Last-Event-ID": "0"}) as stream:
        said = bytearray()
        while said.count(b"event: notification\n") < len(listed) or not said.endswith(b"\n\n"):
            said += await stream.content.readany()
    events = [each for each in bytes(said).split(b"\n\n") if b"\ndata: " in each]
    for position, (event, notification) in enumerate(zip(events, listed, strict=True), 1):
        assert event == b"id: %d\nevent: notification\ndata: %s" % (position, notification.body)


# -- what is written here


@pytest.fixture
def restored_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored_log")
@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_a_log_has_one_line_for_each_event(capsys: pytest.CaptureFixture[str], form: str, text: str) -> None:
    logging.getLogger().handlers.clear()
    log.configure(form, "info")
    structlog.get_logger("x").warning("an event", source=text, names=[text], each={text: text}, error=ValueError(text))
    structlog.get_logger("x").warning(text)
    logging.getLogger("library").warning("said: %s", text)
    lines = capsys.readouterr().err.split("\n")
    assert (len(lines), lines[3]) == (4, "")
    coloured = re.compile(r"\x1b\[[0-9;]*m") if form == "console" else re.compile("(?!)")
    assert hidden_in(coloured.sub("", "".join(lines)), but="\x7f" if form == "json" else "") == set()
    if form == "json":
        assert json.loads(lines[0])["source"] == text
        assert json.loads(lines[1])["event"] == text


@pytest.mark.usefixtures("restored_log")
@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_is_no_command_to_a_terminal(capsys: pytest.CaptureFixture[str], form: str) -> None:
    logging.getLogger().handlers.clear()
    log.configure(form, "info")
    try:
        int("\n".join(SHORT.values()))
    except ValueError:
        structlog.get_logger("x").exception("a bug")
        logging.getLogger("library").exception("a bug")
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)
    assert said.count("Traceback") == 2
    assert hidden_in(said) == set()


async def test_metrics_name_nothing_from_outside(running: Running) -> None:
    async with running.client.get("/metrics") as answer:
        before = labels_of(await answer.text())
    for k, name in enumerate(NAMES.values()):
        await running.control.declarations.declare(declared(name))
        await running.tell(told(f"n{k}", rule_name=name))
    async with running.client.get("/metrics") as answer:
        assert labels_of(await answer.text()) == before


def labels_of(text: str) -> set[tuple[str, ...]]:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sorted(f"{key}={value}" for key, value in sample.labels.items())) for sample in samples}


def written_profiles(folder: Path) -> Path:
    """Write a file with every name, and settings beside it; return the settings."""
    text = DOMAIN + "".join(declared(name) for name in NAMES.values())
    (folder / "profiles").mkdir()
    (folder / "profiles" / "a.profile").write_bytes(text.encode())
    settings = folder / "proxyd.toml"
    settings.write_text(f"profiles = {json.dumps(str(folder / 'profiles'))}\n")
    return settings


def test_an_export_is_well_formed_and_ascii(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(written_profiles(tmp_path)), "export"]) == 0
    said = capsys.readouterr().out
    assert said.isascii()
    assert hidden_in(said, but="\n\x7f") == set()
    outlines = ElementTree.fromstring(said).iter("outline")
    found = [each.attrib["text"] for each in outlines if not len(each)]  # the others are folders
    assert sorted(found) == sorted(for_xml(same_lines(name)) for name in NAMES.values())


@pytest.mark.parametrize("verb", ["check", "fmt"])
def test_a_terminal_gets_no_commands_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    file = written_profiles(tmp_path).parent / "profiles" / "a.profile"
    if verb == "check":
        file.write_bytes(file.read_bytes().replace(b"SELECT title", b"SELECT titel"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([verb, str(file)]) == (1 if verb == "check" else 0)
    said = capsys.readouterr().out
    assert hidden_in(said) == set()
    assert visible(SHORT["turned"]) in said


def test_a_file_is_formatted_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written_profiles(tmp_path).parent / "profiles" / "a.profile"
    assert main(["fmt", str(file)]) == 0
    said = capsys.readouterr().out
    assert all(quote_name(name) in said for name in NAMES.values() if "\r" not in name)
