"""Texts beside what the language says of them: errors in full, canonical text, declaration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

from proxyd.core.language import SourceText, check, format_parsed, parse
from proxyd.core.model.expression import TextSpan
from proxyd.core.model.profile import Declaration, Domain

HERE = Path(__file__).parent
Golden = Callable[[Path, str], None]


def _cases(folder: str) -> list[Path]:
    return sorted((HERE / folder).glob("*.profile"))


def _name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", _cases("errors"), ids=_name)
def test_a_faulty_text_gives_exactly_these_errors(path: Path, golden: Golden) -> None:
    checked = check([SourceText(path.name, path.read_text(encoding="utf-8"))])
    assert checked.declaration is None
    golden(path.with_suffix(".txt"), "".join(f"{error}\n" for error in checked.errors))


@pytest.mark.parametrize("path", _cases("valid"), ids=_name)
def test_a_valid_text_has_exactly_this_canonical_text(path: Path, golden: Golden) -> None:
    parsed = parse(path.read_text(encoding="utf-8"), path.name)
    assert parsed.errors == ()
    canonical = format_parsed(parsed)
    golden(path.with_suffix(".canonical"), canonical)
    assert parse(canonical).statements == parsed.statements
    assert format_parsed(parse(canonical)) == canonical


@pytest.mark.parametrize("path", _cases("valid"), ids=_name)
def test_a_valid_text_declares_exactly_this(path: Path, golden: Golden) -> None:
    checked = check([SourceText(path.name, path.read_text(encoding="utf-8"))])
    assert checked.errors == ()
    assert checked.declaration is not None
    declared = replace(checked.declaration, domains=_without_built_in(checked.declaration))
    golden(path.with_suffix(".json"), json.dumps(_plain(declared), indent=1, ensure_ascii=False) + "\n")


def _without_built_in(declared: Declaration) -> dict[str, Domain]:
    return {name: domain for name, domain in declared.domains.items() if name != "built-in"}


def test_the_error_corpus_pins_at_least_45_different_messages() -> None:
    messages: set[str] = set()
    for path in _cases("errors"):
        lines = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
        messages.update(line.partition(": ")[2] for line in lines if line.startswith(path.name))
    assert len(messages) >= 45


def _plain(value: object) -> object:
    """Return a tree of a declaration without spans and without what was not set."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if not is_dataclass(value):
        return value
    result: dict[str, object] = {"": type(value).__name__}
    for each in fields(value):
        item = getattr(value, each.name)
        if not isinstance(item, TextSpan) and item not in (None, (), False):
            result[each.name] = _plain(item)
    return result
