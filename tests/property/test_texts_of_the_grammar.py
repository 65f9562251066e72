"""Texts made of the grammar that ``docs/language.md`` lists are accepted, and damaged ones end in errors.

Of every rule of the listing, each alternative and each option is written out once, with samples for what the listing
leaves open; statements are also made of it at random. Then words are left out, doubled, exchanged or replaced.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from proxyd.core.language import format_parsed, parse
from proxyd.core.language.syntax.token_reader import MAX_ERRORS, TokenReader
from proxyd.core.language.syntax.words import KEYWORDS
from tests.examples import examples
from tests.pages import ROOT, blocks

(LISTING,) = [b.text for b in blocks(ROOT / "docs" / "language.md") if b.language == "ebnf"]
EXPRESSIONS = [
    "a = 1", "(NOT a LIKE 'x!%' ESCAPE '!')", "a NOT IN (1, 2.5) OR b IS NOT NULL", "a BETWEEN 1 AND -b * 2", "TRUE",
    "LOWER(title) || 'x' <> NEW.title AND (a + 1) % 3 >= 0", "title NOT REGEXP 'p'", "ABS(- + a) != COALESCE(b, NULL)",
]  # fmt: skip
SAMPLES = {  # of what the listing leaves open
    "number": ["2", "30"], "name": ["n", '"a ""b"""', "Kühe"], "path": ["a.b", "title"], "unit": ["HOURS", "day"],
    "expression": EXPRESSIONS, "period": ["2 HOURS", "DAY"], "interval": ['"30 days"', "'5'"],
    "receiver": ['"team"', '"a ""b"""'],
    "'url'": ["'https://example.org/'"], "'iso time'": ["'2026-01-01'"], "'week'": ["'Mon-Fri'"],
    "'weeks'": ["'Mon-Fri 22:00-07:00, Sat,Sun'"],
    "'zone'": ["'Europe/Berlin'"], "'template'": ["'{title}'", "'it''s'"], "'tag'": ["'de'"],
}  # fmt: skip
AROUND = {  # where a rule stands in a text
    "statement": "{}", "class": "CREATE DOMAIN d AS {}", "option": "CREATE SOURCE s OF RSS AT 'https://a/' {}",
    "site": "WATCH 'https://a/' OF SITE {}",
    "wish": "WATCH 'https://a/' {}", "clause": "INSERT NOTIFICATION n {}",
    "trigger": 'INSERT NOTIFICATION n SET TRIGGER "{}"',
    "event": "WATCH 'https://a/' ON {}", "after": 'INSERT NOTIFICATION n SET TRIGGER "ON FAILURE TO SOURCE {}"',
    "select": 'INSERT NOTIFICATION n SET QUERY "{}"', "time": "INSERT NOTIFICATION n START {}",
    "utility": "INSERT NOTIFICATION n SET UTILITY {}", "policy": "INSERT NOTIFICATION n SET POLICY {}",
    "delivery": "INSERT NOTIFICATION n SET DELIVERY {}", "own": "CREATE RECEIVER n AS {}",
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
OTHERS = ["n", "'t'", '"q"', "1", "$", ";", ")", "(", ",", ".", "-", "::", "'", '"', "/*", "--", "1e99", "title", "%"]
NO_MATTER_OF_SYNTAX = re.compile(r"lacks|is given twice|cannot be combined|DOE needs")


@dataclass(frozen=True)
class Part:
    """A part of the listing: alternatives, a sequence, something optional or repeated, or a word."""

    kind: str
    parts: tuple[Part, ...] = ()
    word: str = ""


def listed_rules() -> dict[str, Part]:
    """Return the rules of the listing by name."""
    text = re.sub(r"--.*", "", LISTING).replace('{"," ...}', "").replace("HALF-LIFE", "HALF - LIFE")
    heads = [*re.finditer(r"^([a-z]+)\s*=", text, re.MULTILINE)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {
        head[1]: alternatives(re.findall(r'"[^"]*"|\'[^\']*\'|::|\w+|\S', text[head.end() : end]))
        for head, end in zip(heads, ends, strict=True)
    }


def alternatives(words: list[str]) -> Part:
    """alternatives = sequence {"|" sequence}; takes the words that it reads."""
    options = [sequence(words)]
    while words and words[0] == "|":
        words.pop(0)
        options.append(sequence(words))
    return Part("alternatives", tuple(options))


def sequence(words: list[str]) -> Part:
    """sequence = { word | "[" alternatives "]" | "{" alternatives "}" | "(" alternatives ")" }"""
    parts = []
    while words and words[0] not in ("|", "]", "}", ")"):
        word = words.pop(0)
        kind = {"[": "option", "{": "repetition", "(": "alternatives"}.get(word)
        parts.append(Part("word", word=word) if kind is None else Part(kind, (alternatives(words),)))
        if kind is not None:
            words.pop(0)
    return Part("sequence", tuple(parts))


RULES = listed_rules()


def each_form(part: Part, depth: int = 0) -> list[str]:
    """Return texts of a part of the listing that together take each of its alternatives and options."""
    if part.kind == "word":
        return [one_word(part.word, random.Random(0), depth)]
    if part.kind == "alternatives":
        return [text for child in part.parts for text in each_form(child, depth)]
    if part.kind != "sequence":
        return [*each_form(part.parts[0], depth), ""]
    forms = [each_form(child, depth) for child in part.parts]
    rows = max(map(len, forms))
    return [" ".join(form[min(row, len(form) - 1)] for form in forms) for row in range(rows)]


def any_form(part: Part, rng: random.Random, depth: int = 0) -> str:
    """Return a text of a part of the listing; deep in the tree it is short."""
    if part.kind == "word":
        return one_word(part.word, rng, depth)
    if part.kind == "alternatives":
        return any_form(rng.choice(part.parts), rng, depth)
    if part.kind == "sequence":
        return " ".join(any_form(child, rng, depth) for child in part.parts)
    times = rng.choice([0, 1] if part.kind == "option" else [0, 1, 2, 4]) if depth < 8 else 0
    return " ".join(any_form(part.parts[0], rng, depth) for _ in range(times))


def one_word(word: str, rng: random.Random, depth: int) -> str:
    """Return a text for a word, a name or a text of the listing."""
    inner = word.strip('"')
    if word in SAMPLES:
        own = word == "expression" and depth < 4 and rng.random() < 0.3
        return (
            any_form(RULES[rng.choice(["aggregate", "cast", "case"])], rng, depth + 1)
            if own
            else rng.choice(SAMPLES[word])
        )
    if inner != word and inner in RULES:
        return '"' + any_form(RULES[inner], rng, depth + 1).replace('"', '""') + '"'
    if inner != word and inner in SAMPLES:
        return rng.choice(SAMPLES[inner])
    if word in RULES:
        return any_form(RULES[word], rng, depth + 1)
    return inner


def samples() -> Iterator[tuple[str, str]]:
    for name, part in RULES.items():
        if name in AROUND:
            quotes = '"' if '"{}"' in AROUND[name] or ' "' in AROUND[name] else ""
            for text in each_form(part):
                yield name, AROUND[name].format(text.replace('"', '""') if quotes else text)


def syntax_errors(text: str) -> list[str]:
    """Return the errors of a text that are a matter of the grammar."""
    return [str(error) for error in parse(text).errors if NO_MATTER_OF_SYNTAX.search(error.message) is None]


@pytest.mark.parametrize(("rule", "text"), list(samples()))
def test_what_the_listing_allows_is_accepted(rule: str, text: str) -> None:
    assert syntax_errors(text) == [], rule


def test_every_rule_of_the_listing_is_tried() -> None:
    assert set(RULES) - set(AROUND) == {"text"}
    assert len(list(samples())) > 90


@given(st.randoms(use_true_random=False))
@examples(150)
def test_statements_made_of_the_listing_are_accepted(rng: random.Random) -> None:
    text = ";\n".join(any_form(RULES["statement"], rng) for _ in range(2))
    note(text)
    assert syntax_errors(text) == []


@given(st.randoms(use_true_random=False))
@examples(400)
def test_damaged_statements_end_in_errors_or_in_the_same_statements_when_printed(rng: random.Random) -> None:
    words = re.findall(r"\w+|\s+|.", any_form(RULES["statement"], rng), re.DOTALL)
    for _ in range(rng.choice([1, 1, 3])):
        at, other = rng.randrange(len(words)), rng.choice([*OTHERS, *sorted(KEYWORDS)])
        words[at] = rng.choice(["", f" {other} ", f"{words[at]} {words[at]}", words[at] + other])
    text = "".join(words)
    note(text)
    with patch.object(TokenReader, "advance", autospec=True, side_effect=TokenReader.advance) as advance:
        parsed = parse(text)
    assert advance.call_count <= 10 * len(words)  # so that no text is read again and again
    assert len(parsed.errors) <= MAX_ERRORS
    assert all(0 <= error.start <= error.stop <= len(text) for error in parsed.errors)
    if not parsed.errors:
        assert parse(format_parsed(parsed)).statements == parsed.statements


def test_listing_and_parser_have_the_same_keywords() -> None:
    """But for those of units and expressions, of which the page has lists of their own."""
    listed = set(re.findall(r"\b[A-Z]{2,}\b", re.sub(r"--.*|'[^']*'", "", LISTING)))
    listed |= {word.upper() for word in re.findall(r"\b[A-Z][a-z]+\b", LISTING)}
    singular = {word[:-1] if word in {"SOURCES", "PROBES", "ITEMS", "WORDS"} else word for word in listed}
    assert singular - KEYWORDS == set()
    assert KEYWORDS - singular == (UNITS | OPERATORS) - {"OR", "NULL"}  # these also follow the type of a field


def test_units_and_operators_are_in_the_page() -> None:
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[A-Z]{2,}", page.split("## Words")[1].split("## Grammar")[0]))
    operators = set(re.findall(r"[A-Z]{2,}", page.split("## Expressions")[1]))
    assert {f"{unit}S" for unit in UNITS} <= words
    assert words | operators >= OPERATORS
