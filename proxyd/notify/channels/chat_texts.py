"""Texts for chats: escaped, so that they call nobody, and split into messages of the size that a service takes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

MOST_MESSAGES = 20
"""Messages of one notification; further rows are only counted."""
_DISCORD = frozenset({"discord", "fluxer", "guilded", "revolt"})
_DRAWS_MARKDOWN = _DISCORD | {"mmost", "mmosts", "zulip"}  # in texts that apprise leaves as they are
_DRAWS_EMOJI = _DRAWS_MARKDOWN | {"gchat", "mastodon", "mastodons", "misskey", "misskeys", "rocket", "rockets", "slack"}
_DRAWS_EMOJI |= {"toot", "toots"}
_MENTIONS = _DRAWS_EMOJI | {"bluesky", "dingtalk", "feishu", "humhub", "kook", "lark", "matrix", "matrixs", "nctalk"}
_MENTIONS |= {"nctalks", "tgram", "twist", "twitter", "workflows", "wxteams"}
_MOST_BYTES = {"ntfy": 4096, "ntfys": 4096, "matrix": 9000, "matrixs": 9000, "workflows": 8000}
# where the service counts bytes; Matrix and Teams count them once escaped
_AROUND_TITLE = 16  # characters that apprise puts around a title in the body
_ROW_END = 2  # characters: in HTML it is \r\n
_UNSEEN = "\u200b"
WEB_ADDRESS = re.compile(r"(https?://[^\s<>]+)")
_MARKUP = re.compile(r"[\\`*_~|\[\]]|^(?:[#>+=-]|\d+(?=[.)]))", re.MULTILINE)
_EVERYBODY = r"(?:administrators|all|channel|everybody|everyone|here|room|team)\b"
_MENTION = re.compile(rf"(?<![\w.])@(?=[\w*])|@(?={_EVERYBODY})|<(?=@|#|!|a?:|/|t:|id:|users/)", re.IGNORECASE)
_EMOJI = re.compile(r":(?=(?:[\w+-]*[^\W\d][\w+-]*|\+1|-1|100|1234):)")


@dataclass(frozen=True, slots=True)
class ChatForm:
    """How a service takes texts."""

    escape: Callable[[str], str]
    size: Callable[[str], int]
    # How apprise converts a text, and the formats, by its names, from and to which
    convert: Callable[[str, str, str], str]
    source: str
    target: str
    most: int  # length of a message; `size` measures texts
    most_title: int  # length of a title, if that is apart from the message

    @classmethod
    def of(cls, service: Any, scheme: str) -> ChatForm:
        """Return the form of apprise's service at an address with this scheme."""
        target = service.resolve_format("text").value
        draws_markdown = scheme in _DRAWS_MARKDOWN or target == "markdown"
        source = "markdown" if target == "markdown" else "text"
        is_joined = service.title_maxlen <= 0 or service.overflow_amalgamate_title
        return cls(
            lambda text: _escape(text, scheme, draws_markdown=draws_markdown),
            _bytes if scheme in _MOST_BYTES else _units,
            import_module("apprise.conversion").convert_between,
            source,
            target,
            min(service.body_maxlen, _MOST_BYTES.get(scheme, service.body_maxlen)),
            0 if is_joined else service.title_maxlen,
        )

    @classmethod
    def for_service(cls, scheme: str, most: int, *, most_title: int = 0, draws_markdown: bool = False) -> ChatForm:
        """Return the form of a service that takes plain texts of ``most`` characters, or bytes if it counts those."""
        draws_markdown = draws_markdown or scheme in _DRAWS_MARKDOWN
        return cls(
            lambda text: _escape(text, scheme, draws_markdown=draws_markdown),
            _bytes if scheme in _MOST_BYTES else _units,
            lambda _source, _target, text: text,
            "text",
            "text",
            _MOST_BYTES.get(scheme, most),
            most_title,
        )

    def title(self, text: str) -> str:
        """Return a title, escaped, and cut if it is too long."""
        most = self.most_title or self.most // 4
        return self.escape(text if len(text) <= most else text[: most - 1] + "…")

    def messages(self, title: str, rows: Iterable[str]) -> list[str]:
        """Return rows, escaped, in as few messages as the service takes; each has the ``title``."""
        room = self.most
        if title and not self.most_title:
            room = max(room // 2, room - self.size(title) - _AROUND_TITLE)
        return _fill_messages([self._cut(row, room) for row in rows], room)

    def _length(self, text: str) -> int:
        return self.size(self.convert(self.source, self.target, text)) + _ROW_END

    def _cut(self, row: str, room: int) -> Iterator[tuple[str, int]]:
        """Yield a row, escaped, with its length; a row that is too long for a message in pieces, cut at spaces."""
        # No text is shorter after escaping, so only the beginning that may fit is measured: to measure the whole rest
        # for each piece took 9 s for a row of 120,000 characters
        while len(row) > room or (length := self._length(text := self.escape(row))) > room:
            most = bisect_left(range(min(len(row), room + 1)), True, key=partial(self._is_too_long, row, room)) - 1
            space = max(row.rfind(" ", 0, most), row.rfind("\n", 0, most))
            end = space if space > most // 2 else max(1, most)
            text = self.escape(row[:end])
            yield text, self._length(text)
            row = row[end:].lstrip()
        yield text, length

    def _is_too_long(self, row: str, room: int, end: int) -> bool:
        return self._length(self.escape(row[:end])) > room


def _fill_messages(rows: Sequence[Iterable[tuple[str, int]]], room: int) -> list[str]:
    """Return messages of at most ``room`` from the pieces of rows and their lengths, ``MOST_MESSAGES`` at most."""
    messages: list[list[str]] = []
    left = 0
    for number, row in enumerate(rows):
        for text, length in row:
            if length > left:
                if len(messages) == MOST_MESSAGES - 1:
                    return ["\n".join(message) for message in (*messages, [f"and {len(rows) - number} more"])]
                messages.append([])
                left = room
            messages[-1].append(text)
            left -= length
    return ["\n".join(message) for message in messages]


def _escape(text: str, scheme: str, *, draws_markdown: bool) -> str:
    r"""Return a text that a service shows as it is, and that calls nobody.

    Addresses stay, so that they can be followed, but for mentions of everybody in them.

    >>> _escape("**Sale** @everyone: see http://a.example/x_y_z @ 5", "discord", draws_markdown=True)
    '\\*\\*Sale\\*\\* @\u200beveryone: see http://a.example/x_y_z @ 5'
    >>> _escape("1:skull:2, at 10:30:45", "slack", draws_markdown=False)
    '1:\u200bskull:2, at 10:30:45'
    """
    pieces = WEB_ADDRESS.split(text)
    pieces[::2] = (_escape_words(words, scheme, draws_markdown=draws_markdown) for words in pieces[::2])
    if scheme in _MENTIONS:
        pieces[1::2] = (re.sub(rf"@(?={_EVERYBODY})", "%40", address, flags=re.I) for address in pieces[1::2])
    return "".join(pieces)


def _escape_words(text: str, scheme: str, *, draws_markdown: bool) -> str:
    if draws_markdown:
        text = _MARKUP.sub(lambda mark: f"{mark[0]}\\" if mark[0].isdigit() else f"\\{mark[0]}", text)
    if scheme in _MENTIONS:
        text = _MENTION.sub(lambda mark: mark[0] + _UNSEEN, text)
    return _EMOJI.sub(f":{_UNSEEN}", text) if scheme in _DRAWS_EMOJI else text


def _units(text: str) -> int:
    # the length in UTF-16 is never less than what a service counts
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
