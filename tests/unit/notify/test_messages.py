"""Bodies for other receivers: digests, subjects, texts."""

from __future__ import annotations

import json
from email import message_from_bytes
from email.policy import default
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from aiohttp import ClientSession
from yarl import URL

from proxyd.base.ports import Gathered, Message
from proxyd.core.model.outcome import Picture
from proxyd.net.guard import Guard
from proxyd.notify.channels.mail import compose
from proxyd.notify.channels.message_forms import chat_text, cloudevent, digest, payload, plain_text, sent_text, subject
from proxyd.notify.channels.webhook import WebhookChannel
from tests.fakes import FakeClock


def body(name: str, *titles: str | None, **data: Any) -> bytes:
    items = [{"channel.item.title": title, "n": 1.5} for title in titles]
    content = {"id": name, "rule": "R", "source": "s", "url": "https://s.example/", "items": items} | data
    message = {"type": "proxyd.notification", "timestamp": "2026-03-01T12:00:00.000Z", "data": content}
    return json.dumps(message).encode()


def made(*bodies: bytes, most_items: int | None = None) -> dict[str, Any]:
    gathered = Gathered("dgs_1", "R", tuple(map(str, range(len(bodies)))), bodies, most_items, 3600.0)
    message: dict[str, Any] = json.loads(digest(gathered))
    assert (message["type"], message["timestamp"]) == ("proxyd.digest", "1970-01-01T01:00:00.000Z")
    data: dict[str, Any] = message["data"]
    return data


def titles(data: dict[str, Any]) -> list[list[str]]:
    return [[item["channel.item.title"] for item in each["items"]] for each in data["notifications"]]


def test_a_digest_holds_all_notifications_in_their_order() -> None:
    data = made(body("1", "a", "b"), body("2"), body("3", "c"))
    assert titles(data) == [["a", "b"], [], ["c"]]
    assert (data["id"], data["rule"], data["count"]) == ("dgs_1", "R", 3)
    assert data["left_out"] == {"notifications": 0, "items": 0}


@pytest.mark.parametrize(
    ("most", "kept", "left_out"),
    [
        (1, [["a"]], {"notifications": 2, "items": 3}),
        (2, [["a", "b"]], {"notifications": 2, "items": 2}),
        (3, [["a", "b"], ["c"]], {"notifications": 1, "items": 1}),
        (4, [["a", "b"], ["c"], ["d"]], {"notifications": 0, "items": 0}),
    ],
)
def test_a_digest_counts_what_it_leaves_out(most: int, kept: list[list[str]], left_out: dict[str, int]) -> None:
    data = made(body("1", "a", "b"), body("2", "c"), body("3", "d"), most_items=most)
    assert (titles(data), data["left_out"], data["count"]) == (kept, left_out, 3)


def test_a_digest_holds_no_more_bytes_than_can_be_handled() -> None:
    data = made(*(body(str(n), "a" * 1_500_000) for n in range(5)))
    assert len(data["notifications"]) == 2
    assert (data["left_out"], data["count"]) == ({"notifications": 3, "items": 3}, 5)
    alone = made(body("1", "a" * 9_000_000))
    assert len(alone["notifications"]) == 1


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (body("1", "A title"), "A title"),
        (body("1", "A\r\nBcc: x@example.org"), "A Bcc: x@example.org"),
        (body("1", "first", "second", "third"), "first and 2 more"),
        (body("1", None), "1.5"),
        (body("1"), "R"),
    ],
)
def test_the_subject_names_the_first_item(message: bytes, line: str) -> None:
    assert subject("R", message) == line


@pytest.mark.parametrize("told", ["=?utf-8?q?a=0D=0ABcc:_x@y?=", "a =?utf-8?b?DQpCY2M6IHhAeQ==?= b"])
def test_an_encoded_title_adds_no_header(told: str) -> None:
    mail = compose(Message("n", "r", "a@example.org", body("1", told), 0.0, "mail"), "me@example.org")
    head = mail.as_bytes().partition(b"\r\n\r\n")[0]
    assert [line for line in head.splitlines() if line.lower().startswith(b"bcc")] == []
    assert mail["Subject"] == told.replace("=?", "= ?")


@pytest.mark.parametrize(
    ("rule", "media_type", "name"),
    [
        ("offers", "image/png", "offers.png"),
        ("a/b: č", "image/jpeg", "a-b- č.jpeg"),
        ("", "image/png", "screenshot.png"),
    ],
)
def test_a_mail_has_the_picture_as_a_file(rule: str, media_type: str, name: str) -> None:
    picture = Picture(media_type, b"\x89PNG\r\n\xff")
    sent = Message("n", rule, "a@example.org", body("1", "A title"), 0.0, "mail", picture=picture)
    mail = message_from_bytes(compose(sent, "me@example.org").as_bytes(), policy=default)
    (attached,) = mail.iter_attachments()
    assert (attached.get_content_type(), attached.get_filename(), attached.get_content()) == (
        media_type,
        name,
        picture.data,
    )
    text = mail.get_body(("plain",))
    assert text is not None
    assert "A title" in text.get_content()


def test_the_path_of_a_screenshot_is_in_version_2_alone() -> None:
    made = body("1", "A title", screenshot="/api/v1/notifications/1/screenshot", message={"title": "A", "rows": ["A"]})
    first, second = (json.loads(payload(made, version))["data"] for version in (1, 2))
    assert "screenshot" not in first
    assert second["screenshot"] == "/api/v1/notifications/1/screenshot"


def test_a_long_subject_is_cut() -> None:
    assert len(subject("R", body("1", "x" * 999, "y"))) == 150


def test_a_text_shows_where_when_and_every_row() -> None:
    event = {"kind": "insert", "time": "2026-03-01T11:59:00.000Z", "seen": "2026-03-01T12:00:00.000Z"}
    assert plain_text("R", body("ntf_1", "a", "b\nc", event=event, late=True)) == (
        "a\nn: 1.5\n"
        "\nb c\nn: 1.5\n"
        "\nRule: R\nSource: s\nAddress: https://s.example/\n"
        "Time: 2026-03-01 11:59 UTC, seen 12:00\nLate: yes\n"
        "\n-- \nntf_1\n"
    )


def test_a_mail_of_a_watch_is_title_link_summary_and_local_time() -> None:
    link = "https://example.org/1"
    fields = {
        "title": "A title",
        "description": "",
        "content": "<p>What it <b>says</b></p>",
        "link": link,
        "guid": link,
    }
    others = {"guid": link, "pubDate": "2026-03-01T11:59:00.000Z", "updated": None, "author": "", "category": "news"}
    told = {
        "id": "ntf_1",
        "rule": "example.org/feed",
        "source": "example.org/feed",
        "url": "https://example.org/feed",
        "event": {"kind": "insert", "time": "2026-03-01T11:59:00.000Z", "seen": "2026-03-01T11:59:09.000Z"},
        "items": [{f"channel.item.{name}": value for name, value in (fields | others).items()}],
        "message": {"title": "A title", "rows": [f"A title {link}"], "is_set": False},
    }
    text = plain_text("R", json.dumps({"data": told}).encode(), ZoneInfo("Europe/Berlin"))
    assert text == (
        f"A title {link}\nWhat it says\n\nRule: example.org/feed\nAddress: https://example.org/feed\n"
        "Time: 2026-03-01 12:59 CET\n\n-- \nntf_1\n"
    )


def test_the_text_of_a_digest_says_what_it_leaves_out() -> None:
    gathered = Gathered("dgs_1", "R", ("1", "2"), (body("1", "a"), body("2", "b")), 1, 3600.0)
    text = plain_text("R", digest(gathered))
    assert text.startswith("a\nn: 1.5\n")
    assert "Left out: 1 item, 1 whole notification." in text


def test_a_notification_says_how_many_rows_it_leaves_out() -> None:
    told = body("1", "a", left_out={"items": 1200})
    assert "Left out: 1,200 items." in plain_text("R", told)
    assert chat_text(told)[1].endswith("Left out: 1,200 items.")


def test_an_event_of_no_single_source_has_no_subject() -> None:
    assert "subject" not in json.loads(cloudevent("1", "R", body("1", "a", source=None)))
    assert json.loads(cloudevent("1", "R", body("1", "a")))["subject"] == "s"


class Sink(WebhookChannel):
    """Webhooks that keep the bodies that are posted."""

    def __init__(self) -> None:
        super().__init__(cast("ClientSession", None), Guard(), FakeClock())
        self.bodies: list[bytes] = []

    async def _post(self, target: URL, body: bytes, headers: dict[str, str]) -> str:
        self.bodies.append(body)
        return "accepted"


@pytest.mark.parametrize(("form", "version"), [("STANDARD", 1), ("STANDARD", 2), ("GITHUB", 2), ("CLOUDEVENTS", 2)])
async def test_what_is_shown_of_a_webhook_is_what_it_gets(form: str, version: int) -> None:
    recorded = body("n1", "Café", message={"title": "Café", "rows": ["Café"]})
    sink = Sink()
    message = Message("n1", "R", "https://r.example/", recorded, 0.0, form=form, payload=version, secret="x")
    await sink.deliver(message)
    title, text = sent_text("n1", "R", recorded, kind="webhook", form=form, version=version)
    assert title == ""
    assert json.loads(text) == json.loads(sink.bodies[0])
    assert "Café" in text


def test_what_is_shown_of_other_receivers_is_what_they_get() -> None:
    recorded = body("n1", "first", "second")
    mail = compose(Message("n1", "R", "a@example.org", recorded, 0.0, "mail"), "proxyd@example.org")
    title, text = sent_text("n1", "R", recorded, kind="mail", form="STANDARD", version=1)
    plain = mail.get_body(("plain",))
    assert plain is not None
    assert title == mail["Subject"]
    assert text.split() == plain.get_content().split()
    assert sent_text("n1", "R", recorded, kind="channel", form="STANDARD", version=1) == ("R", "first\nsecond")
    assert sent_text("n1", "R", recorded, kind="log", form="STANDARD", version=1) == ("", subject("R", recorded))


def test_a_mail_about_a_site_says_each_fact_once() -> None:
    facts = {"trouble": "is down since 2026-03-01 12:00 UTC: status 503", "error": "status 503", "status": 503}
    item = {f"source.{name}": value for name, value in facts.items()} | {"source.since": "2026-03-01T12:00:00.000Z"}
    sentence = f"shop {facts['trouble']}"
    text = plain_text("shop", body("1", items=[item], message={"title": sentence, "rows": [sentence]}))
    assert text.splitlines()[:3] == [sentence, "status: 503", ""]
