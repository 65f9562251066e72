"""Checks texts as one declaration: the names of all files together, types and units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from proxyd.core.errors import RuleError
from proxyd.core.language.checking.classes import BUILT_IN, ClassIndex, check_domain
from proxyd.core.language.checking.rule_checker import KnownNames, RuleChecker
from proxyd.core.language.checking.source_checker import (
    check_deliveries,
    check_profile,
    check_reading,
    check_source,
    has_receiver,
)
from proxyd.core.language.checking.watches import deliveries_of, expand, list_problem, trouble_rule
from proxyd.core.language.syntax.check_context import CheckMemory, CheckSettings, Reporter
from proxyd.core.language.syntax.nodes import (
    CreateDomain,
    CreateProfile,
    CreateReceiver,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    ListedSource,
    Located,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    Unread,
)
from proxyd.core.language.syntax.parser import parse
from proxyd.core.language.syntax.value_checks import Values
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.expression import TextSpan
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import Declaration, Domain, NotificationRule, Profile, Source, owner_of, visible


@dataclass(frozen=True)
class Checked:
    """A declaration, or all errors that prevent it. Warnings do not prevent it."""

    declaration: Declaration | None
    errors: tuple[RuleError, ...] = ()
    warnings: tuple[RuleError, ...] = ()
    texts: Sequence[Parsed] = ()  # what was checked
    expanded: Sequence[Parsed] = ()  # the same with what each WATCH stands for
    memory: CheckMemory | None = None  # for the check of the next declaration


class _Views:
    """What each owner can name: what is theirs, and of the shared sources those that shared rules have in the profile.

    Without an owner this is what is shared. Ask for an owner when all shared rules are known.
    """

    def __init__(self, whole: KnownNames) -> None:
        self.whole = whole
        self._found: dict[str, KnownNames] = {}
        self._shared = whole.of_owner(None) if whole.owners else whole
        self._rules_in: dict[str, list[NotificationRule]] | None = None

    def of(self, owner: str | None, rules: Mapping[str, NotificationRule]) -> KnownNames:
        if owner is None:
            return self._shared
        if self._rules_in is None:
            self._rules_in = defaultdict(list)
            for rule in rules.values():
                for profile in rule.profiles if owner_of(rule.name) is None else ():
                    self._rules_in[profile].append(rule)
        if owner not in self._found:
            reached = dict.fromkeys(name for rule in self._rules_in.get(owner, ()) for name in rule.source_ids)
            self._found[owner] = self.whole.of_owner(owner, reached)
        return self._found[owner]


class _Checker:
    """Checks the statements of all texts as one declaration."""

    def __init__(self, written: Sequence[Parsed], settings: CheckSettings, memory: CheckMemory) -> None:
        self._written = written
        self._texts = texts = expand(written, memory)
        self._settings = settings
        self._memory = memory
        self._reporters = [Reporter(parsed.source) for parsed in texts]
        broken = [each for parsed in texts for each in parsed.broken]
        self._unread = Unread(
            frozenset(each.kind for each in broken if each.name is None),
            frozenset((each.kind, each.name) for each in broken if each.name is not None),
        )

    def check(self) -> Checked:
        self._report_names()
        domains = self._memory.same_domains(self._domains())
        receivers = self._memory.same_receivers(self._receivers())
        sources = self._sources(domains)
        profiles = self._profiles(KnownNames(domains, sources, {}, self._unread, receivers))
        rules = self._rules(KnownNames(domains, sources, profiles, self._unread, receivers))
        errors: list[RuleError] = []
        for parsed, reporter in zip(self._texts, self._reporters, strict=True):
            # the value of a text whose quote is not closed is '?', which is no address either
            unclosed = {error.start for error in parsed.errors}
            checked = (
                e for e in reporter.errors if "'?'" not in e.message or unclosed.isdisjoint(range(e.start, e.stop))
            )
            own = [*parsed.errors, *checked]
            unique = {(error.start, error.stop, error.message): error for error in own}  # a WATCH is checked in parts
            errors.extend(sorted(unique.values(), key=lambda error: (error.start, error.stop)))
        if not errors:
            self._warn_of_probes(rules)
            self._warn_of_unread_sources(rules)
        warned = (warning for reporter in self._reporters for warning in reporter.warnings)
        warnings = {(each.file, each.start, each.stop, each.message): each for each in warned}
        known = {**domains, BUILT_IN.name: BUILT_IN}
        declaration = None if errors else Declaration(known, sources, profiles, rules)
        self._memory.finish()
        return Checked(declaration, tuple(errors), tuple(warnings.values()), self._written, self._texts, self._memory)

    def _each(self) -> Iterator[tuple[Statement, Reporter]]:
        for parsed, reporter in zip(self._texts, self._reporters, strict=True):
            for statement in parsed.statements:
                yield statement, reporter

    def _report_names(self) -> None:
        """Report names that cannot be used or are declared twice, and DROP outside the API."""
        places: dict[tuple[StatementKind, str], tuple[Reporter, TextSpan]] = {}
        for statement, reporter in self._each():
            if not isinstance(statement, DropStatement):
                _report_name(statement, reporter, places)
            elif not self._settings.from_api:
                message = "DROP is only for texts sent to the API; in a file, remove the statement instead"
                reporter.error(message, statement.span)

    def _domains(self) -> dict[str, Domain]:
        domains: dict[str, Domain] = {}
        for statement, reporter in self._each():
            if isinstance(statement, CreateDomain):
                domains.setdefault(statement.name.value, check_domain(statement, reporter))
        return domains

    def _receivers(self) -> dict[str, tuple[Delivery, ...]]:
        receivers: dict[str, tuple[Delivery, ...]] = {}
        for statement, reporter in self._each():
            if isinstance(statement, CreateReceiver):
                check_deliveries(statement.to, reporter, Values(reporter, self._settings))
                receivers.setdefault(statement.name.value, deliveries_of(statement))
        return receivers

    def _sources(self, domains: Mapping[str, Domain]) -> dict[str, Source]:
        is_complete = not self._unread.hides_any(StatementKind.DOMAIN)
        known: dict[str | None, ClassIndex] = {}

        def classes_of(owner: str | None) -> ClassIndex:
            if owner not in known:
                its = [domains[full] for full in visible(domains, owner).values()]
                known[owner] = ClassIndex(its, complete=is_complete, where="")
            return known[owner]

        sources: dict[str, Source] = {}
        self._check_lists(classes_of(None))
        unread: list[str] = []
        inputs = (domains,)  # all sources share it
        for statement, reporter in self._each():
            if isinstance(statement, CreateSource):
                source = self._memory.recall(statement, inputs)
                if source is None:
                    reports, classes = reporter.reports, classes_of(owner_of(statement.name.value))
                    source = check_source(statement, classes, reporter, Values(reporter, self._settings))
                    if source is not None and reporter.reports == reports:
                        self._memory.keep(statement, inputs, source)
                if source is not None:
                    sources.setdefault(source.source_id, source)
                else:
                    unread.append(statement.name.value)
        self._unread = self._unread.adding(StatementKind.SOURCE, unread)
        return sources

    def _check_lists(self, classes: ClassIndex) -> None:
        """Check each CREATE SOURCES, once for all its sources."""
        files = {parsed.source.file for parsed in self._written}
        for parsed, reporter in zip(self._written, self._reporters, strict=True):
            for statement in parsed.statements:
                if isinstance(statement, CreateSources):
                    if (problem := list_problem(statement, parsed.source, files)) is not None:
                        reporter.error(problem, statement.file.span)
                    check_reading(statement, classes, reporter, Values(reporter, self._settings))

    def _profiles(self, known: KnownNames) -> dict[str, Profile]:
        profiles: dict[str, Profile] = {}
        views: dict[str | None, KnownNames] = {}
        for statement, reporter in self._each():
            if isinstance(statement, CreateProfile):
                owner = _owner_of_profile(statement, reporter)
                names = (known.receivers,) if has_receiver(statement.deliveries) else ()
                inputs = (known.domains, owner, *names)
                profile = self._memory.recall(statement, inputs)
                if profile is None:
                    if owner not in views:
                        views[owner] = known.of_owner(owner)
                    its = views[owner]
                    reports, values = reporter.reports, Values(reporter, self._settings)
                    profile = check_profile(statement, its.domains, its.receivers, reporter, values, self._unread)
                    if reporter.reports == reports:
                        self._memory.keep(statement, inputs, profile)
                profiles.setdefault(profile.name, profile)
        return profiles

    def _rules(self, known: KnownNames) -> dict[str, NotificationRule]:
        """Return the rules; those that belong to a profile come last, because what they reach follows from others."""
        rules: dict[str, NotificationRule] = {}
        views = _Views(known)
        statements = [(each, reporter) for each, reporter in self._each() if isinstance(each, InsertNotification)]
        for statement, reporter in sorted(statements, key=lambda pair: owner_of(pair[0].name.value) is not None):
            rule = self._rule(statement, views.of(owner_of(statement.name.value), rules), reporter)
            if rule is not None:
                rules.setdefault(rule.name, rule)
        in_order = {name: rules[name] for each, _ in statements if (name := each.name.value) in rules}
        return in_order | dict(self._trouble_rules(views, in_order))

    def _rule(self, statement: InsertNotification, known: KnownNames, reporter: Reporter) -> NotificationRule | None:
        """Return a checked rule; of one that was checked before, only the sources are looked up."""
        inputs, reports = known.dependencies(statement), reporter.reports
        kept: NotificationRule | None = self._memory.recall(statement, inputs)
        sources = () if kept is None else kept.source_ids if statement.sources else known.sources_of(kept)
        rule: NotificationRule | None
        if kept is not None and sources:
            rule = kept if sources == kept.source_ids else replace(kept, source_ids=sources)
        else:
            rule = RuleChecker(known, reporter, self._settings).check(statement)
        is_clean = reporter.reports == reports and statement.screenshot is None  # its warnings depend on the sources
        if rule is not None and is_clean:
            self._memory.keep(statement, inputs, rule)
        return rule

    def _trouble_rules(
        self, views: _Views, rules: Mapping[str, NotificationRule]
    ) -> Iterator[tuple[str, NotificationRule]]:
        """Yield the rules of ON TROUBLE; each has the sources that the other rules of its profile have."""
        each_profile = ((each, reporter) for each, reporter in self._each() if isinstance(each, CreateProfile))
        troubled = [(each, reporter) for each, reporter in each_profile if each.trouble]
        watched: dict[str, dict[str, None]] = {each.name.value: {} for each, _ in troubled}
        untold: dict[str, list[str]] = {each: [] for each in watched}
        for rule in rules.values() if troubled else ():
            for profile in watched.keys() & rule.profiles:
                watched[profile].update(dict.fromkeys(rule.source_ids))
                if rule.trigger.kind is EventKind.HEALTH and not rule.deliveries:
                    untold[profile].append(rule.name)
        for statement, reporter in troubled:
            meant, known = trouble_rule(statement), views.of(_owner_of_profile(statement, reporter), rules)
            found = RuleChecker(known, reporter, self._settings).check(meant)
            if meant.name.value in rules:
                message = f"ON TROUBLE makes the notification {meant.name.value!r}; rename the other one of this name"
                reporter.error(message, statement.trouble[0].span)
            elif found is not None:
                sources = watched.get(statement.name.value, {})
                if not sources and found.source_ids:
                    everything = f"no other rule is in this profile, so ON TROUBLE watches {_all_of(found.source_ids)}"
                    reporter.warn(everything, statement.trouble[0].span)
                if left := untold.get(statement.name.value):
                    also = f" and {len(left) - 1} more" if len(left) > 1 else ""
                    message = (
                        f"ON TROUBLE leaves sites out, so nobody is told of {left[0]!r}{also}: write TELL at its WATCH"
                    )
                    reporter.warn(message, statement.trouble[0].span)
                # what happens to a site is told by the rule of its WATCH
                others = (each for each in sources or found.source_ids if not views.whole.is_site(each))
                yield found.name, replace(found, source_ids=tuple(others))

    def _warn_of_probes(self, rules: Mapping[str, NotificationRule]) -> None:
        """Warn of rules on SOURCE that have sources probed often which no rule on their items reads."""
        of_items = (rule for rule in rules.values() if not rule.trigger.kind.is_of_source)
        read: set[str] = set()
        for statement, reporter in self._each():
            if isinstance(statement, InsertNotification) and _asks_often(statement):
                read.update(*(rule.source_ids for rule in of_items))  # once: nothing is left of them then
                own = rules[statement.name.value].source_ids if statement.name.value in rules else ()
                alone = [name for name in own if name not in read]
                if 0 < len(alone) < len(own):
                    reporter.warn(_warning_of_sources_alone(alone), statement.name.span)

    def _warn_of_unread_sources(self, rules: Mapping[str, NotificationRule]) -> None:
        """Warn, once for each text, of sources that no rule has."""
        asked = {name for rule in rules.values() for name in rule.source_ids}
        unread: dict[Reporter, list[Located[str]]] = {}
        for statement, reporter in self._each():
            if isinstance(statement, CreateSource) and statement.name.value not in asked:
                unread.setdefault(reporter, []).append(statement.name)
        for reporter, names in unread.items():
            also = f" and {len(names) - 1} more" if len(names) > 1 else ""
            reporter.warn(
                f"no rule here reads the source {names[0].value!r}{also}, so nothing asks for it", names[0].span
            )


def _owner_of_profile(statement: CreateProfile, reporter: Reporter) -> str | None:
    return statement.name.value if reporter.source.is_owned else None


def _report_name(
    statement: Statement, reporter: Reporter, places: dict[tuple[StatementKind, str], tuple[Reporter, TextSpan]]
) -> None:
    """Report a name that cannot be used, or is declared twice; ``places`` holds the first place of each name."""
    kind, name = statement.kind, statement.name
    if (kind, name.value) == (StatementKind.DOMAIN, BUILT_IN.name):
        reporter.error(f"the domain {name.value!r} holds proxyd's own classes; choose another name", name.span)
    if name.value in {".", ".."}:
        reporter.error("'.' and '..' cannot be names, because URLs drop them", name.span)
    if (first := places.setdefault((kind, name.value), (reporter, name.span))) != (reporter, name.span):
        where = first[0].where(first[1])
        message = f"the {kind.value.lower()} {name.value!r} is declared twice; the first is at {where}"
        reporter.error(message + _another_name(statement), name.span)


def _asks_often(statement: InsertNotification) -> bool:
    """Return whether a rule on SOURCE that names no sources may have them probed more often than daily."""
    is_of_source = statement.trigger is not None and statement.trigger.kind.is_of_source
    return (
        is_of_source
        and not statement.sources
        and (statement.life or statement.policy or statement.longest_gap) is not None
    )


def _warning_of_sources_alone(names: Sequence[str]) -> str:
    also = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"this rule alone has {names[0]!r}{also} asked; to leave others out, name sources with FROM SOURCES"


def _all_of(names: Sequence[str]) -> str:
    return f"the source {names[0]!r}" if len(names) == 1 else f"all {len(names):,} sources"


def _another_name(statement: Statement) -> str:
    """Return what to do about a WATCH whose rule or source is called by its address."""
    match statement:
        case InsertNotification(name=name, sources=(source,)) if source.span == name.span:
            return '; give this WATCH a name of its own: AS "name"'
        case ListedSource():
            return "; remove one of the lines, or give each a name"
        case CreateSource(name=name, url=url) if url.span == name.span:
            return "; to read an address in two ways, declare one of the sources with CREATE SOURCE"
    return ""


def check_parsed(
    texts: Sequence[Parsed], settings: CheckSettings | None = None, before: Checked | None = None
) -> Checked:
    """Return the declaration of parsed texts; what is as in the declaration checked ``before`` is not checked again.

    Examples
    --------
    >>> text = parse("WATCH 'https://example.org/feed';")
    >>> first = check_parsed([text])
    >>> second = check_parsed([text], before=first)
    >>> second.declaration == first.declaration
    True
    """
    settings = settings or CheckSettings()
    if before is None or before.memory is None or before.declaration is None:
        return _Checker(texts, settings, CheckMemory(settings)).check()
    return _Checker(texts, settings, before.memory.following(settings, before.declaration.sources)).check()


def check(texts: Sequence[SourceText], settings: CheckSettings | None = None) -> Checked:
    """Return the declaration of all texts together, or their errors by file and position; errors are not raised."""
    return check_parsed([parse(each.text, each.file) for each in texts], settings)
