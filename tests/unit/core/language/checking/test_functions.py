from __future__ import annotations

import pytest

from proxyd.core.language.checking.expression_checker import FUNCTIONS, Family
from tests.unit.core.language.texts import FEEDS, messages, rule

_VALUES = {Family.TEXT: "title", Family.NUMBER: "ttl", Family.ANY: "link", Family.TIME: "pubDate"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_what_its_entry_says_and_no_fewer_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    arguments = [_VALUES[function.parameter(index)] for index in range(len(function.parameters))]
    if name == "REGEXP_SUBSTR":
        arguments[1] = "'a'"
    assert messages(FEEDS + rule(query=f"SELECT {name}({', '.join(arguments)}) FROM RSS")) == []
    assert len(messages(FEEDS + rule(query=f"SELECT {name}() FROM RSS"))) == 1


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ("COALESCE(ttl, 0) > 1", True),
        ("COALESCE(NULL, title) > 1", False),
        ("ROUND(ttl) = 1.5", True),
        ("LENGTH(title) = 'a'", False),
        ("NULLIF(title, 'a') = 'b'", True),
    ],
)
def test_the_type_of_a_result_is_checked_where_it_is_used(expression: str, fits: bool) -> None:
    assert (messages(FEEDS + rule(condition=expression)) == []) == fits
