"""Numbers as people write them: ``$1,299.00``, ``1.299,00 €``, ``1 299,00``, ``12 %``. Pure.

This layer decides what price-parser guesses: signs, exponents, several numbers in one text, and which of two readings
an ambiguous text has. price-parser knows the currencies, and turns the amount that is left into a decimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from unicodedata import decimal as digit_of

from price_parser import parse_price

from proxyd.core.model.decimal_marks import COMMA, POINT

LONGEST_NUMBER = 200
"""Characters of a text in which a number is looked for, so that no text costs more than 0.2 ms."""

_LONGEST_CURRENCY = 8
_OTHER_DIGIT = re.compile(r"[^\W\D0-9]")
_MARKS_OF_DIRECTION = re.compile("[\u200b-\u200f\u061c\u2060\u2066-\u2069\ufeff]")
_AS_ASCII = str.maketrans(
    dict.fromkeys("\u00a0\u2007\u2009\u202f\t\r\n", " ")
    | dict.fromkeys("\u2019\u02bc\uff07\u066c`\u00b4", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-")
    | {"\uff0c": ",", "\uff0e": ".", "\uff08": "(", "\uff09": ")", "\uff05": "%"}
)
_DECIMAL = "\u066b"  # the decimal mark of Arabic, which is never anything else
_EURO_INSIDE = re.compile(r"(?<=\d)€(?=\d\d(?!\d))")  # 35€99
_DASH_CENTS = re.compile(r"(?<=\d)[.,] ?--?(?!\d)")  # 5,- and 49.--; the mark before them is the decimal mark
_NUMBER = re.compile(
    rf"(?:(?<![\w.,])[.,])?\d+(?:[.,'{_DECIMAL}]\d+| \d{{3}}(?!\d))*(?:[eE][+-]?\d{{1,3}}(?!\w))?", re.ASCII
)
_UNFIT = re.compile("[¼-¾⅐-⅞]|\\d[²³¹⁰-⁹₀-₉]")  # fractions and raised digits, which belong to the number
_MAGNITUDE = re.compile(
    r"[kKMB](?!\w)| [kKMB] ?[$£¥€]"
    r"| ?(?:bn|tn|mio|mrd|mds?|mill|mln|mld|tsd|thousand|lakh|crore|million|billion|milli|mil|тыс|млн|млрд)"
    r"[a-zé]*\.?(?!\w)| ?[万萬億亿兆만억천]",
    re.IGNORECASE,
)
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_LAST_WORD = re.compile(r"(?:[^\W\d_]+\.?|[^\W\d_]*[^\w\s()+:=,.;/-]{1,2})$")
_FIRST_WORD = re.compile(r" ?([^\W\d_]+\.?|[^\w\s()+:=,.;/-]{1,2})")
_GROUPS = re.compile(r"\d{1,3}(?:([.,' ])\d{3})(?:\1\d{3})*|\d{1,2}(?:,\d{2})+,\d{3}", re.ASCII)

_NAMES_OF_CURRENCIES = {
    "EUR": "€ euro euros",
    "USD": "$ us$ $us usd$ dollar dollars",
    "GBP": "£ gb£ £gb pound pounds",
    "JPY": "¥ ￥ jp¥ 円 yen",
    "CNY": "¥ ￥ cn¥ 元 rmb yuan",
    "CHF": "fr fr. sfr sfr.",
    "INR": "₹ rs rs. ₨",
    "PKR": "rs rs. ₨",
    "LKR": "rs rs. ₨",
    "NPR": "rs rs. ₨",
    "SEK": "kr kr. skr :-",
    "NOK": "kr kr. nkr",
    "DKK": "kr kr. dkr",
    "ISK": "kr kr. ikr",
    "PLN": "zł zl",
    "CZK": "kč kc",
    "HUF": "ft",
    "RON": "lei leu",
    "BGN": "лв лв.",
    "RSD": "din din. дин дин.",
    "RUB": "₽ руб руб. р р. rub.",  # noqa: RUF001 (Cyrillic)
    "UAH": "₴ грн грн.",
    "TRY": "₺ tl",
    "ILS": "₪ nis",
    "KRW": "₩ 원",
    "VND": "₫ đ",
    "THB": "฿",
    "PHP": "₱",
    "IDR": "rp rp.",
    "MYR": "rm",
    "BRL": "r$",
    "AUD": "$ a$ au$",
    "CAD": "$ c$ ca$",
    "NZD": "$ nz$",
    "SGD": "$ s$ sg$",
    "HKD": "$ hk$",
    "TWD": "$ nt$ ntd",
    "MXN": "$ mx$ mex$",
    "ARS": "$ ar$",
    "CLP": "$ cl$ clp$",
    "COP": "$ co$ col$",
    "NGN": "₦",
    "ZAR": "r",
    "KES": "ksh",
    "SAR": "sr ر.س",
    "AED": "dh dhs د.إ",
}
"""How shops write currencies, each ISO 4217 code with its other names. A name may belong to several."""

_CODES = {
    name: frozenset(code for code, names in _NAMES_OF_CURRENCIES.items() if name in names.split())
    for name in " ".join(_NAMES_OF_CURRENCIES.values()).split()
} | {code.lower(): frozenset({code}) for code in _NAMES_OF_CURRENCIES}
_NO_CODES: frozenset[str] = frozenset()
_IN_WHOLE = frozenset(("KRW", "VND", "IDR", "COP"))
"""Currencies of so little worth that nothing is told in thousandths of them: 12.800 ₫ are twelve thousand.

Fuel is, in euros (1.859 €), and exchange rates are, in yen (149.123 ¥); ``ft`` also means feet.
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """The only number of a text, with what stands before and after it."""

    before: str
    number: str
    after: str


def plain_number(text: str) -> float | int | None:
    """Return a number in the notation of programs, or ``None``.

    >>> plain_number(" 1299.5 "), plain_number("1e3"), plain_number("1,299"), plain_number("inf")
    (1299.5, 1000, None, None)
    """
    try:
        number = float(text.strip())
    except ValueError:
        return None
    return _whole(number)


def read_number(text: str, mark: str | None = None) -> float | int | None:
    """Return the number that a text holds, or ``None`` if it does not hold exactly one.

    Parameters
    ----------
    mark
        The decimal mark of its language, which settles what ``1.299`` and ``1,299`` mean; without it the point is one.

    Examples
    --------
    >>> read_number("$1,299.00"), read_number("1.299,00 €"), read_number("1 299,00"), read_number("12 %")
    (1299, 1299, 1299, 12)
    >>> read_number("1.299"), read_number("1.299", ","), read_number("1,299"), read_number("1,299", ",")
    (1.299, 1299, 1299, 1.299)
    >>> read_number("12.800 ₫"), read_number("₩12,800", ",")
    (12800, 12800)
    >>> read_number("-5 €"), read_number("(5.00)"), read_number("from $5 to $9"), read_number("free")
    (-5, -5, None, None)
    """
    plain = plain_number(text)
    stripped = text.strip()
    if plain is not None and not (mark == COMMA and _AMBIGUOUS.fullmatch(stripped)):
        return plain
    found = _find(_in_ascii(stripped)) if len(stripped) <= LONGEST_NUMBER else None
    if found is None:
        return None
    sign, amount = _sign(found), _amount(found.number, _mark_by_currency(found) or mark or POINT)
    return None if sign is None or amount is None else _whole(float(sign * amount))


def currency_in(text: str) -> str | None:
    """Return the currency that a price names, as it is written, or ``None``.

    >>> currency_in("1.299,00 €"), currency_in("CHF 5"), currency_in("5")
    ('€', 'CHF', None)
    """
    return parse_price(text).currency if len(text) <= LONGEST_NUMBER else None


def may_be_one_currency(one: str, other: str) -> bool:
    """Return whether two texts may be names of the same currency.

    >>> may_be_one_currency("€", "EUR"), may_be_one_currency("kr", "NOK"), may_be_one_currency("€", "$")
    (True, True, False)
    """
    if len(one) > _LONGEST_CURRENCY or len(other) > _LONGEST_CURRENCY:
        return False
    return not _CODES.get(one.lower(), _NO_CODES).isdisjoint(_CODES.get(other.lower(), _NO_CODES))


def _whole(number: float) -> float | int | None:
    if not isfinite(number):
        return None
    return int(number) if number == int(number) and abs(number) < 2**53 else number


def _in_ascii(text: str) -> str:
    """Return a text with the digits, blanks, apostrophes and minus signs of ASCII."""
    text = _MARKS_OF_DIRECTION.sub("", text).translate(_AS_ASCII)
    text = _OTHER_DIGIT.sub(lambda found: str(digit_of(found[0], found[0])), text)
    if text.count("€") == 1:
        text = _EURO_INSIDE.sub(_DECIMAL, text)
    return _DASH_CENTS.sub(f"{_DECIMAL}00", text)


def _find(text: str) -> _Found | None:
    """Return the number of a text; none if there are several, or if it is only part of a word or an amount."""
    # price-parser takes the first of two prices and reads "free" as 0; a rule on a price that falls would fire on both.
    # Null never fires, and is counted and shown by `probe`.
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) != 1 or _UNFIT.search(text):
        return None
    start, stop = numbers[0].span()
    found = _Found(text[:start], numbers[0][0], text[stop:])
    is_part = found.after.startswith("-") or _MAGNITUDE.match(found.after) or not _may_precede(found.before)
    return None if is_part else found


def _may_precede(before: str) -> bool:
    """Return whether a number may follow: letters that touch it must be a currency, as in ``CHF5``."""
    letters = re.search(r"[^\W\d_]+\.?$", before[-_LONGEST_CURRENCY:])
    return letters is None or _is_currency(letters[0])


@lru_cache(256)
def _is_currency(word: str) -> bool:
    return len(word) < _LONGEST_CURRENCY and parse_price(word).currency in (word, word.rstrip("."))


def _sign(found: _Found) -> int | None:
    """Return 1 or -1; ``None`` if the dash before a number may be something else than its sign."""
    lead = _without_currency(found.before)
    between = found.before[len(lead) :]
    if not lead.endswith("-"):
        return _sign_of_parentheses(lead[:-1], between, found) if lead.endswith("(") else 1
    rest = lead[:-1]
    is_attached = rest[-1:] in tuple(" (:=") and not between.startswith(" ")
    return -1 if is_attached or _is_blank(_without_currency(rest)) else None


def _sign_of_parentheses(outside: str, between: str, found: _Found) -> int | None:
    """Return the sign of an amount behind ``(``; ``None`` if a dash touches that, as in ``-(5.00)``."""
    if outside.endswith("-"):
        return None
    return -1 if _is_accounting(outside, between, found) else 1


def _is_accounting(outside: str, between: str, found: _Found) -> bool:
    """Return whether parentheses hold a whole amount, as in ``(5.00)``; ``(12)`` behind a word is a count."""
    inside, closes, behind = found.after.partition(")")  # shops show the number of reviews as (12)
    parts = (outside, between, inside, behind)
    is_alone = bool(closes) and all(_is_blank(part) or _is_currency(part.strip()) for part in parts)
    return is_alone and (not all(map(_is_blank, parts)) or re.search(r"[.,]\d\d$", found.number) is not None)


def _is_blank(text: str) -> bool:
    return not text.strip()


def _without_currency(text: str) -> str:
    """Return a text without the currency at its end."""
    text = text.rstrip()
    last = _LAST_WORD.search(text[-_LONGEST_CURRENCY:])
    return text[: -len(last[0])].rstrip() if last is not None and _is_currency(last[0]) else text


def _mark_by_currency(found: _Found) -> str | None:
    """Return the decimal mark of an amount in a currency of ``_IN_WHOLE``, or ``None`` if any mark may be meant."""
    words = (_LAST_WORD.search(found.before.rstrip()[-_LONGEST_CURRENCY:]), _FIRST_WORD.match(found.after))
    codes = [_CODES.get(word[word.lastindex or 0].lower(), _NO_CODES) for word in words if word is not None]
    is_in_whole = any(each and each <= _IN_WHOLE for each in codes)
    return (COMMA if POINT in found.number else POINT) if is_in_whole else None


def _amount(number: str, mark: str) -> Decimal | None:
    """Return the value of a number without a sign, or ``None`` if its groups have wrong lengths."""
    mantissa, _, exponent = number.lower().partition("e")
    mark = _mark_in(mantissa, mark)
    whole, _, fraction = mantissa.partition(mark)
    if re.fullmatch(r"\d*", whole) is None and _GROUPS.fullmatch(whole) is None:
        return None
    if re.fullmatch(r"\d*", fraction) is None:
        return None
    plain = re.sub(r"\D", "", whole)
    amount = parse_price(f"{plain}{POINT}{fraction}" if fraction else plain, decimal_separator=POINT).amount
    return None if amount is None else amount.scaleb(int(exponent or 0))


def _mark_in(mantissa: str, mark: str) -> str:
    """Return the decimal mark of a number; ``mark`` settles it where both readings are possible."""
    if _DECIMAL in mantissa:
        return _DECIMAL
    if _AMBIGUOUS.fullmatch(mantissa):
        return mark
    points, commas = mantissa.count(POINT), mantissa.count(COMMA)
    if points and commas:
        return max(POINT, COMMA, key=mantissa.rfind)
    return POINT if points == 1 else COMMA if commas == 1 else _DECIMAL
