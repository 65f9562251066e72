"""Chats and push services, each a row of ``SERVICES``: its addresses, its texts, its requests.

An address is written as apprise writes it. What has no row here, such as a service or an option, is left to apprise.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from html import escape as escape_html
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote, urlencode

import aiohttp
from yarl import URL

from proxyd.notify.channels.chat_texts import WEB_ADDRESS, ChatForm

if TYPE_CHECKING:
    from proxyd.core.model.outcome import Picture

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(?:([^@/?:]*)(?::([^@/?:]*))?@)?([^/?]*)(/[^?]*)?(?:\?(.*))?")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([1-9][0-9]{0,4}))?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_COMMON_OPTIONS = frozenset({"format", "overflow", "image", "avatar", "footer", "rto", "cto"})
_YES = ("y", "t", "1", "on", "en", "al")  # the beginnings of what apprise takes for yes


@dataclass(frozen=True, slots=True)
class ChatAddress:
    """An address in its parts, decoded; ``place`` is what stands where a web address has its host."""

    scheme: str
    user: str
    password: str
    place: str
    path: tuple[str, ...]
    options: Mapping[str, str]  # in lower case, apart from those with a sign, such as headers
    ends_with_slash: bool = False

    @classmethod
    def of(cls, url: str) -> ChatAddress | None:
        """Return the parts of an address, or ``None`` if it has none.

        >>> found = ChatAddress.of("matrixs://me:a%40b@chat.example:8448/#room/!id?thread=1")
        >>> found.user, found.password, found.place, found.path, dict(found.options)
        ('me', 'a@b', 'chat.example:8448', ('#room', '!id'), {'thread': '1'})
        """
        found = _ADDRESS.fullmatch(url)
        if found is None:
            return None
        pairs = (pair.partition("=") for pair in (found[6] or "").split("&") if pair)
        path = found[5] or ""
        return cls(
            found[1].lower(),
            unquote(found[2] or ""),
            unquote(found[3] or ""),
            unquote(found[4]),
            tuple(unquote(part) for part in path.split("/") if part),
            MappingProxyType(dict(_option(name, value) for name, _, value in pairs)),
            path.endswith("/"),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether no part holds a character that would end a line of a request."""
        texts = (self.user, self.password, self.place, *self.path, *self.options, *self.options.values())
        return not any(map(_CONTROL.search, texts))

    @property
    def secrets(self) -> set[str]:
        """The parts that may be secret."""
        place = set() if self.names_server else {self.place}
        hidden = {value for name, value in self.options.items() if name == "token" or name.startswith("+")}
        return {self.user, self.password, *place, *self.path, *hidden}

    @property
    def names_server(self) -> bool:
        """Return whether its place is a host, with or without a port, and nothing else."""
        found = _SERVER.fullmatch(self.place)
        return found is not None and int(found[1] or 0) < 65_536

    @property
    def server(self) -> str:
        """The beginning of the web address of a server of one's own."""
        return f"{'https' if self.scheme.endswith('s') else 'http'}://{self.place}"

    def has_only(self, options: frozenset[str]) -> bool:
        """Return whether there are no other options, apart from those that change nothing here."""
        return all(name in options | _COMMON_OPTIONS for name in self.options)

    def flag(self, name: str) -> bool:
        """Return whether an option says yes."""
        return self.options.get(name, "").lower().startswith(_YES)


def _option(name: str, value: str) -> tuple[str, str]:
    name = unquote(name)
    if name.startswith(("+", "-", ":")):
        return name, unquote(value).strip()
    return name.lower(), unquote(value.replace("+", " ")).strip()


@dataclass(frozen=True, slots=True)
class Post:
    """One message of a notification; ``key`` is the same on every attempt."""

    title: str
    text: str
    key: str
    picture: Picture | None = None

    def whole(self, around: str = "") -> str:
        """Return title and text, in services that know no title; ``around`` makes the title bold."""
        return f"{around}{self.title}{around}\n{self.text}" if self.title else self.text


class Ask(Protocol):
    """Asks a service, and returns the JSON object of its answer, or ``{}``."""

    async def __call__(
        self, url: str, *, method: str = "POST", headers: Mapping[str, str] | None = None, **content: Any
    ) -> Mapping[str, Any]:
        """Raise ``DeliveryError`` if the service does not accept it."""


@dataclass(frozen=True, slots=True)
class _ChatService:
    """How one service takes messages.

    ``home`` is its web address, unless an address names the server. ``targets`` returns who is written to, one after
    the other; nobody: the address is not understood. ``picture`` sends a picture by itself, after the texts; services
    that ``attach`` get it with the first text.
    """

    name: str
    written: str
    form: ChatForm
    home: str
    targets: Callable[[ChatAddress], tuple[str, ...]]
    send: Callable[[Ask, str, ChatAddress, str, Post], Awaitable[Any]]
    picture: Callable[[Ask, str, ChatAddress, str, Post], Awaitable[Any]] | None = None
    attach: bool = False

    def has_own_server(self, address: ChatAddress) -> bool:
        """Return whether an address names the server that is asked."""
        return not self.home or (self.name == "ntfy" and bool(address.path))

    def receivers(self, address: ChatAddress) -> tuple[str, ...]:
        """Return who is written to, or nobody if the address is not understood."""
        if not address.is_plain or (self.has_own_server(address) and not address.names_server):
            return ()
        return self.targets(address)


# -- ntfy

_NTFY_PRIORITIES = {"min": 1, "low": 2, "default": 3, "normal": 3, "moderate": 3, "high": 4, "max": 5, "emergency": 5}


_NTFY_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _ntfy_targets(address: ChatAddress) -> tuple[str, ...]:
    known = address.has_only(frozenset({"priority", "tags", "xtags", "click", "token"}))
    topics = address.path or ((address.place,) if not address.user else ())
    is_known = known and _has_priority(address, _NTFY_PRIORITIES, "12345") and all(map(_NTFY_TOPIC.fullmatch, topics))
    return topics if is_known else ()


def _has_priority(address: ChatAddress, names: Collection[str], numbers: Collection[str]) -> bool:
    """Return whether an address asks for no priority, or for one that is known."""
    return address.options.get("priority", "").lower() in {"", *names, *numbers}


def _ntfy_server(home: str, address: ChatAddress) -> str:
    return address.server if address.path else home


def _ntfy_login(address: ChatAddress) -> dict[str, str]:
    token = address.options.get("token", "")
    if not token and address.user.startswith("tk_") and not address.password:
        token = address.user
    if token:
        return {"Authorization": f"Bearer {token}"}
    return _basic(address)


async def _send_ntfy(ask: Ask, home: str, address: ChatAddress, topic: str, post: Post) -> None:
    said: dict[str, Any] = {"topic": topic, "title": post.title, "message": post.text}
    priority = address.options.get("priority", "").lower()
    if priority:
        said["priority"] = _NTFY_PRIORITIES.get(priority) or int(priority)
    tags = address.options.get("tags") or address.options.get("xtags")
    if tags:
        said["tags"] = [tag.strip() for tag in tags.split(",")]
    if click := address.options.get("click"):
        said["click"] = click
    await ask(_ntfy_server(home, address) + "/", headers=_ntfy_login(address), json=said)


async def _picture_to_ntfy(ask: Ask, home: str, address: ChatAddress, topic: str, post: Post) -> None:
    picture = _picture(post)
    headers = _ntfy_login(address) | {"Filename": _file_name(picture)}
    await ask(
        f"{_ntfy_server(home, address)}/{quote(topic, safe='')}", method="PUT", headers=headers, data=picture.data
    )


# -- Gotify


_GOTIFY_PRIORITIES = {"low": 1, "moderate": 3, "normal": 5, "high": 8, "emergency": 10}


def _gotify_targets(address: ChatAddress) -> tuple[str, ...]:
    known = _has_priority(address, _GOTIFY_PRIORITIES, [str(number) for number in range(11)])
    return address.path[-1:] if known and address.has_only(frozenset({"priority"})) else ()


async def _send_gotify(ask: Ask, _home: str, address: ChatAddress, token: str, post: Post) -> None:
    priority = address.options.get("priority", "").lower() or "normal"
    said: dict[str, Any] = {"title": post.title, "message": post.text}
    said |= {"priority": _GOTIFY_PRIORITIES[priority] if priority in _GOTIFY_PRIORITIES else int(priority)}
    base = "/".join([address.server, *(quote(part, safe="") for part in address.path[:-1])])
    await ask(f"{base}/message", headers={"X-Gotify-Key": token}, json=said)


# -- Telegram

_TELEGRAM_TOKEN = re.compile(r"(?:bot)?\d+:[\w-]+", re.ASCII)
_TELEGRAM_CHAT = re.compile(r"(?:-?\d+|@?[A-Za-z]\w*)(?::\d+)?", re.ASCII)


def _telegram_targets(address: ChatAddress) -> tuple[str, ...]:
    known = address.has_only(frozenset({"silent", "topic", "thread", "preview", "detect", "content"}))
    known = known and all(map(_TELEGRAM_CHAT.fullmatch, address.path))
    return address.path if known and _TELEGRAM_TOKEN.fullmatch(address.place) else ()


def _telegram_url(home: str, address: ChatAddress, method: str) -> str:
    return f"{home}/bot{address.place.removeprefix('bot')}/{method}"


def _telegram_chat(address: ChatAddress, target: str) -> dict[str, Any]:
    chat, _, topic = target.partition(":")
    topic = topic or address.options.get("topic", "") or address.options.get("thread", "")
    found: dict[str, Any] = {"chat_id": chat if re.fullmatch(r"-?\d+|@.*", chat) else f"@{chat}"}
    if topic.isdecimal():
        found["message_thread_id"] = int(topic)
    return found | ({"disable_notification": True} if address.flag("silent") else {})


async def _send_telegram(ask: Ask, home: str, address: ChatAddress, target: str, post: Post) -> None:
    # The title is bold by its place in the text: no markup that could be broken, or refused
    bold = {"type": "bold", "offset": 0, "length": len(post.title.encode("utf-16-le", "surrogatepass")) // 2}
    said = _telegram_chat(address, target) | {"text": post.whole()} | ({"entities": [bold]} if post.title else {})
    said |= {} if address.flag("preview") else {"link_preview_options": {"is_disabled": True}}
    await ask(_telegram_url(home, address, "sendMessage"), json=said)


async def _picture_to_telegram(ask: Ask, home: str, address: ChatAddress, target: str, post: Post) -> None:
    form = _form({name: str(value) for name, value in _telegram_chat(address, target).items()}, "photo", _picture(post))
    await ask(_telegram_url(home, address, "sendPhoto"), data=form)


# -- Discord


def _discord_targets(address: ChatAddress) -> tuple[str, ...]:
    known = address.has_only(frozenset({"thread"}))
    return address.path[:1] if known and address.place.isdecimal() and len(address.path) == 1 else ()


async def _send_discord(ask: Ask, home: str, address: ChatAddress, token: str, post: Post) -> None:
    said: dict[str, Any] = {"content": post.whole("**"), "allowed_mentions": {"parse": []}, "flags": 4}
    if address.user:
        said["username"] = address.user
    query = {"wait": "true"} | ({"thread_id": address.options["thread"]} if "thread" in address.options else {})
    url = f"{home}/api/webhooks/{address.place}/{quote(token, safe='')}?{urlencode(query)}"
    if post.picture is None:
        await ask(url, json=said)
    else:
        await ask(url, data=_form({"payload_json": json.dumps(said)}, "files[0]", post.picture))


# -- Slack


_SLACK_CHANNEL = re.compile(r"([#@+]?)([\w-]+)(?::(\d+\.\d+))?")  # with a + comes the number of a channel
_SLACK_NUMBER = re.compile(r"[CDG][A-Z0-9]{8,}")


def _is_slack_bot(address: ChatAddress) -> bool:
    return address.place.startswith("xox")


def _slack_targets(address: ChatAddress) -> tuple[str, ...]:
    is_bot = _is_slack_bot(address)
    channels = address.path if is_bot else address.path[2:]
    known = address.has_only(frozenset({"thread", "blocks", "timestamp"})) and (is_bot or "." not in address.place)
    if not known or not all(map(_SLACK_CHANNEL.fullmatch, channels)):
        return ()
    return channels if is_bot else channels or ("",) * (len(address.path) == 2)


async def _send_slack(ask: Ask, home: str, address: ChatAddress, channel: str, post: Post) -> None:
    text = post.whole().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")  # all that has a meaning
    said: dict[str, Any] = {"text": text, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    said |= {"thread_ts": address.options["thread"]} if "thread" in address.options else {}
    said |= _slack_channel(channel)
    said |= {"username": address.user} if address.user else {}
    if _is_slack_bot(address):
        await ask(_slack_url(home, "chat.postMessage"), headers=_slack_login(address), json=said)
        return
    parts = (address.place, *address.path[:2])
    await ask(f"{home}/services/{'/'.join(quote(part, safe='') for part in parts)}", json=said)


def _slack_url(home: str, method: str) -> str:
    return f"{home.replace('://hooks.', '://')}/api/{method}"


def _slack_login(address: ChatAddress) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.place}"}


async def _picture_to_slack(ask: Ask, home: str, address: ChatAddress, channel: str, post: Post) -> None:
    """Upload a picture to a channel; webhooks take none, and a name of a channel does not lead to its number."""
    to, picture, login = _slack_channel(channel), _picture(post), _slack_login(address)
    if not _is_slack_bot(address) or _SLACK_NUMBER.fullmatch(to.get("channel", "")) is None:
        return
    size = {"filename": _file_name(picture), "length": str(len(picture.data))}
    begun = await ask(_slack_url(home, "files.getUploadURLExternal"), headers=login, data=size)
    place, number = begun.get("upload_url"), begun.get("file_id")
    if not isinstance(place, str) or not isinstance(number, str) or not _is_slack(place, home):
        return
    await ask(place, headers={"Content-Type": picture.media_type}, data=picture.data)
    said: dict[str, Any] = {"files": [{"id": number, "title": post.title or "page"}], "channel_id": to["channel"]}
    thread = to.get("thread_ts") or address.options.get("thread")
    said |= {"thread_ts": thread} if thread else {}
    await ask(_slack_url(home, "files.completeUploadExternal"), headers=login, json=said)


def _is_slack(url: str, home: str) -> bool:
    """Return whether an address that Slack has named is its own.

    >>> [_is_slack(url, "https://hooks.slack.com") for url in ("https://files.slack.com/u", "https://a.example/slack.com")]
    [True, False]
    """
    try:
        found, own = URL(url), URL(home)
    except ValueError:
        return False
    is_own = found.host == own.host or (found.host or "").endswith(".slack.com")
    return is_own and found.scheme == own.scheme


def _slack_channel(written: str) -> dict[str, str]:
    """Return the channel, and the thread if there is one.

    >>> _slack_channel("news"), _slack_channel("+C024BE91L"), _slack_channel("#a:17.5")
    ({'channel': '#news'}, {'channel': 'C024BE91L'}, {'channel': '#a', 'thread_ts': '17.5'})
    """
    found = _SLACK_CHANNEL.fullmatch(written)
    if found is None:
        return {}
    sign, name, thread = found.groups()
    is_number = sign == "+" or (not sign and _SLACK_NUMBER.fullmatch(name))
    channel = name if is_number else f"{sign or '#'}{name}"
    return {"channel": channel} | ({"thread_ts": thread} if thread else {})


# -- Matrix

_MATRIX_ROOM = re.compile(r"[!#]?[^\s@!#,/]+")
_MATRIX_MODES = frozenset({"off", "disabled", "server"})  # those that ask the server of the address


def _matrix_targets(address: ChatAddress) -> tuple[str, ...]:
    known = bool(address.user) and address.has_only(frozenset({"mode"}))
    known = known and address.options.get("mode", "off").lower() in _MATRIX_MODES
    return address.path if known and all(map(_MATRIX_ROOM.fullmatch, address.path)) else ()


async def _enter_matrix(ask: Ask, address: ChatAddress, room: str) -> tuple[str, dict[str, str]]:
    """Return the number of a room, which is entered, and the headers of a login."""
    client = f"{address.server}/_matrix/client/v3"
    token = address.user
    if address.password:  # a device of its own, so that each login replaces the one before
        login = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": address.user}}
        login |= {"password": address.password, "device_id": "PROXYD", "initial_device_display_name": "proxyd"}
        token = str((await ask(f"{client}/login", json=login)).get("access_token", ""))
    headers = {"Authorization": f"Bearer {token}"}
    name = room if room[0] in "!#" else f"#{room}"
    if name[0] == "#" and ":" not in name:  # numbers of newer rooms name no server
        name += f":{URL(address.server).host}"
    entered = await ask(f"{client}/join/{quote(name, safe='')}", headers=headers, json={})
    return str(entered.get("room_id", name)), headers


async def _tell_matrix(
    ask: Ask, address: ChatAddress, room: str, headers: Mapping[str, str], key: str, said: Mapping[str, Any]
) -> None:
    # The key makes the service take a message once, however often it is sent
    url = f"{address.server}/_matrix/client/v3/rooms/{quote(room, safe='')}/send/m.room.message/{quote(key, safe='')}"
    await ask(url, method="PUT", headers=headers, json={**said, "m.mentions": {}})


async def _send_matrix(ask: Ask, _home: str, address: ChatAddress, target: str, post: Post) -> None:
    room, headers = await _enter_matrix(ask, address, target)
    said = {"msgtype": "m.text", "body": post.whole()}
    if post.title:
        shown = escape_html(post.text).replace("\n", "<br>")
        said |= {"format": "org.matrix.custom.html"}
        said |= {"formatted_body": f"<strong>{escape_html(post.title)}</strong><br>{shown}"}
    await _tell_matrix(ask, address, room, headers, post.key, said)


async def _picture_to_matrix(ask: Ask, _home: str, address: ChatAddress, target: str, post: Post) -> None:
    picture = _picture(post)
    room, headers = await _enter_matrix(ask, address, target)
    url = f"{address.server}/_matrix/media/v3/upload?{urlencode({'filename': _file_name(picture)})}"
    stored = await ask(url, headers={**headers, "Content-Type": picture.media_type}, data=picture.data)
    facts = {"mimetype": picture.media_type, "size": len(picture.data)}
    said = {"msgtype": "m.image", "body": _file_name(picture), "url": stored.get("content_uri"), "info": facts}
    await _tell_matrix(ask, address, room, headers, post.key, said)


# -- Microsoft Teams, by a workflow


def _teams_targets(address: ChatAddress) -> tuple[str, ...]:
    known = address.has_only(frozenset({"ver", "api-version", "pa", "powerautomate", "wrap"}))
    return address.path[1:2] if known and len(address.path) == 2 else ()


async def _send_teams(ask: Ask, home: str, address: ChatAddress, signature: str, post: Post) -> None:
    is_new = address.flag("pa") or address.flag("powerautomate")
    version = address.options.get("ver") or address.options.get("api-version") or ("1" if is_new else "2016-06-01")
    query = {"api-version": version, "sp": "/triggers/manual/run", "sv": "1.0", "sig": signature}
    base = (home or f"https://{address.place}") + ("/powerautomate/automations/direct" if is_new else "")
    blocks = [{"type": "TextBlock", "text": post.title, "weight": "Bolder", "wrap": True}] if post.title else []
    lines = (WEB_ADDRESS.sub(_as_link, line) for line in post.text.split("\n") if line.strip())
    blocks += [{"type": "TextBlock", "text": line, "wrap": True} for line in lines]
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4"}
    kind = "application/vnd.microsoft.card.adaptive"
    said = {"type": "message", "attachments": [{"contentType": kind, "content": {**card, "body": blocks}}]}
    url = f"{base}/workflows/{quote(address.path[0], safe='')}/triggers/manual/paths/invoke?{urlencode(query)}"
    await ask(url, json=said)


def _as_link(address: re.Match[str]) -> str:
    target = address[1].replace("(", "%28").replace(")", "%29")
    return f"[{address[1]}]({target})"


# -- Mattermost


def _mattermost_targets(address: ChatAddress) -> tuple[str, ...]:
    if not address.has_only(frozenset({"channel", "channels", "to", "icon_url"})) or not address.path:
        return ()
    named = ",".join(address.options.get(name, "") for name in ("channel", "channels", "to")).split(",")
    return tuple(dict.fromkeys(name for each in named if (name := each.strip().lstrip("#")))) or ("",)


async def _send_mattermost(ask: Ask, _home: str, address: ChatAddress, channel: str, post: Post) -> None:
    said = {"text": post.whole("**")} | ({"channel": channel} if channel else {})
    said |= {"username": address.user} if address.user else {}
    said |= {"icon_url": address.options["icon_url"]} if "icon_url" in address.options else {}
    *before, token = (quote(part, safe="") for part in address.path)
    await ask("/".join([address.server, *before, "hooks", token]), json=said)


# -- Pushover


_PUSHOVER_PRIORITIES = {"lowest": "-2", "low": "-1", "moderate": "-1", "normal": "0", "high": "1", "emergency": "2"}
_PUSHOVER_DEVICES = re.compile(r"[A-Za-z0-9_,-]*")


def _pushover_targets(address: ChatAddress) -> tuple[str, ...]:
    known = address.has_only(frozenset({"priority", "sound", "url", "url_title", "retry", "interval", "expire"}))
    known = known and _has_priority(address, _PUSHOVER_PRIORITIES, _PUSHOVER_PRIORITIES.values())
    devices = ",".join(address.path)
    return (devices,) if known and _PUSHOVER_DEVICES.fullmatch(devices) and address.user and address.place else ()


async def _send_pushover(ask: Ask, home: str, address: ChatAddress, devices: str, post: Post) -> None:
    said = {"token": address.place, "user": address.user, "message": post.text}
    said |= {"title": post.title} if post.title else {}
    said |= {"device": devices} if devices else {}
    said |= {name: address.options[name] for name in ("sound", "url", "url_title") if name in address.options}
    if priority := address.options.get("priority", "").lower():
        said["priority"] = _PUSHOVER_PRIORITIES.get(priority, priority)
    if said.get("priority") == "2":  # it rings again until somebody says that it was seen
        said["retry"] = address.options.get("retry") or address.options.get("interval") or "900"
        said["expire"] = address.options.get("expire") or "3600"
    await ask(f"{home}/1/messages.json", data=_form(said, "attachment", post.picture))


# -- a plain POST of JSON or of a form


_HEADER = re.compile(r"\+[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_THE_CONNECTION = frozenset(
    {"+connection", "+content-encoding", "+content-length", "+expect", "+host", "+keep-alive", "+te", "+trailer"}
) | {"+transfer-encoding", "+upgrade"}
_PATH_SIGNS = "!$&'()*+,=:@~"


def _plain_targets(address: ChatAddress) -> tuple[str, ...]:
    ours = all(
        _HEADER.fullmatch(name) and name.lower() not in _OF_THE_CONNECTION
        for name in address.options
        if name not in _COMMON_OPTIONS | {"method"}
    )
    is_path = not any(part in {".", ".."} or "#" in part or ";" in part for part in address.path)  # apprise cuts those
    method = address.options.get("method", "POST").upper()
    return (method,) if ours and is_path and method in {"POST", "PUT", "PATCH"} else ()


async def _send_plain(ask: Ask, _home: str, address: ChatAddress, method: str, post: Post) -> None:
    said = {"version": "1.0", "title": post.title, "message": post.text, "type": "info"}
    headers = _basic(address) | {name[1:]: value for name, value in address.options.items() if name.startswith("+")}
    url = "/".join([address.server, *(quote(part, safe=_PATH_SIGNS) for part in address.path)])
    url += "/" * address.ends_with_slash
    content: dict[str, Any] = {"json": said | {"attachments": []}}
    if address.scheme.startswith("form"):
        content = {"data": said}
    await ask(url, method=method, headers=headers, **content)


def _basic(address: ChatAddress) -> dict[str, str]:
    if not address.user:
        return {}
    login = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
    return {"Authorization": f"Basic {login}"}


def _picture(post: Post) -> Picture:
    if post.picture is None:
        raise ValueError("there is no picture")
    return post.picture


def _file_name(picture: Picture) -> str:
    return f"page.{picture.media_type.rpartition('/')[2]}"


def _form(fields: Mapping[str, str], name: str, picture: Picture | None) -> aiohttp.FormData:
    form = aiohttp.FormData()
    for field, value in fields.items():
        form.add_field(field, value)
    if picture is not None:
        form.add_field(name, picture.data, filename=_file_name(picture), content_type=picture.media_type)
    return form


_TELEGRAM = _ChatService(
    "Telegram",
    "tgram://BOT_TOKEN/CHAT",
    ChatForm.for_service("tgram", 4096),
    "https://api.telegram.org",
    _telegram_targets,
    _send_telegram,
    _picture_to_telegram,
)
_DISCORD = _ChatService(
    "Discord",
    "discord://WEBHOOK_ID/WEBHOOK_TOKEN",
    ChatForm.for_service("discord", 2000),
    "https://discord.com",
    _discord_targets,
    _send_discord,
    attach=True,
)
_SLACK = _ChatService(
    "Slack",
    "slack://T.../B.../...",
    ChatForm.for_service("slack", 4000),
    "https://hooks.slack.com",
    _slack_targets,
    _send_slack,
    _picture_to_slack,
)
_PUSHOVER = _ChatService(
    "Pushover",
    "pover://USER@TOKEN",
    ChatForm.for_service("pover", 1024, most_title=250),
    "https://api.pushover.net",
    _pushover_targets,
    _send_pushover,
    attach=True,
)
_NTFY = _ChatService(
    "ntfy",
    "ntfy://TOPIC or ntfys://SERVER/TOPIC",
    ChatForm.for_service("ntfy", 4096, most_title=200),
    "https://ntfy.sh",
    _ntfy_targets,
    _send_ntfy,
    _picture_to_ntfy,
)
_GOTIFY = _ChatService(
    "Gotify",
    "gotifys://SERVER/TOKEN",
    ChatForm.for_service("gotify", 20_000, most_title=250),
    "",
    _gotify_targets,
    _send_gotify,
)
_MATRIX = _ChatService(
    "Matrix",
    "matrixs://TOKEN@SERVER/ROOM",
    ChatForm.for_service("matrix", 9000),
    "",
    _matrix_targets,
    _send_matrix,
    _picture_to_matrix,
)
_MATTERMOST = _ChatService(
    "Mattermost", "mmosts://SERVER/HOOK", ChatForm.for_service("mmost", 4000), "", _mattermost_targets, _send_mattermost
)
_TEAMS = _ChatService(
    "Teams",
    "workflows://SERVER/WORKFLOW/SIGNATURE",
    ChatForm.for_service("workflows", 8000, most_title=250, draws_markdown=True),
    "",
    _teams_targets,
    _send_teams,
)
_PLAIN = _ChatService(
    "the receiver",
    "jsons://SERVER/PATH",
    ChatForm.for_service("json", 30_000, most_title=250),
    "",
    _plain_targets,
    _send_plain,
)
SERVICES: Mapping[str, _ChatService] = MappingProxyType(
    {
        **dict.fromkeys(("ntfy", "ntfys"), _NTFY),
        **dict.fromkeys(("gotify", "gotifys"), _GOTIFY),
        "tgram": _TELEGRAM,
        "discord": _DISCORD,
        "slack": _SLACK,
        **dict.fromkeys(("matrix", "matrixs"), _MATRIX),
        **dict.fromkeys(("workflow", "workflows"), _TEAMS),
        **dict.fromkeys(("mmost", "mmosts"), _MATTERMOST),
        "pover": _PUSHOVER,
        **dict.fromkeys(("json", "jsons", "form", "forms"), _PLAIN),
    }
)
"""The services, by the schemes of their addresses."""
