"""Turns pieces into nodes. Nothing here recurses, so long chains of operators are safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lark import Token

from proxyd.core.language.reading.expression_rules import EXPRESSION_RULES, BuildError, Clause
from proxyd.core.language.reading.pieces import Complaint, Piece, complain, read_piece
from proxyd.core.language.reading.scanner import RawToken, TokenShape
from proxyd.core.language.reading.shapes import Shape
from proxyd.core.language.reading.statement_rules import STATEMENT_RULES
from proxyd.core.model.expression import Expression, Select, TextSpan, children
from proxyd.core.model.profile import Trigger

MAX_DEPTH = 200
_RULES = {**EXPRESSION_RULES, **STATEMENT_RULES}


def build(piece: Piece) -> Any:
    """Return the nodes of a piece, or a :class:`Complaint`."""
    if piece.shape is None:
        return piece.complaint
    try:
        built = _apply_rules(piece, piece.shape)
    except BuildError as error:
        return error.complaint
    if isinstance(built, Select | Trigger | Clause):
        return _refuse_depth(built) or built
    return built


def _apply_rules(piece: Piece, shape: Shape) -> Any:
    """Return what the rules make of a piece, step by step."""
    tokens, begin = piece.tokens, piece.at
    built: list[Any] = []
    for step in shape.steps:
        parts = [
            built[place] if terminal is None else _token(terminal, tokens[begin + place])
            for terminal, place in step.parts
        ]
        span = TextSpan(tokens[begin + step.first].start, tokens[begin + step.last].stop)
        built.append(_RULES[step.rule](parts, span))
    return built[-1]


def _token(terminal: str, token: RawToken) -> Token:
    return Token(terminal, token.value, start_pos=token.start, end_pos=token.stop)


def read_whole(tokens: Sequence[RawToken], rule: str) -> Any:
    """Return the nodes of tokens that form exactly one piece, or a :class:`Complaint`."""
    piece = read_piece(tokens, 0, rule)
    if piece.shape is not None and tokens[piece.next].shape is not TokenShape.END:
        return complain(tokens, piece.next, piece.more() - {"$END"}, ["the end of the text"])
    return build(piece)


def _refuse_depth(node: Any) -> Complaint | None:
    """Return a complaint if an expression is a longer chain than other parts of proxyd can walk."""
    level = [node]
    for _ in range(MAX_DEPTH + 2):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return None
    span = level[0].span
    return Complaint(
        f"this expression chains more than {MAX_DEPTH} operators: use IN (...) or parentheses", span.start, span.stop
    )


def _children(node: object) -> Iterator[Any]:
    """Yield the expressions directly below a node."""
    if isinstance(node, Clause):
        yield from [node.value] if isinstance(node.value, Expression) else []
    elif isinstance(node, Trigger):
        yield from (each for each in (node.where, node.condition) if each is not None)
    elif isinstance(node, Select):
        yield from (column.expression for column in node.columns)
        yield from (source.on for source in node.sources if source.on is not None)
        yield from (each for each in (node.where, node.having) if each is not None)
        yield from node.group_by
        yield from (term.expression for term in node.order_by)
    elif isinstance(node, Expression):
        yield from children(node)
