"""The parser of expressions, and of the texts of QUERY and TRIGGER: each method reads what its docstring shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from proxyd.core.language.reading.scanner import Token
from proxyd.core.language.reading.token_reader import TokenReader, UnexpectedTokenError
from proxyd.core.language.words import AGGREGATES, BEFORE_A_PARENTHESIS, can_follow_case
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
    TextSpan,
    Unary,
    Unit,
)
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import After, Then, Trigger

_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_NEGATABLE = frozenset({"REGEXP", "LIKE", "ILIKE", "IN", "BETWEEN"})
_PREDICATES = _COMPARISONS | _NEGATABLE | {"NOT", "IS"}
_SUMS = frozenset({"+", "-", "||"})
_PRODUCTS = frozenset({"*", "/", "%"})
_CONSTANTS: Mapping[str, bool | None] = MappingProxyType({"TRUE": True, "FALSE": False, "NULL": None})
_PRIMARIES = frozenset({"NUMBER", "TEXT", "NAME", "(", "CASE", *_CONSTANTS}) | BEFORE_A_PARENTHESIS
_UNITS = {unit.value: unit for unit in Unit}
_EVENTS = tuple(kind.name for kind in EventKind)
_CAST_TYPES = tuple(type_.value for type_ in CastType)
_JOINS = frozenset({",", "CROSS", "JOIN", "INNER", "LEFT"})
_AFTER_OUTPUT = frozenset({"FROM"})
_AFTER_FROM = _JOINS | {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"}
_BEFORE_ON = frozenset({"ON"})


class ExpressionParser(TokenReader):
    """Reads expressions, queries and triggers."""

    # ---- expressions, loosest first

    def expression(self) -> Expression:
        """expression = conjunction {OR conjunction}"""
        begin, left = self.at, self._conjunction()
        while self._take("OR"):
            left = Binary("OR", left, self._conjunction(), self._span(begin))
        return left

    def _conjunction(self) -> Expression:
        """conjunction = negation {AND negation}"""
        begin, left = self.at, self._negation()
        while self._take("AND"):
            left = Binary("AND", left, self._negation(), self._span(begin))
        return left

    def _negation(self) -> Expression:
        """negation = {NOT} predicate"""
        begin = self.at
        while self._take_prefix("NOT"):
            pass
        first, operand = self.at, self._predicate()
        for at in range(first - 1, begin - 1, -1):
            operand = Unary("NOT", operand, self._span(at))
        return operand

    def _predicate(self) -> Expression:
        """predicate = sum [comparison sum | [NOT] matching | IS [NOT] NULL]

        comparison = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="
        """
        begin, left = self.at, self._sum()
        word = self._take_one(_PREDICATES)
        if word is None:
            return left
        if word in _COMPARISONS:
            return Binary("<>" if word == "!=" else word, left, self._sum(), self._span(begin))
        if word == "IS":
            negated = self._take("NOT")
            self._expect("NULL")
            return IsNull(left, negated, self._span(begin))
        if word == "NOT":
            return self._matching(begin, left, self._expect_one(_NEGATABLE), negated=True)
        return self._matching(begin, left, word, negated=False)

    def _matching(self, begin: int, left: Expression, word: str, *, negated: bool) -> Expression:
        """matching = REGEXP sum | (LIKE | ILIKE) sum [ESCAPE TEXT] | BETWEEN sum AND sum
        | IN "(" expression {"," expression} ")"
        """
        if word == "REGEXP":
            matched = Binary("REGEXP", left, self._sum(), self._span(begin))
            return Unary("NOT", matched, matched.span) if negated else matched
        if word == "IN":
            self._enter("(")
            options = self._list(self.expression)
            self._leave(")")
            return InList(left, options, negated, self._span(begin))
        operand = self._sum()
        if word == "BETWEEN":
            self._expect("AND")
            return Between(left, operand, self._sum(), negated, self._span(begin))
        return Like(
            left, operand, self._optional("ESCAPE", self._character), negated, word == "ILIKE", self._span(begin)
        )

    def _character(self) -> str:
        character = self.plain_text()
        if len(character) != 1:
            self._refuse("ESCAPE takes one character", self._span(self.at - 1))
        return character

    def _sum(self) -> Expression:
        """sum = product {("+" | "-" | "||") product}"""
        begin, left = self.at, self._product()
        while (sign := self._take_one(_SUMS)) is not None:
            left = Binary(sign, left, self._product(), self._span(begin))
        return left

    def _product(self) -> Expression:
        """product = signed {("*" | "/" | "%") signed}"""
        begin, left = self.at, self._signed()
        while (sign := self._take_one(_PRODUCTS)) is not None:
            left = Binary(sign, left, self._signed(), self._span(begin))
        return left

    def _signed(self) -> Expression:
        """signed = {"-" | "+"} primary"""
        begin = self.at
        while self._take_prefix("-") or self._take_prefix("+"):
            pass
        first, operand = self.at, self._primary()
        for at in range(first - 1, begin - 1, -1):
            if self.tokens[at].word == "-":
                operand = Unary("-", operand, self._span(at))
        return operand

    def _take_prefix(self, word: str) -> bool:
        if not self._is_at(word):
            return False
        self._run += 1
        self._deepen()
        self._advance()
        return True

    def _primary(self) -> Expression:
        """primary = NUMBER | TEXT | TRUE | FALSE | NULL | "(" expression ")" | case | cast | aggregate
        | NAME "(" [expression {"," expression}] ")" | path
        """
        token, self._run = self.token, 0
        word, shape = token.word, token.shape
        if shape in {"NUMBER", "TEXT"} or word in _CONSTANTS:
            return self._literal(self._advance())
        if word == "(":
            self._enter("(")
            operand = self.expression()
            self._leave(")")
            return operand
        if shape == "WORD" and word:
            following = self.tokens[self.at + 1]
            if word in BEFORE_A_PARENTHESIS and following.value == "(":
                return self._cast() if word == "CAST" else self._aggregate(word)
            if word == "CASE" and self._opens_case(following):
                return self._case()
        return self._call_or_path()

    def _call_or_path(self) -> Expression:
        if self.token.shape not in ("WORD", "QUOTED"):
            self._expected |= _PRIMARIES
            raise UnexpectedTokenError(self.complain())
        begin, name = self.at, self._advance()
        if not self._is_at("("):
            return self._path_after(begin)
        self._enter("(")
        arguments = [] if self._is_at(")") else [self.expression()]
        while arguments and self._take(","):
            arguments.append(self.expression())
        self._leave(")")
        return Call(name.value.upper(), tuple(arguments), self._span(begin))

    @staticmethod
    def _opens_case(following: Token) -> bool:
        return following.shape in ("TEXT", "QUOTED") or can_follow_case(following.value)

    def _enter(self, word: str) -> None:
        """Take what opens an expression in an expression; it is counted, so that nothing recurses without bound."""
        if self._is_at(word):
            self._open += 1
            self._deepen()
        self._expect(word)

    def _leave(self, word: str) -> None:
        self._expect(word)
        self._open -= 1

    def _literal(self, token: Token) -> Literal:
        span = TextSpan(token.start, token.stop)
        if token.shape == "NUMBER":
            return Literal(int(token.value) if token.value.isdigit() else Decimal(token.value), span)
        return Literal(token.value if token.shape == "TEXT" else _CONSTANTS[token.word], span)

    def _case(self) -> Case:
        """case = CASE [expression] WHEN expression THEN expression {WHEN expression THEN expression}
        [ELSE expression] END
        """
        begin = self.at
        self._enter("CASE")
        operand = None if self._is_at("WHEN") else self.expression()
        self._expect("WHEN")
        conditions: list[Expression] = []
        results: list[Expression] = []
        while not conditions or self._take("WHEN"):
            conditions.append(self.expression())
            self._expect("THEN")
            results.append(self.expression())
        otherwise = self.expression() if self._take("ELSE") else None
        self._leave("END")
        return Case(tuple(conditions), tuple(results), otherwise, operand, self._span(begin))

    def _cast(self) -> Cast:
        """cast = CAST "(" expression AS (DECIMAL | INTEGER | STRING | TIMESTAMP) ")" """
        begin = self.at
        self._expect("CAST")
        self._enter("(")
        operand = self.expression()
        self._expect("AS")
        type_ = CastType(self._expect_one(_CAST_TYPES))
        self._leave(")")
        return Cast(operand, type_, self._span(begin))

    def _aggregate(self, function: str) -> Aggregate:
        """aggregate = (COUNT "(" "*" ")" | (COUNT | SUM | MIN | MAX | AVG) "(" [DISTINCT] expression ")")
        [FILTER "(" WHERE expression ")"] [OVER duration] [ACROSS SOURCES]
        """
        begin, where = self.at, None
        self._expect_one(AGGREGATES)
        self._enter("(")
        distinct = self._take("DISTINCT")
        argument = None if not distinct and self._take("*") else self.expression()
        self._leave(")")
        if argument is None and function != "COUNT":
            self._refuse(f"{function} takes an expression; only COUNT takes *", self._span(begin))
        if self._take("FILTER"):
            self._enter("(")
            self._expect("WHERE")
            where = self.expression()
            self._leave(")")
        over = self._optional("OVER", self.duration)
        across = self._take("ACROSS") and self._expect("SOURCE")
        return Aggregate(function, argument, distinct, where, over, across, self._span(begin))

    # ---- parts of expressions and statements

    def _path(self) -> Column:
        """path = NAME {"." NAME}"""
        begin = self.at
        self._expect_name()
        return self._path_after(begin)

    def _path_after(self, begin: int) -> Column:
        """Return a path as written, with qualifiers; only the checker can tell them apart."""
        names = [self.tokens[begin]]
        while self._take("."):
            names.append(self._expect_name())
        for name in names:
            if not all(name.value.split(".")):
                span = TextSpan(name.start, name.stop)
                self._refuse("a name cannot be empty: use single quotes for text", span)
        return Column(".".join(name.value for name in names), None, self._span(begin))

    def class_name(self) -> ClassName:
        """class_name = NAME ["." NAME]"""
        begin, domain = self.at, None
        name = self._filled_name()
        if self._take("."):
            domain, name = name, self._filled_name()
        return ClassName(name, domain, self._span(begin))

    def _filled_name(self) -> str:
        name = self._expect_name().value
        if not name:
            self._refuse("a name cannot be empty", self._span(self.at - 1))
        return name

    def duration(self) -> Duration:
        """duration = NUMBER [unit]"""
        amount = self._expect_number()
        unit = self._take_one(_UNITS)
        return Duration(amount, Unit.CHRONONS if unit is None else _UNITS[unit])

    def _unit(self) -> Unit:
        """unit = CHRONON | SECOND | MINUTE | HOUR | DAY | WEEK"""
        return _UNITS[self._expect_one(_UNITS)]

    def _whole(self, what: str, token: Token | None = None) -> int:
        """Return a whole number, or refuse the number as ``what``."""
        token = token or self._expect_value("NUMBER")
        if not token.value.isdigit():
            self._refuse(f"{what} is a whole number; found {token.value}", TextSpan(token.start, token.stop))
            return 0
        return int(token.value)

    # ---- queries

    def select(self) -> Select:
        """select = SELECT [DISTINCT] ("*" | output {"," output}) FROM from_part"""
        begin = self.at
        self._expect("SELECT")
        distinct = self._take("DISTINCT")
        columns = () if self._take("*") else self._list(self._output)
        self._expect("FROM")
        return Select(columns, distinct=distinct, **self.from_part(), span=self._span(begin))

    def _output(self) -> OutputColumn:
        """output = expression [alias]"""
        return OutputColumn(self.expression(), self._alias(_AFTER_OUTPUT))

    def _alias(self, keywords: Collection[str]) -> str | None:
        """alias = [AS] NAME

        Without AS, a keyword that may follow is none.
        """
        if not self._take("AS") and (self.token.word in keywords or not self._is_at_name()):
            return None
        return self._filled_name()

    def from_part(self) -> dict[str, Any]:
        """from_part = from_list [WHERE expression] [GROUP group_by] [HAVING expression] [ORDER order_by] [LIMIT limit]

        Each of these is also read alone, after an error before it.
        """
        return {
            "sources": self._from_list(),
            "where": self._optional("WHERE", self.expression),
            "group_by": self._optional("GROUP", self.group_by) or (),
            "having": self._optional("HAVING", self.expression),
            "order_by": self._optional("ORDER", self.order_by) or (),
            "limit": self._optional("LIMIT", self.limit),
        }

    def _from_list(self) -> tuple[FromClass, ...]:
        """from_list = from_class {("," | CROSS JOIN) from_class | join}

        join = [INNER | LEFT [OUTER]] JOIN from_class ON expression
        """
        sources = [self._from_class(_AFTER_FROM)]
        while (word := self._take_one(_JOINS)) is not None:
            if word == "LEFT":
                self._take("OUTER")
            if word not in (",", "JOIN"):
                self._expect("JOIN")
            if word in (",", "CROSS"):
                sources.append(self._from_class(_AFTER_FROM))
                continue
            source = self._from_class(_BEFORE_ON)
            self._expect("ON")
            sources.append(replace(source, on=self.expression(), left_join=word == "LEFT"))
        return tuple(sources)

    def _from_class(self, keywords: Collection[str]) -> FromClass:
        """from_class = class_name ([OVER duration] [alias] | alias OVER duration)"""
        begin, name = self.at, self.class_name()
        over = self._optional("OVER", self.duration)
        alias = self._alias(keywords)
        if over is None and alias is not None:
            over = self._optional("OVER", self.duration)
        return FromClass(name, alias, over, span=self._span(begin))

    def group_by(self) -> tuple[Expression, ...]:
        """group_by = BY expression {"," expression}"""
        self._expect("BY")
        return self._list(self.expression)

    def order_by(self) -> tuple[OrderTerm, ...]:
        """order_by = BY order_term {"," order_term}"""
        self._expect("BY")
        return self._list(self._order_term)

    def _order_term(self) -> OrderTerm:
        """order_term = expression [ASC | DESC] [NULLS (FIRST | LAST)]"""
        expression = self.expression()
        descending = self._take_one(("ASC", "DESC")) == "DESC"
        nulls = self._optional("NULLS", lambda: self._expect_one(("FIRST", "LAST")))
        return OrderTerm(expression, descending, None if nulls is None else nulls == "FIRST")

    def limit(self) -> int:
        """limit = NUMBER"""
        return self._whole("LIMIT")

    # ---- triggers

    def trigger(self) -> Trigger:
        """trigger = ON event TO class_name [after] [WHERE expression] [WHEN expression | THEN then]"""
        begin = self.at
        self._expect("ON")
        kind, page_class = self._event_to_class()
        after = self._after()
        where = self._optional("WHERE", self.expression)
        condition = self._optional("WHEN", self.expression)
        then = self._optional("THEN", self._then) if condition is None else None
        return Trigger(kind, page_class, where, condition, after, then, self._span(begin))

    def _then(self) -> Then:
        """then = [NO] event TO class_name [WHERE expression] WITHIN duration"""
        begin, is_absent = self.at - 1, self._take("NO")
        kind, page_class = self._event_to_class()
        where = self._optional("WHERE", self.expression)
        self._expect("WITHIN")
        return Then(kind, page_class, self.duration(), where, is_absent, self._span(begin))

    def _event_to_class(self) -> tuple[EventKind, ClassName]:
        kind = self._event()
        self._expect("TO")
        return kind, self.class_name()

    def _event(self) -> EventKind:
        """event = INSERT | UPDATE | DELETE | FAILURE | RECOVERY | MOVED | EMPTY | TROUBLE | PROBE"""
        return EventKind[self._expect_one(_EVENTS)]

    def _after(self) -> After | None:
        """after = AFTER NUMBER (PROBES | unit)"""
        begin = self.at
        if not self._take("AFTER"):
            return None
        number = self._expect_value("NUMBER")
        if (unit := self._take_one(_UNITS)) is not None:
            return After(time=Duration(Decimal(number.value), _UNITS[unit]), span=self._span(begin))
        self._expect("PROBE")
        return After(probes=self._whole("the number of probes", number), span=self._span(begin))


QUERY_CLAUSES: Mapping[str, Callable[[ExpressionParser], Any]] = MappingProxyType(
    {
        "FROM": ExpressionParser.from_part,
        "WHERE": ExpressionParser.expression,
        "GROUP": ExpressionParser.group_by,
        "HAVING": ExpressionParser.expression,
        "ORDER": ExpressionParser.order_by,
        "LIMIT": ExpressionParser.limit,
    }
)
"""What stands after the word that begins a clause of a query."""
TRIGGER_CLAUSES: Mapping[str, Callable[[ExpressionParser], Any]] = MappingProxyType(
    {"WHERE": ExpressionParser.expression, "WHEN": ExpressionParser.expression}
)
