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
