"""Checks texts that are added to a declaration without a look at the rest of it.

It answers only what is simple: sources, rules and WATCHes with names and addresses that nothing else has. Whatever
could change the meaning of another statement, or has an error, is left to the check of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from proxyd.core.language.checking.check_context import CheckSettings, Reporter
from proxyd.core.language.checking.check_memory import CheckMemory
from proxyd.core.language.checking.classes import ClassIndex
from proxyd.core.language.checking.rule_checker import KnownNames, RuleChecker
from proxyd.core.language.checking.source_checker import check_source
from proxyd.core.language.checking.value_reader import Values
from proxyd.core.language.nodes import (
    CreateProfile,
    CreateSource,
    CreateSources,
    InsertNotification,
    Located,
    Parsed,
    Statement,
    StatementKind,
    Unread,
    Watch,
    kind_of_statement,
)
from proxyd.core.language.watches import ClassInBrief, TakenNames, classes_in_brief, expand
from proxyd.core.model.profile import Declaration, NotificationRule, Source
from proxyd.errors import RuleError

Names: TypeAlias = Mapping[StatementKind, Set[str]]


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """What the texts of a declaration use up, and how what is added can touch them.

    Parameters
    ----------
    names
        What is declared, by kind.
    urls
        The addresses of sources and WATCHes.
    classes
        The page classes in brief, by name in lower case.
    open_rules
        The rules that have all sources of their classes.
    has_unread
        Whether no rule has some source.
    is_touchy
        Whether what is added may change the warnings or the sources of other rules in ways not followed here.
    """

    names: Names
    urls: Set[str]
    classes: Mapping[str, ClassInBrief]
    open_rules: Sequence[str]
    has_unread: bool
    is_touchy: bool

    @classmethod
    def of(cls, texts: Sequence[Parsed], expanded: Sequence[Parsed], *, has_unread: bool) -> DeclaredNames:
        """Return what texts use up."""
        written = [each for parsed in texts for each in parsed.statements]
        meant = [each for parsed in expanded for each in parsed.statements]
        open_rules = [each for each in meant if isinstance(each, InsertNotification) and not each.sources]
        return cls(
            _by_kind(meant),
            {each.url.value for each in (*written, *meant) if isinstance(each, CreateSource | Watch)},
            dict(classes_in_brief(written)),
            [each.name.value for each in open_rules],
            has_unread,
            any(isinstance(each, CreateProfile) and each.trouble for each in meant)
            or any(each.screenshot is not None or _is_of_source(each) for each in open_rules),
        )

    def with_added(self, texts: Sequence[Parsed], expanded: Sequence[Parsed], *, has_unread: bool) -> DeclaredNames:
        """Return what is used up with added texts."""
        added = DeclaredNames.of(texts, expanded, has_unread=has_unread)
        return replace(
            self,
            names={kind: self.names[kind] | added.names[kind] for kind in StatementKind},
            urls=self.urls | added.urls,
            open_rules=[*self.open_rules, *added.open_rules],
            has_unread=self.has_unread or has_unread,
            is_touchy=self.is_touchy or added.is_touchy,
        )


def _by_kind(statements: Sequence[Statement]) -> Names:
    found: dict[StatementKind, set[str]] = {kind: set() for kind in StatementKind}
    for each in statements:
        found[kind_of_statement(each)].add(each.name.value)
    return found


def _is_of_source(rule: InsertNotification) -> bool:
    return rule.trigger is not None and rule.trigger.kind.is_of_source


@dataclass(frozen=True, slots=True)
class Added:
    """A declaration with what was added to it: the added texts with what each WATCH stands for, and their warnings."""

    declaration: Declaration
    expanded: Sequence[Parsed]
    warnings: Sequence[RuleError]
    names: DeclaredNames


def check_added(
    texts: Sequence[Parsed],
    settings: CheckSettings,
    declaration: Declaration,
    known: DeclaredNames,
    memory: CheckMemory,
) -> Added | None:
    """Return a declaration with texts added, or ``None`` if it must be checked as a whole."""
    written = [each for parsed in texts for each in parsed.statements]
    if any(isinstance(each, CreateSources) for each in written):
        return None
    if known.is_touchy or any(parsed.errors or parsed.broken for parsed in texts) or not _is_new(written, known):
        return None
    taken = TakenNames(known.classes, known.names[StatementKind.PROFILE], known.names[StatementKind.SOURCE])
    expanded = expand(texts, memory, taken)
    meant = [each for parsed in expanded for each in parsed.statements]
    own = _by_kind(meant)
    is_plain = all(isinstance(each, CreateSource | InsertNotification) for each in meant)
    is_single = sum(map(len, own.values())) == len(meant)
    if not is_plain or not is_single or any(not known.names[kind].isdisjoint(own[kind]) for kind in own):
        return None
    if any(parsed.errors for parsed in expanded) or not {".", ".."}.isdisjoint(each.name.value for each in meant):
        return None
    return _Addition(texts, expanded, settings, declaration, known, memory).check()


def _is_new(written: Sequence[Statement], known: DeclaredNames) -> bool:
    """Return whether addresses are new, and stand in one statement each."""
    urls = [each.url.value for each in written if isinstance(each, CreateSource | Watch)]
    return len(set(urls)) == len(urls) and known.urls.isdisjoint(urls)


class _Addition:
    """Checks added statements."""

    def __init__(
        self,
        texts: Sequence[Parsed],
        expanded: Sequence[Parsed],
        settings: CheckSettings,
        declaration: Declaration,
        known: DeclaredNames,
        memory: CheckMemory,
    ) -> None:
        self._texts, self._expanded = texts, expanded
        self._settings = settings
        self._before = declaration
        self._known = known
        self._memory = memory
        self._reporters = [Reporter(parsed.source) for parsed in expanded]

    def check(self) -> Added | None:
        before, known = self._before, self._known
        sources = self._sources()
        everything = {**before.sources, **sources}
        rules = self._rules(KnownNames(self._memory.domains, everything, before.profiles, Unread()))
        own = {name for rule in rules.values() for name in rule.source_ids}
        if any(reporter.errors for reporter in self._reporters) or (known.has_unread and not own <= sources.keys()):
            return None
        gained = self._gained(sources)
        if any(not before.rules[name].source_ids for name in gained):  # the warning that they have none is over
            return None
        has_unread = self._warn_of_unread(own.union(*gained.values()))
        names = known.with_added(self._texts, self._expanded, has_unread=has_unread)
        if names.is_touchy:
            return None
        gaining = {
            name: replace(before.rules[name], source_ids=(*before.rules[name].source_ids, *more))
            for name, more in gained.items()
        }
        declaration = replace(before, sources=everything, rules={**before.rules, **gaining, **rules})
        warnings = [each for reporter in self._reporters for each in reporter.warnings]
        return Added(declaration, self._expanded, warnings, names)

    def _each(self) -> Iterator[tuple[Statement, Reporter]]:
        for parsed, reporter in zip(self._expanded, self._reporters, strict=True):
            for statement in parsed.statements:
                yield statement, reporter

    def _sources(self) -> dict[str, Source]:
        domains, found = self._memory.domains, dict[str, Source]()
        classes = ClassIndex(domains.values(), complete=True, where="")
        for statement, reporter in self._each():
            if isinstance(statement, CreateSource):
                reports = reporter.reports
                source = check_source(statement, classes, reporter, Values(reporter, self._settings))
                if source is not None:
                    found[source.source_id] = source
                    if reporter.reports == reports:
                        self._memory.keep(statement, (domains,), source)
        return found

    def _rules(self, known: KnownNames) -> dict[str, NotificationRule]:
        found: dict[str, NotificationRule] = {}
        for statement, reporter in self._each():
            if isinstance(statement, InsertNotification):
                reports = reporter.reports
                rule = RuleChecker(known, reporter, self._settings).check(statement)
                if rule is not None:
                    found[rule.name] = rule
                    if reporter.reports == reports and statement.screenshot is None:
                        self._memory.keep(statement, known.named_by(statement), rule)
        return found

    def _gained(self, sources: Mapping[str, Source]) -> dict[str, tuple[str, ...]]:
        """Return the added sources of each rule that has all sources of its classes."""
        before = self._before
        added = KnownNames(self._memory.domains, sources, before.profiles, Unread())
        gained = ((name, added.sources_of(before.rules[name])) for name in self._known.open_rules if sources)
        return {name: more for name, more in gained if more}

    def _warn_of_unread(self, asked: Set[str]) -> bool:
        """Warn of the added sources that no rule has; return whether there are any."""
        has_unread = False
        for parsed, reporter in zip(self._expanded, self._reporters, strict=True):
            sources = [each.name for each in parsed.statements if isinstance(each, CreateSource)]
            unread = [name for name in sources if name.value not in asked]
            if unread:
                reporter.warn(no_rule_reads(unread), unread[0].span)
            has_unread = has_unread or bool(unread)
        return has_unread


def no_rule_reads(names: Sequence[Located[str]]) -> str:
    """Return the warning about sources that no rule has."""
    also = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"no rule here reads the source {names[0].value!r}{also}, so nothing asks for it"
