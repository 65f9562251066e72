"""Functions of expressions, and the patterns of LIKE and REGEXP: what they return, and what a call costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from math import floor, isfinite, trunc
from typing import TypeAlias

import re2

from proxyd.core.errors import EvaluationError
from proxyd.core.model.chronon import all_zones
from proxyd.core.model.decimal_marks import mark_of
from proxyd.core.model.expression import LIKE_MEMORY_BYTES, CastType, re2_options
from proxyd.core.model.field_values import coerce, iso_time
from proxyd.core.model.item import Value
from proxyd.core.model.numbers import read_number
from proxyd.core.model.profile import FieldType
from proxyd.core.model.text_blocks import diff_blocks, words_changed
from proxyd.core.rules.programs.meter import Meter, check_length


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return the result of an operator; null unless both values are numbers and the result is finite.

    >>> arithmetic("/", 7, 2), arithmetic("/", 7.0, 2), arithmetic("%", -7, 2), arithmetic("/", 1, 0)
    (3, 3.5, -1, None)
    """
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if operator in "/%" and right == 0:
        return None
    try:
        result = ARITHMETIC[operator](left, right)
        return result if isfinite(result) else None
    except (OverflowError, ZeroDivisionError):
        return None


def _quotient(left: float, right: float) -> float:
    """Divide as SQL does: the quotient of whole numbers is whole, truncated towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def _remainder(left: float, right: float) -> float:
    return left - right * int(_quotient(left, right))


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": _remainder,
}


_MOST_COUNT, _MOST_DIGITS = 2**31, 400
_EARLIEST_S, _LATEST_S = -62135510400.0, 253402214400.0  # a day within the years 1 and 9999, for every zone


def _strict(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *arguments: None if any(a is None for a in arguments) else function(*arguments)


def _substr(text: Value, start: Value, length: Value = None) -> Value:
    """Return a substring, counting characters from 1; a negative start counts from the end."""
    characters = str(text)
    if not isinstance(start, int | float) or not isinstance(length, int | float | None):
        return None
    first = _whole_count(start)
    begin = first - 1 if start >= 0 else len(characters) + first
    stop = len(characters) if length is None else begin + max(0, _whole_count(length))
    return characters[max(0, begin) : max(0, stop)]


def _whole_count(count: float) -> int:
    """Return a number of characters; 1e308 as an integer has a thousand bits."""
    return int(min(max(count, -_MOST_COUNT), _MOST_COUNT))


def _round(value: Value, digits: Value = 0) -> Value:
    if not isinstance(value, int | float) or not isinstance(digits, int | float):
        return None
    if abs(digits) > _MOST_DIGITS:
        return None
    try:
        scale = 10.0 ** int(digits)
        rounded = floor(abs(value) * scale + 0.5) / scale
    except (OverflowError, ZeroDivisionError, ValueError):
        return None
    result = rounded if value >= 0 else -rounded
    return int(result) if int(digits) <= 0 else result


def _coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _nullif(value: Value, other: Value) -> Value:
    return None if value is not None and value == other else value


def _replace(text: Value, old: Value, new: Value) -> Value:
    whole, before, after = str(text), str(old), str(new)
    if not before:
        return text
    check_length(len(whole) + whole.count(before) * (len(after) - len(before)), whole)
    return whole.replace(before, after)


def _part(name: str) -> Callable[..., Value]:

    def part(time_s: Value, zone: Value = None) -> Value:
        place = UTC if zone is None else all_zones().get(str(zone))
        if not isinstance(time_s, int | float) or place is None or not _EARLIEST_S <= time_s <= _LATEST_S:
            return None
        moment = datetime.fromtimestamp(time_s, place)
        found: int = moment.isoweekday() if name == "weekday" else getattr(moment, name)
        return found

    return part


def number(text: Value, language: Value = None, *, mark: str | None = None) -> Value:
    """Return the number that a text holds; ``mark`` settles ambiguous ones unless a language is given."""
    if not isinstance(text, str) or (language is not None and mark_of(str(language)) is None):
        return None
    return read_number(text, mark if language is None else mark_of(str(language)))


def cast(value: Value, target: CastType, *, is_time: bool, mark: str | None = None) -> Value:
    """Return a value as another type, or null; a fraction is cut off where an integer is wanted."""
    if value is None:
        return None
    if target is CastType.STRING:
        return iso_time(float(value)) if is_time and isinstance(value, int | float) else _shown(value)
    if target is CastType.TIMESTAMP:
        return coerce(value, FieldType.TIMESTAMP)
    found = read_number(value, mark) if isinstance(value, str) else value + 0
    return found if target is CastType.DECIMAL or found is None else coerce(trunc(found), FieldType.INTEGER)


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


PARTS_OF_TIMES = ("YEAR", "MONTH", "DAY", "WEEKDAY", "HOUR", "MINUTE")
READINGS: Mapping[str, int] = {"LOWER": 2, "UPPER": 3, "REPLACE": 5}
"""How often a function reads its texts, where that is more than once: to change letters, or to find and join parts."""
STEPS: Mapping[str, int] = {"ROUND": 12, **dict.fromkeys(PARTS_OF_TIMES, 16)}
"""The steps of a function besides its texts, where they are more than those of an operator."""

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "LOWER": _strict(lambda text: str(text).lower()),
    "UPPER": _strict(lambda text: str(text).upper()),
    "LENGTH": _strict(lambda text: len(str(text))),
    "TRIM": _strict(lambda text: str(text).strip()),
    "SUBSTR": _strict(_substr),
    "REPLACE": _strict(_replace),
    "ABS": _strict(lambda value: abs(value) if isinstance(value, int | float) else None),
    "ROUND": _strict(_round),
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    **{name: _part(name.lower()) for name in PARTS_OF_TIMES},
}
"""Functions whose work grows with the length of their texts; ``diff`` stands apart."""


def diff(old: Value, new: Value, meter: Meter) -> Value:
    """Return the changes between two texts, as lines with their signs; raises ``EvaluationError``."""
    if old is None or new is None:
        return None
    return "\n".join(map(str, diff_blocks(str(old), str(new), spend=meter.spend)))


def count_word_changes(old: Value, new: Value, meter: Meter) -> Value:
    """Return how many words of two texts differ; raises ``EvaluationError``."""
    if old is None or new is None:
        return None
    return words_changed(diff_blocks(str(old), str(new), spend=meter.spend))


_STEPS_TO_COMPILE = 8
_Matcher: TypeAlias = Callable[[str, Meter], bool]
"""Tells whether a text matches, and counts the work; raises ``EvaluationError``."""


def like_matcher(pattern: str, *, escape: str | None, ignores_case: bool = False) -> _Matcher:
    r"""Return a function that tells whether a whole text matches; ILIKE ignores case.

    A pattern without ``_`` needs no regular expression, unless an ILIKE has characters beyond ASCII to compare.

    >>> from proxyd.core.rules.programs.expression_compiler import UNMETERED
    >>> matches = like_matcher("a!%%", escape="!")
    >>> matches("a%\0\n", UNMETERED), matches("ab", UNMETERED)
    (True, False)
    """
    texts = _texts_between(pattern, escape)
    if texts is not None and not ignores_case:
        return _text_matcher(texts)
    by_regex = regex_of(pattern, escape=escape, ignores_case=ignores_case)
    if texts is None or not pattern.isascii():
        return by_regex.matches
    folded = _text_matcher([text.lower() for text in texts])
    return lambda text, meter: folded(text.lower(), meter) if text.isascii() else by_regex.matches(text, meter)


def like_read(pattern: str, text: str, meter: Meter, *, escape: str | None, ignores_case: bool) -> bool:
    """Return whether a text matches a pattern that was read from a source; raises ``EvaluationError``."""
    _check_read(pattern)
    meter.spend(_STEPS_TO_COMPILE * (1 + len(pattern)))
    return like_matcher(pattern, escape=escape, ignores_case=ignores_case)(text, meter)


def regex_of(pattern: str, *, escape: str | None, ignores_case: bool = False) -> Regex:
    """Return the regular expression that matches what a pattern matches."""
    wild = {"%": ".*", "_": "."}
    parts = [wild[char] if is_wild else re2.escape(char) for char, is_wild in _characters(pattern, escape)]
    return Regex("".join(parts), is_whole=True, ignores_case=ignores_case)


def _characters(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """Yield each character that a pattern means, and whether it is a wildcard."""
    rest = iter(pattern)
    for char in rest:
        if char == escape:
            yield next(rest, char), False
        else:
            yield char, char in ("%", "_")


def _texts_between(pattern: str, escape: str | None) -> list[str] | None:
    """Return the texts before, between and after the ``%`` of a pattern, or ``None`` if it has a ``_``."""
    texts: list[list[str]] = [[]]
    for char, is_wild in _characters(pattern, escape):
        if not is_wild:
            texts[-1].append(char)
        elif char == "%":
            texts.append([])
        else:
            return None
    return ["".join(each) for each in texts]


def _text_matcher(texts: Sequence[str]) -> _Matcher:
    """Return a function that tells whether a text begins and ends as given, with the other texts between in order."""
    if len(texts) == 1:
        return lambda text, meter: text == texts[0]
    first, *between, last = texts
    shortest = len(first) + len(last)
    needed = [each for each in between if each]

    def matches(text: str, meter: Meter) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        meter.scan(len(text))
        at, stop = len(first), len(text) - len(last)
        for number, each in enumerate(needed, 1):
            found = text.find(each, at, stop)
            if found < 0:
                return False
            at = found + len(each)
            if number % 16 == 0:
                meter.spend(1)
        return True

    return matches


MOST_PATTERN = 1_000
"""Length of a pattern that is not written in the rule but read from a source."""
_OTHER_INSTRUCTIONS = 8  # that a search takes for each character besides those of its pattern


class Regex:
    """A regular expression that is compiled at its first use.

    As a LIKE (``is_whole``) it must match a whole text, and its dots match line ends; otherwise it is searched.

    >>> from proxyd.core.rules.programs.expression_compiler import UNMETERED
    >>> Regex("b+c").matches("abbc", UNMETERED), Regex("b+c", is_whole=True).matches("abbc", UNMETERED)
    (True, False)
    """

    def __init__(self, pattern: str, *, is_whole: bool = False, ignores_case: bool = False) -> None:
        self._pattern = pattern
        self._is_whole = is_whole
        self._ignores_case = ignores_case

    def matches(self, text: str, meter: Meter) -> bool:
        """Return whether a text matches; raises ``EvaluationError``."""
        return self._search(text, meter) is not None

    def found(self, text: str, meter: Meter) -> str | None:
        """Return the first match in a text, or the first group of the pattern if it has one.

        >>> from proxyd.core.rules.programs.expression_compiler import UNMETERED
        >>> Regex("b+").found("abbc", UNMETERED), Regex("a(b+)").found("abbc", UNMETERED)
        ('bb', 'bb')
        """
        found = self._search(text, meter)
        if found is None:
            return None
        part: str | None = found[1] if self._automaton.groups else found[0]
        return part

    def _search(self, text: str, meter: Meter) -> re2._Match | None:
        is_first = "_automaton" not in self.__dict__
        compiled = self._automaton
        if is_first:
            meter.count_compiling(compiled.programsize)
        meter.search(len(text), _OTHER_INSTRUCTIONS + compiled.programsize)
        search = compiled.fullmatch if self._is_whole else compiled.search
        try:
            return search(text)
        except UnicodeEncodeError:  # half of a surrogate pair, which re2 does not take
            return search(text.encode(errors="replace").decode())

    @cached_property
    def _automaton(self) -> re2._Regexp:
        options = re2_options(LIKE_MEMORY_BYTES) if self._is_whole else re2_options()
        options.case_sensitive = not self._ignores_case
        options.dot_nl = self._is_whole
        try:
            return re2.compile(self._pattern, options)
        except re2.error as error:
            raise EvaluationError(f"a text is not a regular expression: {error}") from None


def _check_read(pattern: str) -> None:
    if len(pattern) > MOST_PATTERN:
        raise EvaluationError(
            f"a pattern read from a source has {len(pattern)} characters; the limit is {MOST_PATTERN}"
        )
