"""Splits texts into words, numbers, quoted texts, signs and comments, each with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from proxyd.core.errors import RuleSyntaxError
from proxyd.core.language.syntax.nodes import SourceText
from proxyd.core.language.syntax.quoting import quote_text
from proxyd.core.language.syntax.words import get_keyword
from proxyd.core.model.expression import TextSpan

Shape: TypeAlias = Literal["WORD", "NUMBER", "TEXT", "QUOTED", "SIGN", "END"]
"""The shape of a token, TEXT in single and QUOTED in double quotes; the parser decides what it means."""


class Lexeme(NamedTuple):
    """A token; ``value`` is without quotes. A tuple, because a list of 20,000 sources has 180,000 of them.

    ``word`` is the sign, or the keyword that a bare word can be. ``broken`` marks a token whose quote is not closed;
    this is already reported, and the value has no meaning.
    """

    shape: Shape
    value: str
    start: int
    stop: int
    word: str = ""
    broken: bool = False


_as_token: Callable[[tuple[str, str, int, int, str, bool]], Lexeme] = partial(tuple.__new__, Lexeme)
"""Makes a token in half the time of its class."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as written, with its marks."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The tokens and comments of a text; ``tokens`` ends with an ``END`` token."""

    tokens: Sequence[Lexeme]
    comments: Sequence[Comment]
    errors: Sequence[RuleSyntaxError]


_TOKEN = re.compile(
    r"""[\s\ufeff]*+(?:
        (?P<WORD>[^\W\d]\w*+)
      | "(?P<QUOTED>[^"]*+(?:""[^"]*+)*+)"
      | '(?P<TEXT>[^']*+(?:''[^']*+)*+)'(?![\w%@/])
      | (?P<comment>--[^\n]*+|/\*.*?\*/)
      | (?P<open_comment>/\*)
      | (?P<SIGN>::|<>|<=|>=|!=|\|\||[(),.;:=<>+\-*/%])
      | (?P<NUMBER>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?!\w))
      | (?P<bad_number>[0-9][\w.]*+)
      | (?P<open_quote>["'])  # or one whose text ends where no text should, as in 'it's'
      | (?P<strange>.)
      | \Z)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSED_TEXT = re.compile(r"'[^']*+(?:''[^']*+)*+'")
_WORD = re.compile(r"\w+")
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]+)")
_UNITS = ("SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "CHRONONS")
_HEADING = re.compile(
    r"^[ \t]*(?=(?:SET|INTO|START|END|CREATE|INSERT|DROP|WATCH|FROM[ \t]+SOURCES?)\b[ \t]*[\w\"'])",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_ERRORS = 100
_INNER = re.compile(r'""|.', re.DOTALL)
_SQL_CLAUSE = re.compile(r"\bSET\s+(QUERY|TRIGGER)\s*\Z", re.IGNORECASE)
_LONGEST_CLAUSE = 60
_UNFINISHED = re.compile(r"(?:[=<>(,|]|\b(?:LIKE|REGEXP|ILIKE|AND|OR|THEN|ELSE|AS))\s*\Z", re.IGNORECASE)
_AFTER_SQL = re.compile(r"\s|;|--|/\*|\Z|(?:SET|INTO|START|END|FROM|CREATE|INSERT|DROP)\b", re.IGNORECASE)


class _Scanner:
    """Reads one text from left to right.

    ``places`` has the place in the file of each character of the text, and of its end. ``is_sql`` says that the text
    is that of a QUERY or TRIGGER.
    """

    def __init__(self, source: SourceText, text: str, places: Sequence[int], *, is_sql: bool = False) -> None:
        self._source = source
        self._is_sql = is_sql
        self._text = text
        self._places = places
        self._tokens: list[Lexeme] = []
        self._comments: list[Comment] = []
        self._errors: list[RuleSyntaxError] = []

    def scan(self) -> Scan:
        position: int | None = 0
        while position is not None:
            position = self._scan_from(position)
        end = self._places[len(self._text)]
        self._tokens.append(Lexeme("END", "", end, end))
        return Scan(self._tokens, self._comments, self._errors)

    def _scan_from(self, position: int) -> int | None:
        """Keep tokens until one is not as its quotes or numbers say; return where reading continues then."""
        text, places, keep, before = self._text, self._places, self._tokens.append, ""
        for match in _TOKEN.finditer(text, position):  # a list of 20,000 sources has 180,000 tokens
            kind: Any = match.lastgroup
            if kind is None:
                return None
            start, stop = match.span(kind)
            value = text[start:stop]
            if kind in ("WORD", "SIGN"):
                before = word = value if kind == "SIGN" else get_keyword(value) or ""
                keep(_as_token((kind, value, places[start], places[stop - 1] + 1, word, False)))
            elif kind in ("QUOTED", "TEXT") and "\n" not in value and before not in ("QUERY", "TRIGGER"):
                mark = text[start - 1]
                value = value.replace(mark * 2, mark) if mark in value else value
                keep(_as_token((kind, value, places[start - 1], places[stop] + 1, "", False)))
            else:
                is_quoted = kind in ("QUOTED", "TEXT")
                goes_on = self._take_quoted(kind, start - 1, stop + 1) if is_quoted else self._take(match, kind)
                if goes_on != match.end():
                    return goes_on
        return None

    def _take(self, match: re.Match[str], kind: str) -> int:
        """Keep a match that is neither a word, a sign nor a text; return where reading continues."""
        start, stop = match.span(kind)
        if kind == "comment":
            self._comments.append(Comment(match[kind].rstrip(), self._places[start]))
        elif kind == "open_comment":
            self._error("this comment is not closed: expected '*/'", start, stop)
            return len(self._text)
        elif kind == "open_quote":
            closed = _CLOSED_TEXT.match(self._text, start)
            if closed is not None:
                return self._take_odd_text(start, closed.end())
            shape: Shape = "TEXT" if match[kind] == "'" else "QUOTED"
            return self._report_open_quote(shape, start, _HEADING.search(self._text, stop))
        elif kind == "strange":
            return self._skip_strange(start)
        elif kind == "NUMBER" and _is_small(match[kind]):
            self._keep("NUMBER", match[kind], start, stop)
        else:
            self._error(
                f"{_short(match[kind])} is not a number this language can hold{_meant(match[kind])}", start, stop
            )
            self._keep("NUMBER", "1", start, stop)
        return stop

    def _take_quoted(self, shape: Shape, start: int, stop: int) -> int:
        text = self._text
        heading = _HEADING.search(text, start + 1, stop) if "\n" in text[start:stop] else None
        if heading is not None and text[stop : stop + 1].isalnum():
            return self._report_open_quote(shape, start, heading)
        if shape == "QUOTED" and heading is None and (end := self._report_text_in_sql(start, stop)) is not None:
            return end
        mark, value = text[start], text[start + 1 : stop - 1]
        self._keep(shape, value.replace(mark * 2, mark) if mark in value else value, start, stop)
        return stop

    def _take_odd_text(self, start: int, stop: int) -> int:
        """Take a text in single quotes with a letter or sign right after it: a quote in it or before it is wrong."""
        text, before = self._text, self._text[stop - 2]
        after = _WORD.match(text, stop)
        if get_keyword(after[0]) if after else before not in " \t\n,(=":
            return self._take_quoted("TEXT", start, stop)
        heading = _HEADING.search(text, start + 1)
        if after is None or not before.isalnum() or (heading is not None and heading.start() < stop):
            return self._report_open_quote("TEXT", start, heading)
        end = text.find("'", stop)
        is_near = end >= 0 and "\n" not in text[stop:end]
        shown = f", as in {quote_text(text[start + 1 : end])}" if is_near and end - start <= _LONGEST_CLAUSE else ""
        self._error(f"this single quote ends the text: double the quotes within a text{shown}", stop - 1, stop)
        at, last = self._places[start], self._places[stop]
        self._tokens.append(Lexeme("TEXT", "?", at, last, broken=True))
        return end + 1 if is_near else heading.end() if heading is not None else len(text)

    def _report_open_quote(self, shape: Shape, start: int, heading: re.Match[str] | None) -> int:
        """Report a quote that is not closed; reading continues at the next line that looks like a clause."""
        kind = "single" if shape == "TEXT" else "double"
        hint = ": use single quotes for text" if self._is_sql and shape == "QUOTED" else ""
        self._error(f"this {kind} quote is not closed{hint}", start, start + 1)
        at = self._places[start]
        self._tokens.append(Lexeme(shape, "?", at, at + 1, broken=True))
        return heading.end() if heading is not None else len(self._text)

    def _report_text_in_sql(self, start: int, stop: int) -> int | None:
        """Report a text in double quotes that ends the SQL around it; return the end of this SQL, or ``None``."""
        if self._is_sql or not self._tokens or self._tokens[-1].word not in ("QUERY", "TRIGGER"):
            return None
        text = self._text
        clause = _SQL_CLAUSE.search(text, max(0, start - _LONGEST_CLAUSE), start)
        if clause is None or not (_UNFINISHED.search(text, start + 1, stop - 1) or not _AFTER_SQL.match(text, stop)):
            return None
        found = _sql_end(text, stop - 1)
        if found is None:
            return None
        close, end = found
        shown = quote_text(text[stop : close - 1][:30])
        hint = f"use single quotes for text, as in {shown}, and double the quotes of names"
        self._error(f"SET {clause[1].upper()}: a double quote ends its text: {hint}", stop - 1, close)
        self._tokens.append(Lexeme("QUOTED", "?", self._places[start], self._places[end], broken=True))
        return end

    def _skip_strange(self, start: int) -> int:
        stop = start + 1
        while stop < len(self._text) and _is_strange(self._text, stop):
            stop += 1
        self._error(f"{_short(self._text[start:stop])} has no meaning here", start, stop)
        return stop

    def _keep(self, shape: Shape, value: str, start: int, stop: int) -> None:
        places = self._places
        self._tokens.append(_as_token((shape, value, places[start], places[stop - 1] + 1, "", False)))

    def _error(self, message: str, start: int, stop: int) -> None:
        if len(self._errors) < _MAX_ERRORS:
            at, end = self._places[start], self._places[stop - 1] + 1
            source = self._source
            self._errors.append(RuleSyntaxError(message, text=source.text, start=at, stop=end, file=source.file))


def scan(source: SourceText) -> Scan:
    """Return the tokens of a file."""
    return _Scanner(source, source.text, range(len(source.text) + 1)).scan()


def scan_part(source: SourceText, span: TextSpan) -> Scan:
    """Return the tokens of a part of a text, with places in the whole text."""
    return _Scanner(source, source.text[span.start : span.stop], range(span.start, span.stop + 1)).scan()


def scan_inner(source: SourceText, quoted: Lexeme) -> Scan:
    """Return the tokens of a text in double quotes, with places in the file."""
    text, last = source.text, quoted.stop - 1
    places: Sequence[int] = range(quoted.start + 1, quoted.stop)
    if len(quoted.value) < len(places) - 1:
        places = [*(found.start() for found in _INNER.finditer(text, quoted.start + 1, last)), last]
    return _Scanner(source, quoted.value, places, is_sql=True).scan()


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
    return match is not None and match.start("strange") == at


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
