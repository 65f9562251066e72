"""Reads the lists that CREATE SOURCES names: an address on each line, or CSV with a heading (url, and name)."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from proxyd.core.errors import RuleSyntaxError
from proxyd.core.language.syntax.nodes import ListLine, Located, Parsed, SourceText
from proxyd.core.language.syntax.scanner import scan
from proxyd.core.language.syntax.token_reader import MAX_ERRORS
from proxyd.core.model.expression import TextSpan

LIST_SUFFIX = ".csv"
_LINE = re.compile(r"[^\r\n\ufeff][^\r\n]*")
_FILE = re.compile("file", re.IGNORECASE)  # most texts name no list, and are not scanned for one


def is_list(file: str) -> bool:
    """Return whether a file is a list of addresses, by its name."""
    return file.casefold().endswith(LIST_SUFFIX)


def list_names(text: str) -> set[str]:
    """Return the names after FROM FILE in a text.

    >>> list_names("CREATE SOURCES n OF FEED FROM FILE 'it''s.csv'; -- FROM FILE 'old.csv'")
    {"it's.csv"}
    """
    tokens = scan(SourceText("", text)).tokens if _FILE.search(text) else ()
    return {
        name.value
        for origin, file, name in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if (origin.word, file.word, name.shape, name.broken) == ("FROM", "FILE", "TEXT", False)
    }


def read_list(source: SourceText) -> Parsed:
    r"""Return a list; a line that begins with ``#`` is a comment. Addresses are checked later, with the sources.

    >>> read = read_list(SourceText("list.csv", "name,url\nNews,https://example.org/feed\n"))
    >>> [(line.name.value, line.url.value) for line in read.lines]
    [('News', 'https://example.org/feed')]
    """
    lines: list[ListLine] = []
    errors: list[RuleSyntaxError] = []
    columns: Sequence[str] | None = None
    for found in _LINE.finditer(source.text):
        span, text = TextSpan(*found.span()), found[0].strip()
        if not text or text.startswith("#"):
            continue
        if columns is None:
            columns = _heading(text)
            if columns:
                continue
        line = _by_columns(found[0], span, columns) if columns else ListLine(_cell(text, found[0], span))
        if line is not None:
            lines.append(line)
        elif len(errors) < MAX_ERRORS:
            message = "this line has no address in the column url of the heading"
            errors.append(
                RuleSyntaxError(message, text=source.text, start=span.start, stop=span.stop, file=source.file)
            )
    return Parsed(source, (), tuple(errors), lines=tuple(lines))


def _heading(text: str) -> Sequence[str]:
    """Return the columns of a heading, or nothing if a line is none."""
    columns = [each.strip().casefold() for each in _cells(text)]
    return columns if "url" in columns else ()


def _by_columns(written: str, span: TextSpan, columns: Sequence[str]) -> ListLine | None:
    """Return a line of CSV, or ``None`` if it has no address."""
    cells = dict(zip(columns, (each.strip() for each in _cells(written)), strict=False))
    url, name = cells.get("url"), cells.get("name")
    if not url:
        return None
    return ListLine(_cell(url, written, span), _cell(name, written, span) if name else None)


def _cells(written: str) -> Sequence[str]:
    try:
        return next(csv.reader([written]), ())
    except csv.Error:  # a cell is too long
        return ()


def _cell(value: str, written: str, span: TextSpan) -> Located[str]:
    """Return a cell with its place in its line, or with that of the line if it is quoted in another form."""
    at = written.find(value)
    return Located(value, span if at < 0 else TextSpan(span.start + at, span.start + at + len(value)))
