"""The parser takes what ``grammar.lark`` allows and nothing else, and expects what can follow.

Texts are made of the grammar at random, and damaged. The reference is the LALR parser that lark makes of the grammar: a
word is a keyword if the reference can take that keyword, otherwise a name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lark import Lark, Token
from lark.lexer import PatternStr
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_interactive_parser import InteractiveParser

from proxyd.core.language import SourceText
from proxyd.core.language.clauses import parse_clause
from proxyd.core.language.reading import scanner
from proxyd.core.language.reading.expressions import (
    parse_expression,
    parse_from_part,
    parse_name,
    parse_select,
    parse_trigger,
)
from proxyd.core.language.reading.scanner import scan
from proxyd.core.language.reading.statements import parse_class_declaration, parse_field, parse_head, parse_profile_item
from proxyd.core.language.reading.token_reader import TokenReader, UnexpectedTokenError
from proxyd.core.language.words import BEFORE_A_PARENTHESIS, KEYWORDS, can_follow_case
from tests.examples import examples

GRAMMAR = Path(__file__).parents[1] / "unit" / "core" / "language" / "grammar.lark"
RULES: Mapping[str, Callable[[TokenReader], Any]] = {
    "statement_head": parse_head,
    "source_option": lambda parser: parse_clause(parser, "SOURCE"),
    "profile_option": lambda parser: parse_clause(parser, "PROFILE"),
    "clause": lambda parser: parse_clause(parser, "NOTIFICATION"),
    "watch_option": lambda parser: parse_clause(parser, "WATCH"),
    "select": parse_select,
    "trigger": parse_trigger,
    "from_part": lambda parser: parser.expect("FROM") and parse_from_part(parser),
    "expression": parse_expression,
    "class_declaration": parse_class_declaration,
    "field": parse_field,
    "profile_item": parse_profile_item,
    "profile_more": parse_name,
}
SAMPLES = {"NAME": ["n", '"n"', "title"], "TEXT": ["'t'", "''"], "QUOTED": ['"q"'], "NUMBER": ["1", "2.5"]}
NAMES = ["title", "count", "case", "order", "on", "null", "day", "like", "over", "distinct"]  # or keywords
OTHERS = [
    "n",
    "'t'",
    '"q"',
    "1",
    "$",
    ";",
    ")",
    "(",
    ",",
    ".",
    "-",
    "not",
    "and",
    "as",
    "over",
    "from",
    "on",
    "case",
    "end",
]


@cache
def grammar() -> Lark:
    text = GRAMMAR.read_text(encoding="utf-8")
    return Lark(text, parser="lalr", start=list(RULES), maybe_placeholders=False)


@cache
def spellings() -> Mapping[str, str]:
    """Return keywords and signs by the names of their terminals."""
    return {t.name: t.pattern.value for t in grammar().terminals if isinstance(t.pattern, PatternStr)}


@cache
def expansions() -> Mapping[str, list[list[tuple[bool, str]]]]:
    """Return what each rule can be, the one with the lowest tree first."""
    rules: dict[str, list[list[tuple[bool, str]]]] = {}
    for rule in grammar().rules:
        rules.setdefault(str(rule.origin.name), []).append([(part.is_term, part.name) for part in rule.expansion])
    heights: dict[str, int] = {}

    def height(parts: list[tuple[bool, str]]) -> int:
        return 1 + max((0 if is_term else heights.get(name, 1_000) for is_term, name in parts), default=0)

    for _ in rules:
        heights = {name: min(map(height, options)) for name, options in rules.items()}
    return {name: sorted(options, key=height) for name, options in rules.items()}


def written(rng: random.Random, rule: str, depth: int = 0) -> list[str]:
    """Return words of which a rule can be made; deep in the tree they are few."""
    options = expansions()[rule]
    parts = options[0] if depth > 9 else rng.choice(options)
    words: list[str] = []
    for is_term, name in parts:
        if is_term:
            words.append(rng.choice(SAMPLES[name]) if name in SAMPLES else spellings()[name])
        else:
            words += written(rng, name, depth + 1)
    return words


def damaged(rng: random.Random, words: list[str]) -> list[str]:
    """Return words of which one is missing, stands twice, or is another one."""
    at = rng.randrange(len(words))
    new = rng.choice([words[at], rng.choice(OTHERS), rng.choice(sorted(KEYWORDS))])
    named = [rng.choice(NAMES) if word == "title" else word for word in words]
    return [*named[:at], *rng.choice([[], [new], [new, named[at]]]), *named[at + 1 :]]


def takes(parser: InteractiveParser, terminal: str) -> bool:
    """Whether the reference can take a terminal; its tables alone promise too much."""
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


def readings(token: scanner.Token, following: scanner.Token) -> list[str]:
    """Return what a token can be, the best first."""
    if token.shape in ("NUMBER", "TEXT"):
        return [token.shape]
    if token.shape == "QUOTED":
        return ["NAME", "QUOTED"]
    terminals = [name for name, spelled in spellings().items() if spelled == token.word]
    if token.shape != "WORD":
        return terminals
    opens = following.shape in ("TEXT", "QUOTED") or can_follow_case(following.value)
    is_name = (token.word in BEFORE_A_PARENTHESIS and following.value != "(") or (token.word == "CASE" and not opens)
    return ["NAME"] if is_name else [*terminals, "NAME"]


def verdict(words: list[str], rule: str) -> tuple[int, bool, set[str]]:
    """Return how many tokens the reference takes, whether the rule can end there, and what else it can take."""
    tokens = scan(SourceText("text", " ".join(words))).tokens
    parser = grammar().parse_interactive(start=rule)
    for at, token in enumerate(tokens):
        following = tokens[min(at + 1, len(tokens) - 1)]
        terminal = next((each for each in readings(token, following) if takes(parser, each)), None)
        if terminal is None:
            break
        parser.feed_token(Token(terminal, token.value))
    state = parser.parser_state
    possible = {
        str(name) for name in state.parse_conf.states[state.position] if not name.islower() and takes(parser, name)
    }
    return at, "$END" in possible, {spellings().get(name, name) for name in possible - {"$END"}}


def own_verdict(words: list[str], rule: str) -> tuple[int, bool, set[str]]:
    """Return the same of the parser."""
    parser = TokenReader(scan(SourceText("text", " ".join(words))).tokens)
    try:
        RULES[rule](parser)
    except UnexpectedTokenError:
        return parser.at, False, parser._expected
    return parser.at, True, parser._expected


@pytest.mark.parametrize("rule", RULES)
@given(st.randoms(use_true_random=False))
@examples(12)
def test_what_the_grammar_allows_is_taken(rule: str, rng: random.Random) -> None:
    words = written(rng, rule)
    at, can_end, _ = own_verdict(words, rule)
    assert (at, can_end) == verdict(words, rule)[:2]
    assert can_end or "CASE" in words  # which is a name before NOT and signs


@pytest.mark.parametrize("rule", RULES)
@given(st.randoms(use_true_random=False))
@examples(150)
def test_damaged_texts_end_at_the_same_word_with_the_same_expectations(rule: str, rng: random.Random) -> None:
    words = damaged(rng, written(rng, rule))
    note(" ".join(words))
    assert own_verdict(words, rule) == verdict(words, rule)


def test_the_parser_and_the_grammar_have_the_same_keywords() -> None:
    assert {word for word in spellings().values() if word.isalpha()} == KEYWORDS
