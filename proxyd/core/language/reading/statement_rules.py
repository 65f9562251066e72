"""What each grammar rule of statements, clauses and options means: one function per rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

from lark import Token

from proxyd.core.language.deliveries import kind_named
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
    StatementKind,
    TimeSpec,
    Watch,
)
from proxyd.core.language.reading.expression_rules import (
    Clause,
    Parts,
    Rule,
    clause,
    first,
    is_word,
    refuse,
    to_tuple,
    token_span,
    whole,
)
from proxyd.core.language.words import did_you_mean, get_keyword
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import Duration, TextSpan, Unit
from proxyd.core.model.profile import (
    Anchor,
    Auth,
    Digest,
    Expect,
    Extraction,
    FieldType,
    ImportanceTerm,
    Life,
    NotificationLimit,
    PolicyChoice,
    PolicyName,
    Politeness,
    Reader,
    Utility,
    UtilityKind,
)
from proxyd.core.model.wall_time import WallTime, Weekday

_INTERVAL = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]+)?\s*")


def _option(name: str, read: Rule = first) -> Rule:
    """Return a rule that sets an attribute to a value with its place."""
    return clause(name, lambda parts, span: Located(read(parts, span), span))


def _text(parts: Parts, _span: TextSpan) -> Located[str]:
    return Located(str(parts[0].value), token_span(parts[0]))


def _name(parts: Parts, span: TextSpan) -> Located[str]:
    if not parts[0].value.strip():
        refuse("a name cannot be empty", token_span(parts[0]))
    return _text(parts, span)


def _extraction(parts: Parts, span: TextSpan) -> Located[Extraction]:
    return Located(Extraction(parts[0], str(parts[1].value)), span)


def _field(parts: Parts, _span: TextSpan) -> FieldDeclaration:
    extraction = next((part for part in parts[2:] if isinstance(part, Located)), None)
    return FieldDeclaration(Located(parts[0].path, parts[0].span), parts[1], extraction, is_nullable=True in parts[2:])


def _each(parts: Parts, span: TextSpan) -> tuple[Located[Extraction], tuple[Located[str], ...]]:
    """Return the selector of the rows and the fields of their key."""
    return _extraction(parts, span), tuple(Located(path.path, path.span) for path in parts[2:])


def _class_declaration(parts: Parts, _span: TextSpan) -> ClassDeclaration:
    fields = next((part for part in parts if isinstance(part, tuple)), ())
    each, key = next((part.value for part in parts if isinstance(part, Clause)), (None, ()))
    return ClassDeclaration(parts[0], fields, each, key)


def _create_profile(parts: Parts, span: TextSpan) -> CreateProfile:
    """Return ``CREATE PROFILE`` without its deliveries; a name without a kind is of the kind before it."""
    names: dict[str, list[Located[str]]] = {"DOMAIN": [], "LANGUAGE": [], "USER": []}
    kind = ""
    for part in parts[1:]:
        kind = part.name or kind
        names[kind].append(part.value)
    domains, languages, users = (tuple(each) for each in names.values())
    return CreateProfile(parts[0], domains, languages, users, span=span)


def _period(parts: Parts, _span: TextSpan) -> Duration:
    """Return ``HOUR`` or ``4 WEEKS``."""
    return Duration(Decimal(parts[0].value) if len(parts) == 2 else Decimal(1), parts[-1])


def _delivery(parts: Parts, span: TextSpan) -> Located[Delivery]:
    written = [(part.type, str(part.value)) if isinstance(part, Token) else ("", part) for part in parts[1:]]
    return Located(kind_named(parts[0].type).build(written), span)


def _interval(text: Located[str]) -> Duration:
    """Return the duration of ``30 days``."""
    match = _INTERVAL.fullmatch(text.value)
    unit = get_keyword(match[2]) if match and match[2] else "CHRONON"
    if match is None:
        refuse('expected an interval such as "30 days"', text.span)
    if unit not in {known.value for known in Unit}:
        suggestion = did_you_mean(match[2], [f"{known.value}S" for known in Unit])
        refuse(f"{match[2]} is not a unit of time.{suggestion}", text.span)
    return Duration(Decimal(match[1]), Unit(unit))


def _now_minus(parts: Parts, span: TextSpan) -> TimeSpec:
    interval = _interval(parts[0])
    return TimeSpec(Anchor.NOW, replace(interval, amount=-interval.amount), span=span)


def _within(parts: Parts, span: TextSpan) -> Clause:
    """Return the life of ``WITHIN 10 MINUTES``, with the target of ``FOR 95 %``."""
    target = Clause("target", Located(parts[1], span), span) if len(parts) == 2 else None
    return Clause("life", Located(Life(parts[0]), span), span, target)


def _on_event(parts: Parts, span: TextSpan) -> Clause:
    """Return the event of a WATCH, with its AFTER."""
    after = Clause("after", parts[1], span) if len(parts) == 2 else None
    return Clause("event", parts[0], span, after)


def _importance_term(parts: Parts, _span: TextSpan) -> ImportanceTerm:
    """Return a weight and the time when it holds."""
    return ImportanceTerm(Decimal(parts[0].value), *(str(token.value) for token in parts[1:]))


def _limit(parts: Parts, _span: TextSpan) -> NotificationLimit:
    """Return a number of notifications in a time, for each source or each value of a field if that follows."""
    most = whole(parts[0], "the number of notifications")
    key = parts[2] if len(parts) == 3 else None
    return NotificationLimit(most, parts[1], len(parts) == 3 and key is None, key)


def _doe(parts: Parts, span: TextSpan) -> PolicyChoice:
    limit = parts[0]
    if limit.probes is None:
        refuse("DOE needs a number of probes, as in DOE(28 PROBES PER 4 WEEKS)", span)
    return PolicyChoice(PolicyName.DOE, probes=limit.probes, per=limit.per, spacing=limit.spacing)


_STATEMENTS: dict[str, Rule] = {
    "name": _name,
    "text": _text,
    "statement_head": first,
    "reader": lambda parts, _: Reader(parts[0].type),
    "extraction": _extraction,
    "field_type": lambda parts, _: FieldType[parts[0].type],
    "field": _field,
    "or_null": lambda *_: True,
    "fields": to_tuple,
    "each": clause("each", _each),
    "class_declaration": _class_declaration,
    "create_domain": lambda parts, span: CreateDomain(parts[0], tuple(parts[1:]), span=span),
    "create_source": lambda parts, span: CreateSource(parts[0], parts[1], parts[2], span=span),
    "create_sources": lambda parts, span: CreateSources(parts[0], parts[1], parts[2], span=span),
    "profile_item": lambda parts, span: Clause(parts[0].type, parts[1], span),
    "profile_more": clause(""),
    "create_profile": _create_profile,
    "insert_notification": lambda parts, span: InsertNotification(parts[0], span=span),
    "watch": lambda parts, span: Watch(parts[0], span=span),
    "drop_statement": lambda parts, span: DropStatement(StatementKind(parts[1].type), parts[2], span=span),
}

_OPTIONS: dict[str, Rule] = {
    "period": _period,
    "probe_limit": lambda parts, _: Politeness(whole(parts[0], "the number of probes"), *parts[1:]),
    "spacing_only": lambda parts, _: Politeness(spacing=parts[0]),
    "politeness": _option("politeness"),
    "expect": _option("expect", lambda parts, _: Expect(Decimal(parts[0].value), parts[1])),
    "zone": clause("zone"),
    "locale": clause("locale"),
    "obey": is_word("OBEY"),
    "on_off": is_word("ON"),
    "freshness": _option("freshness"),
    "websub": _option("websub"),
    "robots": _option("robots"),
    "backoff": _option("backoff"),
    "fetch_browser": _option("browser", lambda *_: True),
    "wait_for": _option("wait_for", lambda parts, _: str(parts[0].value)),
    "header": clause("headers", lambda parts, span: (Located((str(parts[0].value), str(parts[1].value)), span),)),
    "secret_header": clause("headers", lambda parts, span: (Located((str(parts[0].value), parts[1]), span),)),
    "post": _option("post", lambda parts, _: str(parts[0].value) if parts else ""),
    "bearer": _option("auth", lambda parts, _: Auth("bearer", parts[0])),
    "basic": _option("auth", lambda parts, _: Auth("basic", parts[1], str(parts[0].value))),
    "deliver_to": clause("deliveries", to_tuple),
    "profile_digest": _option("digest"),
    "on_trouble": clause("trouble", to_tuple),
    "secret_env": lambda parts, _: SecretRef("env", str(parts[0].value)),
    "secret_file": lambda parts, _: SecretRef("file", str(parts[0].value)),
    "delivery": _delivery,
}

_CLAUSES: dict[str, Rule] = {
    "into": clause("profiles", to_tuple),
    "from_sources": clause("sources", to_tuple),
    "set_query": clause("query"),  # a text in double quotes, which the parser reads
    "set_trigger": clause("trigger"),
    "start_clause": clause("start"),
    "end_clause": clause("end"),
    "time_text": _text,
    "now": lambda _, span: TimeSpec(Anchor.NOW, span=span),
    "never": lambda _, span: TimeSpec(Anchor.NEVER, span=span),
    "absolute": lambda parts, span: TimeSpec(Anchor.ABSOLUTE, text=parts[0].value, span=span),
    "now_plus": lambda parts, span: TimeSpec(Anchor.NOW, _interval(parts[0]), span=span),
    "now_minus": _now_minus,
    "strict": lambda *_: Utility(UtilityKind.STRICT),
    "linear": lambda parts, _: Utility(UtilityKind.LINEAR, parts[0]),
    "exponential": lambda parts, _: Utility(UtilityKind.EXPONENTIAL, parts[0]),
    "set_utility": _option("utility"),
    "overwrite": lambda *_: Life(),
    "window": lambda parts, _: Life(parts[0]),
    "set_life": _option("life"),
    "within": _within,
    "share": lambda parts, _: Decimal(parts[0].value),
    "set_target": _option("target"),
    "message": _option("message", lambda parts, _: str(parts[0].value)),
    "importance_term": _importance_term,
    "set_importance": _option("importance", to_tuple),
    "plain_policy": lambda parts, _: PolicyChoice(PolicyName(parts[0].type)),
    "doe": _doe,
    "uniform": lambda parts, _: PolicyChoice(PolicyName.UNIFORM, period=parts[0]),
    "policy": first,
    "set_policy": _option("policy"),
    "set_delivery": clause("deliveries", to_tuple),
    "set_no_delivery": clause("no_delivery", lambda *_: True),
    "digest": lambda parts, _: Digest(parts[0], whole(parts[1], "AT MOST") if len(parts) == 2 else None),
    "every": first,
    "daily": first,
    "weekly": lambda parts, _: replace(parts[1], weekday=parts[0]),
    "time_of_day": lambda parts, _: WallTime(str(parts[0].value), str(parts[1].value) if len(parts) == 2 else None),
    "weekday": lambda parts, _: Weekday[parts[0].type],
    "set_digest": _option("digest"),
    "set_no_digest": _option("digest", lambda *_: None),
    "each_source": lambda *_: None,
    "each_value": first,
    "set_limit": _option("limit", _limit),
    "empty": is_word("DELIVER"),
    "set_empty": _option("empty"),
    "screenshot": _option("screenshot", lambda *_: True),
}

_WATCH_OPTIONS: dict[str, Rule] = {
    "of_class": clause("page_class"),
    "into_profile": clause("profile"),
    "as_name": clause("rule_name"),
    "on_event": _on_event,
    "watch_where": clause("where"),
    "tell": clause("deliveries", to_tuple),
}

STATEMENT_RULES: Mapping[str, Rule] = MappingProxyType(_STATEMENTS | _OPTIONS | _CLAUSES | _WATCH_OPTIONS)
