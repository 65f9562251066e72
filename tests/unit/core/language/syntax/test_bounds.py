"""Texts at the limit of size are read and checked within seconds, and without deep recursion."""

from __future__ import annotations

import pytest

from proxyd.core.language import format_parsed, parse
from tests.unit.core.language.texts import FEEDS, check_all, rule

_TEXTS = {
    "a long chain of OR": rule(condition=" OR ".join(["TRUE"] * 8000)),
    "a long chain of NOT": rule(condition="NOT " * 15000 + "TRUE"),
    "a long list": rule(condition=f"1 IN ({','.join(['1'] * 15000)})"),
    "many columns": rule(query=f"SELECT {','.join(['titel'] * 8000)} FROM RSS"),
    "many classes": rule(query=f"SELECT title FROM {','.join(f'RSS a{n}' for n in range(4000))}"),
    "many groups": rule(query=f"SELECT {'title,' * 2000} 1 FROM RSS GROUP BY {'UPPER(link),' * 2000} link"),
    "many statements": "CREATE DOMAIN x AS CLASS::A;" * 2000,
    "many unknown classes": "".join(f"CREATE SOURCE abc{n} OF RS AT 'http://a/{n}';" for n in range(1300)),
    "nothing but keywords": "SET CREATE INSERT NOTIFICATION a " * 1500,
    "nothing but quotes": "'\"" * 30000,
    "nothing but strange characters": "#x" * 30000,
    "comments that do not end": "/*" * 30000,
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS.keys())
def test_a_text_of_64_kilobytes_is_checked_and_printed_in_bounded_time(text: str) -> None:
    checked = check_all(FEEDS, text)
    assert len(checked.errors) <= 300
    format_parsed(parse(text))


_SOURCE = "CREATE SOURCE abc{} OF {} AT 'http://a/{}';"
_LONG_TEXTS = {
    "many sources": "".join(_SOURCE.format(n, "RSS", n) for n in range(6_000)),
    "many sources of one unknown class": "".join(_SOURCE.format(n, "RS", n) for n in range(6_000)),
    "many classes": "".join(f"CREATE DOMAIN d{n} AS CLASS::A{n};{_SOURCE.format(n, f'A{n}', n)}" for n in range(4_000)),
    "comments between statements": "".join(f"/* {n} */ {_SOURCE.format(n, 'RSS', n)}" for n in range(5_000)),
    "names declared twice": "CREATE PROFILE a AS (DOMAIN b);" * 8_000,
    "nothing but errors": "x;" * 100_000,
    "one statement of errors": "CREATE SOURCE s OF RSS AT 'http://a/' " + "ZONE " * 50_000,
    "one domain of errors": "CREATE DOMAIN d AS CLASS::A(a" + ",a:b" * 60_000,
    "one query of errors": rule(query="SELECT , FROM a WHERE " + "WHERE " * 60_000),
    "one list of names": f"INSERT NOTIFICATION n INTO a{', a' * 70_000}",
    "one long list": rule(condition=f"1 IN ({','.join(['1'] * 100_000)})"),
}


_SHORT = frozenset({"comments between statements", "one statement of errors", "one list of names"})


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=[] if name in _SHORT else pytest.mark.long)
        for name, text in _LONG_TEXTS.items()
    ],
)
def test_what_grows_with_a_long_text_is_its_length_alone(text: str) -> None:
    """The trap: work for each pair of statements takes minutes here, and seconds in the test above."""
    assert len(check_all(FEEDS, text).errors) <= 300


def test_the_deepest_expressions_are_checked_compared_and_printed() -> None:
    condition = "NOT (" * 32 + " OR ".join(["title = 'a'"] * 150) + ")" * 32
    assert check_all(FEEDS, rule(condition=condition)).errors == ()
    parsed = parse(rule(condition=condition))
    assert parse(format_parsed(parsed)).statements == parsed.statements
    assert hash(parsed.statements) == hash(parse(format_parsed(parsed)).statements)
