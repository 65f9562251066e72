"""Statements as JSON and back are the same statements."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from proxyd.api.rest.json_profiles import Members, declaration_of, read_declaration
from proxyd.api.wire.statement_models import DeclarationWritten
from proxyd.core.language import Statement, StatementKind, Watch
from proxyd.core.language.syntax.nodes import CreateDomain, CreateProfile, CreateReceiver, CreateSource, DropStatement
from tests.property.strategies import statements


def _order(statement: Statement) -> int:
    kinds = (DropStatement, CreateDomain, CreateSource, CreateProfile, CreateReceiver)
    return next((n for n, kind in enumerate(kinds) if isinstance(statement, kind)), len(StatementKind))


@given(st.lists(statements.filter(lambda statement: not isinstance(statement, Watch)), max_size=3))
def test_statements_survive_json(declared: list[Statement]) -> None:
    there = declaration_of(declared)
    wire = json.loads(there.model_dump_json(by_alias=True, exclude_none=True))
    back = DeclarationWritten.model_validate(wire, strict=True)
    assert back == there
    parsed = read_declaration(back, Members(back))
    assert parsed.errors == ()
    assert list(parsed.statements) == sorted(declared, key=_order)
