"""Reads the plain statements at the beginning of a text by one regular expression.

Long lists of sources consist of nothing else, and the parser takes 3.5 times as long for them. Whatever is not plain
here (an option, a comment, a quote in a name) ends the run, and is read by the parser.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from proxyd.core.language.nodes import CreateSource, Located, Statement, Watch
from proxyd.core.language.words import get_keyword
from proxyd.core.model.expression import ClassName, Duration, TextSpan, Unit
from proxyd.core.model.profile import Expect

_PLAIN = re.compile(
    r"""[ \t\r\n;]*(?P<all>
          CREATE[ ]SOURCE[ ](?:"(?P<quoted>[^"\n]{1,200})"|(?P<bare>[^\W\d]\w{0,199}))
          [ ]OF[ ](?P<class>[^\W\d]\w{0,199})[ ]AT[ ]'(?P<url>[^'\n]{1,4000})'
          (?:[ ](?P<expect>EXPECT[ ](?P<number>[0-9]{1,9})[ ]PER[ ](?P<unit>[A-Z]{1,9})))?
        | WATCH[ ]'(?P<watched>[^'\n]{1,4000})'
        );(?![ \t;]*(?:--|/\*))""",
    re.VERBOSE,
)
_UNITS = frozenset(unit.value for unit in Unit)


def read_plain(text: str) -> tuple[list[Statement], int]:
    r"""Return the plain statements at the beginning of a text, and where the first other one may begin.

    >>> statements, after = read_plain("WATCH 'https://example.org/';\nWATCH 'https://example.org/b' AS b;")
    >>> len(statements), after
    (1, 29)
    """
    statements: list[Statement] = []
    after = 0
    while (found := _PLAIN.match(text, after)) is not None and (statement := _statement(found)) is not None:
        statements.append(statement)
        after = found.end()
    return statements, after


def _statement(found: re.Match[str]) -> Statement | None:
    """Return the statement that was found, or ``None`` if it is better read by the parser."""
    span = TextSpan(*found.span("all"))
    if found["watched"] is not None:
        return Watch(_quoted(found, "watched"), span=span)
    name = _quoted(found, "quoted") if found["quoted"] is not None else Located(found["bare"], _span(found, "bare"))
    expect = None
    if found["expect"] is not None:
        unit = get_keyword(found["unit"])
        if unit not in _UNITS:
            return None
        expect = Located(_rate(found["number"], Unit(unit)), _span(found, "expect"))
    if not name.value.strip():
        return None
    page_class = ClassName(found["class"], None, _span(found, "class"))
    return CreateSource(name, page_class, _quoted(found, "url"), expect=expect, span=span)


@lru_cache
def _rate(number: str, unit: Unit) -> Expect:
    """Return a rate; many statements of a list share one."""
    return Expect(Decimal(number), Duration(Decimal(1), unit))


def _span(found: re.Match[str], group: str) -> TextSpan:
    return TextSpan(*found.span(group))


def _quoted(found: re.Match[str], group: str) -> Located[str]:
    start, stop = found.span(group)
    return Located(found[group], TextSpan(start - 1, stop + 1))
