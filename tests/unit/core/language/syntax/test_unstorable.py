"""Characters that not every database can keep are refused where a text is read."""

from __future__ import annotations

import pytest

from proxyd.core.language import parse


@pytest.mark.parametrize(("character", "name"), [("\x00", "U+0000"), ("\ud800", "U+D800")])
def test_what_no_database_keeps_is_named_with_its_place(character: str, name: str) -> None:
    (error,) = parse(f"-- one\n-- tw{character}o\n", "a.profile").errors
    assert str(error).startswith(f"a.profile:2:6: no text may hold the character {name}")


@pytest.mark.parametrize("text", ["title LIKE '\0'", "title LIKE 'a' ESCAPE '\0'"], ids=["a pattern", "its escape"])
def test_a_condition_is_no_way_around(text: str) -> None:
    (error,) = parse(f'INSERT NOTIFICATION n SET TRIGGER "ON INSERT TO x WHEN {text}"').errors
    assert "no text may hold the character U+0000" in str(error)
