"""Makes well-formed XML of a feed's bytes, so that one strict parser reads every feed. Pure.

A document that is well-formed keeps its meaning. In others, characters and references that XML forbids are removed,
and their tags are mended. Loose parsers read such documents in another way, with other identities.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from xml.parsers import expat

from feedparser.api import StrictFeedParser
from feedparser.sanitizer import replace_doctype

from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.core.texts.xml_references import ILLEGAL, with_ampersands_escaped, with_legal_references
from proxyd.probing.documents.document_kinds import declares_entities
from proxyd.probing.documents.probe_failures import UnsafeDocumentError

_CONTROLS = bytes({*range(0x20)} - {0x09, 0x0A, 0x0D})
_DECLARATION = re.compile(r"<\?xml[^>]*?>")
_SAYS_UTF8 = "<?xml version='1.0' encoding='utf-8'?>"
_CONTROLS_BUT_SHIFTS = bytes({*_CONTROLS} - {0x0E, 0x0F, 0x1B})  # ISO 2022 says with these what the next bytes are


@dataclass(frozen=True, slots=True)
class _CleanXml:
    """A document in UTF-8 without what XML forbids."""

    body: bytes
    trouble: str = ""  # what was wrong, or ""
    is_mended: bool = False  # also true if entities of HTML were replaced, but not if only ampersands were escaped


def clean_xml(body: bytes, content_type: str | None) -> _CleanXml:
    """Return the document in UTF-8, well-formed if its markup can be mended.

    Raises ``UnsafeDocumentError``: the document declares entities, as it was sent or cleaned.
    """
    text = _decode_part(body, content_type)
    legal = ILLEGAL.sub("", text)
    cleaned = with_legal_references(legal)
    data = cleaned.encode()
    if declares_entities(text.encode("utf-8", "ignore")) or declares_entities(data):
        raise UnsafeDocumentError
    trouble = syntax_error(data)
    if trouble:
        data = balance_tags(with_legal_references(_with_ended_data(legal))).encode()
    elif _has_illegal(body, text):
        trouble = "characters that XML forbids were left out"
    is_mended = bool(trouble) or (cleaned != text and cleaned != with_ampersands_escaped(text))
    return _CleanXml(data, trouble, is_mended)


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


def _decode_part(body: bytes, content_type: str | None) -> str:
    """Return the text without bytes that are no characters, with a declaration that says UTF-8."""
    if not _is_wide(body):
        body = body.translate(None, _CONTROLS_BUT_SHIFTS).lstrip(b" \t\r\n")
    text = decode(body, content_type, DocumentKind.XML, wrong="").lstrip()
    declaration = _DECLARATION.match(text)
    return _SAYS_UTF8 + (f"\n{text}" if declaration is None else text[declaration.end() :])


_TOKEN = re.compile(
    r"(?P<data><!\[CDATA\[(?P<inside>.*?)(?:\]\]>|\Z))|(?P<aside><!--.*?(?:-->|\Z)|<[?!][^<>]*>?)"
    r"|<(?P<slash>/?)(?P<name>[A-Za-z_][\w.:-]*)(?P<attributes>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+[^<>]*)(?P<end>>?)",
    re.DOTALL | re.ASCII,
)
_ATTRIBUTE = re.compile(
    r"([A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)\s*(?:=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']+)))?", re.ASCII
)
_ROOT = re.compile(r"<(?:\w+:)?(?:rss|feed|rdf)[\s>]", re.IGNORECASE | re.ASCII)
_DATA = "<![CDATA["
_ITEM_END = re.compile(r"</(?:\w+:)?(?:item|entry)\s*>", re.IGNORECASE | re.ASCII)
_ITEMS = frozenset({"item", "entry"})
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})
_DEEPEST = 200
_UNNAMED = "urn:undeclared:"
_RESERVED = frozenset({"xml", "xmlns"})
_KNOWN = {prefix.lower(): uri for uri, prefix in reversed(StrictFeedParser.namespaces.items()) if prefix} | {
    "atom": "http://www.w3.org/2005/Atom",
    "atom10": "http://www.w3.org/2005/Atom",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
}


def balance_tags(text: str) -> str:
    """Return a document whose tags are balanced, in which every prefix is declared.

    Examples
    --------
    >>> balance_tags("<rss><channel><item><title>a<br>b</item><item><title>cut")
    '<rss><channel><item><title>a<br/>b</title></item></channel></rss>'
    """
    root = _ROOT.search(text)
    writer = _Writer(starts_at=0 if root is None else root.start())
    position = 0
    while not writer.is_done and (found := _TOKEN.search(text, position)) is not None:
        writer.add_text(text[position : found.start()])
        position = found.end()
        _take(writer, found)
    if not writer.is_done:
        writer.add_text(text[position:])
    if writer.root_place is None and root is not None and root.start():  # what comes before it hides it
        return balance_tags(text[root.start() :])
    return writer.whole()


def _with_ended_data(text: str) -> str:
    """Return a document in which a CDATA section without an end ends with its item, if that was not cut off.

    >>> _with_ended_data("<item><![CDATA[a</item>")
    '<item><![CDATA[a]]></item>'
    """
    ended = text.rfind("]]>") + 3 if "]]>" in text else 0
    start = text.find(_DATA, ended)
    end = None if start < 0 else _ITEM_END.search(text, start)
    if end is None:
        return text
    return f"{text[: end.start()]}]]>{text[end.start() :].replace(_DATA, '')}"


def _take(writer: _Writer, found: re.Match[str]) -> None:
    name = found["name"]
    if found["data"] is not None:
        writer.add_data(found["inside"])
    elif name is None:
        writer.add_aside(found["aside"])
    elif not _is_tag(found) or found.start() < writer.starts_at:
        writer.add_text(found.group())
    elif found["slash"]:
        writer.end(_plain_name(name))
    else:
        writer.start(_plain_name(name), found["attributes"])


def _is_tag(found: re.Match[str]) -> bool:
    """Return whether markup is a tag: it ends with ``>``, or has attributes and another tag follows."""
    return bool(found["end"]) or ("=" in found["attributes"] and found.end() < len(found.string))


def _plain_name(name: str) -> str:
    """Return a name with at most one prefix."""
    prefix, colon, local = name.partition(":")
    local = local.replace(":", "-")
    return f"{prefix}{colon}{local}" if local and (local[0].isalpha() or local[0] == "_") else prefix


@dataclass(slots=True)
class _Open:
    name: str
    place: int  # where in the pieces it begins


@dataclass(slots=True)
class _Writer:
    """The balanced document so far; elements before ``starts_at`` do not belong to it."""

    starts_at: int
    pieces: list[str] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    opened: Counter[str] = field(default_factory=Counter)
    declared: dict[str, str] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    root_place: int | None = None
    root_declares: set[str] = field(default_factory=set)
    is_done: bool = False

    def add_text(self, text: str) -> None:
        """Add text in which only references are markup; outside the root element there is none."""
        if self.stack:
            self.pieces.append(with_legal_references(text.replace("<", "&lt;").replace("]]>", "]]&gt;")))

    def add_data(self, text: str) -> None:
        """Add a CDATA section."""
        if self.stack:
            self.pieces.append(f"<![CDATA[{text}]]>")

    def add_aside(self, text: str) -> None:
        """Add the XML declaration, or Netscape's DOCTYPE, which names a version; others and comments are left out."""
        if self.root_place is not None:
            return
        if text.startswith("<?xml ") and not self.pieces:
            self.pieces.append(text)
        elif text[:9].upper() == "<!DOCTYPE" and "netscape" in text.lower() and len(self.pieces) < 2:
            self.pieces.append("\n<!DOCTYPE netscape>\n")

    def start(self, name: str, attributes: str) -> None:
        """Open an element; an item ends the one before it."""
        key = name.lower()
        if len(self.stack) >= _DEEPEST:
            return
        if _local(key) in _ITEMS and self.opened[key]:
            self.end(name)
        place = len(self.pieces)
        if self.root_place is None:
            self.root_place = place
        is_empty = attributes.endswith("/") or key in _VOID
        self.pieces.append(f"<{name}{self._attributes(attributes, is_root=not self.stack)}{'/' * is_empty}>")
        self._use(name)
        if not is_empty:
            self.stack.append(_Open(name, place))
            self.opened[key] += 1
        elif not self.stack:
            self.is_done = True

    def end(self, name: str) -> None:
        """Close an element and those within it; an end without a start is left out."""
        key = name.lower()
        while self.opened[key]:
            last = self._close()
            if last.name.lower() == key:
                break
        self.is_done = self.root_place is not None and not self.stack

    def whole(self) -> str:
        """Return the document; an item that is still open is left out."""
        cut = next((each for each in self.stack if _local(each.name.lower()) in _ITEMS), None)
        if cut is not None:
            while self._close() is not cut:
                pass
            del self.pieces[cut.place :]
        while self.stack:
            self._close()
        if self.root_place is not None and self.root_place < len(self.pieces):
            self.pieces[self.root_place] = self._with_declarations(self.pieces[self.root_place])
        return "".join(self.pieces)

    def _close(self) -> _Open:
        last = self.stack.pop()
        self.opened[last.name.lower()] -= 1
        self.pieces.append(f"</{last.name}>")
        return last

    def _use(self, name: str) -> None:
        prefix, colon, _ = name.partition(":")
        if colon:
            self.used.setdefault(prefix)

    def _attributes(self, text: str, *, is_root: bool) -> str:
        """Return the attributes that can be read, each once."""
        found: dict[str, str] = {}
        for name, double, single, bare in _ATTRIBUTE.findall(text):
            found.setdefault(name, double or single or bare)
        written = []
        for name, value in found.items():
            prefix, _, local = name.rpartition(":")
            if name == "xmlns" or prefix == "xmlns":
                value = "".join(unescape(value).split()).replace("&", "&amp;")
            if prefix == "xmlns" and (local in _RESERVED or not value):
                continue
            if prefix == "xmlns":
                self.declared.setdefault(local, value)
                if is_root:
                    self.root_declares.add(local)
            else:
                self._use(name)
            quoted = with_legal_references(value.replace("<", "&lt;").replace('"', "&quot;"))
            written.append(f' {name}="{quoted}"')
        return "".join(written)

    def _with_declarations(self, tag: str) -> str:
        """Return the root's start tag with declarations of the prefixes that it does not declare."""
        missing = [prefix for prefix in self.used if prefix not in self.root_declares and prefix not in _RESERVED]
        uris = (self.declared.get(prefix) or _KNOWN.get(prefix.lower(), _UNNAMED + prefix) for prefix in missing)
        declarations = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in zip(missing, uris, strict=True))
        end = "/>" if tag.endswith("/>") else ">"
        return tag.removesuffix(end) + declarations + end


def _local(name: str) -> str:
    return name.rpartition(":")[2]
