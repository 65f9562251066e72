"""The one decoder of documents: labels of charsets as browsers have them (WHATWG), and bytes to text. Pure."""

from __future__ import annotations

import codecs
import json
import re
from enum import Enum

from webencodings.labels import LABELS

_META_BYTES = 4096
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LABEL = r"['\"]?\s*([A-Za-z0-9._:-]{1,40})"
_HEADER = re.compile(r"charset\s*=\s*" + _LABEL, re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]{0,1000}?charset\s*=\s*" + _LABEL.encode(), re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*['\"]([A-Za-z0-9._:-]{1,40})['\"]")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_CODE_PAGE = re.compile(r"(?:x|cp|xcp|ms|win|windows|xwindows|ibm|dos)(\d{3,5})")

_CODECS = {  # Python's codecs of the names of the standard, where they differ
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "ibm866": "cp866",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
}
_UNREADABLE = frozenset({"replacement", "x-user-defined"})
_OTHERS = {  # what browsers do not read, without its punctuation
    **{name: name for name in ("cp437", "cp850", "utf32", "utf32le", "utf32be")},
    "ibm437": "cp437",
    "ibm850": "cp850",
    "hz": "hz",
    "hzgb2312": "hz",
    "iso2022kr": "iso2022_kr",
    "utf8mb4": "utf-8",
    "utf8sig": "utf-8",
    "cp65001": "utf-8",
    "latin9": "iso-8859-15",
}
_PAGES = {"932": "cp932", "936": "gb18030", "949": "cp949", "950": "big5hkscs", "866": "cp866"}
_BARE_LABELS = {_PUNCTUATION.sub("", label): name for label, name in LABELS.items()}

_WRONG = "\udfff"  # stands for bytes that are no character: no codec makes one
_CUT_OFF = frozenset({"unexpected end of data", "truncated data", "incomplete multibyte sequence"})
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_ASSIGNED_SINCE = str.maketrans(  # characters of GB 18030 that Python still reads as private ones
    "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
    "\u3000\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19\u1e3f\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb",
)
_MOST_WRONG = {"utf-8": 1.0}  # share of the characters beyond ASCII, above which another charset was sent
_MOST_WRONG_ELSE = 0.1


class DocumentKind(Enum):
    """A kind of document, by where it may declare its charset."""

    HTML = "HTML"
    XML = "XML"
    JSON = "JSON"


def decode(body: bytes, content_type: str | None, kind: DocumentKind, *, wrong: str = "\ufffd") -> str:
    r"""Return the text of a document, with ``wrong`` for bytes that are no characters.

    The first of these that fits is used: the byte order mark; UTF-8, if there is text beyond ASCII, because no other
    text looks like it; the charset of the HTTP header; the document's own; UTF-8. A few wrong bytes do not make
    another charset of a document. If nothing fits, a false UTF-8 is windows-1252, as if nothing was declared.

    >>> decode(b"caf\xe9", "text/html; charset=iso-8859-1", DocumentKind.HTML)
    'café'
    >>> decode(b"caf\xc3\xa9", "text/html; charset=iso-8859-1", DocumentKind.HTML)
    'café'
    """
    texts = dict.fromkeys((*_candidates(body, content_type, kind), "utf-8"), "")
    for name in texts:
        texts[name] = text = _read(body, name)
        if _fits(text, body):
            return _without_mark(text)
    likely = (text for name, text in texts.items() if _is_likely(text, name))
    first = next(iter(texts))
    text = next(likely, None) or (_read(body, "cp1252") if first == "utf-8" else texts[first])
    return _without_mark(text.replace(_WRONG, wrong))


def _candidates(body: bytes, content_type: str | None, kind: DocumentKind) -> list[str]:
    """Return the codecs that a document may be in, the likeliest first."""
    marked = [name for mark, name in _MARKS if body.startswith(mark)][:1]
    header = _HEADER.search(content_type or "")
    labels = [header.group(1) if header else None, _declaration_of(body, kind)]
    named = [codec for codec in (_codec(label) for label in labels if label) if codec is not None]
    is_utf8 = not body.isascii() and b"\x00" not in body[:4] and _fits(_read(body, "utf-8"), body)
    return [*marked, *["utf-8"] * is_utf8, *(_by_zeros(name, body) for name in named)]


def _declaration_of(body: bytes, kind: DocumentKind) -> str | None:
    """Return the charset that the document declares; zero bytes reveal JSON and unmarked UTF-16 and UTF-32."""
    if kind is DocumentKind.JSON or b"\x00" in body[:4]:
        return json.detect_encoding(body[:8])
    found = _XML.match(body)
    if found is None and kind is DocumentKind.HTML:
        found = _META.search(_COMMENT.sub(b"", body[:_META_BYTES]))
    return None if found is None else found.group(1).decode("ascii")


def _by_zeros(name: str, body: bytes) -> str:
    """Return the codec itself, or for UTF-16 and UTF-32 what the zero bytes say: text without any is UTF-8."""
    if not name.startswith(("utf-16", "utf-32", "utf16", "utf32")):
        return name
    return json.detect_encoding(body[:8]) if b"\x00" in body[:4] else "utf-8"


def _codec(label: str) -> str | None:
    """Return the codec of a label, or ``None`` if it is no charset, or one that nobody should read.

    >>> _codec("ISO-8859-1"), _codec("x-sjis"), _codec("cp-1251"), _codec("punycode")
    ('windows-1252', 'cp932', 'windows-1251', None)
    """
    bare = _PUNCTUATION.sub("", label.lower())
    name = _OTHERS.get(bare) or LABELS.get(label.lower()) or _BARE_LABELS.get(bare)
    page = _CODE_PAGE.fullmatch(bare)
    if name is None and page is not None:
        name = _PAGES.get(page[1]) or LABELS.get(f"windows-{page[1]}")
    return None if name is None or name in _UNREADABLE else _CODECS.get(name, name)


def _read(body: bytes, name: str) -> str:
    """Return the text of bytes, with marks for what is no character; a character that is cut off at the end is lost."""
    text = body.decode(name, "as-browsers")
    return text.translate(_ASSIGNED_SINCE) if name == "gb18030" else text


def _without_mark(text: str) -> str:
    return text.removeprefix("\ufeff")


def _fits(text: str, body: bytes) -> bool:
    """Return whether bytes are a text; one that ends within its only character beyond ASCII is of another charset."""
    return _WRONG not in text and (body.isascii() or not text.isascii())


def _is_likely(text: str, name: str) -> bool:
    """Return whether a text has few wrong bytes, compared with its characters beyond ASCII."""
    wrong = text.count(_WRONG)
    beyond = sum(not char.isascii() for char in text) - wrong
    return wrong < _MOST_WRONG.get(name, _MOST_WRONG_ELSE) * beyond


def _as_browsers(error: UnicodeError) -> tuple[str, int]:
    """Return what browsers read where Python's codecs fail, and where to go on."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if error.reason in _CUT_OFF and error.end == len(data):
        return "", error.end
    if error.encoding == "utf-8":
        return _of_surrogates(data, start) or (_WRONG, error.end)
    if data[start : start + 2] == b"\xa3\xe1" and error.encoding == "big5hkscs":
        return "\u20ac", start + 2
    if error.encoding == "euc_jp" and (char := _japanese(data[start : start + 2])):
        return char, start + 2
    if error.encoding.startswith("iso2022_jp"):
        return _japanese(bytes(byte | 0x80 for byte in data[start : error.end])) or _WRONG, error.end
    return _single(data[start], error.encoding), error.end


def _single(byte: int, encoding: str) -> str:
    """Return the euro sign of GBK, and control characters where a windows charset has nothing."""
    if encoding == "gb18030" and byte == 0x80:
        return "\u20ac"
    return chr(byte) if encoding == "charmap" and 0x80 <= byte < 0xA0 else _WRONG


def _japanese(pair: bytes) -> str:
    """Return a character of the rows that vendors added to JIS X 0208, such as ①, from its bytes in EUC-JP."""
    if len(pair) < 2 or min(pair) < 0xA1 or max(pair) > 0xFE:
        return ""
    row, cell = pair[0] - 0xA1, pair[1] - 0xA1
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    trail = cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 63)
    return bytes((lead, trail)).decode("cp932", "ignore")


def _of_surrogates(data: bytes, start: int) -> tuple[str, int] | None:
    """Return the character that UTF-8 of two surrogates is meant to be; a single surrogate is nothing."""
    if _SURROGATE.match(data, start) is None:
        return None
    end = start + (6 if _SURROGATE.match(data, start + 3) else 3)
    units = data[start:end].decode("utf-8", "surrogatepass")
    char = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return char, end if char or end == start + 3 else start + 3


codecs.register_error("as-browsers", _as_browsers)
