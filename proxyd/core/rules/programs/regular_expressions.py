"""Regular expressions of rules: re2 searches in linear time, and each search is counted before it is done."""

from __future__ import annotations

from functools import cached_property

import re2

from proxyd.core.model.patterns import LIKE_MEMORY_BYTES, re2_options
from proxyd.core.rules.programs.meter import Meter
from proxyd.errors import EvaluationError

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
    >>> from proxyd.core.rules.programs.meter import UNMETERED
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

        >>> from proxyd.core.rules.programs.meter import UNMETERED
        >>> Regex("b+").found("abbc", UNMETERED), Regex("a(b+)").found("abbc", UNMETERED)
        ('bb', 'bb')
        """
        found = self._search(text, meter)
        if found is None:
            return None
        part: str | None = found[1] if self._compiled.groups else found[0]
        return part

    def _search(self, text: str, meter: Meter) -> re2._Match | None:
        is_first = "_compiled" not in self.__dict__
        compiled = self._compiled
        if is_first:
            meter.compiled(compiled.programsize)
        meter.search(len(text), _OTHER_INSTRUCTIONS + compiled.programsize)
        search = compiled.fullmatch if self._is_whole else compiled.search
        try:
            return search(text)
        except UnicodeEncodeError:  # half of a surrogate pair, which re2 does not take
            return search(text.encode(errors="replace").decode())

    @cached_property
    def _compiled(self) -> re2._Regexp:
        options = re2_options(LIKE_MEMORY_BYTES) if self._is_whole else re2_options()
        options.case_sensitive = not self._ignores_case
        options.dot_nl = self._is_whole
        try:
            return re2.compile(self._pattern, options)
        except re2.error as error:
            raise EvaluationError(f"a text is not a regular expression: {error}") from None


def check_read(pattern: str) -> None:
    """Raise ``EvaluationError`` for a pattern read from a source that is too long."""
    if len(pattern) > MOST_PATTERN:
        raise EvaluationError(
            f"a pattern read from a source has {len(pattern)} characters; the limit is {MOST_PATTERN}"
        )
