"""Splits texts into words, numbers, quoted texts, signs and comments, each with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from proxyd.core.language.nodes import SourceText
from proxyd.core.language.printing.quoting import quote_text
from proxyd.core.model.expression import TextSpan
from proxyd.errors import RuleSyntaxError


class TokenShape(Enum):
    """The shape of a raw token; the parser decides what it means."""

    WORD = "word"
    NUMBER = "number"
    TEXT = "text in single quotes"
    QUOTED = "text in double quotes"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class RawToken:
    """A token; ``value`` is without quotes.

    ``broken`` marks a token whose quote is not closed; this is already reported, and the value has no meaning.
    """

    shape: TokenShape
    value: str
    start: int
    stop: int
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as written, with its marks."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The tokens and comments of a text; ``tokens`` ends with an ``END`` token."""

    tokens: tuple[RawToken, ...]
    comments: tuple[Comment, ...]
    errors: tuple[RuleSyntaxError, ...]


_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff]+)
      | (?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<open_comment>/\*)
      | (?P<NUMBER>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?!\w))
      | (?P<WORD>[^\W\d]\w*)
      | (?P<bad_number>[0-9][\w.]*)
      | (?P<TEXT>'(?:[^']|'')*(?:'|\Z))
      | (?P<QUOTED>"(?:[^"]|"")*(?:"|\Z))
      | (?P<SIGN>::|<>|<=|>=|!=|\|\||[(),.;:=<>+\-*/%])
      | (?P<strange>.)""",
    re.VERBOSE | re.DOTALL,
)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]+)")
_UNITS = ("SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "CHRONONS")
_HEADING = re.compile(
    r"^[ \t]*(?=(?:SET|INTO|START|END|CREATE|INSERT|DROP|WATCH|FROM[ \t]+SOURCES?)\b[ \t]*[\w\"'])",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_ERRORS = 100
_SQL_CLAUSE = re.compile(r"\bSET\s+(QUERY|TRIGGER)\s*\Z", re.IGNORECASE)
_LONGEST_CLAUSE = 60
_UNFINISHED = re.compile(r"(?:[=<>(,|]|\b(?:LIKE|REGEXP|ILIKE|AND|OR|THEN|ELSE|AS))\s*\Z", re.IGNORECASE)
_AFTER_SQL = re.compile(r"\s|;|--|/\*|\Z|(?:SET|INTO|START|END|FROM|CREATE|INSERT|DROP)\b", re.IGNORECASE)


class _Scanner:
    """Reads one text from left to right. ``place`` maps an offset in the text to the file.

    ``is_sql`` says that the text is that of a QUERY or TRIGGER.
    """

    def __init__(self, source: SourceText, text: str, place: Callable[[int], int], *, is_sql: bool = False) -> None:
        self._source = source
        self._is_sql = is_sql
        self._text = text
        self._place = place
        self._tokens: list[RawToken] = []
        self._comments: list[Comment] = []
        self._errors: list[RuleSyntaxError] = []

    def scan(self, begin: int = 0) -> Scan:
        position = begin
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            assert match is not None
            position = self._take(match)
        end = self._place(len(self._text))
        self._tokens.append(RawToken(TokenShape.END, "", end, end))
        return Scan(tuple(self._tokens), tuple(self._comments), tuple(self._errors))

    def _take(self, match: re.Match[str]) -> int:
        """Keep one match; return where reading continues."""
        kind = match.lastgroup or ""
        start, stop = match.span()
        if kind == "comment":
            self._comments.append(Comment(match[0].rstrip(), self._place(start)))
        elif kind == "open_comment":
            self._error("this comment is not closed: expected '*/'", start, stop)
            return len(self._text)
        elif kind in ("TEXT", "QUOTED"):
            return self._take_quoted(TokenShape[kind], start, stop)
        elif kind == "strange":
            return self._skip_strange(start)
        elif kind == "bad_number" or (kind == "NUMBER" and not _is_small(match[0])):
            self._error(f"{_short(match[0])} is not a number this language can hold{_meant(match[0])}", start, stop)
            self._keep(TokenShape.NUMBER, "1", start, stop)
        elif kind != "space":
            self._keep(TokenShape[kind], match[0], start, stop)
        return stop

    def _take_quoted(self, shape: TokenShape, start: int, stop: int) -> int:
        mark = self._text[start]
        closed = stop - start >= 2 and self._text[stop - 1] == mark and _is_closed(self._text[start:stop], mark)
        heading = _HEADING.search(self._text, start + 1, stop)
        runs_on = heading is not None and (not closed or self._text[stop : stop + 1].isalnum())
        if mark == '"' and closed and heading is None and (resume := self._report_text_in_sql(start, stop)) is not None:
            return resume
        if closed and not runs_on:
            value = self._text[start + 1 : stop - 1].replace(mark * 2, mark)
            self._tokens.append(RawToken(shape, value, self._place(start), self._last(stop)))
            return stop
        resume = heading.end() if heading is not None else len(self._text)
        kind = "single" if mark == "'" else "double"
        hint = ": use single quotes for text" if self._is_sql and mark == '"' else ""
        self._error(f"this {kind} quote is not closed{hint}", start, start + 1)
        self._tokens.append(RawToken(shape, "?", self._place(start), self._place(start) + 1, broken=True))
        return resume

    def _report_text_in_sql(self, start: int, stop: int) -> int | None:
        """Report a text in double quotes that ends the SQL around it; return the end of this SQL, or ``None``."""
        text = self._text
        clause = None if self._is_sql else _SQL_CLAUSE.search(text, max(0, start - _LONGEST_CLAUSE), start)
        if clause is None or not (_UNFINISHED.search(text, start + 1, stop - 1) or not _AFTER_SQL.match(text, stop)):
            return None
        found = _sql_end(text, stop - 1)
        if found is None:
            return None
        close, end = found
        shown = quote_text(text[stop : close - 1][:30])
        hint = f"use single quotes for text, as in {shown}, and double the quotes of names"
        self._error(f"SET {clause[1].upper()}: a double quote ends its text: {hint}", stop - 1, close)
        self._tokens.append(RawToken(TokenShape.QUOTED, "?", self._place(start), self._place(end), broken=True))
        return end

    def _skip_strange(self, start: int) -> int:
        stop = start + 1
        while stop < len(self._text) and _is_strange(self._text, stop):
            stop += 1
        self._error(f"{_short(self._text[start:stop])} has no meaning here", start, stop)
        return stop

    def _keep(self, shape: TokenShape, value: str, start: int, stop: int) -> None:
        self._tokens.append(RawToken(shape, value, self._place(start), self._last(stop)))

    def _last(self, stop: int) -> int:
        return self._place(stop - 1) + 1

    def _error(self, message: str, start: int, stop: int) -> None:
        if len(self._errors) < _MAX_ERRORS:
            at, end = self._place(start), self._last(stop)
            source = self._source
            self._errors.append(RuleSyntaxError(message, text=source.text, start=at, stop=end, file=source.file))


def scan(source: SourceText, begin: int = 0) -> Scan:
    """Return the tokens of a file from some place on."""
    return _Scanner(source, source.text, lambda offset: offset).scan(begin)


def scan_part(source: SourceText, span: TextSpan) -> Scan:
    """Return the tokens of a part of a text, with places in the whole text."""
    return _Scanner(source, source.text[span.start : span.stop], lambda offset: span.start + offset).scan()


def scan_inner(source: SourceText, quoted: RawToken) -> Scan:
    """Return the tokens of a text in double quotes, with places in the file."""
    places = list(_inner_offsets(source.text, quoted.start, quoted.stop, '"'))
    end = quoted.stop - 1
    return _Scanner(source, quoted.value, lambda at: places[at] if at < len(places) else end, is_sql=True).scan()


def _is_closed(quoted: str, mark: str) -> bool:
    """Whether the last mark closes the text and is not half of a doubled one."""
    return quoted[1:-1].count(mark) % 2 == 0


def _inner_offsets(text: str, start: int, stop: int, mark: str) -> Iterator[int]:
    at = start + 1
    while at < stop - 1:
        yield at
        at += 2 if text[at] == mark else 1


def _sql_end(text: str, opens: int) -> tuple[int, int] | None:
    """Return where a text in double quotes ends, and the SQL that it stands in; ``None`` if it ends on another line."""
    first = None
    while True:
        close = text.find('"', opens + 1) + 1
        if not close or "\n" in text[opens:close]:
            return None if first is None else (first, opens + 1)
        first = first or close
        last = text.find('"', close)
        if last < 0 or _HEADING.search(text, close, last):
            return first, close
        if last == close or _AFTER_SQL.match(text, last + 1):
            return first, last + 1
        opens = last


def _is_strange(text: str, at: int) -> bool:
    match = _TOKEN.match(text, at)
    return match is not None and match.lastgroup == "strange"


def _is_small(number: str) -> bool:
    """Whether a number is small enough to compute with: at most 30 characters, its exponent within 30."""
    _, _, exponent = number.lower().partition("e")
    return len(number) <= 30 and abs(int(exponent or 0)) <= 30


def _meant(text: str) -> str:
    """Return the correct form of a duration if a text is a number with a unit.

    >>> _meant("2s"), _meant("1.5Hours"), _meant("0x10")
    (': write 2 SECONDS', ': write 1.5 HOURS', '')
    """
    time = _TIME.fullmatch(text)
    units = [unit for unit in _UNITS if time and unit.startswith(time[2].upper())]
    return f": write {time[1]} {units[0]}" if time and units else ""


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:30] + "...")
