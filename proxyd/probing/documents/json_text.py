"""Reads JSON documents, with errors that give the position. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import TypeAlias

from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.probing.documents.document_kinds import is_web_page
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

    ``NaN`` and overflowing numbers (``1e999``) become null. Nesting is as deep as the interpreter allows.

    Raises
    ------
    UnreadableDocumentError
        The document is not JSON; the message names the line.
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
