"""The conditions that WITHOUT and OVER n WORDS of a WATCH stand for, and their words again for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from proxyd.core.language.syntax.expression_printer import format_expression
from proxyd.core.language.syntax.nodes import Located
from proxyd.core.language.syntax.quoting import quote_text
from proxyd.core.model.expression import Binary, Call, Column, Expression, Literal, TextSpan, Unary, conjuncts
from proxyd.core.model.text_blocks import plain_pattern

_ANY_CASE = "(?i)"
_ADDED = rf"{_ANY_CASE}(?:^|\n)\+ (?:[^\n]|\n  )*"  # DIFF has "+ " before what came, and indents its further lines
_PATH = re.compile(r"('(?:[^']|'')*')|channel\.item\.")  # of items of feeds, but not in texts
_WORD = re.compile(r"(?:\\.|[^|\\])+", re.DOTALL)


def without_words(words: Sequence[Located[str]], paths: Sequence[str], *, is_change: bool) -> Expression:
    """Return that no text of the item, or nothing that came to the texts of a page, holds one of the words."""
    span = words[0].span
    # One pattern: a condition for each word and text would nest as deeply as there are words
    any_word = "|".join(plain_pattern(each.value) for each in words)
    texts: list[Expression] = [
        _comparison("DIFF", each, span) if is_change else Column(each, span=span) for each in paths
    ]
    gap, pattern = ("\n", f"{_ADDED}(?:{any_word})") if is_change else (" ", f"{_ANY_CASE}{any_word}")
    parts: list[Expression] = [Call("COALESCE", (each, Literal("", span)), span) for each in texts]
    joined = reduce(lambda left, right: _join(_join(left, Literal(gap, span)), right), parts)
    return Unary("NOT", Binary("REGEXP", joined, Literal(pattern, span), span), span)


def over_words(least: Located[int], paths: Sequence[str]) -> Expression:
    """Return that more words of the texts of a page changed."""
    counts: list[Expression] = [
        Call("COALESCE", (_comparison("CHANGED_WORDS", each, least.span), Literal(0, least.span)), least.span)
        for each in paths
    ]
    total = reduce(lambda left, right: Binary("+", left, right, least.span), counts)
    return Binary(">", total, Literal(least.value, least.span), least.span)


def _comparison(function: str, path: str, span: TextSpan) -> Expression:
    """Return a function of a field before and after a change."""
    return Call(function, (Column(f"OLD.{path}", span=span), Column(f"NEW.{path}", span=span)), span)


def _join(left: Expression, right: Expression) -> Expression:
    return Binary("||", left, right, right.span)


def condition_in_words(condition: Expression, word: str = "") -> str:
    """Return a condition after its word as people write it: items' fields by their last name, WITHOUT and OVER as such.

    >>> span = TextSpan(0, 0)
    >>> words = Located("tea (new)", span), Located("a|b", span)
    >>> no_tea = without_words(words, ["channel.item.title"], is_change=False)
    >>> condition_in_words(no_tea)
    "WITHOUT 'tea (new)', 'a|b'"
    >>> old = Binary(">", Column("age", span=span), Literal(9, span), span)
    >>> over = over_words(Located(5, span), ["text"])
    >>> condition_in_words(Binary("AND", Binary("AND", old, over, span), no_tea, span), "WHERE")
    "WHERE age > 9 OVER 5 WORDS WITHOUT 'tea (new)', 'a|b'"
    >>> own = Binary("=", Column("channel.item.a", span=span), Literal("channel.item.", span), span)
    >>> either = Binary("OR", old, own, span)
    >>> condition_in_words(Binary("AND", either, old, span), "WHERE")
    "WHERE (age > 9 OR a = 'channel.item.') AND age > 9"
    """
    parts = [(each, _as_option(each)) for each in conjuncts(condition)]
    where = [each for each, option in parts if option is None]
    first = ""
    if where:
        written = format_expression(reduce(lambda left, right: Binary("AND", left, right, right.span), where))
        first = f"{word} {_PATH.sub(lambda found: found[1] or '', written)}".strip()
    return " ".join(filter(None, [first, *(option for _, option in parts)]))


def _as_option(term: Expression) -> str | None:
    """Return the option of a WATCH that a term stands for, or ``None``."""
    match term:
        case Unary("NOT", Binary("REGEXP", texts, Literal(str(pattern)))) if _is_of(texts, "||"):
            words = _words_of(pattern)
            return f"WITHOUT {', '.join(map(quote_text, words))}" if words else None
        case Binary(">", counts, Literal(int(least))) if least >= 0 and _is_of(counts, "+"):
            return f"OVER {least} WORDS"
    return None


def _words_of(pattern: str) -> list[str]:
    """Return the words for which ``without_words`` makes a pattern; none for somebody's own.

    >>> _words_of("(?i)tea|cake"), _words_of("tea"), _words_of("(?i)tea$")
    (['tea', 'cake'], [], [])
    """
    for start, end in ((f"{_ADDED}(?:", ")"), (_ANY_CASE, "")):
        if pattern.startswith(start) and pattern.endswith(end):
            written = pattern[len(start) : len(pattern) - len(end)]
            words = [re.sub(r"\\(.)", r"\1", each, flags=re.DOTALL) for each in _WORD.findall(written)]
            return words if "|".join(map(plain_pattern, words)) == written else []
    return []


def _is_of(term: Expression, joined_by: str) -> bool:
    """Return whether a term joins what ``without_words`` or ``over_words`` take of the texts."""
    match term:
        case Binary(word, left, right) if word == joined_by:
            return (
                (isinstance(left, Binary | Call))
                and _is_of(left, joined_by)
                and (isinstance(right, Literal) or _is_of(right, joined_by))
            )
        case Call("COALESCE", (Column(), Literal(""))):
            return joined_by == "||"
        case Call("COALESCE", (Call("DIFF"), Literal(""))):
            return joined_by == "||"
        case Call("COALESCE", (Call("CHANGED_WORDS"), Literal(0))):
            return joined_by == "+"
    return False
