"""Every option and clause of a statement, described once: its words, and how it is read, printed and checked.

Reading, printing, the checks of single values and the JSON form all follow these tables. The grammar of what stands
after the words of a clause is in the docstring of the function that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from proxyd.core.language.syntax.clause_values import (
    AUTH,
    DELIVERIES,
    DIGEST,
    EVENT,
    EVERY,
    HEADER,
    HOLDING,
    IMPORTANCE,
    LIFE,
    LIMIT,
    MAINTENANCE,
    MOST,
    NAMES,
    POLICY,
    POST,
    QUIET,
    RATE,
    RULE_DELIVERIES,
    RULE_DIGEST,
    TARGET,
    TIME,
    UTILITY,
    WEBSUB,
    WITHIN,
    WORDS,
    Value,
    constant,
    expiry,
    format_event,
    format_within,
    switch,
)
from proxyd.core.language.syntax.expression_printer import (
    format_class,
    format_expression,
    format_select,
    format_trigger,
)
from proxyd.core.language.syntax.expressions import parse_class_name, parse_expression, parse_name, parse_text
from proxyd.core.language.syntax.nodes import Located
from proxyd.core.language.syntax.quoting import quote_name, quote_text
from proxyd.core.language.syntax.scanner import Lexeme
from proxyd.core.language.syntax.token_reader import TokenReader, parse_plain_text, series
from proxyd.core.language.syntax.words import get_keyword
from proxyd.core.model.expression import TextSpan

if TYPE_CHECKING:
    from proxyd.core.language.syntax.value_checks import Values


class JsonForm(Enum):
    """The JSON form of the value of a clause."""

    CLAUSE = "its text in the language, without the words before it"
    TEXT = "a text that the language puts in quotes"
    NAMES = "a list of names"
    FLAG = "true, for a clause without a value"
    INNER = "the text of a query or trigger"
    OBJECT = "an object"
    OBJECTS = "a list of objects"


@dataclass(frozen=True)
class Clause:
    """A clause or option."""

    words: str  # the words before its value, as users write them
    attribute: str  # the attribute of the statement that it sets
    value: Value  # how its value is read, printed and checked
    is_located: bool = True  # whether the value gets the place of the whole clause; other values know their own place
    adds_up: bool = False  # whether it may be given several times; the attribute holds the values of all
    # Returns the whole clause for a statement if it prints several attributes
    show_statement: Callable[[Any], str] | None = None
    # Its JSON form (`None`: no member of its own), the name of its member if that is not the attribute, and what the
    # description of the API says
    form: JsonForm | None = JsonForm.CLAUSE
    json_name: str = ""
    description: str | None = None
    examples: tuple[str, ...] = ()

    @property
    def member(self) -> str:
        """The name of its JSON member."""
        return self.json_name or self.attribute

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The words before its value, as the scanner gives them."""
        return tuple(get_keyword(word) or word for word in self.words.split())

    def lines(self, statement: object) -> Iterator[str]:
        """Yield the clause of a statement in its written form, once for each value; nothing if it is not given."""
        value = getattr(statement, self.attribute)
        if not value:
            return
        if self.show_statement is not None:
            yield self.show_statement(statement)
            return
        for each in value if self.adds_up else (value,):
            text = self.value.show(each.value if isinstance(each, Located) else each)
            line = f"{self.words} {quote_name(text) if self.form is JsonForm.INNER else text}"
            yield line.rstrip()  # SET SCREENSHOT has no value


def format_clauses(statement: object, clauses: Iterable[Clause]) -> list[str]:
    """Return the clauses of a statement in their written form."""
    return [line for clause in clauses for line in clause.lines(statement)]


def check_clauses(statement: object, clauses: Iterable[Clause], values: Values) -> None:
    """Report what is wrong with the value of each clause alone."""
    for clause in clauses:
        if (check := clause.value.check) is not None and (value := getattr(statement, clause.attribute)):
            for each in value if clause.adds_up else (value,):
                check(values, each.value if isinstance(each, Located) else each, each.span)


def _inner_text(parser: TokenReader) -> Lexeme:
    """Take a text in double quotes; the parser reads what is in it."""
    return parser.expect_value("QUOTED")


# ---- the tables, in the order in which clauses are printed

_LOCALE = Clause(
    "LOCALE",
    "locale",
    Value(parse_text, quote_text, lambda values, *locale: values.locale(*locale)),
    is_located=False,
    form=JsonForm.TEXT,
    examples=("de", "en-US"),
)
_BROWSER = Clause(
    "FETCH",
    "browser",
    constant("BROWSER", lambda values, _, span: values.browser(span)),
    json_name="fetch",
    description="whether a browser runs the page's scripts",
)
_WAIT_FOR = Clause(
    "WAIT FOR",
    "wait_for",
    Value(parse_plain_text, quote_text, lambda values, *selector: values.css(*selector)),
    form=JsonForm.TEXT,
    description="CSS selector that the browser waits for",
    examples=("li.result",),
)
_IGNORE = Clause(
    "IGNORE",
    "ignored",
    Value(
        lambda parser: series(parser, parse_text), quote_text, lambda values, *pattern: values.line_pattern(*pattern)
    ),
    is_located=False,
    adds_up=True,
    form=JsonForm.NAMES,
    json_name="ignore",
    description="what the lines of a page hold that are left out of its text; /a pattern/ between slashes",
)
_FULL = Clause(
    "FULL",
    "full_articles",
    constant("ARTICLES"),
    description="whether the page of an item is read where its feed has only a teaser",
)
_OF_SITES = (
    Clause(
        "CERTIFICATE",
        "certificate",
        expiry("CERTIFICATE"),
        description="how long before the certificate of a site expires it is told",
        examples=("21 DAYS", "NONE"),
    ),
    Clause(
        "DOMAIN",
        "domain",
        expiry("DOMAIN"),
        json_name="domain_expiry",
        description="how long before the domain of a site expires it is told",
        examples=("60 DAYS", "NONE"),
    ),
    Clause(
        "HOLDING", "holding", HOLDING, form=JsonForm.TEXT, description="what a site must hold", examples=("Welcome",)
    ),
    Clause(
        "MAINTENANCE",
        "maintenance",
        MAINTENANCE,
        description="when a site may be down",
        examples=("DURING 'Sun 02:00-04:00' IN 'Europe/Berlin'",),
    ),
)
"""The options of sources of class SITE."""
_DELIVER = Clause("DELIVER TO", "deliveries", DELIVERIES, is_located=False, adds_up=True, form=JsonForm.OBJECTS)
SOURCE_OPTIONS = (
    Clause("POLITENESS", "politeness", LIMIT, examples=("12 PROBES PER HOUR, SPACING 2 MINUTES",)),
    Clause("EXPECT", "expect", RATE, examples=("3 PER DAY",)),
    Clause(
        "ZONE",
        "zone",
        Value(parse_text, quote_text, lambda values, *zone: values.zone(*zone)),
        is_located=False,
        form=JsonForm.TEXT,
    ),
    _LOCALE,
    Clause("FRESHNESS", "freshness", switch("OBEY", "IGNORE")),
    Clause("HEADER", "headers", HEADER, is_located=False, adds_up=True, form=JsonForm.OBJECTS),
    Clause("AUTH", "auth", AUTH, form=JsonForm.OBJECT),
    Clause(
        "METHOD",
        "post",
        POST,
        form=JsonForm.TEXT,
        description="the body of METHOD POST; empty for one without a body",
    ),
    Clause("WEBSUB", "websub", WEBSUB),
    Clause("ROBOTS", "robots", switch("OBEY", "IGNORE")),
    Clause("BACKOFF", "backoff", switch("ON", "OFF")),
    _IGNORE,
    _BROWSER,
    _WAIT_FOR,
    _FULL,
    *_OF_SITES,
)
"""The options of CREATE SOURCE."""
PROFILE_OPTIONS = (
    _DELIVER,
    Clause("DIGEST", "digest", DIGEST, examples=("DAILY AT '08:00' IN 'Europe/Berlin'",)),
    Clause("QUIET", "quiet", QUIET, examples=("DURING 'Mon-Fri 22:00-07:00, Sat,Sun' IN 'Europe/Berlin'",)),
    replace(
        _DELIVER,
        words="ON TROUBLE TELL",
        attribute="trouble",
        description="who is told when a source of the profile fails, moves or goes empty",
    ),
)
"""The options of CREATE PROFILE."""
_LOUD = Clause("SET QUIET", "quiet", constant("NONE"))
_SCREENSHOT = Clause(
    "SET SCREENSHOT",
    "screenshot",
    constant(),
    form=JsonForm.FLAG,
    description="whether a picture of the page is kept with each notification",
)
_MESSAGE = Clause(
    "SET MESSAGE", "message", Value(parse_plain_text, quote_text), form=JsonForm.TEXT, examples=("{title} {link}",)
)
_EVERY = Clause("SET EVERY", "longest_gap", EVERY, examples=("5 MINUTES",))
_RULE_DIGEST = Clause("SET DIGEST", "digest", RULE_DIGEST, examples=("EVERY 1 HOUR AT MOST 20 ITEMS", "NONE"))
RULE_CLAUSES = (
    Clause("INTO", "profiles", NAMES, is_located=False, form=JsonForm.NAMES),
    Clause("FROM SOURCES", "sources", NAMES, is_located=False, form=JsonForm.NAMES),
    Clause("SET QUERY", "query", Value(_inner_text, format_select), is_located=False, form=JsonForm.INNER),
    Clause("SET TRIGGER", "trigger", Value(_inner_text, format_trigger), is_located=False, form=JsonForm.INNER),
    Clause("START", "start", TIME, is_located=False, examples=("NOW", "'2026-01-31T12:00:00Z'")),
    Clause("END", "end", TIME, is_located=False, examples=("NEVER", "NOW + '30 days'")),
    Clause("SET UTILITY", "utility", UTILITY, examples=("STRICT", "LINEAR(30 MINUTES)")),
    Clause("SET LIFE", "life", LIFE, examples=("OVERWRITE", "WINDOW(5 MINUTES)")),
    Clause("SET TARGET", "target", TARGET, examples=("95 %",)),
    Clause("SET IMPORTANCE", "importance", IMPORTANCE, examples=("3 DURING 'Mon-Fri 09:00-18:00', 1 OTHERWISE",)),
    Clause("SET POLICY", "policy", POLICY, examples=("AUTO", "UNIFORM(15 MINUTES)")),
    Clause("SET DELIVERY", "deliveries", RULE_DELIVERIES, is_located=False, adds_up=True, form=JsonForm.OBJECTS),
    Clause("SET DELIVERY NONE", "no_delivery", constant(), form=None),  # is read by the one before
    _EVERY,
    _RULE_DIGEST,
    _LOUD,
    Clause("SET LIMIT", "limit", MOST, examples=("1 PER DAY PER SOURCE",)),
    Clause("SET EMPTY", "empty", constant("DELIVER")),
    _SCREENSHOT,
    _MESSAGE,
)
"""The clauses of INSERT NOTIFICATION."""
_WITHIN_LIFE = Clause("WITHIN", "life", WITHIN, is_located=False, show_statement=format_within)
"""Short for SET LIFE and SET TARGET."""
WATCH_OPTIONS = (
    Clause("OF", "page_class", Value(parse_class_name, format_class), is_located=False),
    _LOCALE,
    _IGNORE,
    _BROWSER,
    _WAIT_FOR,
    _FULL,
    *_OF_SITES,
    Clause("INTO", "profiles", NAMES, is_located=False),
    Clause("AS", "rule_name", Value(parse_name, quote_name), is_located=False),
    Clause("ON", "event", EVENT, is_located=False, show_statement=format_event),
    Clause("WHERE", "where", Value(parse_expression, format_expression), is_located=False),
    Clause(
        "WITHOUT",
        "without",
        Value(lambda parser: series(parser, parse_text), quote_text),
        is_located=False,
        adds_up=True,
    ),
    Clause("OVER", "least_words", WORDS),
    _WITHIN_LIFE,
    replace(_EVERY, words="EVERY"),
    replace(_SCREENSHOT, words="SCREENSHOT"),
    replace(_MESSAGE, words="MESSAGE"),
    replace(_LOUD, words="QUIET"),
    replace(_DELIVER, words="TELL"),
    replace(_RULE_DIGEST, words="DIGEST"),
)
"""The options of WATCH."""


def _by_keyword(clauses: Iterable[Clause], *, of_set: bool = False) -> Mapping[str, Clause]:
    """Return clauses by their first keyword, or by the second of those that begin with SET."""
    found: dict[str, Clause] = {}
    for clause in clauses:
        if (clause.keywords[0] == "SET") is of_set:
            found.setdefault(clause.keywords[of_set], clause)  # SET DELIVERY reads NONE, too
    return found


_SETTINGS = _by_keyword(RULE_CLAUSES, of_set=True)
_BY_KEYWORD: Mapping[str, Mapping[str, Clause]] = {
    "SOURCE": _by_keyword(SOURCE_OPTIONS),
    "PROFILE": _by_keyword(PROFILE_OPTIONS),
    "NOTIFICATION": _by_keyword((*RULE_CLAUSES[2:], *RULE_CLAUSES[:2], _WITHIN_LIFE)),  # in the order that errors name
    "WATCH": _by_keyword(WATCH_OPTIONS),
}
CLAUSE_STARTS: Mapping[str, tuple[str, ...]] = {
    kind: (*(["SET"] if kind == "NOTIFICATION" else []), *table) for kind, table in _BY_KEYWORD.items()
}
"""The words that the clauses of a kind of statement begin with."""


ADDS_UP = frozenset(
    each.attribute for each in (*SOURCE_OPTIONS, *PROFILE_OPTIONS, *RULE_CLAUSES, *WATCH_OPTIONS) if each.adds_up
)
"""The attributes whose clauses may be given several times."""


class _Setting(NamedTuple):
    """One clause as written: the attributes that it sets, and the characters that it covers."""

    values: Mapping[str, Any]
    span: TextSpan


def parse_clause(parser: TokenReader, kind: str) -> _Setting:
    """Return a clause or option of a kind of statement, as the tables describe it."""
    begin, is_set = parser.at, kind == "NOTIFICATION" and parser.take("SET")
    table = _SETTINGS if is_set else _BY_KEYWORD[kind]
    clause = table[parser.expect_one(table)]
    parser.expect(*clause.keywords[1 + is_set :])
    value = clause.value.read(parser)
    span = parser.span(begin)
    if isinstance(value, dict):
        return _Setting(value, span)
    return _Setting({clause.attribute: Located(value, span) if clause.is_located else value}, span)
