"""The patterns of LIKE and ILIKE: ``%`` stands for any text, ``_`` for one character."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import re2


def like_matcher(pattern: str, *, escape: str | None, ignores_case: bool = False) -> Callable[[str], bool]:
    r"""Return a function that tells whether a whole text matches; ILIKE ignores case.

    A pattern without ``_`` needs no regular expression, unless an ILIKE has characters beyond ASCII to compare.

    >>> matches = like_matcher("a!%%", escape="!")
    >>> matches("a%\0\n"), matches("ab")
    (True, False)
    """
    texts = _texts_between(pattern, escape)
    if texts is not None and not ignores_case:
        return _text_matcher(texts)
    by_regex = regex_matcher(pattern, escape=escape, ignores_case=ignores_case)
    if texts is None or not pattern.isascii():
        return by_regex
    folded = _text_matcher([text.lower() for text in texts])
    return lambda text: folded(text.lower()) if text.isascii() else by_regex(text)


def regex_matcher(pattern: str, *, escape: str | None, ignores_case: bool = False) -> Callable[[str], bool]:
    """Return what :func:`like_matcher` does, as a regular expression."""
    wild = {"%": ".*", "_": "."}
    parts = [wild[char] if is_wild else re2.escape(char) for char, is_wild in _characters(pattern, escape)]
    options = re2.Options()
    options.dot_nl = True
    options.case_sensitive = not ignores_case
    compiled = re2.compile("".join(parts), options)
    return lambda text: compiled.fullmatch(text) is not None


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
    texts = [""]
    for char, is_wild in _characters(pattern, escape):
        if not is_wild:
            texts[-1] += char
        elif char == "%":
            texts.append("")
        else:
            return None
    return texts


def _text_matcher(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a text begins and ends as given, with the other texts between in order."""
    if len(texts) == 1:
        return lambda text: text == texts[0]
    first, *between, last = texts
    shortest = len(first) + len(last)
    needed = [each for each in between if each]

    def matches(text: str) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        at, stop = len(first), len(text) - len(last)
        for each in needed:
            found = text.find(each, at, stop)
            if found < 0:
                return False
            at = found + len(each)
        return True

    return matches
