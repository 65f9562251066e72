"""The grammar that ``docs/language.md`` lists is the one that is read.

Of every rule of the listing, each alternative and each option is written out once, with samples for what the listing
leaves open, and must be accepted by the parser; and both use the same keywords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lark import Lark, Token, Tree

from proxyd.core.language import parse
from proxyd.core.language.words import KEYWORDS
from tests.pages import ROOT, blocks

(LISTING,) = [b.text for b in blocks(ROOT / "docs" / "language.md") if b.language == "ebnf"]
NOTATION = Lark(
    r"""
start: rule+
rule: HEAD alternatives
alternatives: sequence ("|" sequence)*
sequence: part+
?part: WORD | NAME | LITERAL | SIGN | TEXT
     | "[" alternatives "]" -> option
     | "{" alternatives "}" -> repetition
     | "(" alternatives ")" -> group
HEAD.2: /[a-z]+\s*=/
WORD: /[A-Z][A-Za-z]*/
NAME: /[a-z]+/
LITERAL: /"[^"]*"/
TEXT: /'[^']*'/
SIGN: /::|\+|-/
COMMENT.2: /--[^\n]*/
%ignore /\s+/
%ignore COMMENT
""",
    parser="lalr",
)
SAMPLES = {  # of what the listing leaves open
    "number": "2", "name": "n", "path": "a.b", "unit": "HOURS", "expression": "a = 1", "period": "2 HOURS",
    "select": "SELECT a FROM RSS", "trigger": "ON INSERT TO RSS", "interval": '"30 days"',
    "'url'": "'https://example.org/'", "'iso time'": "'2026-01-01'", "'week'": "'Mon-Fri'", "'zone'": "'Europe/Berlin'",
    "'template'": "'{title}'", "'tag'": "'de'",
}  # fmt: skip
AROUND = {  # where a rule stands in a text
    "statement": "{}", "class": "CREATE DOMAIN d AS {}", "option": "CREATE SOURCE s OF RSS AT 'https://a/' {}",
    "wish": "WATCH 'https://a/' {}", "clause": "INSERT NOTIFICATION n {}",
    "trigger": 'INSERT NOTIFICATION n SET TRIGGER "{}"',
    "event": "WATCH 'https://a/' ON {}", "after": 'INSERT NOTIFICATION n SET TRIGGER "ON FAILURE TO SOURCE {}"',
    "select": 'INSERT NOTIFICATION n SET QUERY "{}"', "time": "INSERT NOTIFICATION n START {}",
    "utility": "INSERT NOTIFICATION n SET UTILITY {}", "policy": "INSERT NOTIFICATION n SET POLICY {}",
    "delivery": "INSERT NOTIFICATION n SET DELIVERY {}",
    "secret": "CREATE SOURCE s OF RSS AT 'https://a/' AUTH BEARER {}",
    "limit": "CREATE SOURCE s OF RSS AT 'https://a/' POLITENESS {}", "item": "CREATE PROFILE p AS ({})",
    "field": "CREATE DOMAIN d AS CLASS::RSS({})", "reader": "CREATE DOMAIN d AS CLASS::RSS EACH {} '$' (a:String)",
    "classname": "CREATE SOURCE s OF {} AT 'https://a/'", "duration": "INSERT NOTIFICATION n SET LIFE WINDOW({})",
    "period": "CREATE SOURCE s OF RSS AT 'https://a/' EXPECT 2 PER {}",
    "from": 'INSERT NOTIFICATION n SET QUERY "SELECT a FROM {}"',
    "aggregate": 'INSERT NOTIFICATION n SET TRIGGER "ON INSERT TO RSS WHEN {} > 1"',
    "digest": "INSERT NOTIFICATION n SET DIGEST {}", "clock": "INSERT NOTIFICATION n SET DIGEST DAILY {}",
    "weekday": "INSERT NOTIFICATION n SET DIGEST WEEKLY ON {} AT '08:00'",
    "cast": 'INSERT NOTIFICATION n SET TRIGGER "ON INSERT TO RSS WHEN {} > 1"',
    "default": "CREATE PROFILE p {}", "then": 'INSERT NOTIFICATION n SET TRIGGER "ON INSERT TO RSS {}"',
    "case": 'INSERT NOTIFICATION n SET TRIGGER "ON INSERT TO RSS WHEN {} > 1"',
}  # fmt: skip


UNITS = {"CHRONON", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"}
OPERATORS = {"AND", "OR", "NOT", "LIKE", "ILIKE", "ESCAPE", "REGEXP", "BETWEEN", "IS", "NULL", "TRUE", "FALSE"}


def rules() -> dict[str, Tree[Token]]:
    text = LISTING.replace('{"," ...}', "").replace("HALF-LIFE", "HALF - LIFE")
    return {rule.children[0].rstrip(" ="): rule.children[1] for rule in NOTATION.parse(text).children}  # type: ignore[union-attr, misc]


RULES = rules()


def written(tree: Tree[Token] | Token, depth: int = 0) -> list[str]:
    """Return texts of a part of the listing that together take each of its alternatives and options."""
    if isinstance(tree, Token):
        return [_word(tree, depth)]
    if tree.data in {"alternatives", "group"}:
        return [text for child in tree.children for text in written(child, depth)]
    if tree.data in {"option", "repetition"}:
        return [*written(tree.children[0], depth), ""]
    parts = [written(child, depth) for child in tree.children]
    rows = max(map(len, parts))
    return [" ".join(part[min(row, len(part) - 1)] for part in parts) for row in range(rows)]


def _word(token: Token, depth: int) -> str:
    text = str(token)
    if text in SAMPLES:
        return SAMPLES[text]
    if token.type == "NAME":
        return written(RULES[text], depth + 1)[0]
    inner = text.strip('"')
    if token.type == "LITERAL" and inner.isalpha():
        return SAMPLES[inner] if inner == "interval" else f'"{SAMPLES[inner]}"'
    return inner


def samples() -> Iterator[tuple[str, str]]:
    for name, tree in RULES.items():
        for text in written(tree):
            if name in AROUND:
                yield name, AROUND[name].format(text)


@pytest.mark.parametrize(("rule", "text"), list(samples()))
def test_what_the_listing_allows_is_accepted(rule: str, text: str) -> None:
    """That a rule of one clause lacks the others is no matter of the grammar."""
    said = [str(error) for error in parse(text).errors]
    assert [error for error in said if "the notification 'n' lacks" not in error] == [], rule


def test_every_rule_of_the_listing_is_tried() -> None:
    assert set(RULES) - set(AROUND) == {"text"}
    assert len(list(samples())) > 90


def test_listing_and_parser_have_the_same_keywords() -> None:
    """But for those of units and expressions, of which the page has lists of their own."""
    listed = set(re.findall(r"\b[A-Z]{2,}\b", re.sub(r"--.*|'[^']*'", "", LISTING)))
    listed |= {word.upper() for word in re.findall(r"\b[A-Z][a-z]+\b", LISTING)}
    singular = {word[:-1] if word in {"SOURCES", "PROBES", "ITEMS"} else word for word in listed}
    assert singular - KEYWORDS == set()
    assert KEYWORDS - singular == (UNITS | OPERATORS) - {"OR", "NULL"}  # these also follow the type of a field


def test_units_and_operators_are_in_the_page() -> None:
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[A-Z]{2,}", page.split("## Words")[1].split("## Grammar")[0]))
    operators = set(re.findall(r"[A-Z]{2,}", page.split("## Expressions")[1]))
    assert {f"{unit}S" for unit in UNITS} <= words
    assert words | operators >= OPERATORS
