"""Makes well-formed XML of a feed's bytes, so that one strict parser reads every feed. Pure.

A document that is well-formed keeps its meaning. In others, characters and references that XML forbids are removed,
and ``xml_balancing`` mends the tags. Loose parsers read such documents in another way, with other identities.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from xml.parsers import expat

from feedparser.sanitizer import replace_doctype

from proxyd.core.texts.charsets import DocumentKind, decoded
from proxyd.core.texts.xml_references import ILLEGAL, with_ampersands_escaped, with_legal_references
from proxyd.probing.documents.document_kinds import declares_entities
from proxyd.probing.documents.probe_failures import UnsafeDocumentError
from proxyd.probing.feeds.xml_balancing import balanced, with_ended_data

_CONTROLS = bytes({*range(0x20)} - {0x09, 0x0A, 0x0D})
_DECLARATION = re.compile(r"<\?xml[^>]*?>")
_SAYS_UTF8 = "<?xml version='1.0' encoding='utf-8'?>"
_CONTROLS_BUT_SHIFTS = bytes({*_CONTROLS} - {0x0E, 0x0F, 0x1B})  # ISO 2022 says with these what the next bytes are


@dataclass(frozen=True, slots=True)
class CleanXml:
    """A document in UTF-8 without what XML forbids.

    ``trouble`` says what was wrong, or is ``""``. ``is_mended`` is also true if entities of HTML were replaced, but not
    if only ampersands were escaped.
    """

    body: bytes
    trouble: str = ""
    is_mended: bool = False


def clean_xml(body: bytes, content_type: str | None) -> CleanXml:
    """Return the document in UTF-8, well-formed if its markup can be mended.

    Raises
    ------
    UnsafeDocumentError
        The document declares entities, as it was sent or cleaned.
    """
    text = _decoded(body, content_type)
    legal = ILLEGAL.sub("", text)
    cleaned = with_legal_references(legal)
    data = cleaned.encode()
    if declares_entities(text.encode("utf-8", "ignore")) or declares_entities(data):
        raise UnsafeDocumentError
    trouble = syntax_error(data)
    if trouble:
        data = balanced(with_legal_references(with_ended_data(legal))).encode()
    elif _has_illegal(body, text):
        trouble = "characters that XML forbids were left out"
    is_mended = bool(trouble) or (cleaned != text and cleaned != with_ampersands_escaped(text))
    return CleanXml(data, trouble, is_mended)


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
    return ILLEGAL.search(text) is not None or (not _is_wide(body) and len(body.translate(None, _CONTROLS)) < len(body))


def _is_wide(body: bytes) -> bool:
    """Return whether a document begins as UTF-16 and UTF-32 do."""
    return body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or body.count(b"\x00", 0, 4) > 1


def _decoded(body: bytes, content_type: str | None) -> str:
    """Return the text without bytes that are no characters, with a declaration that says UTF-8."""
    if not _is_wide(body):
        body = body.translate(None, _CONTROLS_BUT_SHIFTS).lstrip(b" \t\r\n")
    text = decoded(body, content_type, DocumentKind.XML, wrong="").lstrip()
    declaration = _DECLARATION.match(text)
    return _SAYS_UTF8 + (f"\n{text}" if declaration is None else text[declaration.end() :])
