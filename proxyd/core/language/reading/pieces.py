"""Reads one piece of a text (a statement's head, a clause, a query) with the grammar.

Words come from the scanner. A word becomes a keyword if the parser can take that keyword there, otherwise a name. A
piece ends before the first token that it cannot take, provided that it can end there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TypeAlias, cast

from lark import Token
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_interactive_parser import InteractiveParser

from proxyd.core.language.reading.scanner import RawToken, TokenShape
from proxyd.core.language.reading.shapes import Readings, Shape, known_shapes
from proxyd.core.language.words import (
    BEFORE_A_PARENTHESIS,
    can_follow_case,
    expected,
    get_keyword,
    get_terminal,
    load_grammar,
    suggest_keyword,
)

MAX_NESTING = 64
MAX_STATEMENT_BYTES = 65_536
MAX_ERRORS = 100  # of one text that are told
TOO_LONG = f"a statement may have {MAX_STATEMENT_BYTES} bytes at most; split it into several statements"
More: TypeAlias = Callable[[], frozenset[str]]
"""Finds the terminals that a piece could go on with: only those who complain want to know."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error message and the characters of the file at fault."""

    message: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The shape of tokens or a complaint.

    ``next`` is where reading stopped; ``more()`` tells how the piece could have continued.
    """

    tokens: Sequence[RawToken]
    at: int
    next: int
    shape: Shape | None = None
    complaint: Complaint | None = None
    more: More = frozenset


class _Nesting:
    """Counts open parentheses and CASEs, and runs of NOT and signs: the ways to nest without limit."""

    def __init__(self) -> None:
        self._open = 0
        self._run = 0

    def is_too_deep(self, terminal: str, *, prefix: bool) -> bool:
        if terminal in ("LPAR", "CASE"):
            self._open += 1
        elif terminal in ("RPAR", "END"):
            self._open -= 1
        self._run = self._run + 1 if prefix else 0
        return self._open + self._run > MAX_NESTING


def read_piece(tokens: Sequence[RawToken], at: int, rule: str) -> Piece:
    """Read the tokens from ``at`` as ``rule``; errors in the text are not raised."""
    known = known_shapes()
    shape = known.find(rule, (_readings(tokens, place) for place in range(at, len(tokens))))
    if shape is not None and tokens[at + shape.length - 1].stop - tokens[at].start <= MAX_STATEMENT_BYTES:
        return Piece(tokens, at, at + shape.length, shape, more=lambda: read_by_grammar(tokens, at, rule).more())
    piece = read_by_grammar(tokens, at, rule)
    if piece.shape is not None:
        known.keep(rule, [_readings(tokens, place) for place in range(at, piece.next + 1)], piece.shape)
    return piece


def read_by_grammar(tokens: Sequence[RawToken], begin: int, rule: str) -> Piece:
    """Read the tokens from ``begin`` as ``rule``, whatever shapes are known."""
    parser = load_grammar().parse_interactive(start=rule)
    nesting, at = _Nesting(), begin
    while True:
        token = tokens[at]
        terminal = _choose(_readings(tokens, at), parser)
        if terminal is None:
            return _finish(parser, tokens, begin, at)
        if token.stop - tokens[begin].start > MAX_STATEMENT_BYTES:
            return Piece(tokens, begin, at, complaint=Complaint(TOO_LONG, token.start, token.stop))
        prefix = terminal in ("NOT", "MINUS", "PLUS") and "NUMBER" in _choices(parser)
        if nesting.is_too_deep(terminal, prefix=prefix):
            message = f"this is nested more than {MAX_NESTING} deep"
            return Piece(tokens, begin, at, complaint=Complaint(message, token.start, token.stop))
        parser.feed_token(Token(terminal, token.value, start_pos=at - begin, end_pos=at - begin))
        at += 1


def _choose(readings: Readings, parser: InteractiveParser) -> str | None:
    """Return the terminal that a token stands for in the parser's state, or ``None`` if it fits nowhere."""
    possible = _choices(parser)
    for terminal in readings:
        if terminal in possible and (possible[terminal][0] is Shift or _takes(parser, terminal)):
            return terminal
    return None


def _choices(parser: InteractiveParser) -> Mapping[str, tuple[object, object]]:
    """Return the terminals in the parser's tables; some may not be accepted after the reductions before them."""
    state = parser.parser_state
    return cast("Mapping[str, tuple[object, object]]", state.parse_conf.states[state.position])


def _accepts(parser: InteractiveParser) -> frozenset[str]:
    """Return the terminals the parser can take, with ``$END`` where it can stop."""
    return frozenset(terminal for terminal in _choices(parser) if not terminal.islower() and _takes(parser, terminal))


def _takes(parser: InteractiveParser, terminal: str) -> bool:
    """Whether the parser can take a terminal; LALR tables alone promise too much."""
    state = parser.parser_state
    tables, stack = state.parse_conf.states, list(state.state_stack)
    while (found := tables[stack[-1]].get(terminal)) is not None:
        action, following = found
        if action is Shift:
            return True
        if following.expansion:
            del stack[-len(following.expansion) :]
        stack.append(tables[stack[-1]][following.origin.name][1])
        if terminal == "$END" and stack[-1] == state.parse_conf.end_state:
            return True
    return False


def _readings(tokens: Sequence[RawToken], at: int) -> Readings:
    """Return the terminals that a token can stand for."""
    token = tokens[at]
    if token.shape is TokenShape.WORD:
        keyword = get_keyword(token.value)
        if keyword is None:
            return _NAME
        following = tokens[min(at + 1, len(tokens) - 1)]
        if keyword in BEFORE_A_PARENTHESIS and following.value != "(":
            return _NAME
        if keyword == "CASE" and not _opens_case(following):
            return _NAME
        return _keyword_readings(keyword)
    return _sign_readings(token.value) if token.shape is TokenShape.SIGN else _READINGS[token.shape]


_NAME: Readings = ("NAME",)
_READINGS: Mapping[TokenShape, Readings] = MappingProxyType(
    {
        TokenShape.NUMBER: ("NUMBER",),
        TokenShape.TEXT: ("TEXT",),
        TokenShape.QUOTED: ("NAME", "QUOTED"),
        TokenShape.END: (),
    }
)


@cache
def _keyword_readings(keyword: str) -> Readings:
    terminal = get_terminal(keyword)
    return _NAME if terminal is None else (terminal, "NAME")


@cache
def _sign_readings(sign: str) -> Readings:
    terminal = get_terminal(sign)
    return () if terminal is None else (terminal,)


def _opens_case(following: RawToken) -> bool:
    is_quoted = following.shape in (TokenShape.TEXT, TokenShape.QUOTED)
    return is_quoted or can_follow_case(following.value)


def _finish(parser: InteractiveParser, tokens: Sequence[RawToken], begin: int, at: int) -> Piece:
    if not _takes(parser, "$END"):
        return Piece(tokens, begin, at, complaint=complain(tokens, at, _accepts(parser)))
    tree = parser.parser_state.copy(deepcopy_values=False).feed_token(Token("$END", ""), is_end=True)
    return Piece(tokens, begin, at, Shape.of(tree, at - begin), more=partial(_accepts, parser))


def complain(tokens: Sequence[RawToken], at: int, terminals: frozenset[str], extra: Sequence[str] = ()) -> Complaint:
    """Return a complaint that names what was expected instead of the token at ``at``.

    A word before the token that was read as a name may be the misspelt keyword: ``SELECT title FRM RSS``.
    """
    token, before = tokens[at], tokens[max(0, at - 1)]
    known = terminals | {terminal for word in extra if (terminal := get_terminal(word))}
    suggestion = suggest_keyword(token.value, known) if token.shape is TokenShape.WORD else ""
    if not suggestion and before.shape is TokenShape.WORD and get_keyword(before.value) is None:
        suggestion = suggest_keyword(before.value, known).replace("?", f" where {show(before)} stands?")
    message = f"{expected(terminals, extra)}; found {show(token)}.{suggestion or _habit(token, before)}"
    return Complaint(message, token.start, token.stop)


def _habit(token: RawToken, before: RawToken) -> str:
    """Return a hint if a token is a habit from other languages that is written differently here."""
    if token.value in ("http", "https"):
        return " Put addresses in single quotes."
    if token.value == before.value == "=":
        return " A single = compares."
    if before.shape is TokenShape.QUOTED and before.stop == token.start and token.shape is not TokenShape.END:
        return " Inside QUERY and TRIGGER, put texts in single quotes."
    return ""


def show(token: RawToken) -> str:
    """Return a token in the form that errors show."""
    if token.shape is TokenShape.END:
        return "the end of the text"
    short = token.value if len(token.value) <= 30 else token.value[:30] + "..."
    short = " ".join(short.split())
    return f'"{short}"' if token.shape is TokenShape.QUOTED else f"'{short}'"
