"""Texts of the language without the addresses of chats, which hold what it takes to write there."""

from __future__ import annotations

import re

_CHANNEL = re.compile(r"'(?!(?i:https?|tcp|tls)://)([A-Za-z][A-Za-z0-9+.-]*://)(?:[^']|'')*+'")


def hide_channels(text: str) -> str:
    """Return a text of the language without the addresses of channels, which hold tokens; each has a number.

    >>> hide_channels("TELL CHANNEL 'ntfy://token', CHANNEL 'tgram://a', CHANNEL 'ntfy://token'")
    "TELL CHANNEL 'ntfy://[hidden 1]', CHANNEL 'tgram://[hidden 2]', CHANNEL 'ntfy://[hidden 1]'"
    >>> hide_channels("WATCH 'tcp://db.example:5432' OF SITE TELL CHANNEL 'ntfy://token'")
    "WATCH 'tcp://db.example:5432' OF SITE TELL CHANNEL 'ntfy://[hidden 1]'"
    """
    numbers: dict[str, int] = {}
    return _CHANNEL.sub(lambda found: f"'{found[1]}[hidden {numbers.setdefault(found[0], len(numbers) + 1)}]'", text)


def show_channels(text: str, whole: str) -> str:
    """Return a text with the addresses that ``hide_channels`` hid in ``whole``.

    >>> show_channels("TELL CHANNEL 'ntfy://[hidden 1]'", "TELL CHANNEL 'ntfy://token'")
    "TELL CHANNEL 'ntfy://token'"
    """
    texts = (hide_channels(whole), whole)
    hidden, written = (dict.fromkeys(each[0] for each in _CHANNEL.finditer(its)) for its in texts)
    known = dict(zip(hidden, written, strict=True))
    return _CHANNEL.sub(lambda found: known.get(found[0], found[0]), text)


_CHANNEL_IN_JSON = re.compile(r'"(?!(?i:https?|tcp|tls)://)([A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*+"')


def hide_channels_in_json(text: str) -> str:
    """Return a declaration as JSON without the addresses of channels.

    >>> hide_channels_in_json('{"channel": "ntfy://token", "url": "https://a.example/"}')
    '{"channel": "ntfy://[hidden address]", "url": "https://a.example/"}'
    """
    return _CHANNEL_IN_JSON.sub(r'"\1[hidden address]"', text)
