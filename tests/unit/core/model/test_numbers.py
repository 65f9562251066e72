"""Numbers as people write them, in the notations of many languages."""

# ruff: noqa: RUF001 - numbers in the letters and signs of their languages
from __future__ import annotations

import time

import pytest

from proxyd.core.model.decimal_marks import LANGUAGES, mark_of, mark_of_page
from proxyd.core.model.numbers import LONGEST_NUMBER, currency_in, plain_number, read_number

PRICES = [
    ("en-US", "$1,299.00", 1299),
    ("en-US", "US$12.50", 12.5),
    ("en-GB", "£1,299", 1299),
    ("en-GB", "£1,234,567.89", 1234567.89),
    ("en-IN", "₹1,23,456.78", 123456.78),
    ("en-IN", "Rs.500", 500),
    ("en-AU", "A$ 19.95 each", 19.95),
    ("de", "1.299,00 €", 1299),
    ("de", "1.299 €", 1299),
    ("de", "ab 5 €", 5),
    ("de", "49,- €", 49),
    ("de", "49,–", 49),
    ("de-AT", "€ 1.299,90", 1299.9),
    ("de-CH", "CHF 1'299.50", 1299.5),
    ("de-CH", "Fr. 49.–", 49),
    ("de-CH", "1’299’000 CHF", 1299000),
    ("fr", "1 299,00 €", 1299),
    ("fr", "1\u202f299,50\u00a0€", 1299.5),
    ("fr", "35€99", 35.99),
    ("es", "1.299,95 €", 1299.95),
    ("es-MX", "$1,299.95 MXN", 1299.95),
    ("es-CL", "$12.990", 12990),
    ("it", "€ 1.299", 1299),
    ("nl", "€ 1.299,-", 1299),
    ("pl", "1 299,99 zł", 1299.99),
    ("cs", "1 299 Kč", 1299),
    ("sv", "1 299:-", 1299),
    ("da", "kr. 1.299,50", 1299.5),
    ("nb", "kr 1 299,50", 1299.5),
    ("pt-BR", "R$ 1.234,56", 1234.56),
    ("ru", "1 299,50 руб.", 1299.5),
    ("uk", "1 299 грн", 1299),
    ("tr", "₺1.299,90", 1299.9),
    ("tr", "%12", 12),
    ("hu", "129 990 Ft", 129990),
    ("id", "Rp 1.299.000", 1299000),
    ("vi", "12.345.678 ₫", 12345678),
    ("ja", "￥１，２９９", 1299),
    ("ja", "1,299円", 1299),
    ("zh", "HK$ 1,299.90", 1299.9),
    ("ko", "₩12,990", 12990),
    ("ar", "٣٬٢١٠٫٥٠ ر.س", 3210.5),
    ("fa", "۱۲۳٫۵", 123.5),
    ("he", "₪ 1,299.90", 1299.9),
    ("hi", "₹१,२९९", 1299),
]


@pytest.mark.parametrize(("language", "text", "value"), PRICES)
def test_a_price_is_read_in_the_notation_of_its_language(language: str, text: str, value: float) -> None:
    assert read_number(text, mark_of(language)) == value


def test_the_table_holds_many_languages() -> None:
    assert len({language for language, _, _ in PRICES}) >= 12


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1.299", 1.299, 1299),
        ("-1.299", -1.299, -1299),
        ("1,299", 1299, 1.299),
        ("€ 12,345", 12345, 12.345),
        ("1,5e3", 1500, 1500),
        ("0.299", 0.299, 0.299),
        ("0,299", 0.299, 0.299),
        ("1234.567", 1234.567, 1234.567),
        ("1234,567", 1234.567, 1234.567),
        ("1.29", 1.29, 1.29),
        ("1,29", 1.29, 1.29),
        ("1.234.567", 1234567, 1234567),
        ("1,234,567", 1234567, 1234567),
        (".99 €", 0.99, 0.99),
        (",99 €", 0.99, 0.99),
        ("price,5", 5, 5),
        ("1.299,-", 1299, 1299),
        ("1,299.–", 1299, 1299),
        ("12.345.-", 12345, 12345),
        ("12.800 ₫", 12800, 12800),
        ("₩12,800", 12800, 12800),
        ("Rp12.800", 12800, 12800),
        ("12.800원", 12800, 12800),
        ("12.800,50 Ft", 12800.5, 12800.5),
        ("149.123 JPY", 149.123, 149123),
        ("3.456 ft", 3.456, 3456),
        ("12.800 $", 12.8, 12800),
        ("1.859 €", 1.859, 1859),
    ],
)
def test_a_language_settles_only_what_is_ambiguous(text: str, point: float, comma: float) -> None:
    assert (read_number(text), read_number(text, "."), read_number(text, ",")) == (point, point, comma)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5),
        ("\u22125 €", -5),
        ("- 5 €", -5),
        ("-$5", -5),
        ("$-5.00", -5),
        ("EUR -5", -5),
        ("Balance: -5", -5),
        ("(5.00)", -5),
        ("($5)", -5),
        ("$(5.00)", -5),
        ("(-5)", -5),
        ("(5)", 5),
        ("(1,234)", 1234),
        ("Reviews (5)", 5),
        ("+5 €", 5),
        ("-(5.00)", None),
        ("Reviews - (12)", 12),
        ("Price - 5 €", None),
        ("COVID-19", None),
    ],
)
def test_signs(text: str, value: float | None) -> None:
    assert read_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("free", "", "-", "€", "n/a", "nan", "inf", "1e999"),
        *("from $5 to $9", "5-9", "5 – 9 €", "2 for 5", "12:30", "2026-03-01", "1/2", "5'9", "1 2", "0x10"),
        *("1.2.3", "1,299,00", "1.299.00,5", "12'34", "1 299.299.00"),
        *("1.2k", "5M", "3 Mio. €", "1,2 M€", "2 Md €", "5 k€", "5 million", "5万円", "1½", "10²"),
        *("v2", "H2O", "5-pack", "5-", "x" * LONGEST_NUMBER + "5"),
    ],
)
def test_a_text_that_is_not_exactly_one_number_is_null(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize("text", ["1299.5", " 7 ", "1e3", "-1.5E-3", "+4", "1_299", "1.299", "0012", ".5", "5."])
def test_what_was_a_number_before_is_the_same_number(text: str) -> None:
    assert read_number(text) == plain_number(text) == float(text)


@pytest.mark.parametrize(
    "text",
    [
        *("1" * 1_000_000, "1," * 500_000, " " * 1_000_000 + "5", "x" * 1_000_000),
        *("x" * 190 + " 5 €", "- " * 99 + "1", "€" * 199 + "1", "1 " * 100, "9" * 200, "1e" * 100),
    ],
)
def test_a_hostile_text_costs_little(text: str) -> None:
    started = time.thread_time()
    read_number(text)
    assert time.thread_time() - started < 0.1


def test_every_language_has_a_mark_and_regions_may_differ() -> None:
    assert {mark_of(language) for language in LANGUAGES} == {".", ","}
    tags = ("de", "de-CH", "DE-at", "es-AR", "es-419", "zh-Hant-TW", "sr-Latn-RS")
    assert "".join(mark_of(tag) or "?" for tag in tags) == ",.,,..,"
    assert [mark_of(tag) for tag in ("", "xx", "german", "de_DE", "de-", "d", "x" * 10_000)] == [None] * 7


def test_a_page_may_name_its_language_carelessly() -> None:
    assert [mark_of_page(text) for text in ("de_DE", "fr, en", " de ", "DE;q=1", "x" * 10**6)] == [
        ",",
        ",",
        ",",
        ",",
        None,
    ]


def test_the_currency_of_a_price_is_what_it_writes() -> None:
    assert [currency_in(text) for text in ("1.299 €", "US$ 5", "CHF 5", "5", "x" * 10**6)] == [
        "€",
        "US$",
        "CHF",
        None,
        None,
    ]
