"""Verbs that bring sources in from other programs and take them out again: OPML, and lists of addresses."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from proxyd import app
from proxyd.config import load
from proxyd.daemon import read_directory
from proxyd.errors import ConfigError, ProfileError
from proxyd.language import SourceText, check, format_parsed, parse
from proxyd.language.quoting import quote_name, quote_text
from proxyd.probing.documents import declares_entities

_RULE = """CREATE PROFILE {domain} AS (DOMAIN {domain}, USER "me");
INSERT NOTIFICATION {rule} INTO {domain} SET QUERY "SELECT {selected} FROM {name}"
SET TRIGGER "ON {event} TO {name}" START NOW END NEVER SET UTILITY STRICT;
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """How imported sources are read, and what one rule says of them all."""

    name: str
    fields: str
    event: str
    selected: str
    told: str


_FEEDS = Kind(
    "FEED",
    "(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp)",
    "INSERT",
    "title, link",
    "new items",
)
_PAGES = Kind("PAGE", "", "UPDATE", "DIFF(OLD.text, NEW.text) AS difference", "changes")


@dataclass(frozen=True, slots=True)
class Listed:
    """A feed as another program lists it."""

    title: str
    url: str


def import_feeds(options: argparse.Namespace) -> int:
    """Print, or write, a profile with the feeds, or pages, of an OPML file or of a list of addresses."""
    listed = _read(options.file)
    text = _profile(listed, options.name, _PAGES if options.pages else _FEEDS)
    checked = check(
        [SourceText(str(options.out or "imported.profile"), text)], app.check_settings(load(options.config))
    )
    if checked.errors:
        raise ProfileError(checked.errors)
    if options.out is None:
        print(text, end="")
        return 0
    try:
        with options.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError([f"{options.out} is there already; choose another --out"]) from None
    except OSError as error:
        raise ConfigError([f"{options.out} cannot be written ({error.strerror})"]) from error
    print(f"{len(listed)} sources in {options.out}; `proxyd check {options.out.parent}` checks them with the others")
    return 0


def export(options: argparse.Namespace) -> int:
    """Print the sources of the profiles as OPML."""
    settings = load(options.config)
    checked = check(read_directory(settings.profiles), app.check_settings(settings))
    if checked.declaration is None:
        raise ProfileError(checked.errors)
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = "proxyd sources"
    body = ElementTree.SubElement(root, "body")
    for source in checked.declaration.sources.values():
        ElementTree.SubElement(body, "outline", type="rss", text=source.source_id, xmlUrl=source.url)
    ElementTree.indent(root)
    print('<?xml version="1.0" encoding="UTF-8"?>')
    print(ElementTree.tostring(root, encoding="unicode"))
    return 0


def _read(path: Path) -> list[Listed]:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path} cannot be read ({error.strerror})"]) from error
    found = _opml(body, path) if body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else _lines(body, path)
    by_url = {listed.url: listed for listed in reversed(found)}
    unique = list(reversed(by_url.values()))
    if not unique:
        raise ConfigError([f"{path} lists no feed; it needs <outline xmlUrl='...'>, or an address on each line"])
    return unique


def _opml(body: bytes, path: Path) -> list[Listed]:
    if declares_entities(body, None):
        raise ConfigError([f"{path} declares entities, which is not safe to read; remove its DOCTYPE"])
    try:
        root = ElementTree.fromstring(body)  # without entities it cannot grow
    except ElementTree.ParseError as error:
        raise ConfigError([f"{path}:{error.position[0]}: not well-formed XML"]) from error
    outlines = ({name.lower(): value for name, value in e.attrib.items()} for e in root.iter("outline"))
    feeds = (outline for outline in outlines if outline.get("xmlurl", "").strip())
    return [Listed(o.get("title") or o.get("text") or "", _address(o["xmlurl"], str(path))) for o in feeds]


def _lines(body: bytes, path: Path) -> list[Listed]:
    lines = body.decode("utf-8-sig", "replace").splitlines()
    return [
        Listed("", _address(line, f"{path}:{number}"))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _address(text: str, where: str) -> str:
    """Return an address; feed: is what some programs write for http:."""
    url = text.strip()
    url = f"http{url[4:]}" if url.startswith("feed://") else url.removeprefix("feed:")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise ConfigError([f"{where}: {text.strip()[:80]!r} is no http or https address"])
    return url


def _profile(listed: Iterable[Listed], name: str, kind: Kind) -> str:
    """Return a profile in canonical layout: the sources, and a rule that fires with every item, or change."""
    domain = quote_name(name)
    statements = [f"CREATE DOMAIN {domain} AS CLASS::{kind.name}{kind.fields};\n"]
    taken: set[str] = set()
    for each in listed:
        source = _name(each, taken)
        statements.append(f"CREATE SOURCE {quote_name(source)} OF {domain}.{kind.name} AT {quote_text(each.url)};\n")
    rule = quote_name(f"{name}: {kind.told}")
    statements.append(_RULE.format(domain=domain, rule=rule, selected=kind.selected, name=kind.name, event=kind.event))
    return format_parsed(parse("".join(statements), "imported.profile"))


def _name(feed: Listed, taken: set[str]) -> str:
    """Return a name of its own for a source: from its title, else its host."""
    wanted = re.sub(r"[^\w]+", "-", (feed.title or urlsplit(feed.url).hostname or "").lower()).strip("-")[:60]
    name, number = wanted or "source", 2
    while name in taken:
        name, number = f"{wanted or 'source'}-{number}", number + 1
    taken.add(name)
    return name
