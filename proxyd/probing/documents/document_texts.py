"""Texts from documents of any kind: cleaned, bounded and hashed; and links that are safe to follow. Pure."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import TypeAlias

from proxyd.core.model.item import LONGEST_FIELD
from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.probing.documents.document_kinds import absolute, is_web_page
from proxyd.probing.documents.probe_failures import UnreadableDocumentError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_EXACT = 2**53  # the largest integer up to which each is a float of its own
_START = re.compile(rb"[\s\x00\xef\xbb\xbf\xff\xfe]*\{[\s\x00]*[\"}]")


def looks_like_json(body: bytes) -> bool:
    r"""Return whether a document starts like a JSON object, in any encoding of Unicode.

    >>> looks_like_json(b'\xef\xbb\xbf {"version": 1}'), looks_like_json(b"<rss>")
    (True, False)
    """
    return _START.match(body[:4096]) is not None


def load_json(body: bytes, content_type: str | None = None) -> Json:
    """Return the value of a JSON document.

    ``NaN`` and overflowing numbers (``1e999``) become null. Nesting is as deep as the interpreter allows. Raises
    ``UnreadableDocumentError``: the document is not JSON; the message names the line.
    """
    text = decode(body, content_type, DocumentKind.JSON)
    try:
        return json_value(text)
    except json.JSONDecodeError as error:
        raise _not_json(body, error) from error
    except RecursionError as error:
        raise UnreadableDocumentError("the JSON document is nested too deeply") from error


def json_value(text: str, *, strict: bool = True) -> Json:
    """Return the value of a JSON text, with null for ``NaN``; raises ``JSONDecodeError`` or ``RecursionError``.

    >>> json_value('{"a": NaN}')
    {'a': None}
    """
    value: Json = json.loads(text, strict=strict, parse_constant=_no_constant, parse_float=_float, parse_int=_int)
    return value


def _not_json(body: bytes, error: json.JSONDecodeError) -> UnreadableDocumentError:
    if body.lstrip().startswith(b"<") and is_web_page(body):
        return UnreadableDocumentError("this is a web page, not JSON")
    if body.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        return UnreadableDocumentError("this is XML, not JSON")
    reason = error.msg[:1].lower() + error.msg[1:]
    return UnreadableDocumentError(
        f"the JSON document is not valid: line {error.lineno}, column {error.colno}: {reason}"
    )


def _no_constant(_name: str) -> None:
    return None


def _float(text: str) -> int | float | None:
    """Return a number; ``5.0`` is 5, because the key of a row or a text must not change with its spelling."""
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _int(text: str) -> int | float | None:
    """Return an integer; hundreds of digits are read as a float, to avoid quadratic time."""
    return int(text) if len(text) <= 300 else _float(text)


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
