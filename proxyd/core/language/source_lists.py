"""Converts other programs' lists of feeds (OPML, or one address per line) to the language, and sources to OPML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit
from xml.etree import ElementTree

from lxml import etree

from proxyd.core.language.printing.printer import format_parsed
from proxyd.core.language.printing.quoting import quote_name, quote_text
from proxyd.core.language.reading.parser import MAX_SENT_BYTES, parse
from proxyd.errors import ListingError

_RULE = """CREATE PROFILE {domain} AS (DOMAIN {domain}, USER "me");
INSERT NOTIFICATION {rule} INTO {domain} SET QUERY "SELECT {selected} FROM {name}"
SET TRIGGER "ON {event} TO {name}" START NOW END NEVER SET UTILITY STRICT;
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How listed sources are read, and what one rule reports of them all."""

    name: str
    fields: str
    event: str
    selected: str
    told: str

    def preamble(self, listing: str) -> str:
        """Return the statements other than the sources, in canonical layout."""
        domain, rule = quote_name(listing), quote_name(f"{listing}: {self.told}")
        told = _RULE.format(domain=domain, rule=rule, selected=self.selected, name=self.name, event=self.event)
        parsed = parse(f"CREATE DOMAIN {domain} AS CLASS::{self.name}{self.fields};\n{told}")
        if parsed.errors:
            raise ListingError(f"{listing!r} is not a valid name for a list")
        return format_parsed(parsed)


NOTHING_DECLARED: Mapping[str, str | None] = MappingProxyType({})
_MOST_LISTED = 100_000
_MOST_SHOWN = 20  # invalid addresses that an error shows
_FEEDS = _Kind(
    "FEED",
    "(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp)",
    "INSERT",
    "title, link",
    "new items",
)
_PAGES = _Kind("PAGE", "", "UPDATE", "DIFF(OLD.text, NEW.text) AS difference", "changes")


@dataclass(frozen=True, slots=True)
class Listed:
    """A feed in another program's list."""

    title: str
    url: str


def read_listing(body: bytes, where: str) -> list[Listed]:
    r"""Return the feeds of a list, each address once; errors begin with ``where``.

    Raises
    ------
    ListingError
        The list is not well-formed, has a DOCTYPE, contains an address that is not http or https, or is empty.

    Examples
    --------
    >>> read_listing(b"# mine\nfeed:https://example.org/a\n", "list.txt")
    [Listed(title='', url='https://example.org/a')]
    """
    found = _opml(body, where) if body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else _lines(body, where)
    unique = {listed.url: listed for listed in reversed(found)}
    if len(unique) > _MOST_LISTED:
        raise ListingError(f"{where} lists more than {_MOST_LISTED} addresses; import it in parts")
    if not unique:
        raise ListingError(f"{where} lists no feed; it needs <outline xmlUrl='...'>, or an address on each line")
    return list(reversed(unique.values()))


def listing_texts(
    listed: Iterable[Listed], name: str, *, pages: bool = False, declared: Mapping[str, str | None] = NOTHING_DECLARED
) -> list[str]:
    """Return texts that declare feeds and a rule that fires on every item; each keeps to the limit on a text's length.

    With ``pages`` they are read as whole pages, and the rule reports changes. ``declared`` holds the names that are
    taken; those from an earlier list of this name come with their addresses and are kept.

    >>> [text.count("CREATE SOURCE") for text in listing_texts([Listed("A", "http://a.example/")] * 2000, "Mine")]
    [1052, 948]
    """
    kind = _PAGES if pages else _FEEDS
    preamble, of = kind.preamble(name), f"{quote_name(name)}.{kind.name}"
    texts, size, names = [[preamble]], len(preamble.encode()), _Names(declared)
    for feed in listed:
        statement = f"\nCREATE SOURCE {quote_name(names.of(feed))} OF {of} AT {quote_text(feed.url)};\n"
        size += len(statement.encode())
        if size > MAX_SENT_BYTES:
            texts.append([])
            size = len(statement.encode())
        texts[-1].append(statement)
    return ["".join(text).lstrip() for text in texts]


def opml(sources: Mapping[str, str]) -> str:
    """Return addresses by name as OPML, in ASCII; names contain only characters that XML allows.

    >>> print(opml({"a": "http://a.example/?b&c"}))
    <?xml version="1.0" encoding="UTF-8"?>
    <opml version="2.0">
      <head>
        <title>proxyd sources</title>
      </head>
      <body>
        <outline type="rss" text="a" xmlUrl="http://a.example/?b&amp;c" />
      </body>
    </opml>
    """
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = "proxyd sources"
    body = ElementTree.SubElement(root, "body")
    for name, url in sources.items():
        ElementTree.SubElement(body, "outline", type="rss", text=name, xmlUrl=url)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="us-ascii").decode()}'


def _opml(body: bytes, where: str) -> list[Listed]:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        raise ListingError(f"{where}:{error.lineno}: not well-formed XML") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise ListingError(f"{where} has a DOCTYPE, which is not safe to read; remove it")
    outlines = ((each.sourceline, {k.lower(): str(v) for k, v in each.attrib.items()}) for each in root.iter("outline"))
    feeds = ((line, outline) for line, outline in outlines if outline.get("xmlurl", "").strip())
    return _checked(((line or 0, o.get("title") or o.get("text") or "", o["xmlurl"]) for line, o in feeds), where)


def _lines(body: bytes, where: str) -> list[Listed]:
    lines = body.decode("utf-8-sig", "replace").splitlines()
    named = ((number, "", line) for number, line in enumerate(lines, 1))
    return _checked((each for each in named if each[2].strip() and not each[2].lstrip().startswith("#")), where)


def _checked(found: Iterable[tuple[int, str, str]], where: str) -> list[Listed]:
    """Return the feeds of lines with titles and addresses; the error names every line without a valid address."""
    listed: list[Listed] = []
    wrong: list[str] = []
    for line, title, text in found:
        if (url := _address(text)) is None:
            wrong.append(f"{where}:{line}: {text.strip()[:80]!r} is not an http or https address; correct or remove it")
        else:
            listed.append(Listed(title, url))
    if wrong:
        more = [f"{where}: and {len(wrong) - _MOST_SHOWN} more"] if len(wrong) > _MOST_SHOWN else []
        raise ListingError("\n".join(wrong[:_MOST_SHOWN] + more))
    return listed


def _address(text: str) -> str | None:
    """Return an address, or ``None`` if it is invalid; some programs write feed: for http:."""
    url = text.strip()
    url = f"http{url[4:]}" if url.startswith("feed://") else url.removeprefix("feed:")
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in {"http", "https"} and parts.hostname else None


class _Names:
    """Gives each source a unique name: from its title, otherwise from its host."""

    def __init__(self, declared: Mapping[str, str | None]) -> None:
        self._taken = {name for name, url in declared.items() if url is None}
        self._known = {url: name for name, url in declared.items() if url is not None}
        self._taken |= set(self._known.values())
        self._numbers: dict[str, int] = {}

    def of(self, feed: Listed) -> str:
        """Return the name of a feed; a known feed keeps its name."""
        if (known := self._known.get(feed.url)) is not None:
            return known
        told = (feed.title or urlsplit(feed.url).hostname or "").lower()
        wanted = re.sub(r"[^\w]+", "-", told).strip("-")[:60] or "source"
        name = wanted
        while name in self._taken:
            number = self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            name = f"{wanted}-{number}"
        self._taken.add(name)
        return name
