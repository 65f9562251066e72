"""Makes well-formed XML of a feed's bytes, so that one strict parser reads every feed. Pure.

A document that is well-formed keeps its meaning. In others, characters and references that XML forbids are removed,
and ``xml_balancing`` mends the tags. Loose parsers read such documents in another way, with other identities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.parsers import expat

import feedparser.encodings
from feedparser.sanitizer import replace_doctype

from proxyd.probing.charsets import DocumentKind, named_charset
from proxyd.probing.document_kinds import declares_entities, xml_content_type
from proxyd.probing.feeds.xml_balancing import balanced, with_ended_data
from proxyd.probing.feeds.xml_references import with_legal_references
from proxyd.probing.probe_failures import UnsafeDocumentError

# feedparser guesses with chardet if that is installed; results must not depend on it.
feedparser.encodings.lazy_chardet_encoding = None

_CONTROLS = bytes({*range(0x20)} - {0x09, 0x0A, 0x0D})
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CUT_OFF = frozenset({"unexpected end of data", "truncated data", "incomplete multibyte sequence"})


@dataclass(frozen=True, slots=True)
class CleanXml:
    """A document in UTF-8 without what XML forbids.

    ``trouble`` says what was wrong with it, or is ``""``; ``is_mended`` also counts defects that matter to nobody.
    """

    body: bytes
    trouble: str = ""
    is_mended: bool = False


def clean_xml(body: bytes, content_type: str | None) -> CleanXml:
    """Return the document in UTF-8, well-formed if its markup can be mended.

    Raises
    ------
    UnsafeDocumentError
        The cleaned document declares entities.
    ValueError, LookupError, AssertionError
        Its charset cannot be named.
    """
    text = _decoded(body, content_type)
    legal = _ILLEGAL.sub("", text)
    cleaned = with_legal_references(legal)
    data = cleaned.encode()
    if declares_entities(data):
        raise UnsafeDocumentError
    trouble = syntax_error(data)
    if trouble:
        data = balanced(with_legal_references(with_ended_data(legal))).encode()
    elif _has_illegal(body, text):
        trouble = "characters that XML forbids were left out"
    return CleanXml(data, trouble, bool(trouble) or cleaned != text)


def syntax_error(data: bytes) -> str:
    """Return why a document in UTF-8 is not well-formed, or ``""``; its DOCTYPE is ignored.

    >>> syntax_error(b"<a><b></a>")
    'SAXParseException: <unknown>:1:8: mismatched tag'
    """
    parser = expat.ParserCreate("utf-8", " ")
    blanks: list[str] = []
    parser.StartNamespaceDeclHandler = lambda _, uri: blanks.extend((uri or "").split()[1:])
    try:
        parser.Parse(replace_doctype(data)[1], True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        return f"SAXParseException: <unknown>:{error.lineno}:{error.offset}: {reason}"
    return "SAXParseException: a namespace with blanks" if blanks else ""


def _has_illegal(body: bytes, text: str) -> bool:
    is_ascii_like = b"\x00" not in body[:4]
    return _ILLEGAL.search(text) is not None or (is_ascii_like and len(body.translate(None, _CONTROLS)) < len(body))


def _decoded(body: bytes, content_type: str | None) -> str:
    """Return the text as feedparser decodes it, with a declaration that says UTF-8."""
    body = body if b"\x00" in body[:4] else body.lstrip(b" \t\r\n")
    body = _decodable(body, content_type)
    data: bytes = feedparser.encodings.convert_to_utf8({"content-type": xml_content_type(body, content_type)}, body, {})
    return data.decode("utf-8", "replace")


def _decodable(body: bytes, content_type: str | None) -> bytes:
    """Return the bytes without those at which its charset fails, if they are few; others may be of another charset."""
    charset = named_charset(body, content_type, DocumentKind.XML) or "utf-8"
    is_utf8 = charset in {"utf-8", "utf-8-sig"}
    if is_utf8:
        body = body.translate(None, _CONTROLS)
    try:
        body.decode(charset)
    except UnicodeDecodeError as error:
        if error.reason in _CUT_OFF:
            return body[: error.start]
        return _utf8(body) if is_utf8 else body
    return body


def _utf8(body: bytes) -> bytes:
    """Return UTF-8 without invalid bytes if most of what is not ASCII is valid; surrogate pairs become characters."""
    try:
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "ignore")
        wrong = body.decode("utf-8", "replace").count("\ufffd") - text.count("\ufffd")
        return text.encode() if sum(not char.isascii() for char in text) > wrong else body
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore").encode()
