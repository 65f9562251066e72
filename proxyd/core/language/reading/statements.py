"""The parser of statements, their options and clauses: each method reads what its docstring shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

from proxyd.core.language.deliveries import DELIVERY_KINDS, DeliveryPart, kind_named
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
    Statement,
    StatementKind,
    TimeSpec,
    Watch,
)
from proxyd.core.language.reading.expressions import ExpressionParser
from proxyd.core.language.reading.token_reader import T
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
_VERBS = ("CREATE", "INSERT", "WATCH", "DROP")
_CREATED = ("DOMAIN", "SOURCE", "PROFILE")
_KINDS = tuple(kind.value for kind in StatementKind)
_FIELD_TYPES = tuple(type_.name for type_ in FieldType)
_READERS = tuple(reader.value for reader in Reader)
PROFILE_ITEMS = {"DOMAIN": "domains", "LANGUAGE": "languages", "USER": "users"}
_DELIVERIES = tuple(kind.keyword for kind in DELIVERY_KINDS)
_WEEKDAYS = tuple(day.name for day in Weekday)
_POLICIES = tuple(name.value for name in PolicyName)


class Head(NamedTuple):
    """The beginning of a statement: its class, and the values of its attributes."""

    made: Callable[..., Statement]
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause or option: the attributes that it sets, and the characters that it covers."""

    values: Mapping[str, Any]
    span: TextSpan


class Part(NamedTuple):
    """What stands after the keyword of a clause or option.

    ``read`` returns the value of ``attribute``; without an attribute, the values of several. A value that is
    ``is_located`` gets the place of the whole clause.
    """

    attribute: str
    read: Callable[[StatementParser], Any]
    is_located: bool = True


class StatementParser(ExpressionParser):
    """Reads the parts of statements."""

    # ---- heads

    def head(self) -> Head:
        """statement = CREATE (DOMAIN domain | SOURCE source | PROFILE profile) | INSERT NOTIFICATION name
        | WATCH text | DROP (PROFILE | NOTIFICATION | SOURCE | DOMAIN) name
        """
        verb = self._expect_one(_VERBS)
        if verb == "CREATE":
            created = self._expect_one(_CREATED)
            return self._source() if created == "SOURCE" else self._domain() if created == "DOMAIN" else self._profile()
        if verb == "INSERT" and self._expect("NOTIFICATION"):
            return Head(InsertNotification, {"name": self.name()})
        if verb == "WATCH":
            return Head(Watch, {"url": self._text()})
        kind = StatementKind(self._expect_one(_KINDS))
        return Head(DropStatement, {"kind": kind, "name": self.name()})

    def _source(self) -> Head:
        """source = name OF class_name (AT text | FROM FILE text)"""
        name = self.name()
        self._expect("OF")
        values = {"name": name, "page_class": self.class_name()}
        if self._expect_one(("AT", "FROM")) == "AT":
            return Head(CreateSource, values | {"url": self._text()})
        self._expect("FILE")
        return Head(CreateSources, values | {"file": self._text()})

    def _domain(self) -> Head:
        """domain = name AS class {[","] class}"""
        name = self.name()
        self._expect("AS")
        classes = [self.class_declaration()]
        while self._take(",") or self._is_at("CLASS"):
            classes.append(self.class_declaration())
        return Head(CreateDomain, {"name": name, "classes": tuple(classes)})

    def class_declaration(self) -> ClassDeclaration:
        """class = CLASS "::" name [[EACH each] "(" field {"," field} ")"]"""
        self._expect("CLASS", "::")
        name = self.name()
        each, key = self._optional("EACH", self._each) or (None, ())
        if each is None and not self._is_at("("):
            return ClassDeclaration(name)
        return ClassDeclaration(name, self._in_parentheses(lambda: self._list(self.field)), each, key)

    def _each(self) -> tuple[Located[Extraction], tuple[Located[str], ...]]:
        """each = reader TEXT [KEY path {"," path}]"""
        begin, rows = self.at - 1, self._extraction()
        key = self._optional("KEY", lambda: self._list(self._field_path)) or ()
        return Located(rows, self._span(begin)), key

    def field(self) -> FieldDeclaration:
        """field = path ":" type [OR NULL] [FROM reader TEXT]

        type = STRING | INTEGER | DECIMAL | BOOLEAN | TIMESTAMP | URL
        """
        path = self._field_path()
        self._expect(":")
        type_ = FieldType[self._expect_one(_FIELD_TYPES)]
        is_nullable = self._take("OR") and self._expect("NULL")
        extraction = self._optional("FROM", lambda: self._located(self._extraction))
        return FieldDeclaration(path, type_, extraction, is_nullable)

    def _field_path(self) -> Located[str]:
        path = self._path()
        return Located(path.path, path.span)

    def _extraction(self) -> Extraction:
        """reader TEXT; reader = JSON | CSS | XPATH | META | JSONLD | PRICE"""
        return Extraction(Reader(self._expect_one(_READERS)), self.plain_text())

    def _profile(self) -> Head:
        """profile = name [AS "(" item {"," (item | name)} ")"]

        item = (DOMAIN | LANGUAGE | USER) name; a name without a kind is of the kind before it.
        """
        values: dict[str, Any] = {"name": self.name()}
        if self._take("AS") and self._expect("("):
            items = [self.profile_item()]
            while self._take(","):
                items.append((self._take_one(PROFILE_ITEMS) or items[-1][0], self.name()))
            self._expect(")")
            for kind, attribute in PROFILE_ITEMS.items():
                values[attribute] = tuple(name for its, name in items if its == kind)
        return Head(CreateProfile, values)

    def profile_item(self) -> tuple[str, Located[str]]:
        """item = (DOMAIN | LANGUAGE | USER) name"""
        return self._expect_one(PROFILE_ITEMS), self.name()

    # ---- options and clauses

    def source_option(self) -> Clause:
        """option = POLITENESS limit | EXPECT rate | ZONE text | LOCALE text | FRESHNESS obey | HEADER header
        | AUTH auth | METHOD post | WEBSUB on_off | ROBOTS obey | BACKOFF on_off | FETCH BROWSER | WAIT FOR TEXT
        """
        return self._clause(self.SOURCE_OPTIONS, self.at)

    def profile_option(self) -> Clause:
        """option = DELIVER TO delivery {"," delivery} | DIGEST digest | ON TROUBLE TELL delivery {"," delivery}"""
        return self._clause(self.PROFILE_OPTIONS, self.at)

    def watch_option(self) -> Clause:
        """option = OF class_name | LOCALE text | FETCH BROWSER | WAIT FOR TEXT | INTO name | AS name | ON event [after]
        | WHERE expression | WITHIN within | SCREENSHOT | MESSAGE TEXT | TELL delivery {"," delivery}
        """
        return self._clause(self.WATCH_OPTIONS, self.at)

    def clause(self) -> Clause:
        """clause = SET setting | START time | END time | INTO name {"," name} | FROM SOURCE name {"," name}
        | WITHIN within

        setting = QUERY QUOTED | TRIGGER QUOTED | UTILITY utility | LIFE life | TARGET share
        | IMPORTANCE weight {"," weight} | POLICY policy | DELIVERY (NONE | delivery {"," delivery})
        | DIGEST (NONE | digest) | LIMIT most | EMPTY DELIVER | SCREENSHOT | MESSAGE TEXT
        """
        begin = self.at
        return self._clause(self.SETTINGS if self._take("SET") else self.CLAUSES, begin)

    def _clause(self, table: Mapping[str, Part], begin: int) -> Clause:
        part = table[self._expect_one(table)]
        value = part.read(self)
        values = {part.attribute: value} if part.attribute else value
        span = self._span(begin)
        if part.is_located:
            values = {attribute: Located(value, span) for attribute, value in values.items()}
        return Clause(values, span)

    def _rate(self) -> Expect:
        """rate = NUMBER [ITEM] PER period"""
        amount = self._expect_number()
        self._take("ITEM")
        return Expect(amount, self._per_period())

    def _probe_limit(self) -> Politeness:
        """limit = NUMBER PROBES PER period ["," SPACING duration] | SPACING duration"""
        if self._take("SPACING"):
            return Politeness(spacing=self.duration())
        probes = self._whole("the number of probes")
        self._expect("PROBE")
        period = self._per_period()
        return Politeness(probes, period, self.duration() if self._take(",") and self._expect("SPACING") else None)

    def _header(self) -> tuple[Located[tuple[str, str | SecretRef]], ...]:
        """header = TEXT (TEXT | secret)"""
        begin, name = self.at - 1, self.plain_text()
        value = self._secret() if self._is_at("SECRET") else self.plain_text()
        return (Located((name, value), self._span(begin)),)

    def _auth(self) -> Auth:
        """auth = BEARER secret | BASIC TEXT secret"""
        if self._expect_one(("BEARER", "BASIC")) == "BEARER":
            return Auth("bearer", self._secret())
        user = self.plain_text()
        return Auth("basic", self._secret(), user)

    def _secret(self) -> SecretRef:
        """secret = SECRET (ENV | FILE) TEXT"""
        self._expect("SECRET")
        return SecretRef(self._expect_one(("ENV", "FILE")).lower(), self.plain_text())

    def _post(self) -> str:
        """post = POST [BODY TEXT]"""
        self._expect("POST")
        return self.plain_text() if self._take("BODY") else ""

    def _deliveries(self) -> tuple[Located[Delivery], ...]:
        return self._list(lambda: self._located(self._delivery))

    def _delivery(self) -> Delivery:
        """Read a keyword of DELIVERY_KINDS and the parts that are described there; some may be left out."""
        kind = kind_named(self._expect_one(_DELIVERIES))
        values: dict[str, Any] = {}
        for part in kind.parts:
            if part.word and part.default is None:
                self._expect(part.word)
            elif part.word and not self._take(part.word):
                continue
            values[part.name] = part.read(self._delivery_value(part))
        return kind.made(**values)

    def _delivery_value(self, part: DeliveryPart) -> Any:
        if part.shape is SecretRef:
            return self._secret()
        if part.choices:
            return self._expect_one(part.choices)
        return self._expect_value("NUMBER" if part.shape is int else "TEXT").value

    def _set_deliveries(self) -> Mapping[str, Any]:
        return {"no_delivery": True} if self._take("NONE") else {"deliveries": self._deliveries()}

    def _on_event(self) -> Mapping[str, Any]:
        """event [after]"""
        event, after = self._event(), self._after()
        return {"event": event} | ({"after": after} if after is not None else {})

    def _within(self) -> Mapping[str, Any]:
        """within = duration [FOR share]"""
        life = Life(self.duration())
        return {"life": life, "target": self._share()} if self._take("FOR") else {"life": life}

    def _share(self) -> Decimal:
        """share = NUMBER "%" """
        share = self._expect_number()
        self._expect("%")
        return share

    def _time(self) -> TimeSpec:
        """time = NOW [("+" | "-") time_text] | NEVER | time_text ["+" NOW]"""
        begin, word = self.at, self._take_one(("NOW", "NEVER"))
        if word == "NEVER":
            return TimeSpec(Anchor.NEVER, span=self._span(begin))
        if word == "NOW":
            sign = self._take_one(("+", "-"))
            interval = self._interval(self._time_text()) if sign is not None else None
            if interval is not None and sign == "-":
                interval = replace(interval, amount=-interval.amount)
            return TimeSpec(Anchor.NOW, interval, span=self._span(begin))
        text = self._time_text()
        if self._take("+"):
            self._expect("NOW")
            return TimeSpec(Anchor.NOW, self._interval(text), span=self._span(begin))
        return TimeSpec(Anchor.ABSOLUTE, text=text.value, span=self._span(begin))

    def _time_text(self) -> Located[str]:
        """time_text = QUOTED | TEXT"""
        token = self._expect_value("QUOTED", "TEXT")
        return Located(token.value, TextSpan(token.start, token.stop))

    def _interval(self, text: Located[str]) -> Duration:
        """Return the duration of ``30 days``."""
        match = _INTERVAL.fullmatch(text.value)
        if match is None:
            self._refuse('expected an interval such as "30 days"', text.span)
            return Duration(Decimal(0), Unit.CHRONONS)
        unit = (get_keyword(match[2]) or "") if match[2] else Unit.CHRONONS.value
        if unit not in {known.value for known in Unit}:
            suggestion = did_you_mean(match[2], [f"{known.value}S" for known in Unit])
            self._refuse(f"{match[2]} is not a unit of time.{suggestion}", text.span)
            return Duration(Decimal(0), Unit.CHRONONS)
        return Duration(Decimal(match[1]), Unit(unit))

    def _utility(self) -> Utility:
        """utility = STRICT | LINEAR "(" duration ")" | EXPONENTIAL "(" HALF "-" LIFE duration ")" """
        kind = UtilityKind[self._expect_one(("STRICT", "LINEAR", "EXPONENTIAL"))]
        if kind is UtilityKind.STRICT:
            return Utility(kind)
        return Utility(
            kind, self._in_parentheses(self._half_life if kind is UtilityKind.EXPONENTIAL else self.duration)
        )

    def _half_life(self) -> Duration:
        self._expect("HALF", "-", "LIFE")
        return self.duration()

    def _life(self) -> Life:
        """life = OVERWRITE | WINDOW "(" duration ")" """
        if self._expect_one(("OVERWRITE", "WINDOW")) == "OVERWRITE":
            return Life()
        return Life(self._in_parentheses(self.duration))

    def _weight(self) -> ImportanceTerm:
        """weight = NUMBER [OTHERWISE | DURING TEXT [IN TEXT]]"""
        weight = self._expect_number()
        if self._take_one(("OTHERWISE", "DURING")) != "DURING":
            return ImportanceTerm(weight)
        return ImportanceTerm(weight, self.plain_text(), self._optional("IN", self.plain_text))

    def _policy(self) -> PolicyChoice:
        """policy = AUTO | SUP | FBSUP | ADAPTIVE | MEMORYLESS | INDEX | GOLDEN | DOE "(" limit ")"
        | UNIFORM "(" duration ")"
        """
        begin, name = self.at, PolicyName(self._expect_one(_POLICIES))
        if name is PolicyName.UNIFORM:
            return PolicyChoice(name, period=self._in_parentheses(self.duration))
        if name is not PolicyName.DOE:
            return PolicyChoice(name)
        limit = self._in_parentheses(self._probe_limit)
        if limit.probes is None:
            self._refuse("DOE needs a number of probes, as in DOE(28 PROBES PER 4 WEEKS)", self._span(begin))
        return PolicyChoice(name, probes=limit.probes, per=limit.per, spacing=limit.spacing)

    def _digest(self) -> Digest:
        """digest = (EVERY duration | DAILY clock | WEEKLY ON weekday clock) [AT MOST NUMBER ITEMS]"""
        word = self._expect_one(("EVERY", "DAILY", "WEEKLY"))
        when = self.duration() if word == "EVERY" else self._clock(self._weekday() if word == "WEEKLY" else None)
        if not self._take("AT"):
            return Digest(when)
        self._expect("MOST")
        most = self._whole("AT MOST")
        self._expect("ITEM")
        return Digest(when, most)

    def _weekday(self) -> Weekday:
        """ON (MONDAY | TUESDAY | WEDNESDAY | THURSDAY | FRIDAY | SATURDAY | SUNDAY)"""
        self._expect("ON")
        return Weekday[self._expect_one(_WEEKDAYS)]

    def _clock(self, weekday: Weekday | None) -> WallTime:
        """clock = AT TEXT [IN TEXT]"""
        self._expect("AT")
        return WallTime(self.plain_text(), self._optional("IN", self.plain_text), weekday)

    def _most(self) -> NotificationLimit:
        """most = NUMBER PER period [PER (SOURCE | path)]"""
        most, period = self._whole("the number of notifications"), self._per_period()
        if not self._take("PER"):
            return NotificationLimit(most, period)
        if self._take("SOURCE"):
            return NotificationLimit(most, period, per_source=True)
        return NotificationLimit(most, period, key=self._path())

    # ---- parts of several statements

    def _in_parentheses(self, read: Callable[[], T]) -> T:
        self._expect("(")
        value = read()
        self._expect(")")
        return value

    def _located(self, read: Callable[[], T]) -> Located[T]:
        begin, value = self.at, read()
        return Located(value, self._span(begin))

    def _per_period(self) -> Duration:
        """PER period; period = [NUMBER] unit"""
        self._expect("PER")
        if self.token.shape == "NUMBER":
            return Duration(self._expect_number(), self._unit())
        self._expected.add("NUMBER")
        return Duration(Decimal(1), self._unit())

    def name(self) -> Located[str]:
        """name = NAME"""
        token = self._expect_name()
        span = TextSpan(token.start, token.stop)
        if not token.value.strip():
            self._refuse("a name cannot be empty", span)
        return Located(token.value, span)

    def _text(self) -> Located[str]:
        """text = TEXT"""
        token = self._expect_value("TEXT")
        return Located(token.value, TextSpan(token.start, token.stop))

    # ---- what stands after the first words of a clause

    SOURCE_OPTIONS: ClassVar[Mapping[str, Part]] = {
        "POLITENESS": Part("politeness", _probe_limit),
        "EXPECT": Part("expect", _rate),
        "ZONE": Part("zone", _text, is_located=False),
        "LOCALE": Part("locale", _text, is_located=False),
        "FRESHNESS": Part("freshness", lambda self: self._expect_one(("OBEY", "IGNORE")) == "OBEY"),
        "HEADER": Part("headers", _header, is_located=False),
        "AUTH": Part("auth", _auth),
        "METHOD": Part("post", _post),
        "WEBSUB": Part("websub", lambda self: self._expect_one(("ON", "OFF")) == "ON"),
        "ROBOTS": Part("robots", lambda self: self._expect_one(("OBEY", "IGNORE")) == "OBEY"),
        "BACKOFF": Part("backoff", lambda self: self._expect_one(("ON", "OFF")) == "ON"),
        "FETCH": Part("browser", lambda self: self._expect("BROWSER")),
        "WAIT": Part("wait_for", lambda self: self._expect("FOR") and self.plain_text()),
    }
    PROFILE_OPTIONS: ClassVar[Mapping[str, Part]] = {
        "DELIVER": Part("deliveries", lambda self: self._expect("TO") and self._deliveries(), is_located=False),
        "DIGEST": Part("digest", _digest),
        "ON": Part("trouble", lambda self: self._expect("TROUBLE", "TELL") and self._deliveries(), is_located=False),
    }
    CLAUSES: ClassVar[Mapping[str, Part]] = {
        "START": Part("start", _time, is_located=False),
        "END": Part("end", _time, is_located=False),
        "INTO": Part("profiles", lambda self: self._list(self.name), is_located=False),
        "FROM": Part("sources", lambda self: self._expect("SOURCE") and self._list(self.name), is_located=False),
        "WITHIN": Part("", _within),
    }
    SETTINGS: ClassVar[Mapping[str, Part]] = {
        "QUERY": Part("query", lambda self: self._expect_value("QUOTED"), is_located=False),
        "TRIGGER": Part("trigger", lambda self: self._expect_value("QUOTED"), is_located=False),
        "UTILITY": Part("utility", _utility),
        "LIFE": Part("life", _life),
        "TARGET": Part("target", _share),
        "IMPORTANCE": Part("importance", lambda self: self._list(self._weight)),
        "POLICY": Part("policy", _policy),
        "DELIVERY": Part("", _set_deliveries, is_located=False),
        "DIGEST": Part("digest", lambda self: None if self._take("NONE") else self._digest()),
        "LIMIT": Part("limit", _most),
        "EMPTY": Part("empty", lambda self: self._expect("DELIVER")),
        "SCREENSHOT": Part("screenshot", lambda _: True),
        "MESSAGE": Part("message", ExpressionParser.plain_text),
    }
    WATCH_OPTIONS: ClassVar[Mapping[str, Part]] = {
        "OF": Part("page_class", ExpressionParser.class_name, is_located=False),
        "LOCALE": SOURCE_OPTIONS["LOCALE"],
        "FETCH": SOURCE_OPTIONS["FETCH"],
        "WAIT": SOURCE_OPTIONS["WAIT"],
        "INTO": Part("profile", name, is_located=False),
        "AS": Part("rule_name", name, is_located=False),
        "ON": Part("", _on_event, is_located=False),
        "WHERE": Part("where", ExpressionParser.expression, is_located=False),
        "WITHIN": CLAUSES["WITHIN"],
        "SCREENSHOT": SETTINGS["SCREENSHOT"],
        "MESSAGE": SETTINGS["MESSAGE"],
        "TELL": Part("deliveries", _deliveries, is_located=False),
    }
