"""Answers to whoever has some profiles show names as these write them, in every form that an answer has."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from urllib.parse import quote

import pytest

from proxyd.api.bounds import with_plain_names

OWNERS = ["b", "ab", "a&\"b'", "Küche ☃", "a\\b"]
WRITTEN: dict[str, Callable[[str], str]] = {
    "text": lambda text: text,
    "JSON": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON in ASCII": json.dumps,
    "HTML": escape,
    "an address": lambda text: quote(text, safe=""),
    "XML in ASCII": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("form", WRITTEN)
def test_the_owner_of_a_name_is_left_out_in_each_form_of_an_answer(form: str, owner: str) -> None:
    written = WRITTEN[form]
    body = "".join(map(written, [f"{owner}⋮x", "and", f"{owner}⋮y"]))
    plain = "".join(map(written, ["x", "and", "y"]))
    assert with_plain_names(body.encode(), OWNERS).decode() == plain


def test_names_of_others_and_marks_alone_stay() -> None:
    body = "c⋮x ⋮ b ⋮x b⋮".encode()
    assert with_plain_names(body, OWNERS) == "c⋮x ⋮ b ⋮x ".encode()


def test_of_two_owners_the_longer_one_is_left_out() -> None:
    assert with_plain_names("ab⋮x".encode(), OWNERS) == b"x"
