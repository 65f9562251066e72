"""Reads one piece of a text (a statement's head, a clause, a query) with the grammar.

Words come from the scanner. A word becomes a keyword if the parser can take that keyword there, otherwise a name. A
piece ends before the first token that it cannot take, provided that it can end there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from lark import Token, Tree
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_interactive_parser import InteractiveParser

from proxyd.core.language.reading.scanner import RawToken, TokenShape
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
    """A tree or a complaint. ``next`` is where reading stopped; ``more()`` tells how the piece could have continued."""

    tree: Tree[Token] | None
    next: int
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
    parser = load_grammar().parse_interactive(start=rule)
    nesting, first = _Nesting(), tokens[at].start
    while True:
        token = tokens[at]
        terminal = _choose(token, tokens[min(at + 1, len(tokens) - 1)], parser)
        if terminal is None:
            return _finish(parser, tokens, at)
        if token.stop - first > MAX_STATEMENT_BYTES:
            return Piece(None, at, Complaint(TOO_LONG, token.start, token.stop))
        prefix = terminal in ("NOT", "MINUS", "PLUS") and "NUMBER" in _choices(parser)
        if nesting.is_too_deep(terminal, prefix=prefix):
            message = f"this is nested more than {MAX_NESTING} deep"
            return Piece(None, at, Complaint(message, token.start, token.stop))
        parser.feed_token(Token(terminal, token.value, start_pos=token.start, end_pos=token.stop))
        at += 1


def _choose(token: RawToken, following: RawToken, parser: InteractiveParser) -> str | None:
    """Return the terminal that a token stands for in the parser's state, or ``None`` if it fits nowhere."""
    possible = _choices(parser)
    for terminal in _readings(token, following):
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


def _readings(token: RawToken, following: RawToken) -> list[str]:
    if token.shape is TokenShape.WORD:
        keyword = get_keyword(token.value)
        if keyword in BEFORE_A_PARENTHESIS and following.value != "(":
            keyword = None
        if keyword == "CASE" and not _opens_case(following):
            keyword = None
        terminal = get_terminal(keyword) if keyword else None
        return [terminal, "NAME"] if terminal else ["NAME"]
    if token.shape is TokenShape.QUOTED:
        return ["NAME", "QUOTED"]
    if token.shape is TokenShape.SIGN:
        terminal = get_terminal(token.value)
        return [terminal] if terminal else []
    return [] if token.shape is TokenShape.END else [token.shape.name]


def _opens_case(following: RawToken) -> bool:
    is_quoted = following.shape in (TokenShape.TEXT, TokenShape.QUOTED)
    return is_quoted or can_follow_case(following.value)


def _finish(parser: InteractiveParser, tokens: Sequence[RawToken], at: int) -> Piece:
    if not _takes(parser, "$END"):
        return Piece(None, at, complain(tokens, at, _accepts(parser)))
    tree = parser.parser_state.copy(deepcopy_values=False).feed_token(Token("$END", ""), is_end=True)
    return Piece(tree, at, more=partial(_accepts, parser))


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
