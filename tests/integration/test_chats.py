"""Chats against receivers that take, and refuse, what the services say in their documentation."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from proxyd.base.ports import Message
from proxyd.config.settings import CHATS
from proxyd.core.errors import DeliveryError
from proxyd.core.model.outcome import Picture
from proxyd.net.guard import Guard
from proxyd.notify.channels.channel_routing import channel_problem
from proxyd.notify.channels.chat_services import SERVICES, ChatAddress
from proxyd.notify.channels.chats import ChatChannel, is_understood

PINGS = re.compile(r"(?<![\w/.])@(?:everyone|here|all|channel|room|someone)\b|<[@!#]", re.IGNORECASE)
HOSTILE = (
    '@everyone @here <!channel> <@1> <@&2> <#3> @room **b** __c__ `e` [x](http://y.example) </b> &amp; \\ "q" :skull:'
)
ROWS = [
    *(f"Row {n}: {HOSTILE}" for n in range(34)),
    "Row 34: " + "😀🏳️‍🌈" * 300,
    "Row 35: \u202b\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd\u202c \u0645\u0631\u062d\u0628\u0627",
    "Row 36: " + "long " * 2000,
    "Row 37: http://a.example/x_y?q=(1)&r=2",
    "Row 38: " + "<&>\"'" * 400,
    "Row 39: last",
]


class RefusedError(Exception):
    """What a service refuses by its documentation."""


class Receiver:
    """A service that keeps what it took; it answers as one of ``answers`` first, each once."""

    def __init__(self, read: Callable[[web.Request, bytes, Any], str | None]) -> None:
        self.read = read
        self.taken: list[str] = []
        self.pictures = 0
        self.asked = 0
        self.answers: dict[int, web.Response] = {}  # by the number of the request
        self.keys: set[str] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if self.asked in self.answers:
            return self.answers.pop(self.asked)
        parts: dict[str, Any] = {}
        if request.content_type.startswith(("multipart/", "application/x-www-form")):
            parts = dict(await request.post())
            body = b""
        else:
            body = await request.read()
            parts = json.loads(body) if request.content_type == "application/json" else {}
        try:
            text = self.read(request, body, parts)
        except RefusedError as error:
            return web.json_response({"ok": False, "error": "refused", "description": str(error)}, status=400)
        if text is not None:
            self.taken.append(text)
        else:
            self.pictures += "join" not in request.path
        told = {"ok": True, "room_id": "!r:x", "access_token": "t", "content_uri": "mxc://x/1"}
        return web.json_response(told)


def need(holds: bool, why: str) -> None:
    if not holds:
        raise RefusedError(why)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def ntfy(request: web.Request, body: bytes, said: Any) -> str | None:
    need(request.headers.get("Authorization") == "Bearer tk_secret", "unauthorized")
    if request.method == "PUT":
        need(request.path == "/alerts" and bool(request.headers["Filename"]), "no topic")
        return None
    need(said["topic"] == "alerts" and said["title"] == "R" and said["priority"] == 4, "fields")
    need(0 < len(said["message"].encode()) <= 4096, "message is too long")
    return str(said["message"])


def gotify(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/sub/message" and request.headers["X-Gotify-Key"] == "tok", "unauthorized")
    need(isinstance(said["priority"], int) and said["title"] == "R", "fields")
    return str(said["message"])


def telegram(request: web.Request, body: bytes, said: Any) -> str | None:
    need(request.path.startswith("/bot123:abc/"), "Unauthorized")
    need(str(said["chat_id"]) == "-100" and str(said["message_thread_id"]) == "7", "Bad Request: chat not found")
    if request.path.endswith("sendPhoto"):
        return None
    text = said["text"]
    need(0 < units(text) <= 4096 and "parse_mode" not in said, "Bad Request: message is too long")
    for each in said.get("entities", ()):
        need(each["offset"] >= 0 and 0 < each["length"] <= units(text), "Bad Request: can't parse entities")
        need(text.encode("utf-16-le")[: 2 * each["length"]].decode("utf-16-le") == "R", "entity")
    return str(text).removeprefix("R\n")


def discord(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/api/webhooks/12/tok" and request.query["thread_id"] == "5", "Unknown Webhook")
    is_form = "payload_json" in said
    found = json.loads(said["payload_json"]) if is_form else said
    need(is_form == (said.get("files[0]") is not None), "files")
    need(0 < len(found["content"]) <= 2000, "Must be 2000 or fewer in length.")
    need(found["allowed_mentions"] == {"parse": []} and 2 <= len(found.get("username", "me")) <= 80, "fields")
    return str(found["content"]).removeprefix("**R**\n")


def slack(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/services/T1/B1/x", "no_service")
    need(0 < len(said["text"]) <= 40_000 and said["mrkdwn"] is False, "msg_too_long")
    need(not re.search(r"<|>|&(?!amp;|lt;|gt;)", said["text"]), "invalid_payload")
    return str(said["text"]).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").removeprefix("R\n")


def matrix(request: web.Request, body: bytes, said: Any) -> str | None:
    need(request.headers.get("Authorization") == "Bearer tok", "M_UNKNOWN_TOKEN")
    if "/join/" in request.path or "/upload" in request.path:
        return None
    need(len(json.dumps(said, ensure_ascii=False).encode()) < 65_000, "M_TOO_LARGE")
    need(said["m.mentions"] == {} and request.path.startswith("/_matrix/client/v3/rooms/!r:x/send/"), "M_FORBIDDEN")
    if said["msgtype"] == "m.image":
        need(said["url"] == "mxc://x/1", "no picture")
        return None
    need(not re.search(r"<(?!/?strong>|br>)", said["formatted_body"]), "markup")
    return str(said["body"]).removeprefix("R\n")


def teams(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/workflows/flow/triggers/manual/paths/invoke" and request.query["sig"] == "s+g", "sig")
    need(len(body) <= 28 * 1024, "RequestEntityTooLarge")
    (attachment,) = said["attachments"]
    blocks = attachment["content"]["body"]
    need(all(each["type"] == "TextBlock" and each["text"] for each in blocks), "blocks")
    return "\n".join(each["text"] for each in blocks[1:])


def mattermost(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/hooks/tok" and said["channel"] == "news", "not found")
    need(0 < len(said["text"]) <= 4000, "too long")
    return str(said["text"]).removeprefix("**R**\n")


def pushover(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/1/messages.json" and said["token"] == "app" and said["user"] == "usr", "token is invalid")
    need(0 < units(said["message"]) <= 1024 and len(said["title"]) <= 250 and said["device"] == "phone", "message")
    need(said["priority"] != "2" or int(said["retry"]) >= 30, "retry")
    return str(said["message"])


def plain_json(request: web.Request, body: bytes, said: Any) -> str:
    need(request.path == "/a/b/" and request.headers["X-Key"] == "k+y", "headers")
    need(request.headers["Authorization"] == "Basic dTpw", "login")
    return str(said["message"])


def plain_form(request: web.Request, body: bytes, said: Any) -> str:
    need(request.method == "PUT" and said["title"] == "R", "fields")
    return str(said["message"])


CASES: dict[str, tuple[Callable[[web.Request, bytes, Any], str | None], str]] = {
    "ntfy": (ntfy, "ntfy://tk_secret@{at}/alerts?priority=high"),
    "gotify": (gotify, "gotify://{at}/sub/tok?priority=7"),
    "tgram": (telegram, "tgram://123:abc/-100:7"),
    "discord": (discord, "discord://12/tok?thread=5"),
    "slack": (slack, "slack://T1/B1/x"),
    "matrix": (matrix, "matrix://tok@{at}/#room"),
    "workflows": (teams, "workflows://teams.example/flow/s%2Bg"),
    "mmost": (mattermost, "mmost://{at}/tok?channel=news"),
    "pover": (pushover, "pover://usr@app/phone?priority=emergency"),
    "json": (plain_json, "json://u:p@{at}/a/b/?+X-Key=k+y"),
    "form": (plain_form, "form://{at}/a?method=put"),
}


@asynccontextmanager
async def serving(name: str) -> AsyncIterator[tuple[Receiver, ChatChannel, str]]:
    """Yield the receiver of a service, a channel to it, and its address."""
    read, address = CASES[name]
    receiver = Receiver(read)
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    async with TestServer(app, host="127.0.0.1") as server, ClientSession() as session:
        at = f"127.0.0.1:{server.port}"
        homes = {service.name: f"http://{at}" for service in SERVICES.values() if service.name != "ntfy"}
        yield receiver, ChatChannel(session, timeout_s=10.0, homes=homes), address.replace("{at}", at)


def message(url: str, rows: list[str], *, picture: Picture | None = None) -> Message:
    said = {"title": "t", "rows": rows, "is_set": False}
    data = {"id": "ntf_1", "rule": "R", "items": [{"title": row} for row in rows], "message": said}
    body = {"type": "proxyd.notification", "timestamp": "2026-03-01T12:00:00.000Z", "data": data}
    return Message("ntf_1", "R", url, json.dumps(body).encode(), 1e9, "channel", picture=picture)


def told(receiver: Receiver) -> list[int]:
    return [int(number) for text in receiver.taken for number in re.findall(r"^Row (\d+)\\?:", text, re.MULTILINE)]


def test_every_scheme_is_allowed_without_a_setting() -> None:
    assert set(CHATS) == set(SERVICES)


def test_every_service_is_tried() -> None:
    assert {SERVICES[name].name for name in CASES} == {service.name for service in SERVICES.values()}


@pytest.mark.parametrize("name", CASES)
async def test_hostile_rows_are_taken_whole_and_in_order_and_call_nobody(name: str) -> None:
    async with serving(name) as (receiver, channel, url):
        await channel.deliver(message(url, ROWS))
    assert (told(receiver) == list(range(40))) or receiver.taken[-1].startswith("and ")
    assert told(receiver) == list(range(len(told(receiver))))
    assert len(told(receiver)) > 20
    if name not in {"ntfy", "gotify", "pover", "json", "form", "workflows"}:  # which know no mentions in a text
        assert not [found for text in receiver.taken for found in PINGS.findall(text)]


@pytest.mark.parametrize("name", CASES)
async def test_what_a_receiver_postpones_comes_later_in_order_and_once(name: str) -> None:
    rows = [f"Row {n}: {'word ' * 150}" for n in range(40)]
    async with serving(name) as (receiver, channel, url):
        receiver.answers = {
            1: web.Response(status=503),
            3: web.json_response({"retry_after": 2.5}, status=429),
            4: web.Response(status=429, headers={"Retry-After": "7"}),
        }
        waits = []
        for _ in range(8):
            try:
                await channel.deliver(message(url, rows))
                break
            except DeliveryError as error:
                waits.append(error.retry_after_s if error.retryable else -1.0)
    assert told(receiver) == list(range(len(told(receiver))))
    assert len(told(receiver)) >= 20 or name in {"tgram", "discord", "pover"}
    assert waits[0] is None
    assert set(waits[1:]) <= {2.5, 7.0}


@pytest.mark.parametrize(
    ("name", "pictures", "texts"),
    [("ntfy", 1, 1), ("tgram", 1, 1), ("matrix", 2, 1), ("discord", 0, 1), ("pover", 0, 1)],
)
async def test_a_picture_goes_with_the_text(name: str, pictures: int, texts: int) -> None:
    async with serving(name) as (receiver, channel, url):
        await channel.deliver(message(url, ["Row 0: a"], picture=Picture("image/png", b"\x89PNG")))
    assert (receiver.pictures, len(receiver.taken)) == (pictures, texts)


async def test_a_picture_that_is_refused_keeps_no_text_back() -> None:
    async with serving("ntfy") as (receiver, channel, url):
        receiver.answers = {2: web.json_response({"error": "attachments not allowed"}, status=400)}
        await channel.deliver(message(url, ["Row 0: a"], picture=Picture("image/png", b"\x89PNG")))
        receiver.answers = {4: web.Response(status=503)}
        with pytest.raises(DeliveryError, match="ntfy answered 503"):
            await channel.deliver(message(url, ["Row 0: b"], picture=Picture("image/png", b"\x89PNG")))
        await channel.deliver(message(url, ["Row 0: b"], picture=Picture("image/png", b"\x89PNG")))
    assert (len(receiver.taken), receiver.pictures) == (2, 1)


class SlackFiles:
    """What takes files at Slack, in the three steps of its documentation."""

    def __init__(self, *, place: str = "") -> None:
        self.place = place
        self.steps: list[tuple[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        method = request.path.removeprefix("/api/")
        is_signed = request.headers.get("Authorization") == "Bearer xoxb-1-2"
        if method == "upload":
            need(not is_signed, "the address is signed, and the token is nobody's business there")
            self.steps.append((method, await request.read()))
            return web.Response(text="OK - 4")
        need(is_signed, "not_authed")
        if method == "files.getUploadURLExternal":
            form = dict(await request.post())
            self.steps.append((method, form))
            place = self.place or str(request.url.with_path("/api/upload"))
            return web.json_response({"ok": True, "upload_url": place, "file_id": "F1"})
        self.steps.append((method, await request.json()))
        return web.json_response({"ok": True, "ts": "1.2", "channel": "C024BE91L"})


@asynccontextmanager
async def slack_files(files: SlackFiles) -> AsyncIterator[ChatChannel]:
    app = web.Application()
    app.router.add_post("/api/{method}", files.answer)
    async with TestServer(app) as server, ClientSession() as session:
        yield ChatChannel(session, timeout_s=10.0, homes={"Slack": f"http://127.0.0.1:{server.port}"})


@pytest.mark.parametrize("thread", ["", ":17.5"])
async def test_a_slack_bot_uploads_a_picture_to_a_channel_that_it_knows_by_number(thread: str) -> None:
    files, picture = SlackFiles(), Picture("image/png", b"\x89PNG")
    async with slack_files(files) as channel:
        await channel.deliver(message(f"slack://xoxb-1-2/C024BE91L{thread}", ["a"], picture=picture))
    posted, begun, uploaded, ended = files.steps
    to = {"channel_id": "C024BE91L"} | ({"thread_ts": "17.5"} if thread else {})
    assert posted[1]["channel"] == "C024BE91L"
    assert begun == ("files.getUploadURLExternal", {"filename": "page.png", "length": "4"})
    assert uploaded == ("upload", b"\x89PNG")
    assert ended == ("files.completeUploadExternal", {"files": [{"id": "F1", "title": "R"}]} | to)


@pytest.mark.parametrize(
    ("url", "place"),
    [("slack://xoxb-1-2/#news", ""), ("slack://xoxb-1-2/C024BE91L", "http://198.51.100.1/upload")],
    ids=["of a channel by its name", "at a place that is not Slack's"],
)
async def test_a_picture_is_not_uploaded(url: str, place: str) -> None:
    files = SlackFiles(place=place)
    async with slack_files(files) as channel:
        await channel.deliver(message(url, ["a"], picture=Picture("image/png", b"\x89PNG")))
    asked = ["chat.postMessage", *(["files.getUploadURLExternal"] if place else [])]
    assert [method for method, _ in files.steps] == asked


async def test_a_refusal_says_why_and_no_secret() -> None:
    async with serving("tgram") as (receiver, channel, url):
        receiver.answers = {1: web.json_response({"ok": False, "description": "no chat at bot123:abc"}, status=400)}
        with pytest.raises(DeliveryError, match="Telegram answered 400: no chat") as caught:
            await channel.deliver(message(url, ["a"]))
    assert "123:abc" not in str(caught.value)


async def test_a_wording_that_leaves_nothing_is_told_by_the_name_of_its_rule() -> None:
    async with serving("mmost") as (receiver, channel, url):
        told = message(url, ["", "  "])
        body = json.loads(told.body)
        body["data"]["message"]["is_set"] = True
        await channel.deliver(replace(told, body=json.dumps(body).encode()))
    assert receiver.taken == ["R"]


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, "[" * 60_000, {}),
        (400, '{"message":' * 5000, {}),
        (400, '{"message":' * 900 + "1" + "}" * 900, {}),
        (400, '{"message": ["\\ud800"], "errors": 7}', {}),
        (429, '{"retry_after": 1%s}' % ("0" * 400), {}),
        (429, '{"retry_after_ms": 1%s}' % ("0" * 400), {}),
        (429, '{"parameters": [1]}', {}),
        (429, "", {"X-Limit-App-Reset": "inf"}),
        (302, "", {"Location": "http://10.0.0.1/"}),
        (400, "no gzip", {"Content-Encoding": "gzip"}),
    ],
)
async def test_no_answer_of_a_service_is_more_than_a_refusal(status: int, body: str, headers: dict[str, str]) -> None:
    async with serving("json") as (receiver, channel, url):
        receiver.answers = {1: web.Response(status=status, text=body, headers=headers)}
        with pytest.raises(DeliveryError, match=f"the receiver answered {status}") as caught:
            await channel.deliver(message(url, ["a"]))
        assert caught.value.retryable
        assert caught.value.retry_after_s is None
        assert receiver.asked == 1


async def test_what_was_accepted_is_not_sent_again_because_of_its_answer() -> None:
    async with serving("json") as (receiver, channel, url):
        receiver.answers = {1: web.Response(text="no gzip", headers={"Content-Encoding": "gzip"})}
        await channel.deliver(message(url, ["a"]))
    assert receiver.asked == 1


@pytest.mark.parametrize(
    ("name", "url", "secret"),
    [
        ("json", "json://me:pass%20%22word@{at}/hook/?+X-Key=topsecret", r"pass[ %+]|topsecret|Basic \w|hook"),
        ("pover", "pover://useruser@tokentoken", "useruser|tokentoken"),
        ("slack", "slack://xoxb-1-2/#news", "xoxb"),
        ("matrix", "matrix://me:password@{at}/#room", "password"),
        ("gotify", "gotify://{at}/tokentoken", "tokentoken"),
        ("ntfy", "ntfy://{at}/topic?token=tk_secret", "tk_secret"),
    ],
)
async def test_a_service_that_repeats_a_request_gives_no_secret_away(name: str, url: str, secret: str) -> None:
    async with serving(name) as (receiver, channel, _):

        def repeat(request: web.Request, body: bytes, said: Any) -> str:
            told = [str(said)] if isinstance(said, dict) else []
            told += [
                f"{request.headers.get(name)} {request.url}" for name in ("Authorization", "X-Key", "X-Gotify-Key")
            ]
            raise RefusedError(" ".join(told)[-190:])

        receiver.read = repeat
        at = f"127.0.0.1:{channel._homes['Slack'].rpartition(':')[2]}"
        with pytest.raises(DeliveryError, match="answered 400: ") as caught:
            await channel.deliver(message(url.replace("{at}", at), ["a"]))
    assert not re.search(secret, str(caught.value))


async def test_what_slack_answers_in_a_success_is_a_refusal() -> None:
    async with serving("slack") as (receiver, channel, _):
        receiver.answers = {1: web.json_response({"ok": False, "error": "not_in_channel"})}
        with pytest.raises(DeliveryError, match="Slack answered 200: not_in_channel"):
            await channel.deliver(message("slack://xoxb-1-2/#news", ["a"]))


async def test_several_receivers_of_an_address_get_it_once_each() -> None:
    async with serving("mmost") as (receiver, channel, url):
        receiver.read = lambda request, body, said: f"{said['channel']}: {said['text']}"
        receiver.answers = {2: web.Response(status=500)}
        several = url.replace("channel=news", "channel=a,b,c")
        with pytest.raises(DeliveryError):
            await channel.deliver(message(several, ["x"]))
        await channel.deliver(message(several, ["x"]))
    assert [text[0] for text in receiver.taken] == ["a", "b", "c"]


async def test_matrix_logs_in_with_a_password() -> None:
    async with serving("matrix") as (receiver, channel, url):
        paths: list[str] = []

        def read(request: web.Request, body: bytes, said: Any) -> str | None:
            paths.append(request.path.rpartition("/v3/")[2].partition("/")[0])
            need("login" in request.path or request.headers["Authorization"] == "Bearer t", "token")
            return str(said["body"]) if "send" in request.path else None

        receiver.read = read
        await channel.deliver(message(url.replace("tok@", "me:secret@"), ["x"]))
    assert (paths, receiver.taken) == (["login", "join", "rooms"], ["R\nx"])


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("ntfy://topic", True),
        ("ntfys://me:secret@ntfy.example:8443/a/b", True),
        ("ntfys://ntfy.example/a?attach=http://x.example/y.png", False),
        ("tgram://123:abc/", False),
        ("tgram://bad/1", False),
        ("discord://name@12/tok", True),
        ("discord://12/tok?footer=yes&fields=yes", False),
        ("slack://xoxb-1-2/#a/#b", True),
        ("slack://T1/B1", False),
        ("matrixs://token", False),
        ("matrixs://me:a%2Fb@m.example/!id:m.example", True),
        ("mmosts://m.example/sub/tok", True),
        ("pover://user@token", True),
        ("pover://user@token?sound=cash", True),
        ("jsons://h.example/x?:field=1", False),
        ("rocket://a/b@h.example", False),
        ("ntfy://ntfy.example", False),
        ("ntfy://ntfy.example/a,b", False),
        ("ntfy://name@ntfy.example/a?auth=token", False),
        ("ntfy://topic?Priority=High", True),
        ("ntfy://topic?priority=h", False),
        ("gotify://h.example/tok?priority=11", False),
        ("tgram://123:abc/1,2", False),
        ("tgram://123:abc/me@x", False),
        ("discord://12/tok?tts=yes", False),
        ("slack://T1/B1/x/me@x.example", False),
        ("slack://T1/B1/x/#a:17.5", True),
        ("matrixs://token@m.example/@user", False),
        ("pover://user@token/#group", False),
        ("pover://user@token?priority=9", False),
        ("jsons://h.example/x?verify=no", False),
        ("jsons://h.example/a;b", False),
        ("jsons://h.example/../a", False),
        ("jsons://h.example/x?+Host=other.example", False),
        ("jsons://h.example/x?+Content-Length=3", False),
        ("jsons://h.example/x?+X%20Y=1", False),
        ("jsons://h.example/x?+X-Y=1%0d%0aX-Z:%202", False),
        ("ntfys://ntfy.example/a?token=x%0ay", False),
        ("jsons://h.example%2F.other.example/a", False),
        ("jsons://h.example%23/a", False),
        ("jsons://a@b@h.example/a", False),
        ("jsons://h.example:99999/a", False),
        ("jsons://[::1]:8080/a", True),
    ],
)
def test_what_an_address_means_is_known_here_or_left_to_apprise(url: str, is_ours: bool) -> None:
    assert is_understood(url) is is_ours


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("gotify://127.0.0.1/tok", "refused"),
        ("ntfy://[::1]/topic", "refused"),
        ("json://localhost/x", None),
        ("workflows://10.0.0.1/a/b", "refused"),
        ("tgram://123:abc/1", None),
        ("ntfy://topic", None),
        ("ours://x", "does not allow ours://"),
        ("tgram://123:abc/1 x", "exactly one address"),
    ],
)
def test_an_address_is_judged_before_anything_is_sent(url: str, why: str | None) -> None:
    problem = channel_problem(url, list(SERVICES), Guard())
    assert problem is None if why is None else why in str(problem)


def test_without_apprise_an_address_that_is_not_understood_shows_how_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxyd.notify.channels.channel_routing.has_channels", lambda: False)
    problem = channel_problem("tgram://bad", list(SERVICES), Guard())
    assert problem == "Telegram cannot be reached by this address; it is written tgram://BOT_TOKEN/CHAT"


def test_parts_of_an_address_may_hold_anything_when_written_with_percents() -> None:
    found = ChatAddress.of("jsons://u%40x:p%2F%3A@h.example:1/a%2Fb?+A-B=c%26d")
    assert found is not None
    assert (found.user, found.password, found.path, dict(found.options)) == ("u@x", "p/:", ("a/b",), {"+A-B": "c&d"})
    assert URL(found.server).port == 1
