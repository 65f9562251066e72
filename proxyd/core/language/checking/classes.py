"""Domains and their page classes: fields, how they are read, and how rules find the classes."""

from __future__ import annotations

from collections.abc import Iterable

from proxyd.core.language.syntax.check_context import Reporter
from proxyd.core.language.syntax.nodes import ClassDeclaration, CreateDomain, FieldDeclaration, Located
from proxyd.core.language.syntax.readers import PRODUCT_FIELDS, READER_KINDS, readers_of, selector_problem
from proxyd.core.language.syntax.words import did_you_mean
from proxyd.core.model.expression import ClassName
from proxyd.core.model.profile import (
    BUILT_IN_NAME,
    PAGE_TEXT,
    SITE_CLASS,
    SOURCE_CLASS,
    Domain,
    Extraction,
    Field,
    FieldType,
    PageClass,
    Reader,
    owner_of,
    plain_name,
)

_ITEM_FIELDS = "title description content link guid author category pubDate updated enclosure"
_FEED_PATHS = (
    *(f"channel.{name}" for name in ["title", "link", "description", "language", "ttl"]),
    *(f"channel.item.{name}" for name in _ITEM_FIELDS.split()),
)
"""What can be read from a feed, whatever its format."""

_FEED_TYPES = {
    "pubDate": FieldType.TIMESTAMP,
    "updated": FieldType.TIMESTAMP,
    "link": FieldType.URL,
    "enclosure": FieldType.URL,
}
_PRODUCT_TYPES = {"price": FieldType.DECIMAL}
BUILT_IN = Domain(
    BUILT_IN_NAME,
    {
        "FEED": PageClass(
            "FEED",
            BUILT_IN_NAME,
            tuple(
                Field(f"channel.item.{name}", _FEED_TYPES.get(name, FieldType.STRING)) for name in _ITEM_FIELDS.split()
            ),
        ),
        "PAGE": PageClass("PAGE", BUILT_IN_NAME, (Field(PAGE_TEXT, FieldType.STRING),)),
        "PRICE": PageClass(
            "PRICE",
            BUILT_IN_NAME,
            tuple(
                Field(name, _PRODUCT_TYPES.get(name, FieldType.STRING), Extraction(Reader.PRICE, name))
                for name in PRODUCT_FIELDS
            ),
        ),
        "SITE": SITE_CLASS,
        "SOURCE": SOURCE_CLASS,
    },
)
"""The classes that need no declaration; a declared class of the same name hides one."""

_LOWER_PATHS = {path.lower() for path in _FEED_PATHS}


def _is_feed_path(path: str) -> bool:
    return path.lower().startswith("channel.")


def check_domain(statement: CreateDomain, reporter: Reporter) -> Domain:
    """Return the domain; report errors in its classes."""
    domain = statement.name.value
    classes: dict[str, PageClass] = {}
    for declaration in statement.classes:
        name = declaration.name
        if name.value.casefold() in (known.casefold() for known in classes):
            reporter.error(f"the class {name.value} is declared twice in the domain {plain_name(domain)!r}", name.span)
            continue
        classes[name.value] = _check_class(declaration, domain, reporter)
    return Domain(domain, classes)


def _check_class(declaration: ClassDeclaration, domain: str, reporter: Reporter) -> PageClass:
    name = declaration.name
    if not declaration.fields:
        return PageClass(name.value, domain, (Field(PAGE_TEXT, FieldType.STRING),))
    if any(_is_feed_path(each.path.value) for each in declaration.fields):
        _check_feed_fields(declaration, reporter)
    else:
        _check_page_fields(declaration, reporter)
    _check_twice(declaration.fields, reporter)
    _check_rows(declaration, reporter)
    fields = tuple(
        Field(each.path.value, each.type, each.extraction.value if each.extraction else None, each.is_nullable)
        for each in declaration.fields
    )
    each = declaration.each.value if declaration.each else None
    spelled = {each.path.lower(): each.path for each in fields}
    key = tuple(spelled.get(path.value.lower(), path.value) for path in declaration.key)
    return PageClass(name.value, domain, fields, each, key)


def _check_twice(fields: Iterable[FieldDeclaration], reporter: Reporter) -> None:
    seen: set[str] = set()
    for each in fields:
        folded = each.path.value.lower()
        if folded in seen:
            reporter.error(f"the field {each.path.value} is declared twice", each.path.span)
        seen.add(folded)


def _check_feed_fields(declaration: ClassDeclaration, reporter: Reporter) -> None:
    for each in declaration.fields:
        path = each.path.value
        if not _is_feed_path(path):
            message = f"the field {path} cannot be mixed with channel. paths: a class reads a feed or a page, not both"
            reporter.error(message, each.path.span)
        elif path.lower() not in _LOWER_PATHS:
            reporter.error(f"feeds have no {path}.{did_you_mean(path, _FEED_PATHS)}", each.path.span)
        if each.extraction is not None:
            reporter.error("a class that reads a feed takes no FROM", each.extraction.span)
        if each.is_nullable:
            reporter.error("a class that reads a feed takes no OR NULL: each field may be missing", each.path.span)
    if declaration.each is not None:
        reporter.error("a class that reads a feed takes no EACH: its rows are the items", declaration.each.span)


def _check_page_fields(declaration: ClassDeclaration, reporter: Reporter) -> None:
    for each in declaration.fields:
        if each.extraction is None:
            *first, last = (f"FROM {reader.value}" for reader in READER_KINDS)
            message = (
                f"the field {each.path.value} does not say where its value is read: expected {', '.join(first)} or "
                f"{last}, or a path that starts with channel."
            )
            if each.path.value.casefold() == "text" and len(declaration.fields) == 1:
                message = "the text of a whole page takes no fields: declare the class by its name alone, CLASS::PAGE"
            reporter.error(message, each.path.span)
        else:
            _check_extraction(each.extraction, reporter)
    readers = {each.extraction.value.reader for each in declaration.fields if each.extraction}
    if declaration.each is not None:
        _check_extraction(declaration.each, reporter)
        _check_readers_of_rows(declaration.each, readers, reporter)
        readers.add(declaration.each.value.reader)
    if len({READER_KINDS[reader].is_of_json for reader in readers}) > 1:
        html = ", ".join(readers_of(json=False))
        reporter.error(f"a page is read as JSON or as HTML ({html}), not both", declaration.name.span)


def _check_readers_of_rows(each: Located[Extraction], readers: Iterable[Reader], reporter: Reporter) -> None:
    reader = each.value.reader
    allowed = READER_KINDS[reader].rows
    if allowed == frozenset():
        reporter.error(f"a page has one {reader.value}: EACH takes another reader", each.span)
    elif allowed is not None and not allowed.issuperset(readers):
        names = " or ".join(each.value for each in allowed)
        reporter.error(f"the fields of rows by {reader.value} are read by {names}", each.span)


def _check_extraction(extraction: Located[Extraction], reporter: Reporter) -> None:
    reader, selector = extraction.value.reader, extraction.value.selector
    if not selector.strip():
        reporter.error(f"the {reader.value} selector is empty", extraction.span)
    elif reader in (Reader.JSON, Reader.JSONLD) and not selector.startswith("$"):
        reporter.error(f"a {reader.value} selector starts with $; found {selector!r}", extraction.span)
    elif (problem := selector_problem(extraction.value)) is not None:
        reporter.error(f"the {reader.value} selector {selector!r} cannot be read: {problem}", extraction.span)


def _check_rows(declaration: ClassDeclaration, reporter: Reporter) -> None:
    if declaration.each is None:
        return
    if not declaration.key:
        reporter.error("EACH needs KEY, the fields that identify a row of the page", declaration.each.span)
    known = [each.path.value for each in declaration.fields]
    for path in declaration.key:
        if path.value.lower() not in (name.lower() for name in known):
            message = f"KEY names {path.value}, which is not a field of {declaration.name.value}."
            reporter.error(message + did_you_mean(path.value, known), path.span)


class ClassIndex:
    """Finds page classes by name among domains; ``complete`` is false if a domain could not be read.

    They are domains of one owner, which come first, and shared ones. ``where`` describes them in errors.
    """

    def __init__(self, domains: Iterable[Domain], *, complete: bool, where: str) -> None:
        self._where = where
        in_order = sorted(domains, key=lambda each: owner_of(each.name) is not None)  # the own ones hide others
        self._domains = {plain_name(domain.name): domain for domain in in_order} | {BUILT_IN.name: BUILT_IN}
        self._classes: dict[str, list[PageClass]] = {}
        for domain in self._domains.values():
            for each in domain.classes.values():
                self._classes.setdefault(each.name.casefold(), []).append(each)
        self._complete = complete

    def find(self, name: ClassName, reporter: Reporter) -> PageClass | None:
        """Return the class, or report that there is none or more than one."""
        if name.domain is not None and name.domain not in self._domains:
            if self._complete:
                suggestion = reporter.hint(name.domain, self._domains)
                reporter.error(f"there is no domain {name.domain!r}{self._where}.{suggestion}", name.span)
            return None
        places = self._domains.values() if name.domain is None else (self._domains[name.domain],)
        same = self._classes.get(name.name.casefold(), [])
        found = [each for each in same if name.domain in (None, plain_name(each.domain))]
        found = [each for each in found if each.domain != BUILT_IN.name] or found
        found = [each for each in found if owner_of(each.domain) is not None] or found
        if len(found) == 1:
            return found[0]
        if found:
            named = [plain_name(each.domain) for each in found]
            domains = " and ".join(map(repr, named))
            reporter.error(
                f'the class {name.name} is in the domains {domains}: write "{named[0]}".{name.name}', name.span
            )
        elif self._complete:
            known = [each.name for domain in places for each in domain.classes.values()]
            hint = reporter.hint(name.name, known) or did_you_mean(name.name, BUILT_IN.classes)
            reporter.error(f"there is no class {name.name}{self._where}.{hint}", name.span)
        return None
