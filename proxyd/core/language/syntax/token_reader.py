"""The base of the parser: takes tokens one by one, and says what it expected where it cannot go on.

Keywords are not reserved: a word is a keyword where the parser can take that keyword, otherwise a name. So whatever
could be taken at a token is tested there before a name is taken, and what was tested is what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from proxyd.core.errors import RuleSyntaxError
from proxyd.core.language.syntax.nodes import SourceText
from proxyd.core.language.syntax.scanner import Lexeme, Shape
from proxyd.core.language.syntax.words import expectation, suggest_keyword
from proxyd.core.model.expression import Expression, TextSpan, children

_MAX_NESTING = 64  # a level takes eight frames to read, and the stack also holds the callers
_MAX_DEPTH = 200  # the printer, the checker and the compiler of rules recurse over chains of operators
MAX_STATEMENT_BYTES = 65_536
MAX_ERRORS = 100  # of one text that are told
TOO_LONG = f"a statement may have {MAX_STATEMENT_BYTES} bytes at most; split it into several statements"
NAMES: tuple[Shape, ...] = ("WORD", "QUOTED")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error message and the characters of the file at fault."""

    message: str
    start: int
    stop: int

    def as_error(self, source: SourceText) -> RuleSyntaxError:
        """Return the error that users see."""
        return RuleSyntaxError(self.message, text=source.text, start=self.start, stop=self.stop, file=source.file)


class _UnexpectedTokenError(Exception):
    """The token that the parser is at cannot be taken."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


class TokenReader:
    """Reads tokens from left to right; ``at`` is the place of the next one."""

    def __init__(self, tokens: Sequence[Lexeme]) -> None:
        self.tokens = tokens
        self.move(0)

    def move(self, at: int) -> None:
        """Go to a token; nothing was expected there yet."""
        self.at = at
        self.token = self.tokens[at]
        self._limit = self.token.start + MAX_STATEMENT_BYTES
        self._expected: set[str] = set()
        self.refused: Complaint | None = None
        self._open = self.run = 0

    # ---- tokens

    def advance(self) -> Lexeme:
        """Take the next token."""
        token = self.token
        if token.stop > self._limit:  # a quote that is closed far away makes one statement of megabytes
            raise _UnexpectedTokenError(Complaint(TOO_LONG, token.start, token.stop))
        self.at = at = self.at + 1
        self.token = self.tokens[at]
        if self._expected:
            self._expected.clear()
        return token

    def is_at(self, word: str) -> bool:
        """Return whether a keyword or sign is next; if not, it was expected."""
        if self.token.word == word:
            return True
        self._expected.add(word)
        return False

    def take(self, word: str) -> bool:
        """Take a keyword or sign if it is next."""
        if self.token.word == word:
            self.advance()
            return True
        self._expected.add(word)
        return False

    def take_one(self, words: Collection[str]) -> str | None:
        """Take one of some keywords and signs, and return it, if it is next."""
        word = self.token.word
        if word in words:
            self.advance()
            return word
        self._expected.update(words)
        return None

    def expect(self, *words: str) -> bool:
        """Take these words; True, so that what stands after them can follow ``and``."""
        for word in words:
            if not self.take(word):
                self.fail()
        return True

    def expect_one(self, words: Collection[str]) -> str:
        """Take one of some keywords and signs, and return it."""
        return self.take_one(words) or self.fail()

    def is_at_name(self) -> bool:
        """Return whether a bare word or a text in double quotes is next; if not, it was expected."""
        if self.token.shape in NAMES:
            return True
        self._expected.add("NAME")
        return False

    def is_at_number(self) -> bool:
        """Return whether a number is next; if not, it was expected."""
        if self.token.shape == "NUMBER":
            return True
        self._expected.add("NUMBER")
        return False

    def expect_name(self) -> Lexeme:
        """Take a bare word or a text in double quotes."""
        return self.advance() if self.is_at_name() else self.fail()

    def expect_value(self, *shapes: Shape) -> Lexeme:
        """Take a token of one of these shapes."""
        return self.advance() if self.token.shape in shapes else self.fail(shapes)

    def take_prefix(self, word: str) -> bool:
        """Take a NOT or a sign if it is next; it is counted, so that nothing recurses without bound."""
        if not self.is_at(word):
            return False
        self.run += 1
        self._deepen()
        self.advance()
        return True

    def enter(self, word: str) -> None:
        """Take what opens an expression in an expression; it is counted, so that nothing recurses without bound."""
        if self.is_at(word):
            self._open += 1
            self._deepen()
        self.expect(word)

    def leave(self, word: str) -> None:
        """Take what closes an expression in an expression."""
        self.expect(word)
        self._open -= 1

    def span(self, begin: int) -> TextSpan:
        """Return the characters from a token to the last one that was taken."""
        return TextSpan(self.tokens[begin].start, self.tokens[self.at - 1].stop)

    # ---- errors

    def fail(self, more: Collection[str] = ()) -> NoReturn:
        """Raise: neither what was expected nor one of these can be taken."""
        self._expected.update(more)
        raise _UnexpectedTokenError(self.complain())

    def refuse(self, message: str, span: TextSpan) -> None:
        """Keep an error in what was read; the first one is told if the syntax is right up to the end."""
        self.refused = self.refused or Complaint(message, span.start, span.stop)

    def _deepen(self) -> None:
        """Refuse the next token if it nests too deep: parentheses and CASEs are open, NOTs and signs are in a run."""
        if self._open + self.run > _MAX_NESTING:
            message = f"this is nested more than {_MAX_NESTING} deep"
            raise _UnexpectedTokenError(Complaint(message, self.token.start, self.token.stop))

    def complain(self, extra: Sequence[str] = ()) -> Complaint:
        """Return a complaint that names what was expected instead of the next token."""
        # A word before the token that was read as a name may be the misspelt keyword: `SELECT title FRM RSS`
        token, before = self.token, self.tokens[max(0, self.at - 1)]
        known = self._expected.union(extra)
        suggestion = suggest_keyword(token.value, known) if token.shape == "WORD" else ""
        if not suggestion and before.shape == "WORD" and not before.word:
            suggestion = suggest_keyword(before.value, known).replace("?", f" where {_show(before)} stands?")
        message = f"{expectation(self._expected, extra)}; found {_show(token)}.{suggestion or _habit(token, before)}"
        return Complaint(message, token.start, token.stop)


# ---- what is read in many places


def attempt(parser: TokenReader, at: int, rule: Callable[[TokenReader], T]) -> T | Complaint:
    """Return what a rule makes of the tokens from ``at``, as far as it can go on, or why it cannot be read."""
    parser.move(at)
    try:
        value = rule(parser)
    except _UnexpectedTokenError as error:
        return error.complaint
    if parser.refused is not None:
        return parser.refused
    is_long = parser.at - at > _MAX_DEPTH  # to walk what was read takes as long as to read it
    return (_find_too_deep(value) if is_long else None) or value


def attempt_whole(parser: TokenReader, rule: Callable[[TokenReader], T]) -> T | Complaint:
    """Return what a rule makes of all tokens, or why they cannot be read."""

    def read(parser: TokenReader) -> T:
        value = rule(parser)
        if parser.token.shape != "END":
            raise _UnexpectedTokenError(parser.complain(["the end of the text"]))
        return value

    return attempt(parser, 0, read)


def parse_number(parser: TokenReader) -> Decimal:
    """Take a number."""
    return Decimal(parser.expect_value("NUMBER").value)


def parse_plain_text(parser: TokenReader) -> str:
    """Take a text in single quotes."""
    return parser.expect_value("TEXT").value


def series(parser: TokenReader, read: Callable[[TokenReader], T]) -> tuple[T, ...]:
    """Return one part or more, with commas between them."""
    parts = [read(parser)]
    while parser.take(","):
        parts.append(read(parser))
    return tuple(parts)


def optional(parser: TokenReader, word: str, read: Callable[[TokenReader], T]) -> T | None:
    """Return what stands after a word, or ``None`` if the word is not next."""
    return read(parser) if parser.take(word) else None


# ---- errors


def _habit(token: Lexeme, before: Lexeme) -> str:
    """Return a hint if a token is a habit from other languages that is written differently here."""
    if token.value in ("http", "https"):
        return " Put addresses in single quotes."
    if token.value == before.value == "=":
        return " A single = compares."
    if before.shape == "QUOTED" and before.stop == token.start and token.shape != "END":
        return " Inside QUERY and TRIGGER, put texts in single quotes."
    return ""


def _show(token: Lexeme) -> str:
    if token.shape == "END":
        return "the end of the text"
    short = token.value if len(token.value) <= 30 else token.value[:30] + "..."
    short = " ".join(short.split())
    return f'"{short}"' if token.shape == "QUOTED" else f"'{short}'"


def _find_too_deep(node: object) -> Complaint | None:
    """Return a complaint if an expression is a longer chain than other parts of proxyd can walk."""
    level: list[Any] = [node]
    for _ in range(_MAX_DEPTH + 2):
        level = [child for parent in level for child in _expressions_in(parent)]
        if not level:
            return None
    span = level[0].span
    return Complaint(
        f"this expression chains more than {_MAX_DEPTH} operators: use IN (...) or parentheses", span.start, span.stop
    )


def _expressions_in(node: object) -> Iterator[Any]:
    """Yield the expressions directly below a node; nodes between, such as columns of a query, do not count."""
    if isinstance(node, Expression):
        yield from children(node)
        return
    if not is_dataclass(node):
        return
    for attribute in fields(node):
        value = getattr(node, attribute.name)
        values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        for child in values:
            if isinstance(child, Expression):
                yield child
            else:
                yield from _expressions_in(child)
