"""Checks INSERT NOTIFICATION: the names it uses, its period and its options."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain

from proxyd.core.language.checking.classes import ClassIndex
from proxyd.core.language.checking.query_checker import EventScope, QueryChecker, check_trigger
from proxyd.core.language.checking.scope import Binding, Scope
from proxyd.core.language.checking.source_checker import (
    Receivers,
    check_deliveries,
    check_receivers,
    has_receiver,
    once_each,
    reached,
    report_repeated,
)
from proxyd.core.language.syntax.check_context import CheckSettings, Reporter
from proxyd.core.language.syntax.clauses import RULE_CLAUSES, check_clauses
from proxyd.core.language.syntax.expression_printer import format_expression, format_trigger
from proxyd.core.language.syntax.nodes import InsertNotification, Located, StatementKind, TimeSpec, Unread
from proxyd.core.language.syntax.quoting import quote_name
from proxyd.core.language.syntax.value_checks import Values, read_time
from proxyd.core.language.syntax.words import did_you_mean
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.expression import Aggregate, Duration, Expression, Select, Unit, children
from proxyd.core.model.field_values import length_in_words
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import (
    BUILT_IN_NAME,
    MARK,
    SOURCE_CLASS,
    Anchor,
    Digest,
    Domain,
    MessageTemplate,
    NotificationLimit,
    NotificationRule,
    PageClass,
    PolicyChoice,
    PolicyName,
    Profile,
    Source,
    TimePoint,
    Trigger,
    Utility,
    UtilityKind,
    by_owner,
    full_name,
    owner_of,
    plain_name,
    visible,
)


def _events_hash(trigger: Trigger, named_sources: Sequence[str]) -> str:
    """Return a hash that changes exactly when a rule's event, class, WHERE or FROM SOURCES do."""
    return _hash("\n".join([format_trigger(replace(trigger, condition=None)), *sorted(named_sources)]))


def counting_of(counted: str, aggregates: Sequence[Aggregate]) -> str:
    """Return what counters count, as hashes with spaces between: that of the events, and one of each aggregate."""
    return " ".join([counted, *(_aggregate_hash(each) for each in aggregates)])


def rule_counting(rule: NotificationRule) -> str:
    """Return what a rule's counters count; every rule has ``COUNT(*)``."""
    return counting_of(rule.counted, [Aggregate("COUNT"), *_aggregates(rule.trigger.condition)])


def counters_to_restart(rule: NotificationRule, before: str) -> tuple[str, ...]:
    """Return the counters of a rule's WHEN, as texts, that do not go on from what the rule counted ``before``.

    ``before`` is what ``rule_counting`` returned.
    """
    counted, *kept = before.split(" ")
    found = {format_expression(each): None for each in _aggregates(rule.trigger.condition)}
    return tuple(text for text in found if counted != rule.counted or _hash(text) not in kept)


def _aggregates(expression: Expression | None) -> Iterator[Aggregate]:
    if isinstance(expression, Aggregate):
        yield expression
    elif expression is not None:
        for child in children(expression):
            yield from _aggregates(child)


@lru_cache(256)  # most rules count in few ways, and there may be very many rules
def _aggregate_hash(aggregate: Aggregate) -> str:
    return _hash(format_expression(aggregate))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


MEANING = 2
"""The present meaning of the language. Under meaning 1 the rows of a notification were all events since the last."""


def what_changed(rule: NotificationRule, meaning: int) -> str | None:
    """Return what a rule that was accepted under an earlier meaning does differently now, or ``None``."""
    if meaning >= MEANING:
        return None
    if rule.trigger.where is not None:
        return "its messages hold only the items that match; before, they held all items since the last message"
    if rule.trigger.is_mixed:
        return "its messages hold only the item that it fires on; before, they held all items since the last message"
    query = rule.query
    if query.where is not None or query.having is not None or len(query.sources) > 1:
        return "it sends nothing where its query finds no row; SET EMPTY DELIVER sends such messages as before"
    return None


_LEAST_OFTEN = Duration(Decimal(1), Unit.DAYS)
"""How often the sources of a rule on SOURCE are probed if nothing else asks for more."""
_USUAL_PERCENT = 90  # `default_share`, of a rule that says only WITHIN


_TAKEN = {each.name for each in fields(NotificationRule)}
_AS_WRITTEN = [
    each.attribute for each in RULE_CLAUSES if each.is_located and each.form is not None and each.attribute in _TAKEN
]
"""The clauses that a rule has as they are written; those that need more are in ``RuleChecker.check``."""


@dataclass(frozen=True)
class KnownNames:
    """The declarations that a rule can name. ``unread`` holds those that could not be read.

    For a rule that belongs to a profile they are the own ones and the shared ones; its domains and receivers by the
    names that its owner writes. ``whole`` is all of which these are a part.
    """

    domains: Mapping[str, Domain]
    sources: Mapping[str, Source]
    profiles: Mapping[str, Profile]
    unread: Unread
    receivers: Receivers
    owner: str | None = None
    whole: tuple[Mapping[str, Domain], Receivers] | None = None
    _indices: dict[tuple[tuple[str, ...], bool, str], ClassIndex] = field(default_factory=dict)

    @cached_property
    def owners(self) -> frozenset[str]:
        """The profiles to which something belongs."""
        names = chain(self.sources, self.domains, self.receivers)
        return frozenset(owner for name in names if MARK in name and (owner := owner_of(name)) is not None)

    @cached_property
    def _sources_by_owner(self) -> Mapping[str | None, dict[str, str]]:
        return by_owner(self.sources)

    def of_owner(self, owner: str | None, shared: Iterable[str] | None = None) -> KnownNames:
        """Return what an owner can name: of the ``shared`` sources only some, and what is shared otherwise."""
        own = self._sources_by_owner.get(owner, {}).values()
        return KnownNames(
            {name: self.domains[full] for name, full in visible(self.domains, owner).items()},
            {full: self.sources[full] for full in (*(shared or ()), *own)},
            self.profiles,
            self.unread,
            {name: self.receivers[full] for name, full in visible(self.receivers, owner).items()},
            owner,
            (self.domains, self.receivers),
        )

    def source(self, name: str) -> Source | None:
        """Return the source of a name, as it is written or in full; one of the owner hides a shared one."""
        return self.sources.get(full_name(self.owner, name)) or self.sources.get(name)

    def _written(self, name: str) -> str:
        return plain_name(name) if self.owner is not None and owner_of(name) == self.owner else name

    @cached_property
    def of_class(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The names of the sources of each domain and class."""
        found: dict[tuple[str, str], list[str]] = {}
        for source in self.sources.values():
            found.setdefault((source.domain, source.page_class), []).append(source.source_id)
        return {of_class: tuple(names) for of_class, names in found.items()}

    def dependencies(self, rule: InsertNotification) -> tuple[object, ...]:
        """Return all that the meaning of a rule depends on besides its text, but for the sources of its classes."""
        profiles = (self.profiles.get(each.value) for each in rule.profiles)
        domains, receivers = self.whole or (self.domains, self.receivers)
        names = (receivers,) if has_receiver(rule.deliveries) else ()
        return (domains, *names, *profiles, *(self.source(each.value) for each in rule.sources))

    def fitting(self, wanted: Collection[tuple[str, str]]) -> Sequence[str]:
        """Return the names of the sources of classes, in the order of their declaration."""
        if len(wanted) == 1:
            return self.of_class.get(next(iter(wanted)), ())
        return [each.source_id for each in self.sources.values() if (each.domain, each.page_class) in wanted]

    def sources_of_profiles(self, kind: EventKind | None, profiles: Sequence[Profile]) -> Sequence[str]:
        """Return the sources of the profiles' domains, or of all if a profile names none; only the sites for HEALTH."""
        domains = {name for profile in profiles for name in self._domains_of(profile)}
        if not all(profile.domains for profile in profiles):
            domains.add(BUILT_IN_NAME)
        found = (each for each in self.sources.values() if each.domain in domains)
        return [each.source_id for each in found if kind is not EventKind.HEALTH or each.site is not None]

    def sources_of(self, rule: NotificationRule) -> tuple[str, ...]:
        """Return the sources of the classes that a checked rule reads, or of its profiles if it reads SOURCE."""
        then = rule.trigger.then
        read = [rule.trigger.page_class, *(each.page_class for each in rule.query.sources)]
        read += [] if then is None else [then.page_class]
        wanted = {(each.domain or "", each.name) for each in read}
        if (SOURCE_CLASS.domain, SOURCE_CLASS.name) in wanted:
            return tuple(self.sources_of_profiles(rule.trigger.kind, [self.profiles[name] for name in rule.profiles]))
        return tuple(self.fitting(wanted))

    def _domains_of(self, profile: Profile) -> list[str]:
        """Return the domains that a profile names, or all if it names none, and those that belong to the owner."""
        own = [each.name for each in self.domains.values() if not profile.domains or owner_of(each.name) is not None]
        return [*own, *(each for each in profile.domains if owner_of(each) is None)]

    def is_site(self, name: str) -> bool:
        """Whether a source is a site."""
        source = self.source(name)
        return source is not None and source.site is not None

    def class_index(self, profiles: Sequence[Profile]) -> ClassIndex:
        """Return the classes that rules of some profiles can name."""
        names = dict.fromkeys(name for profile in profiles for name in self._domains_of(profile))
        is_complete = all(profile.domains for profile in profiles) or not self.unread.hides_any(StatementKind.DOMAIN)
        where = " in the domains of this rule's profiles" if any(profile.domains for profile in profiles) else ""
        asked = tuple(names), bool(profiles) and is_complete, where
        if asked not in self._indices:
            domains = [self.domains[each] for each in map(self._written, names) if each in self.domains]
            complete = bool(profiles) and len(domains) == len(names) and is_complete
            self._indices[asked] = ClassIndex(domains, complete=complete, where=where)
        return self._indices[asked]


class RuleChecker:
    """Checks one rule."""

    def __init__(self, known: KnownNames, reporter: Reporter, settings: CheckSettings) -> None:
        self._known = known
        self._reporter = reporter
        self._settings = settings
        self._values = Values(reporter, settings)

    def check(self, rule: InsertNotification) -> NotificationRule | None:
        """Return the rule as the daemon runs it, or ``None`` if a part of it is missing."""
        profiles = self._profiles(rule)
        classes = self._known.class_index(profiles)
        trigger, query, message, page_classes = self._read_texts(rule, classes)
        sources = self._sources(rule, profiles, page_classes)
        self._check_options(rule)
        self._check_screenshot(rule, sources)
        self._check_gap(rule, sources)
        start, end = self._period(rule)
        if trigger is None or query is None or start is None or end is None:
            return None
        named = [each.value for each in rule.sources]
        own = {
            "utility": Utility(UtilityKind.STRICT),
            **{name: clause.value for name in _AS_WRITTEN if (clause := getattr(rule, name)) is not None},
            "policy": _policy(rule),
            "deliveries": _deliveries(rule, profiles, self._known.receivers),
            "digest": _digest(rule, profiles),
            "quiet": _quiet(rule, profiles),
            "limit": self._limit(rule, page_classes),
            "message": message,
        }
        return NotificationRule(
            name=rule.name.value,
            profiles=tuple(profile.name for profile in profiles),
            query=query,
            trigger=trigger,
            start=start,
            end=end,
            source_ids=sources,
            sends_empty=rule.empty is not None,
            keeps_screenshot=rule.screenshot is not None,
            fingerprint=fingerprint(trigger, named),
            counted=_events_hash(trigger, named),
            file=self._reporter.source.file,
            **own,
        )

    # ---- names

    def _profiles(self, rule: InsertNotification) -> list[Profile]:
        report_repeated("profile", rule.profiles, self._reporter)
        found = []
        for name in rule.profiles:
            profile = self._known.profiles.get(name.value)
            if profile is not None:
                found.append(profile)
            elif not self._known.unread.hides(StatementKind.PROFILE, name.value):
                declare = f" Declare it: CREATE PROFILE {quote_name(name.value)}"
                hint = self._reporter.hint(name.value, self._known.profiles) or declare
                self._reporter.error(f"there is no profile {name.value!r}.{hint}", name.span)
        return found

    def _read_texts(
        self, rule: InsertNotification, classes: ClassIndex
    ) -> tuple[Trigger | None, Select | None, MessageTemplate | None, list[PageClass]]:
        """Return the trigger, the query and the message, each ``None`` if it has errors, and the classes they read."""
        trigger, event = self._read_trigger(rule, classes)
        event_classes = [each for each in (event.page_class, event.answer_class) if each is not None]
        if rule.query is None:
            return trigger, None, None, event_classes
        found = QueryChecker(classes, event, self._reporter, self._values).check(rule.query, rule.message)
        if found is None:
            return trigger, None, None, event_classes
        query, query_classes, message = found
        return trigger, query, message, [*event_classes, *query_classes]

    def _read_trigger(self, rule: InsertNotification, classes: ClassIndex) -> tuple[Trigger | None, EventScope]:
        """Return the resolved trigger, or ``None``, and what the query may read of its event."""
        if rule.trigger is None:
            return None, EventScope(EventKind.INSERT, None)
        checked = check_trigger(rule.trigger, classes, self._reporter, self._values)
        if checked is None:
            return None, EventScope(rule.trigger.kind, None)
        return checked.trigger, EventScope(checked.trigger.kind, checked.page_class, checked.answer_class)

    def _sources(
        self, rule: InsertNotification, profiles: Sequence[Profile], page_classes: Sequence[PageClass]
    ) -> tuple[str, ...]:
        is_of_sources = SOURCE_CLASS in page_classes
        wanted = {} if is_of_sources else dict.fromkeys((each.domain, each.name) for each in page_classes)
        if not rule.sources:
            kind = None if rule.trigger is None else rule.trigger.kind
            fitting = self._known.sources_of_profiles(kind, profiles) if is_of_sources else self._known.fitting(wanted)
            if not fitting and page_classes and not self._known.unread.hides_any(StatementKind.SOURCE):
                classes = " or ".join(dict.fromkeys(each.name for each in page_classes))
                message = f"the notification {rule.name.value!r} has no source of class {classes} yet"
                self._reporter.warn(message, rule.name.span)
            return tuple(fitting)
        report_repeated("source", rule.sources, self._reporter)
        for name in rule.sources:
            self._check_named_source(name, wanted)
        found = ((each.value, self._known.source(each.value)) for each in rule.sources)
        is_kept = self._reporter.source.is_kept
        return tuple(
            name if source is None else source.source_id for name, source in found if source is not None or not is_kept
        )

    def _check_named_source(self, name: Located[str], wanted: Collection[tuple[str, str]]) -> None:
        source = self._known.source(name.value)
        if source is None:
            if not self._known.unread.hides(StatementKind.SOURCE, name.value):
                suggestion = did_you_mean(name.value, [plain_name(each) for each in self._known.sources])
                report = self._reporter.warn if self._reporter.source.is_kept else self._reporter.error
                report(f"there is no source {name.value!r}.{suggestion}", name.span)
        elif wanted and (source.domain, source.page_class) not in wanted:
            classes = " or ".join(sorted({page_class for _, page_class in wanted}))
            message = f"the source {name.value!r} is of class {source.page_class}; this rule needs {classes}"
            self._reporter.error(message, name.span)

    # ---- period

    def _period(self, rule: InsertNotification) -> tuple[TimePoint | None, TimePoint | None]:
        start = self._time(rule.start) if rule.start else TimePoint(Anchor.NOW)
        end = self._time(rule.end) if rule.end else TimePoint(Anchor.NEVER)
        if rule.start is not None and rule.start.anchor is Anchor.NEVER:
            self._reporter.error("START cannot be NEVER", rule.start.span)
        elif start is not None and end is not None and rule.end is not None and self._ends_too_early(start, end):
            self._reporter.error("END must come after START", rule.end.span)
        return start, end

    def _time(self, spec: TimeSpec) -> TimePoint | None:
        if spec.anchor is Anchor.ABSOLUTE:
            seconds = read_time(spec.text or "")
            if seconds is None:
                message = (
                    f"{spec.text!r} is not a time: expected ISO 8601 such as '2026-01-01T00:00:00Z', "
                    'or NOW and an interval such as "30 days" + NOW'
                )
                self._reporter.error(message, spec.span)
                return None
            return TimePoint(Anchor.ABSOLUTE, time_s=seconds)
        if spec.offset is not None and spec.offset.amount:
            length = Duration(abs(spec.offset.amount), spec.offset.unit)
            self._values.durations([("the interval", length)], spec.span)
        return TimePoint(spec.anchor, spec.offset)

    def _ends_too_early(self, start: TimePoint, end: TimePoint) -> bool:
        """Return whether END is certainly not after START; times that only NOW relates may be in any order."""
        if end.anchor is not start.anchor:
            return False
        chronon_s = self._settings.chronon_s
        return end.resolve(0.0, chronon_s=chronon_s) <= start.resolve(0.0, chronon_s=chronon_s)

    # ---- options

    def _check_options(self, rule: InsertNotification) -> None:
        check_clauses(rule, RULE_CLAUSES, self._values)
        if rule.target is not None:
            self._check_target(rule, rule.target)
        if rule.trigger is not None and rule.trigger.kind.is_of_source:
            self._check_rule_on_source(rule)
        elif rule.longest_gap is not None and rule.policy is not None and not rule.policy.value.leaves_times:
            message = f"SET POLICY {rule.policy.value.name.value} says itself how often: leave out EVERY, or the policy"
            self._reporter.error(message, rule.longest_gap.span)
        check_deliveries(rule.deliveries, self._reporter, self._values)
        check_receivers(rule.deliveries, self._known.receivers, self._reporter, self._known.unread)

    def _limit(self, rule: InsertNotification, page_classes: Sequence[PageClass]) -> NotificationLimit | None:
        """Return the limit of a rule, with the field of its key as the trigger's class declares it."""
        if rule.limit is None:
            return None
        limit = rule.limit.value
        if limit.key is None or not page_classes or rule.trigger is None:
            return limit
        bindings = [Binding(page_classes[0].name, page_classes[0])]
        scope = Scope(bindings, event=rule.trigger.kind, event_class=page_classes[0])
        return replace(limit, key=scope.resolve(limit.key, self._reporter)[0])

    def _check_gap(self, rule: InsertNotification, source_ids: Sequence[str]) -> None:
        """Warn of sources that the least time between two probes keeps from what EVERY or WITHIN says."""
        slow = next((each for each in source_ids if self._has_usual_spacing(each)), None)
        least_s, gap = self._settings.spacing_s, rule.longest_gap
        because = f"the source {slow!r} is asked every {length_in_words(least_s)} at most, as source_spacing says: "
        if slow is None or least_s <= 0.0:
            return
        if gap is not None and gap.value.in_seconds(chronon_s=self._settings.chronon_s) < least_s:
            self._reporter.warn(f"{because}give it POLITENESS SPACING, or let EVERY be longer", gap.span)
        if rule.life is None or rule.life.value.window is None or not _policy(rule).leaves_times:
            return
        percent = 100.0 * rule.life.value.window.in_seconds(chronon_s=self._settings.chronon_s) / least_s
        if percent < (_USUAL_PERCENT if rule.target is None else rule.target.value):
            message = f"it can see at most {percent:.2g} % of its items in time, because {because}"
            self._reporter.warn(f"{message}give it POLITENESS SPACING, or allow more time", rule.life.span)

    def _has_usual_spacing(self, source_id: str) -> bool:
        source = self._known.source(source_id)
        return source is not None and not (source.politeness and source.politeness.spacing)

    def _check_screenshot(self, rule: InsertNotification, source_ids: Sequence[str]) -> None:
        """Warn of sources that have no pictures, because no browser shows them."""
        sources = [each for each in map(self._known.source, source_ids) if each is not None]
        plain = [each.source_id for each in sources if each.rendering is None]
        if rule.screenshot is None or not plain:
            return
        others = f" and {len(plain) - 1} more" if len(plain) > 1 else ""
        message = (
            f"SCREENSHOT keeps no picture of the source {plain[0]!r}{others}, because no browser opens it: "
            "add FETCH BROWSER to the source"
        )
        self._reporter.warn(message, rule.screenshot.span)

    def _check_target(self, rule: InsertNotification, target: Located[Decimal]) -> None:
        if rule.life is None:
            message = "a target needs a time: write WITHIN 10 MINUTES FOR 95 %, or add SET LIFE"
            self._reporter.error(message, target.span)
        if rule.policy is not None and not rule.policy.value.leaves_times:
            policy = rule.policy.value.name.value
            message = f"a target changes nothing with SET POLICY {policy}: leave out SET POLICY"
            self._reporter.warn(message, target.span)

    def _check_rule_on_source(self, rule: InsertNotification) -> None:
        """Report what a rule on SOURCE cannot have, because its events are not items that wait to be found."""
        if rule.policy is not None and rule.policy.value.name is not PolicyName.UNIFORM:
            message = "a rule on SOURCE takes no POLICY but UNIFORM; write WITHIN 5 MINUTES to probe that often"
            self._reporter.error(message, rule.policy.span)
        if rule.target is not None:
            message = "a rule on SOURCE takes no target: with WITHIN its sources are probed that often"
            self._reporter.error(message, rule.target.span)


def _policy(rule: InsertNotification) -> PolicyChoice:
    """Return the policy that a rule names, otherwise AUTO; on SOURCE a probe in each EVERY, WITHIN or day."""
    if rule.policy is not None:
        return rule.policy.value
    if rule.trigger is None or not rule.trigger.kind.is_of_source:
        return PolicyChoice(PolicyName.AUTO)
    period = rule.longest_gap.value if rule.longest_gap else rule.life.value.window if rule.life else None
    return PolicyChoice(PolicyName.UNIFORM, period=period or _LEAST_OFTEN)


def fingerprint(trigger: Trigger, named_sources: Sequence[str]) -> str:
    """Return a text that changes exactly when a rule's trigger class, conditions or FROM SOURCES do.

    A rule that names no sources applies to all sources of its classes; a change of these does not count. A WHERE alone
    counts as the WHEN that it may be written as.
    """
    if trigger.condition is None:
        trigger = replace(trigger, where=None, condition=trigger.where)
    canonical = "\n".join([format_trigger(trigger), *sorted(named_sources)])
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _quiet(rule: InsertNotification, profiles: Sequence[Profile]) -> tuple[QuietHours, ...]:
    """Return the quiet hours of all profiles of a rule; none if one of them has none, or if the rule wants none."""
    found = [profile.quiet for profile in profiles if profile.quiet is not None]
    return () if rule.quiet is not None or len(found) < len(profiles) else tuple(found)


def _digest(rule: InsertNotification, profiles: Sequence[Profile]) -> Digest | None:
    """Return the rule's own digest, otherwise that of the first of its profiles that has one."""
    if rule.digest is not None:
        return rule.digest.value
    return next((profile.digest for profile in profiles if profile.digest is not None), None)


def _deliveries(rule: InsertNotification, profiles: Sequence[Profile], receivers: Receivers) -> tuple[Delivery, ...]:
    """Return the rule's own deliveries, otherwise those of its profiles, one to each address."""
    if rule.no_delivery:
        return ()
    own = [*reached(rule.deliveries, receivers)]
    return once_each(own or [each for profile in profiles for each in profile.deliveries])
