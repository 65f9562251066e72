"""The words of the language: the keywords, their names for users, and hints at what was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from proxyd.core.errors import NotFoundError, suggest
from proxyd.core.language.syntax.delivery_kinds import delivery_words
from proxyd.core.language.syntax.readers import READER_KINDS
from proxyd.core.model.profile import Declaration, Source

_Named = TypeVar("_Named")

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG"})

_SQL_WORDS = (
    "AND AS BETWEEN CASE DISTINCT FALSE FROM GROUP HAVING ILIKE IN IS LIKE LIMIT NOT NULL ON OR ORDER SELECT TRUE WHERE"
)
BEFORE_A_PARENTHESIS = AGGREGATES | {"CAST"}
"""Words that are names unless a parenthesis follows."""
RESERVED = BEFORE_A_PARENTHESIS | frozenset(_SQL_WORDS.split())
"""Words that are quoted where a query or condition uses them as names."""
_MOST_NAMED = 5  # sources of a rule in an error
_AFTER_A_NAME = RESERVED - BEFORE_A_PARENTHESIS - {"CASE", "NULL", "TRUE", "FALSE"} | frozenset(
    ["ASC", "DESC", "NULLS", "REGEXP", "ESCAPE", "THEN", "ELSE", "END"]
)

_COUNTED = """
CHRONON DAY DOMAIN HOUR ITEM LANGUAGE MINUTE NOTIFICATION PROBE PROFILE SECOND SOURCE USER WEEK WORD
"""
"""Keywords that have a plural."""
_OTHERS = """
ACROSS ADAPTIVE AFTER AND ARTICLES AS ASC AT AUTH AUTO AVG BACKOFF BASIC BEARER BETWEEN BODY BOOLEAN BROWSER BY CASE
CAST CERTIFICATE CLASS COUNT CREATE CROSS DAILY DECIMAL DELETE DELIVER DELIVERY DESC DIGEST DISTINCT DOE DROP DURING
EACH ELSE EMPTY END ENV ESCAPE EVERY EXPECT EXPONENTIAL FAILURE FALSE FBSUP FETCH FILE FILTER FIRST FOR FRESHNESS
FRIDAY FROM FULL GOLDEN GROUP HALF HAVING HEADER HEALTH HOLDING IGNORE ILIKE IMPORTANCE IN INDEX INNER INSERT
INTEGER INTO IS JOIN KEY LAST LEFT LIFE LIKE LIMIT LINEAR LOCALE MAINTENANCE MAX MEMORYLESS MESSAGE METHOD MIN
MONDAY MOST MOVED NEVER NO NONE NOT NOW NULL NULLS OBEY OF OFF ON OR ORDER OTHERWISE OUTER OVER OVERWRITE PER POLICY
POLITENESS POST QUERY QUIET RECEIVER RECOVERY REGEXP ROBOTS SATURDAY SCREENSHOT SECRET SELECT SET SLOW SPACING START
STRICT STRING SUM SUNDAY SUP TARGET TELL THEN THURSDAY TIMESTAMP TO TRIGGER TROUBLE TRUE TUESDAY UNIFORM UPDATE URL
UTILITY WAIT WATCH WEBSUB WEDNESDAY WEEKLY WHEN WHERE WINDOW WITHIN WITHOUT ZONE
"""
KEYWORDS = frozenset(
    [*_COUNTED.split(), *_OTHERS.split(), *delivery_words(), *(reader.value for reader in READER_KINDS)]
)
"""Every keyword, in capitals and singular."""
_FORMS = {keyword: keyword for keyword in KEYWORDS} | {f"{noun}S": noun for noun in _COUNTED.split()}
_SHOWN = {
    "NAME": "a name",
    "TEXT": "a text in single quotes",
    "QUOTED": "a text in double quotes",
    "NUMBER": "a number",
    "STRING": "String",
    "INTEGER": "Integer",
    "DECIMAL": "Decimal",
    "BOOLEAN": "Boolean",
    "TIMESTAMP": "Timestamp",
    "PROBE": "PROBES",
    "ITEM": "ITEMS",
}
_UNITS = frozenset({"CHRONON", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})
_VALUES = frozenset({"NAME", "NUMBER", "TEXT"})
_OPERAND = _VALUES | BEFORE_A_PARENTHESIS | {"(", "-", "+", "NOT", "NULL", "TRUE", "FALSE", "CASE"}
_OPERATORS = frozenset(
    {"+", "-", "*", "/", "%", "||", "=", "<>", "!=", "<", "<=", ">", ">="}
    | {"LIKE", "ILIKE", "IN", "IS", "BETWEEN", "REGEXP", "NOT", "AND", "OR"}
)


def get_keyword(word: str) -> str | None:
    """Return the keyword that a bare word can stand for, in capitals and singular.

    >>> get_keyword("sources"), get_keyword("rss"), get_keyword("title")
    ('SOURCE', None, None)
    """
    return _FORMS.get(word.upper()) if word.isascii() else None


def can_follow_case(text: str) -> bool:
    """Whether a text after CASE begins an operand or WHEN; before other words and signs ``case`` is a name.

    >>> can_follow_case("WHEN"), can_follow_case("title"), can_follow_case("IS"), can_follow_case("=")
    (True, True, False, False)
    """
    if text[:1].isalpha() or text[:1] == "_":
        return text.upper() not in _AFTER_A_NAME
    return text[:1].isdigit() or text[:1] in ("(", "'", '"')


def _describe(words: Collection[str], extra: Iterable[str] = ()) -> list[str]:
    """Return the expected keywords, signs and values as users know them, phrases first.

    >>> _describe({"NAME", "SUP", ","}, ["';'"])
    ['a name', 'SUP', "','", "';'"]
    """
    spelled = set(words)
    phrases: list[str] = []
    if spelled >= _VALUES and "(" in spelled:
        spelled -= _OPERAND
        phrases.append("an expression")
    elif spelled >= {"+", "*"}:
        spelled -= _OPERATORS | {"."}
        phrases.append("an operator")
    if spelled >= _UNITS:
        spelled -= _UNITS
        phrases.append("a unit of time such as MINUTES")
    if len(spelled) + len(phrases) > 1:
        spelled.discard(".")
    keywords = sorted(word for word in spelled if word.isalpha() and word not in ("NAME", "TEXT", "NUMBER", "QUOTED"))
    values = [_SHOWN[word] for word in ("NAME", "NUMBER", "TEXT", "QUOTED") if word in spelled]
    signs = [f"'{word}'" for word in sorted(spelled) if not word.isalpha()]
    return phrases + values + [_SHOWN.get(word, word) for word in keywords] + signs + list(extra)


def expectation(words: Collection[str], extra: Iterable[str] = ()) -> str:
    """Return ``expected X`` or ``expected one of: X, Y``."""
    shown = _describe(words, extra)
    return f"expected {shown[0]}" if len(shown) == 1 else f"expected one of: {', '.join(shown)}"


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """Return `` Did you mean X?`` with a leading space, or nothing.

    >>> did_you_mean("Strng", ["String", "Integer"])
    ' Did you mean String?'
    """
    close = suggest(written, known)
    return f" Did you mean {close}?" if close is not None else ""


def no_such(kind: str, name: str, known: Collection[str]) -> NotFoundError:
    """Return the error for an unknown name, with the nearest known name unless there are very many.

    >>> print(no_such("source", "pyhton", ["python", "kernel"]))
    there is no source 'pyhton'. Did you mean python?
    """
    hint = did_you_mean(name, known)
    return NotFoundError(f"there is no {kind} {name!r}" + (f".{hint}" if hint else ""))


def find_named(kind: str, name: str, known: Mapping[str, _Named]) -> _Named:
    """Return what has a name; raises ``NotFoundError``."""
    if name not in known:
        raise no_such(kind, name, known)
    return known[name]


def find_source(name: str, declared: Declaration) -> Source:
    """Return a declared source; raises ``NotFoundError``."""
    if name not in declared.sources:
        raise no_such_source(name, declared)
    return declared.sources[name]


def no_such_source(name: str, declared: Declaration) -> NotFoundError:
    """Return the error for an unknown source; of a rule's name it says which sources the rule watches."""
    rule = declared.rules.get(name)
    if rule is None or not rule.source_ids:
        return no_such("source", name, declared.sources)
    more = len(rule.source_ids) - _MOST_NAMED
    some = ", ".join(rule.source_ids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return NotFoundError(f"{name!r} is a rule, not a source; it watches {some}")


def suggest_keyword(written: str, words: Collection[str]) -> str:
    """Return a suggestion among expected keywords; two keywords written as one are split."""
    keywords = sorted(KEYWORDS.intersection(words))
    upper = written.upper()
    for keyword in keywords:
        rest = upper.removeprefix(keyword)
        if rest != upper and get_keyword(rest) is not None:
            return f" Did you mean {keyword} {rest}?"
    return did_you_mean(written, sorted(_SHOWN.get(word, word) for word in keywords))
