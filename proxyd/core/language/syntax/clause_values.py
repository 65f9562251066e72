"""The values of clauses: how each is read, printed and checked.

The grammar of a value is in the docstring of the function that reads it. ``clauses.py`` says which clause has which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from proxyd.core.language.syntax.delivery_kinds import format_delivery, format_secret, parse_delivery, parse_secret
from proxyd.core.language.syntax.expression_printer import format_after, format_expression
from proxyd.core.language.syntax.expressions import (
    in_parentheses,
    parse_after,
    parse_duration,
    parse_event,
    parse_located,
    parse_name,
    parse_path,
    parse_unit,
    parse_whole,
)
from proxyd.core.language.syntax.nodes import Located, TimeSpec
from proxyd.core.language.syntax.quoting import format_duration, quote_name, quote_text
from proxyd.core.language.syntax.token_reader import TokenReader, optional, parse_number, parse_plain_text, series
from proxyd.core.language.syntax.words import did_you_mean, get_keyword
from proxyd.core.model.chronon import WallTime, Weekday
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import Duration, TextSpan, Unit
from proxyd.core.model.profile import (
    Anchor,
    Auth,
    Digest,
    Expect,
    ImportanceTerm,
    Life,
    NotificationLimit,
    PolicyChoice,
    PolicyName,
    Politeness,
    Utility,
    UtilityKind,
)

if TYPE_CHECKING:
    from proxyd.core.language.syntax.value_checks import Values


_MAX_BODY_BYTES = 65_536
"""Bytes of the BODY of a request."""
_MAX_WEIGHT = 1_000_000
_MAX_HOLDING = 1000
_MAX_LIMITED = 1000  # notifications of a LIMIT; their times are read for each notification that is made
_MIN_TARGET, _MAX_TARGET = Decimal(1), Decimal("99.9")  # percent
_INTERVAL = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]+)?\s*")
_WEEKDAYS = tuple(day.name for day in Weekday)
_POLICIES = tuple(name.value for name in PolicyName)


class Value(NamedTuple):
    """How the value of a clause is read, printed, and checked by itself, whatever the other clauses are."""

    read: Callable[[TokenReader], Any]  # a dictionary that it returns has the values of several attributes
    show: Callable[[Any], str] = str
    check: Callable[[Values, Any, TextSpan], None] | None = None
    choices: tuple[str, ...] = ()  # the words that a value is written as, if it is one of few


def constant(word: str = "", check: Callable[[Values, Any, TextSpan], None] | None = None) -> Value:
    """Return a value that is always true, and written as one word or none."""
    choices = (word,) if word else ()
    return Value(lambda parser: not word or parser.expect(word), lambda _: word, check, choices)


def switch(on: str, off: str, check: Callable[[Values, Any, TextSpan], None] | None = None) -> Value:
    """Return a value that is one of two words."""
    choices = on, off
    return Value(lambda parser: parser.expect_one(choices) == on, lambda value: on if value else off, check, choices)


# ---- parts of several clauses


def _parse_names(parser: TokenReader) -> tuple[Located[str], ...]:
    """names = name {"," name}"""
    return series(parser, parse_name)


def _format_names(names: Iterable[Located[str]]) -> str:
    """Return names, each in double quotes."""
    return ", ".join(quote_name(name.value) for name in names)


NAMES = Value(_parse_names, _format_names)


def _per_period(parser: TokenReader) -> Duration:
    """PER period; period = [NUMBER] unit"""
    parser.expect("PER")
    amount = parse_number(parser) if parser.is_at_number() else Decimal(1)
    return Duration(amount, parse_unit(parser))


def _format_period(period: Duration) -> str:
    if period.amount == 1:
        return period.unit.value
    return f"{period.amount} {period.unit.value}S"


# ---- how sources are asked


def _parse_limit(parser: TokenReader) -> Politeness:
    """limit = NUMBER PROBES PER period ["," SPACING duration] | SPACING duration"""
    if parser.take("SPACING"):
        return Politeness(spacing=parse_duration(parser))
    probes = parse_whole(parser, "the number of probes")
    parser.expect("PROBE")
    period = _per_period(parser)
    spacing = parse_duration(parser) if parser.take(",") and parser.expect("SPACING") else None
    return Politeness(probes, period, spacing)


def _format_limit(limit: Politeness) -> str:
    parts = []
    if limit.probes is not None and limit.per is not None:
        noun = "PROBE" if limit.probes == 1 else "PROBES"
        parts.append(f"{limit.probes} {noun} PER {_format_period(limit.per)}")
    if limit.spacing is not None:
        parts.append(f"SPACING {format_duration(limit.spacing)}")
    return ", ".join(parts)


def _check_politeness(values: Values, limit: Politeness, span: TextSpan) -> None:
    values.at_least_one("the number of probes", limit.probes, span)
    values.durations([("the period of POLITENESS", limit.per), ("SPACING", limit.spacing)], span)


LIMIT = Value(_parse_limit, _format_limit, _check_politeness)


def _parse_rate(parser: TokenReader) -> Expect:
    """rate = NUMBER [ITEMS] PER period"""
    amount = parse_number(parser)
    parser.take("ITEM")
    return Expect(amount, _per_period(parser))


def _format_rate(expect: Expect) -> str:
    return f"{expect.amount} PER {_format_period(expect.per)}"


def _check_rate(values: Values, expect: Expect, span: TextSpan) -> None:
    values.durations([("the period of EXPECT", expect.per)], span)
    if expect.amount <= 0:
        values.reporter.error("EXPECT must be more than 0; leave it out if the rate is unknown", span)


RATE = Value(_parse_rate, _format_rate, _check_rate)


def _parse_header(parser: TokenReader) -> tuple[Located[tuple[str, str | SecretRef]], ...]:
    """header = TEXT (TEXT | secret)"""
    # the place begins at the keyword, because an error concerns the name together with the value
    begin, name = parser.at - 1, parse_plain_text(parser)
    value = parse_secret(parser) if parser.is_at("SECRET") else parse_plain_text(parser)
    return (Located((name, value), parser.span(begin)),)


def _format_header(header: tuple[str, str | SecretRef]) -> str:
    name, value = header
    return f"{quote_text(name)} {quote_text(value) if isinstance(value, str) else format_secret(value)}"


def _check_header(values: Values, header: tuple[str, str | SecretRef], span: TextSpan) -> None:
    values.header(*header, span)


HEADER = Value(_parse_header, _format_header, _check_header)


def _parse_auth(parser: TokenReader) -> Auth:
    """auth = BEARER secret | BASIC TEXT secret"""
    if parser.expect_one(("BEARER", "BASIC")) == "BEARER":
        return Auth("bearer", parse_secret(parser))
    user = parse_plain_text(parser)
    return Auth("basic", parse_secret(parser), user)


def _format_auth(auth: Auth) -> str:
    user = "BEARER" if auth.user is None else f"BASIC {quote_text(auth.user)}"
    return f"{user} {format_secret(auth.secret)}"


def _check_auth(values: Values, auth: Auth, span: TextSpan) -> None:
    values.secret(auth.secret, span)
    if auth.user is not None and (not auth.user.isprintable() or ":" in auth.user):
        values.reporter.error("the user of AUTH BASIC takes printable characters other than ':'", span)


AUTH = Value(_parse_auth, _format_auth, _check_auth)


def _parse_post(parser: TokenReader) -> str:
    """post = POST [BODY TEXT]"""
    parser.expect("POST")
    return parse_plain_text(parser) if parser.take("BODY") else ""


def _format_post(body: str) -> str:
    return f"POST BODY {quote_text(body)}" if body else "POST"


def _check_post(values: Values, body: str, span: TextSpan) -> None:
    if len(body.encode("utf-8", "surrogatepass")) > _MAX_BODY_BYTES:
        values.reporter.error(f"the BODY of a request may have {_MAX_BODY_BYTES:,} bytes at most", span)


POST = Value(_parse_post, _format_post, _check_post)


def _check_websub(values: Values, is_on: bool, span: TextSpan) -> None:
    if is_on:
        values.websub(span)


WEBSUB = switch("ON", "OFF", _check_websub)


def expiry(word: str) -> Value:
    """Return a value that says how long before its end something is told, or NONE."""

    def read(parser: TokenReader) -> Duration | None:
        return None if parser.take("NONE") else parse_duration(parser)

    return Value(
        read,
        lambda ahead: "NONE" if ahead is None else format_duration(ahead),
        lambda values, ahead, span: values.durations([(word, ahead)], span),
    )


def _check_holding(values: Values, words: str, span: TextSpan) -> None:
    if not words.strip() or len(words) > _MAX_HOLDING:
        values.reporter.error(f"HOLDING takes words of 1 to {_MAX_HOLDING} characters that the page must hold", span)


HOLDING = Value(parse_plain_text, quote_text, _check_holding)


# ---- deliveries and digests


def _parse_deliveries(parser: TokenReader) -> tuple[Located[Delivery], ...]:
    return series(parser, lambda parser: parse_located(parser, parse_delivery))


DELIVERIES = Value(_parse_deliveries, format_delivery)


def _parse_digest(parser: TokenReader) -> Digest:
    """digest = (EVERY duration | DAILY clock | WEEKLY ON weekday clock) [AT MOST NUMBER ITEMS]"""
    word = parser.expect_one(("EVERY", "DAILY", "WEEKLY"))
    if word == "EVERY":
        when: Duration | WallTime = parse_duration(parser)
    else:
        when = _parse_clock(parser, _parse_weekday(parser) if word == "WEEKLY" else None)
    if not parser.take("AT"):
        return Digest(when)
    parser.expect("MOST")
    most = parse_whole(parser, "AT MOST")
    parser.expect("ITEM")
    return Digest(when, most)


def _parse_weekday(parser: TokenReader) -> Weekday:
    """ON (MONDAY | TUESDAY | WEDNESDAY | THURSDAY | FRIDAY | SATURDAY | SUNDAY)"""
    parser.expect("ON")
    return Weekday[parser.expect_one(_WEEKDAYS)]


def _parse_clock(parser: TokenReader, weekday: Weekday | None) -> WallTime:
    """clock = AT TEXT [IN TEXT]"""
    parser.expect("AT")
    return WallTime(parse_plain_text(parser), optional(parser, "IN", parse_plain_text), weekday)


def _format_digest(digest: Digest | None) -> str:
    """Return when a digest is sent and how many items it holds; ``NONE`` for no digest."""
    if digest is None:
        return "NONE"
    noun = "ITEM" if digest.at_most == 1 else "ITEMS"
    most = f" AT MOST {digest.at_most} {noun}" if digest.at_most is not None else ""
    return f"{_format_digest_time(digest.when)}{most}"


def _format_digest_time(when: Duration | WallTime) -> str:
    if isinstance(when, Duration):
        return f"EVERY {format_duration(when)}"
    days = "DAILY" if when.weekday is None else f"WEEKLY ON {when.weekday.name}"
    zone = "" if when.zone is None else f" IN {quote_text(when.zone)}"
    return f"{days} AT {quote_text(when.at)}{zone}"


def _check_digest(values: Values, digest: Digest | None, span: TextSpan) -> None:
    if digest is not None:
        values.digest(digest, span)


DIGEST = Value(_parse_digest, _format_digest, _check_digest)


def _parse_quiet(parser: TokenReader) -> QuietHours:
    """quiet = DURING TEXT [IN TEXT]"""
    parser.expect("DURING")
    return QuietHours(parse_plain_text(parser), optional(parser, "IN", parse_plain_text))


def _format_quiet(quiet: QuietHours) -> str:
    return f"DURING {_format_hours(quiet.during, quiet.zone)}"


def _format_hours(during: str, zone: str | None) -> str:
    return quote_text(during) if zone is None else f"{quote_text(during)} IN {quote_text(zone)}"


QUIET = Value(_parse_quiet, _format_quiet, lambda values, *quiet: values.quiet(*quiet))
MAINTENANCE = QUIET._replace(check=lambda values, *hours: values.maintenance(*hours))
RULE_DIGEST = DIGEST._replace(read=lambda parser: None if parser.take("NONE") else _parse_digest(parser))


# ---- when and how a rule is served


def _parse_time(parser: TokenReader) -> TimeSpec:
    """time = NOW [("+" | "-") time_text] | NEVER | time_text ["+" NOW]"""
    begin, word = parser.at, parser.take_one(("NOW", "NEVER"))
    if word == "NEVER":
        return TimeSpec(Anchor.NEVER, span=parser.span(begin))
    if word == "NOW":
        sign = parser.take_one(("+", "-"))
        interval = _interval(parser, _parse_time_text(parser)) if sign is not None else None
        if interval is not None and sign == "-":
            interval = replace(interval, amount=-interval.amount)
        return TimeSpec(Anchor.NOW, interval, span=parser.span(begin))
    text = _parse_time_text(parser)
    if parser.take("+"):
        parser.expect("NOW")
        return TimeSpec(Anchor.NOW, _interval(parser, text), span=parser.span(begin))
    return TimeSpec(Anchor.ABSOLUTE, text=text.value, span=parser.span(begin))


def _parse_time_text(parser: TokenReader) -> Located[str]:
    """time_text = QUOTED | TEXT"""
    token = parser.expect_value("QUOTED", "TEXT")
    return Located(token.value, TextSpan(token.start, token.stop))


def _interval(parser: TokenReader, text: Located[str]) -> Duration:
    """Return the duration of ``30 days``."""
    match = _INTERVAL.fullmatch(text.value)
    if match is None:
        parser.refuse('expected an interval such as "30 days"', text.span)
        return Duration(Decimal(0), Unit.CHRONONS)
    unit = (get_keyword(match[2]) or "") if match[2] else Unit.CHRONONS.value
    if unit not in {known.value for known in Unit}:
        suggestion = did_you_mean(match[2], [f"{known.value}S" for known in Unit])
        parser.refuse(f"{match[2]} is not a unit of time.{suggestion}", text.span)
        return Duration(Decimal(0), Unit.CHRONONS)
    return Duration(Decimal(match[1]), Unit(unit))


def _format_time(time: TimeSpec) -> str:
    if time.anchor is Anchor.NEVER:
        return "NEVER"
    if time.anchor is Anchor.ABSOLUTE:
        return quote_text(time.text or "")
    if time.offset is None:
        return "NOW"
    text = _format_interval(Duration(abs(time.offset.amount), time.offset.unit))
    return f'NOW - "{text}"' if time.offset.amount < 0 else f'"{text}" + NOW'


def _format_interval(interval: Duration) -> str:
    if interval.unit is Unit.CHRONONS:
        return str(interval.amount)
    plural = "" if interval.amount == 1 else "s"
    return f"{interval.amount} {interval.unit.value.lower()}{plural}"


TIME = Value(_parse_time, _format_time)


def _parse_utility(parser: TokenReader) -> Utility:
    """utility = STRICT | LINEAR "(" duration ")" | EXPONENTIAL "(" HALF "-" LIFE duration ")" """
    kind = UtilityKind[parser.expect_one(("STRICT", "LINEAR", "EXPONENTIAL"))]
    if kind is UtilityKind.STRICT:
        return Utility(kind)
    return Utility(
        kind, in_parentheses(parser, _parse_half_life if kind is UtilityKind.EXPONENTIAL else parse_duration)
    )


def _parse_half_life(parser: TokenReader) -> Duration:
    parser.expect("HALF", "-", "LIFE")
    return parse_duration(parser)


def _format_utility(utility: Utility) -> str:
    if utility.kind is UtilityKind.STRICT or utility.length is None:
        return "STRICT"
    length = format_duration(utility.length)
    return f"LINEAR({length})" if utility.kind is UtilityKind.LINEAR else f"EXPONENTIAL(HALF-LIFE {length})"


UTILITY = Value(
    _parse_utility,
    _format_utility,
    lambda values, utility, span: values.durations([("the length of the decay", utility.length)], span),
)


def _parse_life(parser: TokenReader) -> Life:
    """life = OVERWRITE | WINDOW "(" duration ")" """
    if parser.expect_one(("OVERWRITE", "WINDOW")) == "OVERWRITE":
        return Life()
    return Life(in_parentheses(parser, parse_duration))


def _format_life(life: Life) -> str:
    return "OVERWRITE" if life.window is None else f"WINDOW({format_duration(life.window)})"


LIFE = Value(
    _parse_life,
    _format_life,
    lambda values, life, span: values.durations([("WINDOW", life.window)], span),
)


def _parse_within(parser: TokenReader) -> dict[str, Any]:
    """within = duration [FOR share]"""
    begin = parser.at - 1
    life = Life(parse_duration(parser))
    target = _parse_share(parser) if parser.take("FOR") else None
    span = parser.span(begin)
    return {"life": Located(life, span)} | ({"target": Located(target, span)} if target is not None else {})


def format_within(watch: Any) -> str:
    """Return WITHIN of a WATCH."""
    target = "" if watch.target is None else f" FOR {_format_share(watch.target.value)}"
    return f"WITHIN {format_duration(watch.life.value.window)}{target}"


WITHIN = Value(_parse_within)


def _parse_share(parser: TokenReader) -> Decimal:
    """share = NUMBER "%" """
    share = parse_number(parser)
    parser.expect("%")
    return share


def _format_share(percent: Decimal) -> str:
    return f"{percent} %"


def _check_target(values: Values, target: Decimal, span: TextSpan) -> None:
    if not _MIN_TARGET <= target <= _MAX_TARGET:
        message = f"a target must lie between {_MIN_TARGET} and {_MAX_TARGET} %; found {target} %"
        values.reporter.error(message, span)


def _parse_words(parser: TokenReader) -> int:
    """words = NUMBER WORDS"""
    count = parse_whole(parser, "the number of words")
    parser.expect("WORD")
    return count


WORDS = Value(
    _parse_words,
    lambda count: f"{count} WORDS",
    lambda values, count, span: values.at_least_one("the number of words", count, span),
)
TARGET = Value(_parse_share, _format_share, _check_target)


def _parse_weight(parser: TokenReader) -> ImportanceTerm:
    """weight = NUMBER [OTHERWISE | DURING TEXT [IN TEXT]]"""
    weight = parse_number(parser)
    if parser.take_one(("OTHERWISE", "DURING")) != "DURING":
        return ImportanceTerm(weight)
    return ImportanceTerm(weight, parse_plain_text(parser), optional(parser, "IN", parse_plain_text))


def _format_weight(term: ImportanceTerm) -> str:
    weight = str(term.weight)
    if term.during is None:
        return f"{weight} OTHERWISE"
    return f"{weight} DURING {_format_hours(term.during, term.zone)}"


def _check_importance(values: Values, terms: tuple[ImportanceTerm, ...], span: TextSpan) -> None:
    for index, term in enumerate(terms):
        if not 0 <= term.weight <= _MAX_WEIGHT:
            values.reporter.error(f"a weight of SET IMPORTANCE must lie between 0 and {_MAX_WEIGHT}", span)
        if term.during is None and index < len(terms) - 1:
            values.reporter.error("OTHERWISE must come last in SET IMPORTANCE", span)
        if term.during is not None:
            values.during(term.during, span)
        if term.zone is not None:
            values.zone(term.zone, span)


IMPORTANCE = Value(
    lambda parser: series(parser, _parse_weight),
    lambda terms: ", ".join(map(_format_weight, terms)),
    _check_importance,
)


def _parse_policy(parser: TokenReader) -> PolicyChoice:
    """policy = AUTO | SUP | FBSUP | ADAPTIVE | MEMORYLESS | INDEX | GOLDEN | DOE "(" limit ")"
    | UNIFORM "(" duration ")"
    """
    begin, name = parser.at, PolicyName(parser.expect_one(_POLICIES))
    if name is PolicyName.UNIFORM:
        return PolicyChoice(name, period=in_parentheses(parser, parse_duration))
    if name is not PolicyName.DOE:
        return PolicyChoice(name)
    limit = in_parentheses(parser, _parse_limit)
    if limit.probes is None:
        parser.refuse("DOE needs a number of probes, as in DOE(28 PROBES PER 4 WEEKS)", parser.span(begin))
    return PolicyChoice(name, probes=limit.probes, per=limit.per, spacing=limit.spacing)


def _format_policy(policy: PolicyChoice) -> str:
    if policy.name is PolicyName.UNIFORM and policy.period is not None:
        return f"UNIFORM({format_duration(policy.period)})"
    if policy.name is PolicyName.DOE:
        return f"DOE({_format_limit(Politeness(policy.probes, policy.per, policy.spacing))})"
    return str(policy.name.value)


def _check_policy(values: Values, choice: PolicyChoice, span: TextSpan) -> None:
    values.at_least_one("the number of probes", choice.probes, span)
    lengths = [("the period of UNIFORM", choice.period), ("the period of DOE", choice.per)]
    values.durations([*lengths, ("SPACING", choice.spacing)], span)


EVERY = Value(
    parse_duration,
    format_duration,
    lambda values, length, span: values.durations([("EVERY", length)], span),
)
POLICY = Value(_parse_policy, _format_policy, _check_policy)


def _parse_most(parser: TokenReader) -> NotificationLimit:
    """most = NUMBER PER period [PER (SOURCE | path)]"""
    most, period = parse_whole(parser, "the number of notifications"), _per_period(parser)
    if not parser.take("PER"):
        return NotificationLimit(most, period)
    if parser.take("SOURCE"):
        return NotificationLimit(most, period, per_source=True)
    return NotificationLimit(most, period, key=parse_path(parser))


def _format_most(limit: NotificationLimit) -> str:
    if limit.key is None:
        return f"{limit.most} PER {_format_period(limit.per)}{' PER SOURCE' if limit.per_source else ''}"
    parts = limit.key.path.split(".")
    is_keyword = any(get_keyword(part) is not None for part in parts)  # a field called source or set
    key = ".".join(map(quote_name, parts)) if is_keyword else format_expression(limit.key)
    return f"{limit.most} PER {_format_period(limit.per)} PER {key}"


def _check_most(values: Values, limit: NotificationLimit, span: TextSpan) -> None:
    values.at_least_one("the number of notifications", limit.most, span, most=_MAX_LIMITED)
    values.durations([("the period of LIMIT", limit.per)], span)


MOST = Value(_parse_most, _format_most, _check_most)


def _parse_rule_deliveries(parser: TokenReader) -> dict[str, Any]:
    """(NONE | delivery {"," delivery})"""
    return {"no_delivery": True} if parser.take("NONE") else {"deliveries": _parse_deliveries(parser)}


RULE_DELIVERIES = Value(_parse_rule_deliveries, format_delivery)


def _parse_event(parser: TokenReader) -> dict[str, Any]:
    """event [after]"""
    event, after = parse_event(parser), parse_after(parser)
    return {"event": event} | ({"after": after} if after is not None else {})


def format_event(watch: Any) -> str:
    """Return ON of a WATCH."""
    return f"ON {watch.event.name}{'' if watch.after is None else f' {format_after(watch.after)}'}"


EVENT = Value(_parse_event)
