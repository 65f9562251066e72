"""The sources that CREATE SOURCES stands for: one for each line of the list beside its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from pathlib import PurePath

from proxyd.core.language.checking.check_memory import CheckMemory
from proxyd.core.language.nodes import (
    CreateSources,
    ListedSource,
    ListLine,
    Located,
    Parsed,
    SourceOptions,
    SourceText,
    Statement,
    without_scheme,
)
from proxyd.core.language.reading.address_lists import LIST_SUFFIX, is_list

_OPTIONS = [each.name for each in fields(SourceOptions) if each.name not in ("comments", "span")]


def with_listed(texts: Sequence[Parsed], memory: CheckMemory) -> list[Parsed]:
    """Return texts where the text of each list declares its sources, instead of CREATE SOURCES in another text.

    Without its list CREATE SOURCES stays as it is. What a list stood for before is taken from ``memory``.
    """
    lists = {each.source.file: place for place, each in enumerate(texts) if is_list(each.source.file)}
    found = {place: list[Statement]() for place in lists.values()}
    texts = list(texts)
    for place, parsed in enumerate(texts):
        others: list[Statement] = []
        for each in parsed.statements:
            beside = list_beside(parsed.source, each.file.value) if isinstance(each, CreateSources) else None
            if isinstance(each, CreateSources) and beside in lists:
                found[lists[beside]].extend(_sources(each, texts[lists[beside]], memory))
            else:
                others.append(each)
        if len(others) < len(parsed.statements):
            texts[place] = replace(parsed, statements=tuple(others))
    for place, statements in found.items():
        texts[place] = replace(texts[place], statements=tuple(statements))
    return texts


def list_beside(text: SourceText, name: str) -> str:
    """Return the file of a list that a text names.

    >>> list_beside(SourceText("profiles/main.profile", ""), "feeds.csv")
    'profiles/feeds.csv'
    """
    return str(PurePath(text.file).parent / name)


def list_problem(statement: CreateSources, text: SourceText, files: Set[str]) -> str | None:
    """Return why the list of a statement cannot be read, or ``None`` if it is among the declaration's ``files``."""
    name = statement.file.value
    if not is_list(name) or PurePath(name).name != name:
        return f"a list is a file {LIST_SUFFIX} beside the profile, such as 'feeds{LIST_SUFFIX}'; found {name!r}"
    if list_beside(text, name) not in files:
        return f"there is no file {name!r} beside this profile; create it, with an address on each line"
    return None


def _sources(statement: CreateSources, listed: Parsed, memory: CheckMemory) -> tuple[ListedSource, ...]:
    """Return the sources of a list; those of lines at the same place as before are the same objects."""
    before: Mapping[ListLine, ListedSource] = memory.recall(statement, ()) or {}
    options = {name: getattr(statement, name) for name in _OPTIONS}
    found: dict[ListLine, ListedSource] = {}
    sources: list[ListedSource] = []
    for line in listed.lines:
        source = before.get(line)
        if source is None or source.span != line.url.span:
            name = _named(statement, line)
            source = ListedSource(name, statement.page_class, line.url, span=line.url.span, **options)
        found[line] = source
        sources.append(source)
    memory.keep(statement, (), found)
    return tuple(sources)


def _named(statement: CreateSources, line: ListLine) -> Located[str]:
    """Return the name of a source: the prefix, and its name in the list or its address without scheme."""
    name = line.name or replace(line.url, value=without_scheme(line.url.value))
    return replace(name, value=statement.name.value + name.value)
