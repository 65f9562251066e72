"""Patterns of LIKE and REGEXP: compiled once, and matched within the meter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import re2

from proxyd.core.errors import EvaluationError
from proxyd.core.model.patterns import LIKE_MEMORY_BYTES, re2_options
from proxyd.core.rules.programs.meter import Meter

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

    Parameters
    ----------
    is_whole
        Whether it is a LIKE: it must match a whole text, and its dots match line ends; otherwise it is searched.

    Examples
    --------
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
    """Raise ``EvaluationError`` for a pattern read from a source that is too long."""
    if len(pattern) > MOST_PATTERN:
        raise EvaluationError(
            f"a pattern read from a source has {len(pattern)} characters; the limit is {MOST_PATTERN}"
        )
