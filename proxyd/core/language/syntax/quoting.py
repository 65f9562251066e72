"""Writes names, texts, numbers and durations in the language's syntax."""

from __future__ import annotations

import re

from proxyd.core.model.expression import Duration, Unit


def quote_text(text: str) -> str:
    """Return a text in single quotes.

    >>> quote_text("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name, or the text of a query, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def format_duration(duration: Duration) -> str:
    """Return an amount and its unit; chronons need no unit.

    >>> from decimal import Decimal
    >>> format_duration(Duration(Decimal(5), Unit.MINUTES)), format_duration(Duration(Decimal(10), Unit.CHRONONS))
    ('5 MINUTES', '10')
    """
    amount = str(duration.amount)
    if duration.unit is Unit.CHRONONS:
        return amount
    return f"{amount} {duration.unit.value}{'' if duration.amount == 1 else 'S'}"


def format_contains(field: str, words: str) -> str:
    """Return the condition that a field holds these words, whatever their case.

    >>> format_contains("title", "rc"), format_contains("title", "100%")
    ("title ILIKE '%rc%'", "title ILIKE '%100!%%' ESCAPE '!'")
    """
    escaped = re.sub("([%_!])", r"!\1", words)
    escape = " ESCAPE '!'" if escaped != words else ""
    return f"{field} ILIKE {quote_text(f'%{escaped}%')}{escape}"


_CHANNEL = re.compile(r"'(?!https?://)([A-Za-z][A-Za-z0-9+.-]*://)(?:[^']|'')*+'")


def hide_channels(text: str) -> str:
    """Return a text of the language without the addresses of channels, which hold tokens; each has a number.

    >>> hide_channels("TELL CHANNEL 'ntfy://token', CHANNEL 'tgram://a', CHANNEL 'ntfy://token'")
    "TELL CHANNEL 'ntfy://[hidden 1]', CHANNEL 'tgram://[hidden 2]', CHANNEL 'ntfy://[hidden 1]'"
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


_CHANNEL_IN_JSON = re.compile(r'"(?!https?://)([A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*+"')


def hide_channels_in_json(text: str) -> str:
    """Return a declaration as JSON without the addresses of channels.

    >>> hide_channels_in_json('{"channel": "ntfy://token", "url": "https://a.example/"}')
    '{"channel": "ntfy://[hidden]", "url": "https://a.example/"}'
    """
    return _CHANNEL_IN_JSON.sub(r'"\1[hidden]"', text)
