"""What chats and push services get: texts that they show as they are, that call nobody, and that they take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.net.guard import Guard
from proxyd.notify.channels.apprise_channel import AppriseChannel, ChannelAddresses
from proxyd.notify.channels.chat_texts import MOST_MESSAGES, ChatForm

apprise = pytest.importorskip("apprise")
requests: Any = pytest.importorskip("requests")
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated", "ignore:.*:DeprecationWarning:apprise")
DISCORD = "discord://123456789012345678/abcdefghijklmnopqrstuvwxyz"
SERVICES = {
    "discord": (DISCORD, 2000),
    "slack": ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/", 35_000),
    "tgram": ("tgram://123456789:abcdefg_hijklmnop/12315544/", 4096),
    "mmost": ("mmost://chat.example/abcdefghijklmnop", 4000),
    "rocket": ("rocket://abcdefghijk/lmnopqrst@chat.example", 1000),
    "gchat": ("gchat://workspace/key/token", 4000),
    "wxteams": (f"wxteams://{'a' * 80}", 1000),
    "zulip": (f"zulip://bot@org/{'a' * 32}/channel", 10_000),
    "toot": ("toot://token@host.example", 500),
    "ntfy": ("ntfy://topic", 4096),
    "pover": (f"pover://u{'a' * 29}@{'b' * 30}", 1024),
    "gotify": ("gotify://host.example/abcdefghijkl_mn", 32_768),
}
CALLS = re.compile(r"@(everyone|here|all|channel|room)|<[@!#]|@\*\*all", re.IGNORECASE)
HOSTILE = "@everyone @here <!channel> <@1> <@&2> <#3> <:a:1> @all @room @**all** **b** __c__ ~~d~~ `e` :skull:"


class Service:
    """Stands for the services: answers each request, and keeps the texts that it took."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.requests = 0
        self.refusals: dict[int, tuple[int, Mapping[str, str], object]] = {}  # by the number of the request

    def send(self, _adapter: object, request: Any, **_options: object) -> Any:
        response = requests.Response()
        response.request, response.url, response.status_code, response._content = request, request.url, 200, b"{}"
        response._content = b"ok" if "slack" in request.url else b"{}"
        self.requests += 1
        if self.requests in self.refusals:
            response.status_code, headers, said = self.refusals[self.requests]
            response.headers.update(headers)
            response._content = json.dumps(said).encode()
        else:
            body = request.body.decode() if isinstance(request.body, bytes) else request.body
            self.texts.append(body)
        return response


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    monkeypatch.setattr(
        requests.adapters.HTTPAdapter, "send", lambda *given, **options: service.send(*given, **options)
    )
    monkeypatch.setattr("apprise.URLBase.request_rate_per_sec", 0)
    return service


def channel() -> AppriseChannel:
    return AppriseChannel(ChannelAddresses(list(SERVICES), Guard()), timeout_s=20.0)


def message(url: str, *rows: str) -> Message:
    said = {"title": "t", "rows": list(rows), "is_set": False}
    data = {"id": "ntf_1", "rule": "R", "items": [{"title": row} for row in rows], "message": said}
    body = {"type": "proxyd.notification", "timestamp": "2026-03-01T12:00:00.000Z", "data": data}
    return Message("ntf_1", "R", url, json.dumps(body).encode(), 1e9, "channel")


def form(name: str) -> ChatForm:
    return ChatForm.of(apprise.Apprise.instantiate(SERVICES[name][0]), name)


@pytest.mark.parametrize("name", SERVICES)
def test_rows_go_in_messages_that_the_service_takes_and_none_is_cut(name: str) -> None:
    most, of = SERVICES[name][1], form(name)
    title = of.title("A rule")
    rows = [f"Row {n}! {'xä_<' * 45}" for n in range(40)]
    messages = of.messages(title, rows)
    lengths = [of.size(apprise.conversion.convert_between(of.source, of.target, text)) for text in messages]
    assert max(lengths) + (0 if of.most_title else len(title)) <= most
    lines = [line for text in messages for line in text.split("\n")]
    told = min(len(rows), len(lines) - (len(messages) == MOST_MESSAGES))
    assert [line.startswith(f"Row {n}!") for n, line in enumerate(lines[:told])] == [True] * told
    assert told == 40 or messages[-1] == f"and {40 - told} more"


@pytest.mark.parametrize("name", SERVICES)
def test_a_row_that_is_too_long_for_a_message_is_cut_between_words(name: str) -> None:
    of = form(name)
    row = " ".join(f"word{n}" for n in range(1000))
    words = [word for text in of.messages("", [row]) for word in text.split()]
    assert words == row.split()


def test_characters_are_counted_as_the_service_counts_them() -> None:
    assert all(form("ntfy").size(text) <= 4096 for text in form("ntfy").messages("", ["ж" * 3000]))
    assert all(len(text.encode("utf-16-le")) <= 8192 for text in form("tgram").messages("", ["🎈" * 4000]))


def test_no_service_is_flooded() -> None:
    messages = form("toot").messages("R", [f"Row {n} {'x' * 400}" for n in range(200)])
    assert (len(messages), messages[-1]) == (MOST_MESSAGES, "and 181 more")


def test_a_row_that_is_partly_left_out_counts_as_one() -> None:
    messages = form("toot").messages("R", ["x" * 20_000, "y"])
    assert (len(messages), messages[-1]) == (MOST_MESSAGES, "and 2 more")


def test_a_row_costs_no_more_than_the_messages_that_it_fills() -> None:
    lengths: list[int] = []

    def size(text: str) -> int:
        lengths.append(len(text))
        return len(text)

    replace(form("toot"), size=size).messages("R", ["ab " * 20_000])
    assert sum(lengths) < MOST_MESSAGES * 500 * 15


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"ntfy", "pover", "gotify"}))
async def test_what_strangers_write_calls_nobody_and_is_no_markup(name: str, service: Service) -> None:
    await channel().deliver(message(SERVICES[name][0], HOSTILE))
    (sent,) = service.texts
    assert CALLS.search(sent) is None
    if name in {"discord", "mmost", "rocket", "gchat", "wxteams", "zulip"}:
        assert not any(mark in sent for mark in ("**b**", "__c__", "~~d~~", " `e`"))


@pytest.mark.parametrize("name", ["discord", "slack", "mmost", "rocket"])
async def test_a_name_between_colons_is_no_emoji_but_a_time_stays(name: str, service: Service) -> None:
    await channel().deliver(message(SERVICES[name][0], "1:skull:2 at 10:30:45"))
    assert (":skull:" in service.texts[0], "10:30:45" in service.texts[0]) == (False, True)


@pytest.mark.parametrize("name", SERVICES)
async def test_an_address_stays_as_it_is(name: str, service: Service) -> None:
    await channel().deliver(message(SERVICES[name][0], "New http://a.example/x_y*z~q"))
    plain = service.texts[0].replace("%3A", ":").replace("%2F", "/").replace("%2A", "*").replace("%7E", "~")
    assert "http://a.example/x_y*z~q" in plain


async def test_an_address_cannot_alert_everybody(service: Service) -> None:
    await channel().deliver(message(DISCORD, "Look http://a.example/@everyone/x"))
    assert "http://a.example/%40everyone/x" in service.texts[0]


@pytest.mark.parametrize(
    ("headers", "said", "asked_s"),
    [
        pytest.param({"Retry-After": "300"}, {}, 300.0, id="a header"),
        pytest.param({}, {"parameters": {"retry_after": 35}}, 35.0, id="the JSON of Telegram"),
        pytest.param({}, {"retry_after": 0.65}, 0.65, id="the JSON of Discord"),
        pytest.param({}, {"retry_after_ms": 2000}, 2.0, id="the JSON of Matrix"),
        pytest.param({}, ["soon"], None, id="something else"),
    ],
)
@pytest.mark.parametrize("name", ["discord", "slack", "tgram"])
async def test_a_chat_that_asks_to_wait_is_not_asked_again_at_once(
    name: str, headers: Mapping[str, str], said: object, asked_s: float | None, service: Service
) -> None:
    service.refusals[1] = (429, headers, said)
    with pytest.raises(DeliveryError, match="it answered 429") as caught:
        await channel().deliver(message(SERVICES[name][0], "a"))
    assert (caught.value.retry_after_s, caught.value.retryable, service.requests) == (asked_s, True, 1)


async def test_the_next_attempt_goes_on_with_the_message_that_failed(service: Service) -> None:
    opened, rows = channel(), message(DISCORD, *(f"Row {n}! {'x' * 900}" for n in range(6)))
    service.refusals[2] = (500, {}, {})
    with pytest.raises(DeliveryError, match="it answered 500"):
        await opened.deliver(rows)
    await opened.deliver(rows)
    assert [sum(f"Row {n}!" in text for text in service.texts) for n in range(6)] == [1] * 6
