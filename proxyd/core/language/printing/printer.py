"""Prints statements in one canonical layout: ``parse(format_statements(x)).statements == x``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from proxyd.core.language.deliveries import format_delivery, format_secret
from proxyd.core.language.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    Located,
    Parsed,
    SourceOptions,
    Statement,
    TimeSpec,
    Watch,
)
from proxyd.core.language.printing.expression_printer import format_class, format_expression, format_path, format_select
from proxyd.core.language.printing.quoting import format_duration, format_number, quote_name, quote_text
from proxyd.core.language.words import get_keyword
from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.expression import Duration, Unit
from proxyd.core.model.profile import (
    After,
    Anchor,
    Auth,
    Digest,
    Extraction,
    ImportanceTerm,
    Life,
    NotificationLimit,
    PolicyChoice,
    PolicyName,
    Politeness,
    Then,
    Trigger,
    Utility,
    UtilityKind,
)
from proxyd.core.model.wall_time import WallTime

__all__ = [
    "format_expression",
    "format_options",
    "format_parsed",
    "format_select",
    "format_settings",
    "format_statements",
    "format_trigger",
]

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
            lines = _notification(statement)
        case Watch():
            lines = _watch(statement)
        case DropStatement():
            lines = [f"DROP {statement.kind.value} {quote_name(statement.name.value)}"]
    return [*statement.comments, *lines[:-1], f"{lines[-1]};"]


def _names(names: Iterable[Located[str]]) -> str:
    return ", ".join(quote_name(name.value) for name in names)


# ---- domains and sources


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
    return [head, *(f"  {option}" for option in format_options(source))]


def format_options(source: SourceOptions) -> list[str]:
    """Return the options of a source in their written form."""
    options = []
    if source.politeness is not None:
        options.append(f"POLITENESS {_probe_limit(source.politeness.value)}")
    if source.expect is not None:
        expect = source.expect.value
        options.append(f"EXPECT {format_number(expect.amount)} PER {_period(expect.per)}")
    if source.zone is not None:
        options.append(f"ZONE {quote_text(source.zone.value)}")
    if source.locale is not None:
        options.append(f"LOCALE {quote_text(source.locale.value)}")
    if source.freshness is not None:
        options.append(f"FRESHNESS {_obey(source.freshness)}")
    options.extend(f"HEADER {quote_text(each.value[0])} {_header_value(each.value[1])}" for each in source.headers)
    if source.auth is not None:
        options.append(f"AUTH {_auth(source.auth.value)}")
    if source.post is not None:
        options.append("METHOD POST" + (f" BODY {quote_text(source.post.value)}" if source.post.value else ""))
    if source.websub is not None:
        options.append(f"WEBSUB {'ON' if source.websub.value else 'OFF'}")
    if source.robots is not None:
        options.append(f"ROBOTS {_obey(source.robots)}")
    options.extend(f"BACKOFF {'ON' if each.value else 'OFF'}" for each in [source.backoff] if each is not None)
    return options + _fetching(source)


def _fetching(statement: SourceOptions | Watch) -> list[str]:
    """Return how a page is fetched."""
    fetching = ["FETCH BROWSER"] if statement.browser is not None else []
    return fetching + [f"WAIT FOR {quote_text(each.value)}" for each in [statement.wait_for] if each is not None]


def _obey(obeys: Located[bool]) -> str:
    return "OBEY" if obeys.value else "IGNORE"


def _header_value(value: str | SecretRef) -> str:
    return quote_text(value) if isinstance(value, str) else format_secret(value)


def _auth(auth: Auth) -> str:
    user = "BEARER" if auth.user is None else f"BASIC {quote_text(auth.user)}"
    return f"{user} {format_secret(auth.secret)}"


def _probe_limit(limit: Politeness) -> str:
    parts = []
    if limit.probes is not None and limit.per is not None:
        noun = "PROBE" if limit.probes == 1 else "PROBES"
        parts.append(f"{limit.probes} {noun} PER {_period(limit.per)}")
    if limit.spacing is not None:
        parts.append(f"SPACING {format_duration(limit.spacing)}")
    return ", ".join(parts)


def _period(period: Duration) -> str:
    if period.amount == 1:
        return period.unit.value
    return f"{format_number(period.amount)} {period.unit.value}S"


# ---- profiles and deliveries


def _profile(profile: CreateProfile) -> list[str]:
    items = [f"DOMAIN {quote_name(name.value)}" for name in profile.domains]
    items += [f"LANGUAGE {quote_name(name.value)}" for name in profile.languages]
    items += [f"USER {quote_name(name.value)}" for name in profile.users]
    head = f"CREATE PROFILE {quote_name(profile.name.value)}"
    lines = [f"{head} AS", *_in_parentheses(items)] if items else [head]
    lines += [f"DELIVER TO {format_delivery(each.value)}" for each in profile.deliveries]
    lines += [f"DIGEST {format_digest(each.value)}" for each in [profile.digest] if each is not None]
    return lines + [f"ON TROUBLE TELL {format_delivery(each.value)}" for each in profile.trouble]


def _in_parentheses(items: Sequence[str]) -> list[str]:
    """Return a list in parentheses, one item on each line."""
    lines = [f"{item}," for item in items]
    return [f"({lines[0]}", *lines[1:-1], f"{lines[-1][:-1]})"] if len(items) > 1 else [f"({items[0]})"]


# ---- notifications


def _watch(watch: Watch) -> list[str]:
    """Return ``WATCH`` and its options: on one line where that is short, otherwise each on its own."""
    options = []
    if watch.page_class is not None:
        options.append(f"OF {format_class(watch.page_class)}")
    if watch.locale is not None:
        options.append(f"LOCALE {quote_text(watch.locale.value)}")
    options.extend(_fetching(watch))
    if watch.profile is not None:
        options.append(f"INTO {quote_name(watch.profile.value)}")
    if watch.rule_name is not None:
        options.append(f"AS {quote_name(watch.rule_name.value)}")
    if watch.event is not None:
        options.append(f"ON {watch.event.name}{_after(watch.after)}")
    if watch.where is not None:
        options.append(f"WHERE {format_expression(watch.where)}")
    if watch.life is not None and watch.life.value.window is not None:
        target = "" if watch.target is None else f" FOR {_share(watch.target.value)}"
        options.append(f"WITHIN {format_duration(watch.life.value.window)}{target}")
    if watch.screenshot is not None:
        options.append("SCREENSHOT")
    if watch.message is not None:
        options.append(f"MESSAGE {quote_text(watch.message.value)}")
    options.extend(f"TELL {format_delivery(each.value)}" for each in watch.deliveries)
    lines = [f"WATCH {quote_text(watch.url.value)}", *options]
    line = " ".join(lines)
    return [line] if len(line) < _WIDTH else [lines[0], *(f"  {option}" for option in options)]


def _notification(rule: InsertNotification) -> list[str]:
    lines = [f"INSERT NOTIFICATION {quote_name(rule.name.value)}"]
    if rule.profiles:
        lines.append(f"INTO {_names(rule.profiles)}")
    if rule.sources:
        lines.append(f"FROM SOURCES {_names(rule.sources)}")
    if rule.query is not None:
        lines.append(f"SET QUERY {quote_name(format_select(rule.query))}")
    if rule.trigger is not None:
        lines.append(f"SET TRIGGER {quote_name(format_trigger(rule.trigger))}")
    return lines + format_settings(rule)


def format_settings(rule: InsertNotification) -> list[str]:
    """Return the clauses of a rule after its query and trigger, each on its own line."""
    clauses: tuple[tuple[str, object, Callable[[Any], str]], ...] = (
        ("START", rule.start, _time),
        ("END", rule.end, _time),
        ("SET UTILITY", rule.utility, _utility),
        ("SET LIFE", rule.life, _life),
        ("SET TARGET", rule.target, _share),
        ("SET IMPORTANCE", rule.importance, _importance),
        ("SET POLICY", rule.policy, _policy),
        *(("SET DELIVERY", each, format_delivery) for each in rule.deliveries),
        ("SET DELIVERY", Located(None) if rule.no_delivery else None, lambda _: "NONE"),
        ("SET DIGEST", rule.digest, format_digest),
        ("SET LIMIT", rule.limit, _notification_limit),
        ("SET EMPTY", rule.empty, lambda _: "DELIVER"),
        ("SET", rule.screenshot, lambda _: "SCREENSHOT"),
        ("SET MESSAGE", rule.message, quote_text),
    )
    return [
        f"{word} {format_clause(clause.value if isinstance(clause, Located) else clause)}"
        for word, clause, format_clause in clauses
        if clause is not None
    ]


def format_digest(digest: Digest | None) -> str:
    """Return when a digest is sent and how many items it holds, as it is written; ``NONE`` for no digest."""
    if digest is None:
        return "NONE"
    noun = "ITEM" if digest.at_most == 1 else "ITEMS"
    most = f" AT MOST {digest.at_most} {noun}" if digest.at_most is not None else ""
    return f"{_digest_time(digest.when)}{most}"


def _notification_limit(limit: NotificationLimit) -> str:
    if limit.key is None:
        return f"{limit.most} PER {_period(limit.per)}{' PER SOURCE' if limit.per_source else ''}"
    parts = limit.key.path.split(".")
    is_keyword = any(get_keyword(part) is not None for part in parts)  # a field called source or set
    key = ".".join(map(quote_name, parts)) if is_keyword else format_expression(limit.key)
    return f"{limit.most} PER {_period(limit.per)} PER {key}"


def _digest_time(when: Duration | WallTime) -> str:
    if isinstance(when, Duration):
        return f"EVERY {format_duration(when)}"
    days = "DAILY" if when.weekday is None else f"WEEKLY ON {when.weekday.name}"
    zone = "" if when.zone is None else f" IN {quote_text(when.zone)}"
    return f"{days} AT {quote_text(when.at)}{zone}"


def format_trigger(trigger: Trigger) -> str:
    """Return ``ON INSERT TO class``, with WHERE, and WHEN or THEN, on lines of their own."""
    lines = [f"ON {trigger.kind.name} TO {format_class(trigger.page_class)}{_after(trigger.after)}"]
    for word, condition in (("WHERE", trigger.where), ("WHEN", trigger.condition)):
        if condition is not None:
            lines.append(f"{word} {format_expression(condition)}")
    return "\n".join([*lines, *(_then(each) for each in [trigger.then] if each is not None)])


def _then(then: Then) -> str:
    where = "" if then.where is None else f" WHERE {format_expression(then.where)}"
    event = f"{'NO ' if then.is_absent else ''}{then.kind.name} TO {format_class(then.page_class)}"
    return f"THEN {event}{where} WITHIN {format_duration(then.within)}"


def _after(after: After | None) -> str:
    return "" if after is None else f" {format_after(after)}"


def format_after(after: After) -> str:
    """Return ``AFTER 3 PROBES`` or ``AFTER 1 HOUR``."""
    if after.time is not None:
        unit = after.time.unit.value
        return f"AFTER {format_number(after.time.amount)} {unit}{'' if after.time.amount == 1 else 'S'}"
    return f"AFTER {after.probes} {'PROBE' if after.probes == 1 else 'PROBES'}"


def _time(time: TimeSpec) -> str:
    if time.anchor is Anchor.NEVER:
        return "NEVER"
    if time.anchor is Anchor.ABSOLUTE:
        return quote_text(time.text or "")
    if time.offset is None:
        return "NOW"
    interval = Duration(abs(time.offset.amount), time.offset.unit)
    text = _interval(interval)
    return f'NOW - "{text}"' if time.offset.amount < 0 else f'"{text}" + NOW'


def _interval(interval: Duration) -> str:
    if interval.unit is Unit.CHRONONS:
        return format_number(interval.amount)
    plural = "" if interval.amount == 1 else "s"
    return f"{format_number(interval.amount)} {interval.unit.value.lower()}{plural}"


def _utility(utility: Utility) -> str:
    if utility.kind is UtilityKind.STRICT or utility.length is None:
        return "STRICT"
    length = format_duration(utility.length)
    return f"LINEAR({length})" if utility.kind is UtilityKind.LINEAR else f"EXPONENTIAL(HALF-LIFE {length})"


def _life(life: Life) -> str:
    return "OVERWRITE" if life.window is None else f"WINDOW({format_duration(life.window)})"


def _share(percent: Decimal) -> str:
    return f"{format_number(percent)} %"


def _importance(terms: Iterable[ImportanceTerm]) -> str:
    return ", ".join(map(_weight, terms))


def _weight(term: ImportanceTerm) -> str:
    weight = format_number(term.weight)
    if term.during is None:
        return f"{weight} OTHERWISE"
    zone = f" IN {quote_text(term.zone)}" if term.zone is not None else ""
    return f"{weight} DURING {quote_text(term.during)}{zone}"


def _policy(policy: PolicyChoice) -> str:
    if policy.name is PolicyName.UNIFORM and policy.period is not None:
        return f"UNIFORM({format_duration(policy.period)})"
    if policy.name is PolicyName.DOE:
        return f"DOE({_probe_limit(Politeness(policy.probes, policy.per, policy.spacing))})"
    return str(policy.name.value)
