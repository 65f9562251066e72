"""Turns trees of the grammar into nodes. Nothing here recurses, so long chains of operators are safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lark import Token, Tree

from proxyd.core.language.reading.expression_rules import EXPRESSION_RULES, BuildError, Clause
from proxyd.core.language.reading.pieces import Complaint, complain, read_piece
from proxyd.core.language.reading.scanner import RawToken, TokenShape
from proxyd.core.language.reading.statement_rules import STATEMENT_RULES
from proxyd.core.model.expression import Expression, Select, TextSpan, children
from proxyd.core.model.profile import Trigger

MAX_DEPTH = 200
_RULES = {**EXPRESSION_RULES, **STATEMENT_RULES}


def build(tree: Tree[Token]) -> Any:
    """Return the nodes of a tree, or a :class:`Complaint`."""
    try:
        built = _apply_rules(tree)
    except BuildError as error:
        return error.complaint
    if isinstance(built, Select | Trigger | Clause):
        return _refuse_depth(built) or built
    return built


def _apply_rules(tree: Tree[Token]) -> Any:
    """Return what the rules make of a tree, from the leaves to the root."""
    built: dict[int, Any] = {}
    for each in tree.iter_subtrees():
        parts = [built[id(child)] if isinstance(child, Tree) else child for child in each.children]
        built[id(each)] = _RULES[each.data](parts, TextSpan(each.meta.start_pos, each.meta.end_pos))
    return built[id(tree)]


def read_whole(tokens: Sequence[RawToken], rule: str) -> Any:
    """Return the nodes of tokens that form exactly one piece, or a :class:`Complaint`."""
    piece = read_piece(tokens, 0, rule)
    if piece.tree is None:
        return piece.complaint
    if tokens[piece.next].shape is not TokenShape.END:
        return complain(tokens, piece.next, piece.more() - {"$END"}, ["the end of the text"])
    return build(piece.tree)


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
