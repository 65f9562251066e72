"""Turns trees of the grammar into nodes. Nothing here recurses, so long chains of operators are safe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lark import Token, Tree, v_args
from lark.exceptions import VisitError
from lark.tree import Meta

from proxyd.core.language.deliveries import kind_named
from proxyd.core.language.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateSource,
    DropStatement,
    FieldDeclaration,
    InsertNotification,
    Located,
    StatementKind,
    TimeSpec,
)
from proxyd.core.language.reading.build_expression import (
    BuildError,
    ExpressionBuilder,
    refuse,
    span_of,
    token_span,
    whole,
)
from proxyd.core.language.reading.pieces import Complaint, complain, read_piece
from proxyd.core.language.reading.scanner import RawToken, TokenShape
from proxyd.core.language.words import did_you_mean, get_keyword
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import Column, Duration, Expression, Select, TextSpan, Unit, children
from proxyd.core.model.profile import (
    Anchor,
    Auth,
    Digest,
    Expect,
    Extraction,
    FieldType,
    ImportanceTerm,
    Life,
    PolicyChoice,
    PolicyName,
    Politeness,
    Reader,
    Trigger,
    Utility,
    UtilityKind,
)

MAX_DEPTH = 200
_INTERVAL = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]+)?\s*")
_TYPES = {kind.name: kind for kind in FieldType}


@dataclass(frozen=True, slots=True)
class Clause:
    """The effect of one clause or option: an attribute of the statement and its value."""

    name: str
    value: Any
    span: TextSpan


def _at(token: Token) -> Located[str]:
    return Located(str(token.value), token_span(token))


@v_args(meta=True)
class Builder(ExpressionBuilder):
    """Builds statements, clauses and options."""

    def name(self, meta: Meta, children: list[Token]) -> Located[str]:
        """Return a name; only an empty one is rejected."""
        if not children[0].value.strip():
            refuse("a name cannot be empty", token_span(children[0]))
        return _at(children[0])

    def text(self, meta: Meta, children: list[Token]) -> Located[str]:
        """Return a text in single quotes."""
        return _at(children[0])

    # ---- statements

    def statement_head(self, meta: Meta, children: list[Any]) -> Any:
        """Return the statement."""
        return children[0]

    def reader(self, meta: Meta, children: list[Token]) -> Reader:
        """Return JSON, CSS or XPATH."""
        return Reader(children[0].type)

    def extraction(self, meta: Meta, children: list[Any]) -> Located[Extraction]:
        """Return a reader and its selector."""
        return Located(Extraction(children[0], str(children[1].value)), span_of(meta))

    def field_type(self, meta: Meta, children: list[Token]) -> FieldType:
        """Return a field's type."""
        return _TYPES[children[0].type]

    def field(self, meta: Meta, children: list[Any]) -> FieldDeclaration:
        """Return one field of a class."""
        path: Column = children[0]
        return FieldDeclaration(Located(path.path, path.span), *children[1:])

    def fields(self, meta: Meta, children: list[FieldDeclaration]) -> tuple[FieldDeclaration, ...]:
        """Return the fields of a class."""
        return tuple(children)

    def each(self, meta: Meta, children: list[Any]) -> Clause:
        """Return the selector and the key of a row."""
        rows = Located(Extraction(children[0], str(children[1].value)), span_of(meta))
        return Clause("each", (rows, tuple(Located(c.path, c.span) for c in children[2:])), span_of(meta))

    def class_declaration(self, meta: Meta, children: list[Any]) -> ClassDeclaration:
        """Return a class of a domain."""
        fields_ = next((c for c in children if isinstance(c, tuple)), ())
        each, key = next((c.value for c in children if isinstance(c, Clause)), (None, ()))
        return ClassDeclaration(children[0], fields_, each, key)

    def create_domain(self, meta: Meta, children: list[Any]) -> CreateDomain:
        """Return ``CREATE DOMAIN``."""
        return CreateDomain(children[0], tuple(children[1:]), span=span_of(meta))

    def create_source(self, meta: Meta, children: list[Any]) -> CreateSource:
        """Return ``CREATE SOURCE`` without its options."""
        return CreateSource(children[0], children[1], children[2], span=span_of(meta))

    def profile_item(self, meta: Meta, children: list[Any]) -> Clause:
        """Return a named part of a profile."""
        return Clause(children[0].type, children[1], span_of(meta))

    def profile_more(self, meta: Meta, children: list[Any]) -> Clause:
        """Return one more name of the kind before it."""
        return Clause("", children[0], span_of(meta))

    def create_profile(self, meta: Meta, children: list[Any]) -> CreateProfile:
        """Return ``CREATE PROFILE`` without its deliveries."""
        lists: dict[str, list[Located[str]]] = {"DOMAIN": [], "LANGUAGE": [], "USER": []}
        kind = ""
        for item in children[1:]:
            kind = item.name or kind
            lists[kind].append(item.value)
        domains, languages, users = (tuple(names) for names in lists.values())
        return CreateProfile(children[0], domains, languages, users, span=span_of(meta))

    def insert_notification(self, meta: Meta, children: list[Any]) -> InsertNotification:
        """Return ``INSERT NOTIFICATION`` without its clauses."""
        return InsertNotification(children[0], span=span_of(meta))

    def drop_statement(self, meta: Meta, children: list[Any]) -> DropStatement:
        """Return ``DROP``."""
        return DropStatement(StatementKind(children[1].type), children[2], span=span_of(meta))

    # ---- options of CREATE SOURCE and CREATE PROFILE

    def _option(self, name: str, value: object, meta: Meta) -> Clause:
        return Clause(name, Located(value, span_of(meta)), span_of(meta))

    def period(self, meta: Meta, children: list[Any]) -> Duration:
        """Return ``HOUR`` or ``4 WEEKS``."""
        return Duration(Decimal(children[0].value) if len(children) == 2 else Decimal(1), children[-1])

    def probe_limit(self, meta: Meta, children: list[Any]) -> Politeness:
        """Return ``12 PROBES PER HOUR, SPACING 2 MINUTES``."""
        probes = whole(children[0], "the number of probes")
        return Politeness(probes, children[1], children[2] if len(children) == 3 else None)

    def spacing_only(self, meta: Meta, children: list[Any]) -> Politeness:
        """Return ``SPACING 2 MINUTES``."""
        return Politeness(spacing=children[0])

    def politeness(self, meta: Meta, children: list[Any]) -> Clause:
        """Return POLITENESS."""
        return self._option("politeness", children[0], meta)

    def expect(self, meta: Meta, children: list[Any]) -> Clause:
        """Return EXPECT."""
        return self._option("expect", Expect(Decimal(children[0].value), children[1]), meta)

    def zone(self, meta: Meta, children: list[Any]) -> Clause:
        """Return ZONE."""
        return Clause("zone", children[0], span_of(meta))

    def obey(self, meta: Meta, children: list[Token]) -> bool:
        """Return whether OBEY was written."""
        return bool(children[0].type == "OBEY")

    def on_off(self, meta: Meta, children: list[Token]) -> bool:
        """Return whether ON was written."""
        return bool(children[0].type == "ON")

    def freshness(self, meta: Meta, children: list[Any]) -> Clause:
        """Return FRESHNESS."""
        return self._option("freshness", children[0], meta)

    def websub(self, meta: Meta, children: list[Any]) -> Clause:
        """Return WEBSUB."""
        return self._option("websub", children[0], meta)

    def robots(self, meta: Meta, children: list[Any]) -> Clause:
        """Return ROBOTS."""
        return self._option("robots", children[0], meta)

    def header(self, meta: Meta, children: list[Token]) -> Clause:
        """Return one HEADER; several are collected."""
        pair = (str(children[0].value), str(children[1].value))
        return Clause("headers", (Located(pair, span_of(meta)),), span_of(meta))

    def bearer(self, meta: Meta, children: list[Any]) -> Clause:
        """Return ``AUTH BEARER``."""
        return self._option("auth", Auth("bearer", children[0]), meta)

    def basic(self, meta: Meta, children: list[Any]) -> Clause:
        """Return ``AUTH BASIC``."""
        return self._option("auth", Auth("basic", children[1], str(children[0].value)), meta)

    def profile_option(self, meta: Meta, children: list[Any]) -> Clause:
        """Return ``DELIVER TO``; several are collected."""
        return Clause("deliveries", tuple(children), span_of(meta))

    # ---- deliveries

    def secret_env(self, meta: Meta, children: list[Token]) -> SecretRef:
        """Return a secret in an environment variable."""
        return SecretRef("env", str(children[0].value))

    def secret_file(self, meta: Meta, children: list[Token]) -> SecretRef:
        """Return a secret in a file of the secrets folder."""
        return SecretRef("file", str(children[0].value))

    def delivery(self, meta: Meta, children: list[Any]) -> Located[Delivery]:
        """Return a delivery of any kind."""
        written = [(each.type, str(each.value)) if isinstance(each, Token) else ("", each) for each in children[1:]]
        return Located(kind_named(children[0].type).build(written), span_of(meta))

    # ---- clauses of INSERT NOTIFICATION

    def into(self, meta: Meta, children: list[Any]) -> Clause:
        """Return INTO."""
        return Clause("profiles", tuple(children), span_of(meta))

    def from_sources(self, meta: Meta, children: list[Any]) -> Clause:
        """Return FROM SOURCES."""
        return Clause("sources", tuple(children), span_of(meta))

    def set_query(self, meta: Meta, children: list[Token]) -> Clause:
        """Return the place of the query's text; the parser reads it."""
        return Clause("query", children[0], span_of(meta))

    def set_trigger(self, meta: Meta, children: list[Token]) -> Clause:
        """Return the place of the trigger's text; the parser reads it."""
        return Clause("trigger", children[0], span_of(meta))

    def start_clause(self, meta: Meta, children: list[Any]) -> Clause:
        """Return START."""
        return Clause("start", children[0], span_of(meta))

    def end_clause(self, meta: Meta, children: list[Any]) -> Clause:
        """Return END."""
        return Clause("end", children[0], span_of(meta))

    def time_text(self, meta: Meta, children: list[Token]) -> Located[str]:
        """Return the text of a time or interval."""
        return _at(children[0])

    def now(self, meta: Meta, children: list[Any]) -> TimeSpec:
        """Return NOW."""
        return TimeSpec(Anchor.NOW, span=span_of(meta))

    def never(self, meta: Meta, children: list[Any]) -> TimeSpec:
        """Return NEVER."""
        return TimeSpec(Anchor.NEVER, span=span_of(meta))

    def absolute(self, meta: Meta, children: list[Located[str]]) -> TimeSpec:
        """Return a written time; the checker reads it."""
        return TimeSpec(Anchor.ABSOLUTE, text=children[0].value, span=span_of(meta))

    def now_plus(self, meta: Meta, children: list[Located[str]]) -> TimeSpec:
        """Return NOW plus an interval."""
        return TimeSpec(Anchor.NOW, _read_interval(children[0]), span=span_of(meta))

    def now_minus(self, meta: Meta, children: list[Located[str]]) -> TimeSpec:
        """Return NOW minus an interval."""
        interval = _read_interval(children[0])
        return TimeSpec(Anchor.NOW, Duration(-interval.amount, interval.unit), span=span_of(meta))

    def strict(self, meta: Meta, children: list[Any]) -> Utility:
        """Return the strict utility."""
        return Utility(UtilityKind.STRICT)

    def linear(self, meta: Meta, children: list[Any]) -> Utility:
        """Return a linear decay."""
        return Utility(UtilityKind.LINEAR, children[0])

    def exponential(self, meta: Meta, children: list[Any]) -> Utility:
        """Return an exponential decay."""
        return Utility(UtilityKind.EXPONENTIAL, children[0])

    def set_utility(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET UTILITY."""
        return self._option("utility", children[0], meta)

    def overwrite(self, meta: Meta, children: list[Any]) -> Life:
        """Return the life that ends with the next update."""
        return Life()

    def window(self, meta: Meta, children: list[Any]) -> Life:
        """Return a life of fixed length."""
        return Life(children[0])

    def set_life(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET LIFE."""
        return self._option("life", children[0], meta)

    def importance_term(self, meta: Meta, children: list[Token]) -> ImportanceTerm:
        """Return a weight and the time when it holds."""
        texts = [str(token.value) for token in children[1:]]
        return ImportanceTerm(Decimal(children[0].value), *texts)

    def set_importance(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET IMPORTANCE."""
        return self._option("importance", tuple(children), meta)

    def plain_policy(self, meta: Meta, children: list[Token]) -> PolicyChoice:
        """Return a policy without arguments."""
        return PolicyChoice(PolicyName(children[0].type))

    def doe(self, meta: Meta, children: list[Politeness]) -> PolicyChoice:
        """Return DOE with its probes and spacing."""
        limit = children[0]
        if limit.probes is None:
            refuse("DOE needs a number of probes, as in DOE(28 PROBES PER 4 WEEKS)", span_of(meta))
        return PolicyChoice(PolicyName.DOE, probes=limit.probes, per=limit.per, spacing=limit.spacing)

    def uniform(self, meta: Meta, children: list[Any]) -> PolicyChoice:
        """Return UNIFORM with its period."""
        return PolicyChoice(PolicyName.UNIFORM, period=children[0])

    def policy(self, meta: Meta, children: list[PolicyChoice]) -> PolicyChoice:
        """Return the plain policy."""
        return children[0]

    def set_policy(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET POLICY."""
        return self._option("policy", children[0], meta)

    def set_delivery(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET DELIVERY; several are collected."""
        return Clause("deliveries", tuple(children), span_of(meta))

    def set_no_delivery(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET DELIVERY NONE."""
        return Clause("no_delivery", value=True, span=span_of(meta))

    def digest(self, meta: Meta, children: list[Any]) -> Digest:
        """Return how often deliveries are gathered."""
        return Digest(children[0], whole(children[1], "AT MOST") if len(children) == 2 else None)

    def set_digest(self, meta: Meta, children: list[Any]) -> Clause:
        """Return SET DIGEST."""
        return self._option("digest", children[0], meta)


def _read_interval(text: Located[str]) -> Duration:
    """Return the duration of ``30 days``."""
    match = _INTERVAL.fullmatch(text.value)
    unit = get_keyword(match[2]) if match and match[2] else "CHRONON"
    if match is None:
        refuse('expected an interval such as "30 days"', text.span)
    if unit not in {known.value for known in Unit}:
        suggestion = did_you_mean(match[2], [f"{known.value}S" for known in Unit])
        refuse(f"{match[2]} is not a unit of time.{suggestion}", text.span)
    return Duration(Decimal(match[1]), Unit(unit))


_BUILDER = Builder()


def build(tree: Tree[Token]) -> Any:
    """Return the nodes of a tree, or a :class:`Complaint`."""
    try:
        built = _BUILDER.transform(tree)
    except VisitError as wrapped:
        if isinstance(wrapped.orig_exc, BuildError):
            return wrapped.orig_exc.complaint
        raise
    if isinstance(built, Select | Trigger):
        return _refuse_depth(built) or built
    return built


def read_whole(tokens: Sequence[RawToken], rule: str) -> Any:
    """Return the nodes of tokens that form exactly one piece, or a :class:`Complaint`."""
    piece = read_piece(tokens, 0, rule)
    if piece.tree is None:
        return piece.complaint
    if tokens[piece.next].shape is not TokenShape.END:
        return complain(tokens, piece.next, piece.more() - {"$END"}, ["the end of the text"])
    return build(piece.tree)


def read_text(tokens: Sequence[RawToken], rule: str) -> Any:
    """Return the query or trigger in a separate text, which may end with ';', or a :class:`Complaint`."""
    if len(tokens) > 1 and tokens[-2].shape is TokenShape.SIGN and tokens[-2].value == ";":
        tokens = (*tokens[:-2], tokens[-1])
    return read_whole(tokens, rule)


def _refuse_depth(node: Any) -> Complaint | None:
    """Return a complaint if an expression is a longer chain than other parts of proxyd can walk."""
    level = [node]
    for _ in range(MAX_DEPTH + 2):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return None
    span = level[0].span
    return Complaint(
        f"this expression chains more than {MAX_DEPTH} operators: use IN (...) or parentheses", span.start, span.stop
    )


def _children(node: object) -> Iterator[Any]:
    """Yield the expressions directly below a node."""
    if isinstance(node, Trigger):
        yield from () if node.condition is None else (node.condition,)
    elif isinstance(node, Select):
        yield from (column.expression for column in node.columns)
        yield from (source.on for source in node.sources if source.on is not None)
        yield from (each for each in (node.where, node.having) if each is not None)
        yield from node.group_by
        yield from (term.expression for term in node.order_by)
    elif isinstance(node, Expression):
        yield from children(node)
