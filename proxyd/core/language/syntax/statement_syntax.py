"""Statements up to their options and clauses: how they are read, and printed in one canonical layout.

Each function that reads has its production in its docstring. ``parse(format_statements(x)).statements == x``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from proxyd.core.language.syntax.clauses import (
    PROFILE_OPTIONS,
    RULE_CLAUSES,
    SOURCE_OPTIONS,
    WATCH_OPTIONS,
    format_clauses,
)
from proxyd.core.language.syntax.delivery_kinds import format_delivery, parse_own_delivery
from proxyd.core.language.syntax.expression_printer import format_class, format_path
from proxyd.core.language.syntax.expressions import (
    in_parentheses,
    parse_class_name,
    parse_located,
    parse_name,
    parse_path,
    parse_text,
)
from proxyd.core.language.syntax.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateReceiver,
    CreateSource,
    CreateSources,
    DropStatement,
    FieldDeclaration,
    InsertNotification,
    Located,
    Parsed,
    Statement,
    StatementKind,
    Watch,
)
from proxyd.core.language.syntax.quoting import quote_name, quote_text
from proxyd.core.language.syntax.token_reader import TokenReader, optional, parse_plain_text, series
from proxyd.core.model.profile import Extraction, FieldType, Reader

_VERBS = ("CREATE", "INSERT", "WATCH", "DROP")
_KINDS = tuple(kind.value for kind in StatementKind)
_FIELD_TYPES = tuple(type_.name for type_ in FieldType)
_READERS = tuple(reader.value for reader in Reader)
_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROFILE_ITEMS = {"DOMAIN": "domains", "LANGUAGE": "languages", "USER": "users"}


class Head(NamedTuple):
    """The beginning of a statement: its class, and the values of its attributes."""

    made: Callable[..., Statement]
    values: dict[str, Any]


def parse_head(parser: TokenReader) -> Head:
    """statement = CREATE (DOMAIN domain | SOURCE source | PROFILE profile | RECEIVER receiver)
    | INSERT NOTIFICATION name | WATCH text | DROP (PROFILE | NOTIFICATION | SOURCE | DOMAIN | RECEIVER) name
    """
    verb = parser.expect_one(_VERBS)
    if verb == "CREATE":
        return _CREATED[parser.expect_one(_CREATED)](parser)
    if verb == "INSERT" and parser.expect("NOTIFICATION"):
        return Head(InsertNotification, {"name": parse_name(parser)})
    if verb == "WATCH":
        return Head(Watch, {"url": parse_text(parser)})
    kind = StatementKind(parser.expect_one(_KINDS))
    return Head(DropStatement, {"kind": kind, "name": parse_name(parser)})


def _parse_source(parser: TokenReader) -> Head:
    """source = name OF class_name (AT text | FROM FILE text)"""
    name = parse_name(parser)
    parser.expect("OF")
    values = {"name": name, "page_class": parse_class_name(parser)}
    if parser.expect_one(("AT", "FROM")) == "AT":
        return Head(CreateSource, values | {"url": parse_text(parser)})
    parser.expect("FILE")
    return Head(CreateSources, values | {"file": parse_text(parser)})


def _parse_domain(parser: TokenReader) -> Head:
    """domain = name AS class {[","] class}"""
    name = parse_name(parser)
    parser.expect("AS")
    classes = [parse_class_declaration(parser)]
    while parser.take(",") or parser.is_at("CLASS"):
        classes.append(parse_class_declaration(parser))
    return Head(CreateDomain, {"name": name, "classes": tuple(classes)})


def parse_class_declaration(parser: TokenReader) -> ClassDeclaration:
    """class = CLASS "::" name [[EACH each] "(" field {"," field} ")"]"""
    parser.expect("CLASS", "::")
    name = parse_name(parser)
    each, key = optional(parser, "EACH", _parse_each) or (None, ())
    if each is None and not parser.is_at("("):
        return ClassDeclaration(name)
    return ClassDeclaration(name, in_parentheses(parser, lambda parser: series(parser, parse_field)), each, key)


def _parse_each(parser: TokenReader) -> tuple[Located[Extraction], tuple[Located[str], ...]]:
    """each = reader TEXT [KEY path {"," path}]"""
    begin, rows = parser.at - 1, _parse_extraction(parser)
    key = optional(parser, "KEY", lambda parser: series(parser, _parse_field_path)) or ()
    return Located(rows, parser.span(begin)), key


def parse_field(parser: TokenReader) -> FieldDeclaration:
    """field = path ":" type [OR NULL] [FROM reader TEXT]

    type = STRING | INTEGER | DECIMAL | BOOLEAN | TIMESTAMP | URL
    """
    path = _parse_field_path(parser)
    parser.expect(":")
    type_ = FieldType[parser.expect_one(_FIELD_TYPES)]
    is_nullable = parser.take("OR") and parser.expect("NULL")
    extraction = optional(parser, "FROM", lambda parser: parse_located(parser, _parse_extraction))
    return FieldDeclaration(path, type_, extraction, is_nullable)


def _parse_field_path(parser: TokenReader) -> Located[str]:
    path = parse_path(parser)
    return Located(path.path, path.span)


def _parse_extraction(parser: TokenReader) -> Extraction:
    """reader TEXT; reader = JSON | CSS | XPATH | META | JSONLD | PRICE"""
    return Extraction(Reader(parser.expect_one(_READERS)), parse_plain_text(parser))


def _parse_profile(parser: TokenReader) -> Head:
    """profile = name [AS "(" item {"," (item | name)} ")"]

    item = (DOMAIN | LANGUAGE | USER) name; a name without a kind is of the kind before it.
    """
    values: dict[str, Any] = {"name": parse_name(parser)}
    if parser.take("AS") and parser.expect("("):
        items = [parse_profile_item(parser)]
        while parser.take(","):
            items.append((parser.take_one(PROFILE_ITEMS) or items[-1][0], parse_name(parser)))
        parser.expect(")")
        for kind, attribute in PROFILE_ITEMS.items():
            values[attribute] = tuple(name for its, name in items if its == kind)
    return Head(CreateProfile, values)


def parse_profile_item(parser: TokenReader) -> tuple[str, Located[str]]:
    """item = (DOMAIN | LANGUAGE | USER) name"""
    return parser.expect_one(PROFILE_ITEMS), parse_name(parser)


def _parse_receiver(parser: TokenReader) -> Head:
    """receiver = name AS delivery {"," delivery}"""
    name = parse_name(parser)
    parser.expect("AS")
    to = series(parser, lambda parser: parse_located(parser, parse_own_delivery))
    return Head(CreateReceiver, {"name": name, "to": to})


_CREATED = {
    "DOMAIN": _parse_domain,
    "SOURCE": _parse_source,
    "PROFILE": _parse_profile,
    "RECEIVER": _parse_receiver,
}


# ---- printing


def format_statements(statements: Iterable[Statement]) -> str:
    """Return the statements, each after its comments, separated by blank lines."""
    return "\n".join("".join(f"{line}\n" for line in _format_statement(each)) for each in statements)


def format_parsed(parsed: Parsed) -> str:
    """Return a whole text with all its comments; those inside a statement are moved before it."""
    text = format_statements(parsed.statements)
    tail = "".join(f"{comment}\n" for comment in parsed.tail_comments)
    return f"{text}\n{tail}" if text and tail else text + tail


def _format_statement(statement: Statement) -> list[str]:
    match statement:
        case CreateDomain():
            lines = _format_domain(statement)
        case CreateSource():
            lines = _format_source(statement, f"AT {quote_text(statement.url.value)}", "SOURCE")
        case CreateSources():
            lines = _format_source(statement, f"FROM FILE {quote_text(statement.file.value)}", "SOURCES")
        case CreateProfile():
            lines = _format_profile(statement)
        case CreateReceiver():
            head = f"CREATE RECEIVER {quote_name(statement.name.value)} AS"
            first, *others = (format_delivery(each.value) for each in statement.to)
            lines = [f"{head} {first}"]
            for other in others:
                lines = [*lines[:-1], f"{lines[-1]},", f"  {other}"]
        case InsertNotification():
            head = f"INSERT NOTIFICATION {quote_name(statement.name.value)}"
            lines = [head, *format_clauses(statement, RULE_CLAUSES)]
        case Watch():
            lines = _format_watch(statement)
        case DropStatement():
            lines = [f"DROP {statement.kind.value} {quote_name(statement.name.value)}"]
    return [*statement.comments, *lines[:-1], f"{lines[-1]};"]


def _format_domain(domain: CreateDomain) -> list[str]:
    lines = [f"CREATE DOMAIN {quote_name(domain.name.value)} AS"]
    for index, declaration in enumerate(domain.classes):
        if index:
            lines[-1] += ","
        lines.extend(_format_class(declaration))
    return lines


def _format_class(declaration: ClassDeclaration) -> list[str]:
    name = declaration.name.value
    head = f"CLASS::{name if _PLAIN.fullmatch(name) else quote_name(name)}"
    if declaration.each is not None:
        head += f" EACH {_format_extraction(declaration.each.value)}"
    if declaration.key:
        head += f" KEY {', '.join(format_path(path.value) for path in declaration.key)} "
    if not declaration.fields:
        return [head]
    fields = []
    for each in declaration.fields:
        origin = f" FROM {_format_extraction(each.extraction.value)}" if each.extraction else ""
        or_null = " OR NULL" if each.is_nullable else ""
        fields.append(f"  {format_path(each.path.value)}:{each.type.value}{or_null}{origin}")
    return [f"{head}(", *(f"{line}," for line in fields[:-1]), f"{fields[-1]})"]


def _format_extraction(extraction: Extraction) -> str:
    return f"{extraction.reader.value} {quote_text(extraction.selector)}"


def _format_source(source: CreateSource | CreateSources, where: str, noun: str) -> list[str]:
    head = f"CREATE {noun} {quote_name(source.name.value)} OF {format_class(source.page_class)} {where}"
    return [head, *(f"  {option}" for option in format_clauses(source, SOURCE_OPTIONS))]


def _format_profile(profile: CreateProfile) -> list[str]:
    items = [f"DOMAIN {quote_name(name.value)}" for name in profile.domains]
    items += [f"LANGUAGE {quote_name(name.value)}" for name in profile.languages]
    items += [f"USER {quote_name(name.value)}" for name in profile.users]
    head = f"CREATE PROFILE {quote_name(profile.name.value)}"
    lines = [f"{head} AS", *_in_parentheses(items)] if items else [head]
    return lines + format_clauses(profile, PROFILE_OPTIONS)


def _in_parentheses(items: Sequence[str]) -> list[str]:
    """Return a list in parentheses, one item on each line."""
    lines = [f"{item}," for item in items]
    return [f"({lines[0]}", *lines[1:-1], f"{lines[-1][:-1]})"] if len(items) > 1 else [f"({items[0]})"]


def _format_watch(watch: Watch) -> list[str]:
    """Return ``WATCH`` and its options: on one line where that is short, otherwise each on its own."""
    lines = [f"WATCH {quote_text(watch.url.value)}", *format_clauses(watch, WATCH_OPTIONS)]
    line = " ".join(lines)
    return [line] if len(line) < _WIDTH else [lines[0], *(f"  {option}" for option in lines[1:])]
