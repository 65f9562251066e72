"""Texts from documents of any kind: cleaned, bounded and hashed; and links that are safe to follow. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from proxyd.core.model.item import LONGEST_FIELD
from proxyd.probing.documents.document_kinds import absolute

MOST_ITEMS = 10_000
LONGEST_ID = 512

_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_UNSAFE_LINK = re.compile(r"\s*(?:javascript|vbscript|data|file):", re.IGNORECASE)


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set.

    >>> sorted(words("b a"))
    ['a', 'b']
    """
    return frozenset(text.split())


def clean(text: str) -> str:
    r"""Return the text without surrogates and control characters other than tab and newline.

    >>> clean("a\x00b\r\nc")
    'ab\nc'
    """
    return _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def cap(text: str | None, longest: int = LONGEST_FIELD) -> str | None:
    """Return the text, cut if it is too long to keep."""
    return None if text is None else text[:longest]


def digest(texts: Iterable[str | None]) -> str:
    """Return a sha256 that distinguishes ``None``, ``""`` and every division of the same characters.

    >>> digest(["ab", None]) == digest(["a", "b"])
    False
    """
    parts: list[bytes] = []
    for text in texts:
        data = b"" if text is None else text.encode("utf-8", "surrogatepass")
        parts += (b"-1:" if text is None else b"%d:" % len(data), data)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def short_identity(text: str) -> str:
    """Return an identity unchanged, or its hash if it is long."""
    return text if len(text) <= LONGEST_ID else "hash:" + digest([text])


def safe_link(url: str, href: str) -> str | None:
    """Return an absolute link, or ``None`` if it must not be followed.

    >>> safe_link("https://example.org/a/", "b"), safe_link("https://example.org/", " JavaScript:alert(1)")
    ('https://example.org/a/b', None)
    """
    return None if _UNSAFE_LINK.match(href) else absolute(url, href)
