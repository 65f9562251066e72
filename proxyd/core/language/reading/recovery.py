"""Finds the errors after the first one of a text or statement, so that one error does not hide the next.

Reading goes on where the next part begins: a clause of a query or trigger, a field, a class, an item of a profile. What
is read there serves its errors alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from proxyd.core.language.reading.build import build, read_whole
from proxyd.core.language.reading.pieces import Complaint, complain, read_piece
from proxyd.core.language.reading.scanner import RawToken, TokenShape
from proxyd.core.language.words import get_keyword

MOST_LATER = 100  # complaints after the first
_CLAUSES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "select": {
            "FROM": "from_part",
            "WHERE": "where",
            "GROUP": "group_by",
            "HAVING": "having",
            "ORDER": "order_by",
            "LIMIT": "limit",
        },
        "trigger": {"WHERE": "where", "WHEN": "when"},
    }
)
_ITEMS = frozenset({"DOMAIN", "LANGUAGE", "USER"})


def read_text(tokens: Sequence[RawToken], rule: str) -> Any:
    """Return the query or trigger in a separate text, which may end with ';', or a list of :class:`Complaint`."""
    if len(tokens) > 1 and tokens[-2].shape is TokenShape.SIGN and tokens[-2].value == ";":
        tokens = (*tokens[:-2], tokens[-1])
    built = read_whole(tokens, rule)
    return [built, *islice(_later_in_text(tokens, rule, built), MOST_LATER)] if isinstance(built, Complaint) else built


def _later_in_text(tokens: Sequence[RawToken], rule: str, after: Complaint) -> Iterator[Complaint]:
    """Yield complaints of the clauses of a query or trigger that begin after a complaint."""
    clauses, at = _CLAUSES[rule], 0
    for place, depth in _depths(tokens, 0):
        clause = clauses.get(_keyword(tokens[place]) or "")
        is_inner = depth > 0 and clause in ("where", "when")  # of FILTER or CASE; other clauses are never inside
        if place < at or is_inner or clause is None or tokens[place].start < after.start:
            continue
        at, complaint = _read(tokens, place, clause)
        if complaint is None and _keyword(tokens[at]) not in clauses and tokens[at].shape is not TokenShape.END:
            complaint = _unexpected(tokens, at, clause, place, ["the end of the text"])
        if complaint is not None:
            yield complaint


_AFTER_A_HEAD = frozenset({"CREATE", "INSERT", "DROP", "DELIVER", "DIGEST"})


def later_in_head(tokens: Sequence[RawToken], begin: int, after: Complaint) -> Iterator[Complaint]:
    """Yield complaints of the fields and classes, or the items, of CREATE DOMAIN or PROFILE that follow a complaint."""
    return islice(_later_in_head(tokens, begin, after), MOST_LATER)


def _later_in_head(tokens: Sequence[RawToken], begin: int, after: Complaint) -> Iterator[Complaint]:
    at, kind = begin, _keyword(tokens[begin + 1])
    for place, depth in _depths(tokens, begin):
        token, following = tokens[place], tokens[place + 1 : place + 2]
        if _sign(token) == ";" or (place > begin and _keyword(token) in _AFTER_A_HEAD):
            return
        rule = _part(kind, token, following, depth)
        if place < at or rule is None or token.start < after.start:
            continue
        start = place + (_sign(token) == ",")
        at, complaint = _read(tokens, start, rule)
        if complaint is None and rule != "class_declaration" and _sign(tokens[at]) not in (",", ")"):
            complaint = _unexpected(tokens, at, rule, start, ["','", "')'"])
        if complaint is not None:
            yield complaint


def _part(kind: str | None, token: RawToken, following: Sequence[RawToken], depth: int) -> str | None:
    """Return the rule of the part of a head that begins at a token or after a comma, or ``None``."""
    if kind == "DOMAIN":
        if _keyword(token) == "CLASS" and not depth:
            return "class_declaration"
        return "field" if _sign(token) == "," and depth else None
    if _sign(token) == "," and following:
        return "profile_item" if _keyword(following[0]) in _ITEMS else "profile_more"
    return None


def _depths(tokens: Sequence[RawToken], begin: int) -> Iterator[tuple[int, int]]:
    """Yield the place of each token but the end, and in how many parentheses and CASEs it stands."""
    depth = 0
    for place in range(begin, len(tokens) - 1):
        token = tokens[place]
        is_closing = _sign(token) == ")" or (_keyword(token) == "END" and depth > 0)
        depth -= is_closing
        yield place, depth
        depth += _sign(token) == "(" or _keyword(token) == "CASE"


def _read(tokens: Sequence[RawToken], at: int, rule: str) -> tuple[int, Complaint | None]:
    """Return where a part ends, and why it cannot be read."""
    piece = read_piece(tokens, at, rule)
    built = build(piece)
    is_reported = piece.next > 0 and tokens[piece.next - 1].broken
    return max(piece.next, at + 1), built if isinstance(built, Complaint) and not is_reported else None


def _unexpected(tokens: Sequence[RawToken], at: int, rule: str, begin: int, extra: Sequence[str]) -> Complaint:
    more = read_piece(tokens, begin, rule).more()
    return complain(tokens, at, more - {"$END"}, extra)


def _sign(token: RawToken) -> str | None:
    return token.value if token.shape is TokenShape.SIGN else None


def _keyword(token: RawToken) -> str | None:
    return get_keyword(token.value) if token.shape is TokenShape.WORD else None
