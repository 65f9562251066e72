"""Prints statements in one canonical layout: ``parse(format_statements(x)).statements == x``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from proxyd.core.language.clauses import PROFILE_OPTIONS, RULE_CLAUSES, SOURCE_OPTIONS, WATCH_OPTIONS, format_clauses
from proxyd.core.language.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    Parsed,
    Statement,
    Watch,
)
from proxyd.core.language.printing.expression_printer import format_class, format_path
from proxyd.core.language.printing.quoting import quote_name, quote_text
from proxyd.core.model.profile import Extraction

_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format_statements(statements: Iterable[Statement]) -> str:
    """Return the statements, each after its comments, separated by blank lines."""
    return "\n".join("".join(f"{line}\n" for line in _statement(each)) for each in statements)


def format_parsed(parsed: Parsed) -> str:
    """Return a whole text with all its comments; those inside a statement are moved before it."""
    text = format_statements(parsed.statements)
    tail = "".join(f"{comment}\n" for comment in parsed.tail_comments)
    return f"{text}\n{tail}" if text and tail else text + tail


def _statement(statement: Statement) -> list[str]:
    match statement:
        case CreateDomain():
            lines = _domain(statement)
        case CreateSource():
            lines = _source(statement, f"AT {quote_text(statement.url.value)}", "SOURCE")
        case CreateSources():
            lines = _source(statement, f"FROM FILE {quote_text(statement.file.value)}", "SOURCES")
        case CreateProfile():
            lines = _profile(statement)
        case InsertNotification():
            head = f"INSERT NOTIFICATION {quote_name(statement.name.value)}"
            lines = [head, *format_clauses(statement, RULE_CLAUSES)]
        case Watch():
            lines = _watch(statement)
        case DropStatement():
            lines = [f"DROP {statement.kind.value} {quote_name(statement.name.value)}"]
    return [*statement.comments, *lines[:-1], f"{lines[-1]};"]


def _domain(domain: CreateDomain) -> list[str]:
    lines = [f"CREATE DOMAIN {quote_name(domain.name.value)} AS"]
    for index, declaration in enumerate(domain.classes):
        if index:
            lines[-1] += ","
        lines.extend(_class(declaration))
    return lines


def _class(declaration: ClassDeclaration) -> list[str]:
    name = declaration.name.value
    head = f"CLASS::{name if _PLAIN.fullmatch(name) else quote_name(name)}"
    if declaration.each is not None:
        head += f" EACH {_extraction(declaration.each.value)}"
    if declaration.key:
        head += f" KEY {', '.join(format_path(path.value) for path in declaration.key)} "
    if not declaration.fields:
        return [head]
    fields = []
    for each in declaration.fields:
        origin = f" FROM {_extraction(each.extraction.value)}" if each.extraction else ""
        or_null = " OR NULL" if each.is_nullable else ""
        fields.append(f"  {format_path(each.path.value)}:{each.type.value}{or_null}{origin}")
    return [f"{head}(", *(f"{line}," for line in fields[:-1]), f"{fields[-1]})"]


def _extraction(extraction: Extraction) -> str:
    return f"{extraction.reader.value} {quote_text(extraction.selector)}"


def _source(source: CreateSource | CreateSources, where: str, noun: str) -> list[str]:
    head = f"CREATE {noun} {quote_name(source.name.value)} OF {format_class(source.page_class)} {where}"
    return [head, *(f"  {option}" for option in format_clauses(source, SOURCE_OPTIONS))]


def _profile(profile: CreateProfile) -> list[str]:
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


def _watch(watch: Watch) -> list[str]:
    """Return ``WATCH`` and its options: on one line where that is short, otherwise each on its own."""
    lines = [f"WATCH {quote_text(watch.url.value)}", *format_clauses(watch, WATCH_OPTIONS)]
    line = " ".join(lines)
    return [line] if len(line) < _WIDTH else [lines[0], *(f"  {option}" for option in lines[1:])]
