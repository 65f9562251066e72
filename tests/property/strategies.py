"""Strategies of the rule language: trees as the parser makes them, whatever the checker would say of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from proxyd.core.language.syntax.delivery_kinds import DELIVERY_KINDS, DeliveryKind, ReceiverName
from proxyd.core.language.syntax.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateReceiver,
    CreateSource,
    DropStatement,
    FieldDeclaration,
    InsertNotification,
    Located,
    Statement,
    StatementKind,
    TimeSpec,
    Watch,
)
from proxyd.core.model.chronon import WallTime, Weekday
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    CastType,
    ClassName,
    Column,
    Duration,
    Expression,
    FromClass,
    InList,
    IsNull,
    Like,
    Literal,
    OrderTerm,
    OutputColumn,
    Select,
    Unary,
    Unit,
)
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import (
    After,
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
    Then,
    Trigger,
    Utility,
    UtilityKind,
)

# ---- words

KEYWORD_NAMES = ["select", "FROM", "count", "Not", "null", "set", "END", "key", "url", "name", "text", "distinct"]
KEYWORD_NAMES += ["case", "WHEN", "then", "else", "ilike", "desc", "cast"]
characters = st.characters(codec="utf-8", exclude_characters="\x00")  # which no text of the language may hold
texts = st.text(characters, max_size=8) | st.sampled_from(
    ["it's", 'say "x"', "--", "/*", "a;b", "%_", "\n", "''", '""']
)
names = st.sampled_from(["RSS", "channel", "item", "title", "a b", 'q"q', "ä", *KEYWORD_NAMES]) | st.text(
    st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=6
)
path_parts = names.filter(lambda name: "." not in name)
paths = st.lists(path_parts, min_size=1, max_size=3).map(".".join)
numbers = st.integers(0, 10**12) | st.decimals(
    min_value=0, max_value=10**6, places=3, allow_nan=False, allow_infinity=False
)
amounts = st.integers(0, 10**6).map(Decimal) | st.decimals(
    min_value=0, max_value=1000, places=2, allow_nan=False, allow_infinity=False
)
durations = st.builds(Duration, amounts, st.sampled_from(Unit))


def located(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Located[Any]]:
    return values.map(Located)


def located_texts() -> st.SearchStrategy[Located[str]]:
    return located(texts)


def located_names() -> st.SearchStrategy[Located[str]]:
    return located(names.filter(str.strip))


def tuples_of(values: st.SearchStrategy[Any], *, least: int = 0, most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(values, min_size=least, max_size=most).map(tuple)


# ---- expressions

literals = st.builds(Literal, st.none() | st.booleans() | numbers | texts)
columns = st.builds(Column, paths)
class_names = st.builds(ClassName, names, st.none() | names)


def _grow(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    binary = st.sampled_from(["OR", "AND", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "REGEXP"])
    return st.one_of(
        st.builds(Unary, st.sampled_from(["NOT", "-"]), operands),
        st.builds(Binary, binary, operands, operands),
        st.builds(Like, operands, operands, st.none() | characters, st.booleans(), st.booleans()),
        st.builds(InList, operands, tuples_of(operands, least=1), st.booleans()),
        st.builds(Between, operands, operands, operands, st.booleans()),
        st.builds(IsNull, operands, st.booleans()),
        _cases(operands),
        st.builds(Call, names.map(str.upper), tuples_of(operands)),
        st.builds(Cast, operands, st.sampled_from(CastType)),
        _aggregates(operands),
    )


@st.composite
def _cases(draw: st.DrawFn, operands: st.SearchStrategy[Expression]) -> Case:
    branches = draw(tuples_of(st.tuples(operands, operands), least=1))
    conditions, results = zip(*branches, strict=True)
    return Case(conditions, results, draw(st.none() | operands), draw(st.none() | operands))


def _aggregates(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Aggregate]:
    options: dict[str, st.SearchStrategy[Any]] = {
        "where": st.none() | operands,
        "over": st.none() | durations,
        "across": st.booleans(),
    }
    functions = st.sampled_from(["COUNT", "SUM", "MIN", "MAX", "AVG"])
    return st.builds(Aggregate, st.just("COUNT"), **options) | st.builds(
        Aggregate, functions, operands, st.booleans(), **options
    )


expressions: st.SearchStrategy[Expression] = st.recursive(literals | columns, _grow, max_leaves=12)
small_expressions: st.SearchStrategy[Expression] = st.recursive(literals | columns, _grow, max_leaves=4)

# ---- queries and triggers

_first_classes = st.builds(FromClass, class_names, st.none() | names, st.none() | durations)
_more_classes = st.builds(
    FromClass, class_names, st.none() | names, st.none() | durations, small_expressions, st.booleans()
) | st.builds(FromClass, class_names, st.none() | names, st.none() | durations)


@st.composite
def selects(draw: st.DrawFn) -> Select:
    order = st.builds(OrderTerm, small_expressions, st.booleans(), st.none() | st.booleans())
    return Select(
        columns=draw(tuples_of(st.builds(OutputColumn, small_expressions, st.none() | names))),
        sources=(draw(_first_classes), *draw(tuples_of(_more_classes, most=2))),
        distinct=draw(st.booleans()),
        where=draw(st.none() | small_expressions),
        group_by=draw(tuples_of(small_expressions, most=2)),
        having=draw(st.none() | small_expressions),
        order_by=draw(tuples_of(order, most=2)),
        limit=draw(st.none() | st.integers(0, 1000)),
    )


_conditions = st.none() | small_expressions
_afters = st.builds(After, probes=st.integers(0, 10**6)) | st.builds(After, time=durations)
_answers = st.builds(Then, st.sampled_from(EventKind), class_names, durations, _conditions, is_absent=st.booleans())
triggers = st.builds(
    Trigger, st.sampled_from(EventKind), class_names, _conditions, _conditions, after=st.none() | _afters
) | st.builds(Trigger, st.sampled_from(EventKind), class_names, _conditions, after=st.none() | _afters, then=_answers)

# ---- statements

_extractions = st.builds(Extraction, st.sampled_from(Reader), texts)
_fields = st.builds(
    FieldDeclaration, located(paths), st.sampled_from(FieldType), st.none() | located(_extractions), st.booleans()
)
_classes = st.builds(ClassDeclaration, located_names(), tuples_of(_fields)) | st.builds(
    ClassDeclaration, located_names(), tuples_of(_fields, least=1), located(_extractions), tuples_of(located(paths))
)
_secrets = st.builds(SecretRef, st.sampled_from(["env", "file"]), texts)
_limits = st.builds(Politeness, st.integers(0, 99), durations, st.none() | durations)
_spacings = st.builds(lambda spacing: Politeness(spacing=spacing), durations)
_auths = st.builds(Auth, st.just("bearer"), _secrets) | st.builds(Auth, st.just("basic"), _secrets, texts)
_shapes: dict[type, st.SearchStrategy[Any]] = {str: texts, int: st.integers(0, 2), SecretRef: _secrets}


def _delivery(kind: DeliveryKind) -> st.SearchStrategy[Delivery]:
    values = [
        st.sampled_from(part.choices).map(part.read) if part.choices else _shapes[part.shape] for part in kind.parts
    ]
    return st.builds(kind.made, *values)


deliveries: st.SearchStrategy[Delivery] = st.one_of([_delivery(kind) for kind in DELIVERY_KINDS])
told: st.SearchStrategy[Delivery] = deliveries | st.builds(ReceiverName, names)
_receivers = st.builds(CreateReceiver, located_names(), tuples_of(located(deliveries), least=1))
_domains = st.builds(CreateDomain, located_names(), tuples_of(_classes, least=1))
_sources = st.builds(
    CreateSource,
    located_names(),
    class_names,
    located_texts(),
    politeness=st.none() | located(_limits | _spacings),
    expect=st.none() | located(st.builds(Expect, amounts, durations)),
    zone=st.none() | located_texts(),
    locale=st.none() | located_texts(),
    freshness=st.none() | located(st.booleans()),
    headers=tuples_of(located(st.tuples(texts, texts | _secrets))),
    post=st.none() | located_texts(),
    auth=st.none() | located(_auths),
    websub=st.none() | located(st.booleans()),
    robots=st.none() | located(st.booleans()),
    backoff=st.none() | located(st.booleans()),
    browser=st.none() | located(st.just(value=True)),
    wait_for=st.none() | located_texts(),
    full_articles=st.none() | located(st.just(value=True)),
    certificate=st.none() | located(st.none() | durations),
    domain=st.none() | located(st.none() | durations),
    holding=st.none() | located_texts(),
    maintenance=st.none() | located(st.builds(QuietHours, texts, st.none() | texts)),
)
_wall_times = st.builds(WallTime, texts, st.none() | texts, st.none() | st.sampled_from(Weekday))
digests = st.builds(Digest, durations | _wall_times, st.none() | st.integers(0, 99))
_profiles = st.builds(
    CreateProfile,
    located_names(),
    tuples_of(located_names()),
    tuples_of(located_names(), most=1),
    tuples_of(located_names()),
    tuples_of(located(told)),
    digest=st.none() | located(digests),
    quiet=st.none() | located(st.builds(QuietHours, texts, st.none() | texts)),
    trouble=tuples_of(located(told)),
)
_intervals = st.builds(
    lambda amount, unit, sign: Duration(amount * sign, unit), amounts, st.sampled_from(Unit), st.sampled_from([1, -1])
)
_times = st.one_of(
    st.builds(TimeSpec, st.just(Anchor.NOW), st.none() | _intervals),
    st.just(TimeSpec(Anchor.NEVER)),
    st.builds(lambda text: TimeSpec(Anchor.ABSOLUTE, text=text), texts),
)
_utilities = st.just(Utility(UtilityKind.STRICT)) | st.builds(
    Utility, st.sampled_from([UtilityKind.LINEAR, UtilityKind.EXPONENTIAL]), durations
)
_shares = st.decimals("1", "99.9", places=1)

_importance = tuples_of(
    st.builds(ImportanceTerm, amounts) | st.builds(ImportanceTerm, amounts, texts, st.none() | texts), least=1
)
_policies = st.one_of(
    st.sampled_from([name for name in PolicyName if name not in (PolicyName.DOE, PolicyName.UNIFORM)]).map(
        PolicyChoice
    ),
    st.builds(lambda period: PolicyChoice(PolicyName.UNIFORM, period=period), durations),
    st.builds(
        lambda limit: PolicyChoice(PolicyName.DOE, probes=limit.probes, per=limit.per, spacing=limit.spacing), _limits
    ),
)


_notification_limits = st.builds(NotificationLimit, st.integers(0, 99), durations, st.booleans()) | st.builds(
    NotificationLimit, st.integers(0, 99), durations, key=columns
)


@st.composite
def notifications(draw: st.DrawFn) -> InsertNotification:
    own = draw(tuples_of(located(told), most=2))
    return InsertNotification(
        name=draw(located_names()),
        profiles=draw(tuples_of(located_names(), least=1)),
        sources=draw(tuples_of(located_names())),
        query=draw(selects()),
        trigger=draw(triggers),
        start=draw(st.none() | _times),
        end=draw(st.none() | _times),
        utility=draw(st.none() | located(_utilities)),
        life=draw(st.none() | located(st.builds(Life, st.none() | durations))),
        target=draw(st.none() | located(_shares)),
        importance=draw(st.none() | located(_importance)),
        policy=draw(st.none() | located(_policies)),
        longest_gap=draw(st.none() | located(durations)),
        deliveries=own,
        no_delivery=not own and draw(st.booleans()),
        digest=draw(st.none() | located(st.none() | digests)),
        quiet=draw(st.none() | located(st.just(value=True))),
        limit=draw(st.none() | located(_notification_limits)),
        empty=draw(st.none() | located(st.just(value=True))),
        screenshot=draw(st.none() | located(st.just(value=True))),
        message=draw(st.none() | located_texts()),
    )


watches = st.builds(
    Watch,
    url=located_texts(),
    page_class=st.none() | class_names,
    locale=st.none() | located_texts(),
    browser=st.none() | located(st.just(value=True)),
    wait_for=st.none() | located_texts(),
    full_articles=st.none() | located(st.just(value=True)),
    certificate=st.none() | located(st.none() | durations),
    domain=st.none() | located(st.none() | durations),
    holding=st.none() | located_texts(),
    maintenance=st.none() | located(st.builds(QuietHours, texts, st.none() | texts)),
    profiles=tuples_of(located_names()),
    rule_name=st.none() | located_names(),
    event=st.none() | st.sampled_from(EventKind),
    after=st.none() | _afters,
    where=st.none() | expressions,
    ignored=tuples_of(located_texts()),
    without=tuples_of(located_texts()),
    least_words=st.none() | located(st.integers(0, 99)),
    life=st.none() | located(st.builds(Life, durations)),
    target=st.none() | located(_shares),
    longest_gap=st.none() | located(durations),
    screenshot=st.none() | located(st.just(value=True)),
    message=st.none() | located_texts(),
    quiet=st.none() | located(st.just(value=True)),
    deliveries=tuples_of(located(told)),
    digest=st.none() | located(st.none() | digests),
).map(
    lambda watch: replace(
        watch, target=watch.target if watch.life else None, after=watch.after if watch.event else None
    )
)


statements: st.SearchStrategy[Statement] = st.one_of(
    _domains,
    _sources,
    _profiles,
    _receivers,
    notifications(),
    watches,
    st.builds(DropStatement, st.sampled_from(StatementKind), located_names()),
)
