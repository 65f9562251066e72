"""Decodes bytes to text by byte order mark, HTTP charset, then the document's own declaration. Pure."""

from __future__ import annotations

import codecs
import json
import re
from enum import Enum

GZIP = b"\x1f\x8b"

_META_BYTES = 4096
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LABEL = r"['\"]?\s*([A-Za-z0-9._:-]{1,40})"
_HEADER = re.compile(r"charset\s*=\s*" + _LABEL, re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]{0,1000}?charset\s*=\s*" + _LABEL.encode(), re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*['\"]([A-Za-z0-9._:-]{1,40})['\"]")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)

# Labels with another meaning in the WHATWG's encoding standard, which browsers follow.
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
_TEXTUAL = frozenset(
    {
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp866", "cp874", "cp932", "cp949", "cp437", "cp850"),
        *(f"cp125{number}" for number in range(9)),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *("gb18030", "big5hkscs", "euc_jp", "iso2022_jp", "hz"),
    }
)


class DocumentKind(Enum):
    """A kind of document, by where it may declare its charset."""

    HTML = "HTML"
    XML = "XML"
    JSON = "JSON"


def decoded(body: bytes, content_type: str | None, kind: DocumentKind) -> str:
    r"""Return the text of a document.

    The first of these that names a known charset and fits every byte is used: byte order mark, HTTP header, the
    document's own declaration, UTF-8. If none fits, the first named one is used, with U+FFFD for bytes that are not
    characters; if none was named, the text is read as windows-1252, as browsers do.

    >>> decoded(b"caf\xe9", "text/html; charset=iso-8859-1", DocumentKind.HTML)
    'café'
    """
    named = _named(body, content_type, kind)
    for name in [*named, "utf-8"]:
        try:
            return body.decode(name).removeprefix("\ufeff")
        except ValueError:
            continue
    return body.decode(named[0] if named else "cp1252", "replace").removeprefix("\ufeff")


def named_charset(body: bytes, content_type: str | None, kind: DocumentKind) -> str | None:
    """Return the codec that a document names first, or ``None`` if it names none that is known."""
    return next(iter(_named(body, content_type, kind)), None)


def _named(body: bytes, content_type: str | None, kind: DocumentKind) -> list[str]:
    marked = [name for mark, name in _MARKS if body.startswith(mark)]
    header = _HEADER.search(content_type or "")
    labels = [header.group(1) if header else None, _declared(body, kind)]
    return [*marked[:1], *(codec for codec in map(_codec, labels) if codec is not None)]


def _declared(body: bytes, kind: DocumentKind) -> str | None:
    """Return the charset that the document declares; zero bytes reveal JSON and unmarked UTF-16 and UTF-32."""
    if kind is DocumentKind.JSON or b"\x00" in body[:4]:
        return json.detect_encoding(body[:8])
    found = _XML.match(body)
    if found is None and kind is DocumentKind.HTML:
        found = _META.search(_COMMENT.sub(b"", body[:_META_BYTES]))
    if found is None:
        return None
    label = found.group(1).decode("ascii")
    return "utf-8" if label.lower().startswith("utf-16") else label  # a tag readable as ASCII is not UTF-16


def _codec(label: str | None) -> str | None:
    """Return the codec of a label, or ``None`` if it is not a charset, or a costly one such as punycode."""
    try:
        name = codecs.lookup(label or "").name
    except (LookupError, ValueError):
        return None
    name = _SUPERSETS.get(name, name)
    return name if name in _TEXTUAL else None
