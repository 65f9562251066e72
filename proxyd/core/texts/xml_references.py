"""Replaces illegal references to characters and entities, and escapes bare ampersands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import name2codepoint

ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not have."""

_REFERENCES = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)"
    r"|(?:&#(?:[xX][0-9a-fA-F]+|[0-9]+);)+|&(?:([A-Za-z][A-Za-z0-9]{0,31});|(?!#(?:[xX][0-9a-fA-F]+|[0-9]+);))",
    re.DOTALL,
)
_NUMBER = re.compile(r"&#([^;]+);")
_XML_NAMES = frozenset({"lt", "gt", "amp", "quot", "apos"})
_MOST_DIGITS = 12


def with_legal_references(text: str) -> str:
    """Return a document in which every reference is legal in XML; CDATA sections and comments stay as they are.

    Entities of HTML become references to characters, two references to surrogates become one, bare ampersands are
    escaped, and references to anything but a character of XML are left out.

    >>> with_legal_references("AT&T &eacute; &#55357;&#56832; &#0;&lt;")
    'AT&amp;T &#233; &#128512; &lt;'
    """
    return _REFERENCES.sub(_legal, text) if "&" in text else text


def with_ampersands_escaped(text: str) -> str:
    """Return a document in which ampersands that begin no reference are escaped, and nothing else is changed."""
    return _REFERENCES.sub(lambda found: "&amp;" if found.group() == "&" else found.group(), text)


def _legal(found: re.Match[str]) -> str:
    """Return legal XML for a CDATA section or comment, for references to characters, an entity, or an ampersand."""
    text = found.group()
    if text.startswith("<"):
        return text
    if text.startswith("&#"):
        return _characters(text)
    name = found.group(1)
    if name in _XML_NAMES:
        return text
    code = name2codepoint.get(name or "")
    return "&amp;" + text[1:] if code is None else f"&#{code};"


def _characters(references: str) -> str:
    """Return a run of references to characters without those to none; two surrogates are one character."""
    written = _NUMBER.findall(references)
    codes = [_code(number) for number in written]
    if all(map(_is_legal, codes)) and "X" not in references:
        return references
    return "".join(f"&#{code};" for code in _pair_references(codes) if _is_legal(code))


def _code(number: str) -> int:
    digits = number.lstrip("xX0")
    if len(digits) > _MOST_DIGITS:
        return -1
    return int(digits or "0", 16 if number[0] in "xX" else 10)


def _is_legal(code: int) -> bool:
    return code in {9, 10, 13} or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000


def _pair_references(codes: list[int]) -> Iterator[int]:
    high = 0
    for code in codes:
        if high and 0xDC00 <= code < 0xE000:
            yield 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
            high = 0
        else:
            high = code if 0xD800 <= code < 0xDC00 else 0
            yield code
