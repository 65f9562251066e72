"""The parser of statements up to their options and clauses: each function reads what its docstring shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from proxyd.core.language.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateSource,
    CreateSources,
    DropStatement,
    FieldDeclaration,
    InsertNotification,
    Located,
    Statement,
    StatementKind,
    Watch,
)
from proxyd.core.language.reading.expressions import (
    in_parentheses,
    parse_class_name,
    parse_located,
    parse_name,
    parse_path,
    parse_text,
)
from proxyd.core.language.reading.token_reader import TokenReader, optional, parse_plain_text, series
from proxyd.core.model.profile import Extraction, FieldType, Reader

_VERBS = ("CREATE", "INSERT", "WATCH", "DROP")
_CREATED = ("DOMAIN", "SOURCE", "PROFILE")
_KINDS = tuple(kind.value for kind in StatementKind)
_FIELD_TYPES = tuple(type_.name for type_ in FieldType)
_READERS = tuple(reader.value for reader in Reader)
PROFILE_ITEMS = {"DOMAIN": "domains", "LANGUAGE": "languages", "USER": "users"}


class Head(NamedTuple):
    """The beginning of a statement: its class, and the values of its attributes."""

    made: Callable[..., Statement]
    values: dict[str, Any]


def parse_head(parser: TokenReader) -> Head:
    """statement = CREATE (DOMAIN domain | SOURCE source | PROFILE profile) | INSERT NOTIFICATION name
    | WATCH text | DROP (PROFILE | NOTIFICATION | SOURCE | DOMAIN) name
    """
    verb = parser.expect_one(_VERBS)
    if verb == "CREATE":
        created = parser.expect_one(_CREATED)
        return _source(parser) if created == "SOURCE" else _domain(parser) if created == "DOMAIN" else _profile(parser)
    if verb == "INSERT" and parser.expect("NOTIFICATION"):
        return Head(InsertNotification, {"name": parse_name(parser)})
    if verb == "WATCH":
        return Head(Watch, {"url": parse_text(parser)})
    kind = StatementKind(parser.expect_one(_KINDS))
    return Head(DropStatement, {"kind": kind, "name": parse_name(parser)})


def _source(parser: TokenReader) -> Head:
    """source = name OF class_name (AT text | FROM FILE text)"""
    name = parse_name(parser)
    parser.expect("OF")
    values = {"name": name, "page_class": parse_class_name(parser)}
    if parser.expect_one(("AT", "FROM")) == "AT":
        return Head(CreateSource, values | {"url": parse_text(parser)})
    parser.expect("FILE")
    return Head(CreateSources, values | {"file": parse_text(parser)})


def _domain(parser: TokenReader) -> Head:
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
    each, key = optional(parser, "EACH", _each) or (None, ())
    if each is None and not parser.is_at("("):
        return ClassDeclaration(name)
    return ClassDeclaration(name, in_parentheses(parser, lambda parser: series(parser, parse_field)), each, key)


def _each(parser: TokenReader) -> tuple[Located[Extraction], tuple[Located[str], ...]]:
    """each = reader TEXT [KEY path {"," path}]"""
    begin, rows = parser.at - 1, _extraction(parser)
    key = optional(parser, "KEY", lambda parser: series(parser, _field_path)) or ()
    return Located(rows, parser.span(begin)), key


def parse_field(parser: TokenReader) -> FieldDeclaration:
    """field = path ":" type [OR NULL] [FROM reader TEXT]

    type = STRING | INTEGER | DECIMAL | BOOLEAN | TIMESTAMP | URL
    """
    path = _field_path(parser)
    parser.expect(":")
    type_ = FieldType[parser.expect_one(_FIELD_TYPES)]
    is_nullable = parser.take("OR") and parser.expect("NULL")
    extraction = optional(parser, "FROM", lambda parser: parse_located(parser, _extraction))
    return FieldDeclaration(path, type_, extraction, is_nullable)


def _field_path(parser: TokenReader) -> Located[str]:
    path = parse_path(parser)
    return Located(path.path, path.span)


def _extraction(parser: TokenReader) -> Extraction:
    """reader TEXT; reader = JSON | CSS | XPATH | META | JSONLD | PRICE"""
    return Extraction(Reader(parser.expect_one(_READERS)), parse_plain_text(parser))


def _profile(parser: TokenReader) -> Head:
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
