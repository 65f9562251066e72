"""The words of items, and what people search for among them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from proxyd.core.errors import BadSearchError
from proxyd.core.model.item import Value
from proxyd.core.rules.answers.shown_events import texts_of

MOST_WORDS = 4_000
"""The most characters of an item that can be found."""
MOST_TERMS, MOST_BEGUN = 20, 3
_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_words = re.compile(r"[^\W_]+").findall

Phrase: TypeAlias = tuple[str, ...]
"""Words that follow each other."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for: items with every wanted phrase and with none of the others.

    The last word of those in ``begun`` may go on.
    """

    wanted: tuple[Phrase, ...]
    begun: tuple[Phrase, ...] = ()
    unwanted: tuple[Phrase, ...] = ()


def words_of(fields: Mapping[str, Value]) -> str:
    """Return the words of an item's title and texts, in small letters and without accents.

    >>> words_of({"channel.title": "All", "channel.item.title": "Käse!", "channel.item.description": "<p>R&amp;D</p>"})
    'kase r d'
    """
    read = " ".join(texts_of(fields))[:MOST_WORDS]
    return " ".join(_words(_folded(read)[:MOST_WORDS]))  # one character may become eighteen


def search_of(text: str) -> Search:
    """Return what a text searches for; raises ``BadSearchError`` if it has no words, or asks for too much.

    All words must be there; ``"so and so"`` are words that follow each other, ``word*`` is the beginning of a word, and
    ``-word`` must not be there. A letter alone is no beginning, because most items have such a word.

    Examples
    --------
    >>> search_of('Kernel "long term" rel* -beta')
    Search(wanted=(('kernel',), ('long', 'term')), begun=(('rel',),), unwanted=(('beta',),))
    """
    wanted: list[Phrase] = []
    begun: list[Phrase] = []
    unwanted: list[Phrase] = []
    for sign, quoted, plain in _TERM.findall(text):
        phrase = tuple(_words(_folded(quoted or plain)))
        if phrase:
            goes_on = plain.endswith("*") and not sign
            (unwanted if sign else begun if goes_on else wanted).append(phrase)
    if not (wanted or begun):
        raise BadSearchError("name a word to search for")
    if len(begun) > MOST_BEGUN:
        raise BadSearchError(f"search for at most {MOST_BEGUN} beginnings of words at once")
    if any(len(each[-1]) < 2 and each[-1].isascii() for each in begun):
        raise BadSearchError("write at least two letters before a *")
    if sum(map(len, (*wanted, *begun, *unwanted))) > MOST_TERMS:
        raise BadSearchError(f"search for at most {MOST_TERMS} words at once")
    return Search(tuple(wanted), tuple(begun), tuple(unwanted))


def _folded(text: str) -> str:
    """Return a text in small letters without accents, so that every database compares words alike."""
    return "".join(char for char in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(char))


def in_sqlite(search: Search, source_id: str | None) -> str:
    """Return a query of FTS5 for items, or for those of a source, whose name must be compared as well.

    >>> in_sqlite(search_of('a "b c" de* -e'), "my-source")
    '(words : ("a" AND "b c" AND "de" *) AND source_id : ("my source")) NOT words : ("e")'
    """
    parts = [*map(_quoted, search.wanted), *(f"{_quoted(each)} *" for each in search.begun)]
    query = f"words : ({' AND '.join(parts)})"
    name = tuple(_words(source_id or ""))
    if name:
        query = f"({query} AND source_id : ({_quoted(name)}))"
    return f"{query} NOT words : ({' OR '.join(map(_quoted, search.unwanted))})" if search.unwanted else query


def _quoted(phrase: Phrase) -> str:
    return f'"{" ".join(phrase)}"'


def in_postgresql(search: Search) -> str:
    """Return a query for ``to_tsquery``.

    >>> in_postgresql(search_of('a "b c" de* -e'))
    "'a' & ('b' <-> 'c') & 'de':* & !'e'"
    """
    begun = [_followed(each) + ":*" for each in search.begun]
    return " & ".join([*map(_followed, search.wanted), *begun, *(f"!{_followed(each)}" for each in search.unwanted)])


def _followed(phrase: Phrase) -> str:
    words = " <-> ".join(f"'{word}'" for word in phrase)
    return words if len(phrase) == 1 else f"({words})"
