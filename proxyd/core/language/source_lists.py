"""Converts other programs' lists of feeds (OPML, or one address per line) to the language, and sources to OPML."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from itertools import groupby
from typing import TypeAlias
from urllib.parse import urlsplit
from xml.etree import ElementTree

from lxml import etree

from proxyd.core.errors import ListingError, RuleCheckError
from proxyd.core.language.checking.classes import BUILT_IN
from proxyd.core.language.checking.watches import DEFAULT_PROFILE, expand
from proxyd.core.language.syntax.nodes import CreateSource, Located, Parsed, SourceText, Statement, Watch
from proxyd.core.language.syntax.parser import MAX_SENT_BYTES, parse
from proxyd.core.language.syntax.quoting import format_contains, quote_name, quote_text
from proxyd.core.language.syntax.statement_syntax import format_parsed
from proxyd.core.language.syntax.value_checks import (
    WITHOUT_USER,
    address_problem,
    meant_address,
    plain_address,
    without_user,
)
from proxyd.core.language.watch_wishes import WatchOptions, WatchWish, delivery_text, watch_text
from proxyd.core.model.profile import Declaration, plain_name
from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.core.texts.safe_text import for_xml, one_line
from proxyd.core.texts.xml_references import ILLEGAL, with_legal_references


@dataclass(frozen=True, slots=True)
class WrittenAddress:
    """The address of a source where a text declares it; ``watch`` is the WATCH that does, unless CREATE SOURCE does."""

    source_id: str
    text: SourceText
    url: Located[str]
    watch: Watch | None = None

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self._fault("").line

    def remedy(self, url: str) -> str:
        """Return what to write so that the source is declared at another address."""
        if self.watch is None:
            return f"write AT {quote_text(url)}"
        renamed = replace(self.watch, url=Located(url)).address.value != self.watch.address.value
        return f"write WATCH {quote_text(url)}{_ANOTHER if renamed else ''}"

    def warning(self, url: str) -> RuleCheckError:
        """Return the warning that the source is read at another address than the one written here."""
        moved = f"the source {self.source_id!r} has moved and is read at its new address"
        return self._fault(f"{moved}: {self.remedy(url)}")

    def _fault(self, message: str) -> RuleCheckError:
        span, text = self.url.span, self.text
        return RuleCheckError(message, text=text.text, start=span.start, stop=span.stop, file=text.file)


_ANOTHER = " (a new source, named after its address: what is known of this one is not kept)"


def lines_of(addresses: Iterable[WrittenAddress]) -> dict[str, int]:
    """Return the line of each address, from 1, by source; each text is counted once, however many it has."""
    found: dict[str, int] = {}
    in_order = sorted(addresses, key=lambda each: (each.text.file, each.url.span.start))
    for _, its in groupby(in_order, key=lambda each: each.text.file):
        line, counted = 1, 0
        for each in its:
            line += each.text.text.count("\n", counted, each.url.span.start)
            counted = each.url.span.start
            found[each.source_id] = line
    return found


def written_addresses(texts: Sequence[Parsed]) -> dict[str, WrittenAddress]:
    """Return where the texts of one declaration write the address of each source, by name."""
    pairs = zip(texts, expand(texts), strict=True)
    found = (written_address(text, e) for text, its in pairs for e in its.statements if isinstance(e, CreateSource))
    return {each.source_id: each for each in found}


def written_address(text: Parsed, declared: CreateSource) -> WrittenAddress:
    """Return where a text writes the address of a source, which it declares or for which its WATCH stands."""
    return WrittenAddress(declared.name.value, text.source, declared.url, watch_of(text, declared))


def watch_of(text: Parsed, expanded: Statement) -> Watch | None:
    """Return the WATCH of a text that stands for a statement, or ``None`` if that is written itself."""
    written = written_as(text, expanded)
    return written if isinstance(written, Watch) else None


def written_as(text: Parsed, expanded: Statement) -> Statement:
    """Return the statement of a text that declares something: itself, or the WATCH or the list that stands for it."""
    statements, start = text.statements, expanded.span.start
    at = bisect_left(statements, start, key=lambda each: each.span.start)
    written = statements[at] if at < len(statements) else None
    return written if written is not None and written.span == expanded.span else expanded


_Found: TypeAlias = tuple[int, str, str, str]
"""The line, title, address and folder of a feed, as written."""

_RULE = """CREATE PROFILE {domain} AS (DOMAIN {domain}, USER "me");
INSERT NOTIFICATION {rule} INTO {domain} SET QUERY "SELECT {selected} FROM {name}"
SET TRIGGER {trigger} START NOW END NEVER SET UTILITY STRICT{deliveries};
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How listed sources are read, and what one rule reports of them all."""

    # The class that an import declares, which hides no built-in one, and the one that imports declared before
    name: str
    older: str
    fields: str
    event: str
    selected: str
    told: str
    field: str  # what is searched for a word

    def rule(self, listing: str) -> str:
        """Return the name of the rule of a list."""
        return f"{listing}: {self.told}"

    def preamble(self, listing: str, match: str | None, to: tuple[str, ...], secret: str | None) -> str:
        """Return the statements other than the sources, in canonical layout."""
        if not listing.strip() or not listing.isprintable():
            raise ListingError(f"{listing!r} is not a valid name for a list")
        layout = _layout(self, match, to, secret).replace(
            quote_name(self.rule(_SOME_NAME)), quote_name(self.rule(listing))
        )
        return layout.replace(quote_name(_SOME_NAME), quote_name(listing))


_SOME_NAME = "a name of no list"
_IMPORT_PAGES = "import the list once more, with --pages, to hear of its changes"
_MOST_LISTED = 100_000
_MOST_FOLDERS = 2_000  # each of which becomes a domain, a profile and a rule
_OUTLINES = ("{*}outline", "{*}OUTLINE", "{*}Outline")  # of any namespace, as attributes are of any case
_MOST_ATTRIBUTES = 1_000  # the library takes a time that grows with their square
_MOST_SHOWN = 20  # invalid addresses that are named
_LONGEST_FOLDER, _LONGEST_NAME = 100, 100
_WITHIN = " / "  # between a folder and one within it
_HEAD = re.compile(r"\A[\s\ufeff]*(<\?xml[^>]*\?>)?")  # a list that was edited may have several byte order marks
_TAKEN = frozenset({BUILT_IN.name, DEFAULT_PROFILE})
_FEEDS = _Kind(
    "ARTICLE",
    "FEED",
    "(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp)",
    "INSERT",
    "title, link",
    "new items",
    "title",
)
_PAGES = _Kind("WEBPAGE", "PAGE", "", "UPDATE", "DIFF(OLD.text, NEW.text) AS difference", "changes", "text")


@dataclass(frozen=True, slots=True)
class Listed:
    """A feed in another program's list; ``folder`` is empty, or a path such as ``News / Sport``."""

    title: str
    url: str
    folder: str = ""


@dataclass(frozen=True, slots=True)
class SourceList:
    """The feeds of a list, each address once, and what is wrong with the addresses that cannot be read."""

    feeds: tuple[Listed, ...]
    unreadable: tuple[str, ...] = ()
    repeated: int = 0  # addresses that were listed before


@dataclass(frozen=True, slots=True)
class Merged:
    """The statements that a list adds to a declaration, in order; ``known`` addresses are declared already."""

    statements: tuple[str, ...]
    new: int
    known: int

    def texts(self, most_bytes: int = MAX_SENT_BYTES) -> list[str]:
        """Return the statements as texts that keep to a limit."""
        texts, size = [""], 0
        for statement in self.statements:
            size += len(statement.encode())
            if size > most_bytes:
                texts.append("")
                size = len(statement.encode())
            texts[-1] += statement
        return texts


def read_listing(body: bytes, where: str, *, pages: bool = False) -> SourceList:
    r"""Return the feeds of a list; errors begin with ``where``. With ``pages`` also its links, as ``opml`` writes them.

    Raises
    ------
    ListingError
        The list is not well-formed, has a DOCTYPE, or holds no address that is http or https.

    Examples
    --------
    >>> read_listing(b"# mine\nfeed:https://example.org/a\n", "list.txt").feeds
    (Listed(title='', url='https://example.org/a', folder=''),)
    """
    text = decode(body, None, DocumentKind.XML)
    wrong: list[str] = []
    markup = _HEAD.sub(lambda head: "\n" * head[0].count("\n"), text, count=1)  # faults name lines
    found = _opml(markup, where, wrong, pages=pages) if markup.lstrip("\n").startswith("<") else _lines(text)
    return read_listed(found, where, wrong)


def read_listed(found: Iterable[tuple[int, str, str, str]], where: str, wrong: Sequence[str] = ()) -> SourceList:
    """Return the feeds that have a number, title, address and folder each; raises as ``read_listing`` does.

    ``wrong`` is what is wrong with the list already, once ``found`` is read to its end.
    """
    feeds: dict[str, Listed] = {}
    faults: list[str] = []
    repeated = 0
    for line, title, written, folder in found:
        url = plain_address(written)
        if (problem := address_problem(url)) is not None:
            meant = meant_address(written)
            remedy = f"write {meant!r}" if address_problem(meant) is None else "correct or remove it"
            said = f"{without_user(written.strip())[:80]!r} is not an http or https address; {remedy}"
            faults.append(f"{where}:{line}: {said if problem != WITHOUT_USER else _with_user(url)}")
        else:
            repeated += url in feeds
            feeds.setdefault(url, Listed(title, url, folder))
        if len(feeds) + len(faults) > _MOST_LISTED:  # 32 MiB of lines that are no addresses took 75 s and 2.5 GB
            raise ListingError(f"{where} lists more than {_MOST_LISTED} addresses; import it in parts")
    wrong = [*wrong, *faults]
    if wrong and not feeds:
        more = [f"{where}: and {len(wrong) - _MOST_SHOWN} more"] if len(wrong) > _MOST_SHOWN else []
        raise ListingError("\n".join(wrong[:_MOST_SHOWN] + more))
    if not feeds:
        raise ListingError(f"{where} lists no feed; it needs <outline xmlUrl='...'>, or an address on each line")
    return SourceList(tuple(feeds.values()), tuple(wrong), repeated)


def merge_listing(
    listed: SourceList,
    declared: Declaration,
    name: str,
    *,
    pages: bool = False,
    match: str | None = None,
    to: Sequence[str] = (),
    secret: str | None = None,
) -> Merged:
    r"""Return what a list adds to a declaration: sources, and for each new folder a domain, a profile and a rule.

    Addresses that are declared are left alone. Feeds without a folder go to ``name``. A rule fires on every new item,
    or with ``pages`` on every change of a page; with ``match`` only if the title, or the page, contains this word. It
    tells the addresses ``to``; ``secret`` names the variable with the secret of webhooks.

    Raises
    ------
    ListingError, ConfigError
        A folder cannot be the name of a profile. ``to`` holds a webhook, and there is no secret.

    Examples
    --------
    >>> from proxyd.core.model.profile import EMPTY_DECLARATION
    >>> merged = merge_listing(SourceList((Listed("A", "http://a.example/"),)), EMPTY_DECLARATION, "Mine")
    >>> merged.new, merged.statements[-1]
    (1, '\nCREATE SOURCE "A" OF "Mine".ARTICLE AT \'http://a.example/\';\n')
    """
    kind, names = _PAGES if pages else _FEEDS, UniqueNames(declared.sources)
    there = {source.url for source in declared.sources.values()}
    new = [feed for feed in listed.feeds if feed.url not in there]
    statements: list[str] = []
    classes: dict[str, str] = {}
    begun: set[str] = set()
    if len({feed.folder for feed in new}) > _MOST_FOLDERS:
        raise ListingError(f"the list has more than {_MOST_FOLDERS} folders; import it in parts")
    for feed in new:
        if feed.folder not in classes:
            profile, known_class = _profile(feed.folder or name, kind, declared)
            page_class = f"{quote_name(profile)}.{known_class or kind.name}"
            if known_class is None and page_class not in begun:
                statements.append("\n" * bool(statements) + kind.preamble(profile, match, tuple(to), secret))
            classes[feed.folder] = page_class
            begun.add(page_class)
        of = classes[feed.folder]
        statements.append(
            f"\nCREATE SOURCE {quote_name(names.of(feed.title, feed.url))} OF {of} AT {quote_text(feed.url)};\n"
        )
    return Merged(tuple(statements), len(new), len(listed.feeds) - len(new))


def watch_listing(
    listed: SourceList,
    seen: Declaration,
    profiles: Sequence[str],
    name: str,
    *,
    pages: bool = False,
    match: str | None = None,
    to: Sequence[str] = (),
) -> Merged:
    r"""Return what a list adds for somebody who writes only some profiles: a WATCH of each address.

    It goes into the profile of its folder's name, or of the outermost one's, if it is theirs, or else into ``name``,
    which is. What ``seen`` has of the addresses is left alone. Raises as ``merge_listing`` does.

    Examples
    --------
    >>> from proxyd.core.model.profile import EMPTY_DECLARATION
    >>> listed = SourceList((Listed("A", "http://a.example/", "Kids / Games"),))
    >>> watch_listing(listed, EMPTY_DECLARATION, ["Ann", "Kids"], "Ann").statements
    ('WATCH \'http://a.example/\' AS "A" INTO "Kids";\n',)
    """
    page_class = "PAGE" if pages else ""
    names = UniqueNames(map(plain_name, seen.rules))
    there = {source.url for source in seen.sources.values()}
    statements: list[str] = []
    for feed in listed.feeds:
        if feed.url not in there:
            folders = (feed.folder, feed.folder.partition(_WITHIN)[0])
            options = WatchOptions(profile=next((each for each in folders if each in profiles), name))
            words = () if match is None else (match,)
            wish = WatchWish(
                feed.url, page_class, names.of(feed.title, feed.url), words=words, to=tuple(to), options=options
            )
            statements.append(f"{watch_text(wish)}\n")
    return Merged(tuple(statements), len(statements), len(listed.feeds) - len(statements))


@lru_cache(16)
def _layout(kind: _Kind, match: str | None, to: tuple[str, ...], secret: str | None) -> str:
    """Return the statements of a list of some name; to read and print them again took 5 ms for each folder."""
    domain, rule = quote_name(_SOME_NAME), quote_name(kind.rule(_SOME_NAME))
    where = f" WHERE {format_contains(kind.field, match)}" if match else ""
    trigger = quote_name(f"ON {kind.event} TO {kind.name}{where}")
    told = _RULE.format(
        domain=domain,
        rule=rule,
        selected=kind.selected,
        name=kind.name,
        trigger=trigger,
        deliveries="".join(f" SET DELIVERY {delivery_text(each, secret)}" for each in to),
    )
    parsed = parse(f"CREATE DOMAIN {domain} AS CLASS::{kind.name}{kind.fields};\n{told}")
    if parsed.errors:
        raise ListingError(f"a list cannot be matched with {match!r}")
    return format_parsed(parsed)


def _profile(wanted: str, kind: _Kind, declared: Declaration) -> tuple[str, str | None]:
    """Return the profile (and domain) of a folder, and its class if it is that of an earlier import."""
    for name in (wanted, f"{wanted} ({kind.older.lower()}s)"):
        domain = declared.domains.get(name)
        if domain is not None and kind.rule(name) in declared.rules:
            for page_class in (kind.name, kind.older):
                if page_class in domain.classes:
                    return name, page_class
        is_free = domain is None and name not in _TAKEN and name not in declared.profiles
        if is_free and kind.rule(name) not in declared.rules:
            return name, None
    raise ListingError(f"{wanted!r} is the name of another domain, profile or rule; rename the folder or give a --name")


def opml_of(declaration: Declaration, names: Iterable[str]) -> str:
    """Return declared sources as OPML."""
    feeds: dict[str, str] = {}
    pages: dict[str, str] = {}
    folders: dict[str, str] = {}
    for rule in declaration.rules.values():
        for name in rule.source_ids if rule.profiles != (DEFAULT_PROFILE,) else ():
            folders.setdefault(for_xml(name), for_xml(rule.profiles[0]))
    for source in (declaration.sources[name] for name in names if name in declaration.sources):
        (feeds if declaration.page_class(source).is_feed else pages)[for_xml(source.source_id)] = source.url
    return opml(feeds, pages, folders)


def opml(feeds: Mapping[str, str], pages: Mapping[str, str], folders: Mapping[str, str]) -> str:
    """Return addresses by name as OPML, in ASCII; names contain only characters that XML allows.

    A folder is that of a name. Pages and sites are links, which feed readers leave out.

    >>> print(opml({"a": "http://a.example/?b&c"}, {"b": "http://b.example/"}, {"a": "News"}))
    <?xml version="1.0" encoding="UTF-8"?>
    <opml version="2.0">
      <head>
        <title>proxyd sources</title>
      </head>
      <body>
        <outline text="News">
          <outline type="rss" text="a" xmlUrl="http://a.example/?b&amp;c" />
        </outline>
        <outline type="link" text="b" url="http://b.example/" />
      </body>
    </opml>
    """
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = "proxyd sources"
    body = ElementTree.SubElement(root, "body")
    made: dict[str | None, ElementTree.Element] = {None: body}

    for kind, address, found in (("rss", "xmlUrl", feeds), ("link", "url", pages)):
        for name, url in found.items():
            if (folder := folders.get(name)) not in made:
                made[folder] = ElementTree.SubElement(body, "outline", text=folder or "")
            ElementTree.SubElement(made[folder], "outline", {"type": kind, "text": name, address: url})
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="us-ascii").decode()}'


def _opml(text: str, where: str, faults: list[str], *, pages: bool) -> Iterator[_Found]:
    if any(piece[0].count("=") > _MOST_ATTRIBUTES for piece in re.finditer(r"[^<]+", text)):
        raise ListingError(f"{where} has an element with more than {_MOST_ATTRIBUTES} attributes")
    legal = with_legal_references(ILLEGAL.sub("", text))
    root = _root(legal.encode(), where, faults)
    if root.getroottree().docinfo.internalDTD is not None:
        raise ListingError(f"{where} has a DOCTYPE, which is not safe to read; remove it")
    folders: dict[etree._Element, str] = {}
    for each in root.iter(*_OUTLINES):
        outline = _attributes(each)
        url, line = outline.get("xmlurl", "").strip(), each.sourceline or 0
        link = outline.get("url", "").strip() if not url and outline.get("type", "").lower() == "link" else ""
        if link and not pages:
            faults.append(f"{where}:{line}: {without_user(link)[:80]!r} is a page; {_IMPORT_PAGES}")
        elif url or link:
            yield line, _title(outline), url or link, _folder(each.getparent(), folders).strip()


def _root(body: bytes, where: str, faults: list[str]) -> etree._Element:
    """Return the root of a list; of one with broken markup, what can be read, and a fault that says so."""
    try:
        return etree.fromstring(body, _parser())
    except etree.XMLSyntaxError as error:
        mended = etree.fromstring(body, _parser(recover=True))
        if mended is None or next(mended.iter(*_OUTLINES), None) is None:
            raise ListingError(f"{where}:{error.lineno}: not well-formed XML") from error
        faults.append(f"{where}:{error.lineno}: not well-formed XML; feeds after this line may be missing")
        return mended


def _parser(*, recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8", recover=recover, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )


def _with_user(url: str) -> str:
    return f"{without_user(url)[:80]!r} was left out: {WITHOUT_USER}; write AUTH BASIC 'user' SECRET ENV 'SECRET_X'"


def _attributes(outline: etree._Element) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in outline.attrib.items()}


def _title(outline: Mapping[str, str]) -> str:
    return outline.get("title") or outline.get("text") or ""


def _folder(element: etree._Element | None, known: dict[etree._Element, str]) -> str:
    """Return the names of an element and those around it that are outlines, the outermost first."""
    if element is None:
        return ""
    if element not in known:
        names = [_folder(element.getparent(), known)]
        if str(element.tag).rpartition("}")[2].lower() == "outline":
            name = " ".join(_title(_attributes(element)).split())
            names += [name] * (name not in ("", ".", ".."))
        known[element] = _WITHIN.join(name for name in names if name)[:_LONGEST_FOLDER]
    return known[element]


def _lines(text: str) -> Iterator[_Found]:
    for number, line in enumerate(StringIO(text, newline=None), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, *_of_line(line)


def _of_line(line: str) -> tuple[str, str, str]:
    """Return the title, address and folder of a line; newsboat writes tags behind the address, and a title with ~.

    With an @ all is the address: what is left of a password is no tag.

    >>> _of_line('https://a.example/ news "~My A" !'), _of_line("https://a.example/")
    (('My A', 'https://a.example/', 'news'), ('', 'https://a.example/', ''))
    """
    address, *others = [line] if "@" in line else re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)
    tags = [each.strip('"').replace('\\"', '"') for each in others]
    folders = [tag for tag in tags if tag and tag[0] not in "~!"]
    return next((tag[1:] for tag in tags if tag.startswith("~")), ""), address, (folders or [""])[0][:_LONGEST_FOLDER]


class UniqueNames:
    """Gives each source a unique name: from its title, otherwise from its host."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def of(self, title: str, url: str) -> str:
        """Return a name for what has a title, which may be empty, and an address."""
        wanted = one_line(title)[:_LONGEST_NAME].strip()
        if wanted in {"", ".", ".."}:  # which addresses of pages drop
            wanted = urlsplit(url).hostname or "source"
        name = wanted
        while name in self._taken:
            number = self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            name = f"{wanted} {number}"
        self._taken.add(name)
        return name
