"""Clauses as their tables describe them."""

from __future__ import annotations

from typing import Any

import pytest

from proxyd.core.language import SourceText
from proxyd.core.language.syntax.clauses import (
    PROFILE_OPTIONS,
    RULE_CLAUSES,
    SOURCE_OPTIONS,
    Clause,
    JsonForm,
    parse_clause,
)
from proxyd.core.language.syntax.nodes import Located
from proxyd.core.language.syntax.scanner import scan
from proxyd.core.language.syntax.token_reader import TokenReader

EXAMPLES = [
    (kind, clause, example)
    for kind, clauses in {"SOURCE": SOURCE_OPTIONS, "PROFILE": PROFILE_OPTIONS, "NOTIFICATION": RULE_CLAUSES}.items()
    for clause in clauses
    if clause.form is JsonForm.CLAUSE
    for example in (*clause.examples, *clause.value.choices)
]


def value_of(kind: str, clause: Clause, text: str) -> Any:
    tokens = scan(SourceText("text", f"{clause.words} {text}")).tokens
    (value,) = parse_clause(TokenReader(tokens), kind).values.values()
    return value.value if isinstance(value, Located) else value


@pytest.mark.parametrize(("kind", "clause", "example"), EXAMPLES)
def test_an_example_is_read_and_printed_with_the_same_meaning(kind: str, clause: Clause, example: str) -> None:
    value = value_of(kind, clause, example)
    assert value_of(kind, clause, clause.value.show(value)) == value


def test_two_clauses_of_a_statement_have_two_members() -> None:
    for clauses in (SOURCE_OPTIONS, PROFILE_OPTIONS, RULE_CLAUSES):
        members = [clause.member for clause in clauses if clause.form is not None]
        assert len(set(members)) == len(members)
