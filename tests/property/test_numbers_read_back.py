"""A number that is written as a language writes it is read back, and any text is read soon and without an error."""

# ruff: noqa: RUF001 - numbers in the letters and signs of their languages
from __future__ import annotations

import time
from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.decimal_marks import mark_of
from proxyd.core.model.numbers import plain_number, read_number
from tests.examples import examples


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language writes an amount: its marks, and its text around the number."""

    language: str
    group: str
    mark: str
    form: str = "{}"


NOTATIONS = [
    Notation("en-US", ",", ".", "${}"),
    Notation("en-GB", ",", ".", "£{} each"),
    Notation("de", ".", ",", "{} €"),
    Notation("de-CH", "\u2019", ".", "CHF {}"),
    Notation("fr", "\u202f", ",", "{}\u00a0€"),
    Notation("es", ".", ",", "{}€"),
    Notation("es-MX", ",", ".", "${} MXN"),
    Notation("it", ".", ",", "€ {}"),
    Notation("pl", "\u00a0", ",", "{} zł"),
    Notation("cs", " ", ",", "{} Kč"),
    Notation("da", ".", ",", "kr. {}"),
    Notation("pt-BR", ".", ",", "R$ {}"),
    Notation("ru", " ", ",", "{} руб."),
    Notation("tr", ".", ",", "₺{}"),
    Notation("ja", ",", ".", "¥{}"),
    Notation("ar-EG", "\u066c", "\u066b", "{} ر.س"),
]
amounts = st.decimals(0, 10**9, places=0) | st.decimals(0, 10**9, places=2) | st.decimals(0, 10**6, places=3)


def written(amount: Decimal, notation: Notation, *, is_grouped: bool) -> str:
    text = f"{amount:,f}" if is_grouped else f"{amount:f}"
    marks = str.maketrans({",": notation.group, ".": notation.mark})
    return notation.form.format(text.translate(marks))


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.language)
@examples(50)
@given(amount=amounts, is_grouped=st.booleans())
def test_a_number_is_read_back(notation: Notation, amount: Decimal, is_grouped: bool) -> None:
    text = written(amount, notation, is_grouped=is_grouped)
    assert read_number(text, mark_of(notation.language)) == pytest.approx(float(amount), abs=1e-9)
    assert read_number(f"-{text}", mark_of(notation.language)) == pytest.approx(-float(amount), abs=1e-9)


_PIECES = st.sampled_from([*"0123456789.,-+()%€$'", " ", "\u00a0", "e", "E", "CHF", "kr.", "-", "½", "٣", "k", "EUR"])


@examples(400)
@given(st.lists(_PIECES, max_size=30).map("".join) | st.text(max_size=60), st.sampled_from([None, ".", ","]))
def test_any_text_is_read_soon_and_without_an_error(text: str, mark: str | None) -> None:
    started = time.thread_time()
    number = read_number(text, mark)
    assert time.thread_time() - started < 0.05
    assert number is None or isinstance(number, int | float)
    if mark != ",":
        plain = plain_number(text)
        assert plain is None or plain == number
