"""The words of the language: the keywords, their names for users, and hints at what was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from importlib.resources import files

from lark import Lark
from lark.lexer import PatternStr

from proxyd.core.language.deliveries import delivery_rules
from proxyd.core.language.readers import reader_rule
from proxyd.core.model.profile import Declaration
from proxyd.errors import NotFoundError, suggest

START_RULES = (
    *("statement_head", "source_option", "profile_option", "clause", "watch_option", "select", "trigger"),
    *("from_part", "where", "when", "group_by", "having", "order_by", "limit"),
    *("class_declaration", "field", "profile_item", "profile_more"),
)

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

_PLURALS = {
    f"{noun}S": noun
    for noun in (
        "CHRONON",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "PROBE",
        "ITEM",
        "SOURCE",
        "DOMAIN",
        "PROFILE",
        "USER",
        "NOTIFICATION",
        "LANGUAGE",
    )
}
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


def grammar_text() -> str:
    """Return the grammar that is executed: the file, and the rules generated from descriptions."""
    written = files("proxyd.core.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return "\n".join([written, *delivery_rules(), reader_rule(), ""])


@cache
def load_grammar() -> Lark:
    """Return the compiled grammar; its lexer is not used, because pieces feed it words."""
    return Lark(
        grammar_text(), parser="lalr", start=list(START_RULES), propagate_positions=True, maybe_placeholders=False
    )


@cache
def _terminals() -> dict[str, str]:
    """Return terminal names by the word or sign that they stand for."""
    return {t.pattern.value: t.name for t in load_grammar().terminals if isinstance(t.pattern, PatternStr)}


@cache
def _spellings() -> dict[str, str]:
    return {name: spelling for spelling, name in _terminals().items()}


@cache
def get_keywords() -> frozenset[str]:
    """Return every keyword, in capitals and singular."""
    return frozenset(word for word in _terminals() if word.isalpha())


@lru_cache(4096)
def get_keyword(word: str) -> str | None:
    """Return the keyword that a bare word can stand for, in capitals and singular."""
    if not word.isascii():
        return None
    upper = word.upper()
    keyword = _PLURALS.get(upper, upper)
    return keyword if keyword in get_keywords() else None


def can_follow_case(text: str) -> bool:
    """Whether a text after CASE begins an operand or WHEN; before other words and signs ``case`` is a name.

    >>> can_follow_case("WHEN"), can_follow_case("title"), can_follow_case("IS"), can_follow_case("=")
    (True, True, False, False)
    """
    if text[:1].isalpha() or text[:1] == "_":
        return text.upper() not in _AFTER_A_NAME
    return text[:1].isdigit() or text[:1] in ("(", "'", '"')


def get_terminal(spelling: str) -> str | None:
    """Return the grammar's name for a keyword or sign."""
    return _terminals().get(spelling)


def describe(terminals: Collection[str], extra: Iterable[str] = ()) -> list[str]:
    """Return the expected words as users know them, phrases first.

    >>> describe({"NAME", "SUP", "COMMA"}, ["';'"])
    ['a name', 'SUP', "','", "';'"]
    """
    spelled = {_spellings().get(name, name) for name in terminals if name != "$END"}
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
    words = sorted(word for word in spelled if word.isalpha() and word not in ("NAME", "TEXT", "NUMBER", "QUOTED"))
    values = [_SHOWN[word] for word in ("NAME", "NUMBER", "TEXT", "QUOTED") if word in spelled]
    signs = [f"'{word}'" for word in sorted(spelled) if not word.isalpha()]
    return phrases + values + [_SHOWN.get(word, word) for word in words] + signs + list(extra)


def expected(terminals: Collection[str], extra: Iterable[str] = ()) -> str:
    """Return ``expected X`` or ``expected one of: X, Y``."""
    shown = describe(terminals, extra)
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


def no_such_source(name: str, declared: Declaration) -> NotFoundError:
    """Return the error for an unknown source; of a rule's name it says which sources the rule watches."""
    rule = declared.rules.get(name)
    if rule is None or not rule.source_ids:
        return no_such("source", name, declared.sources)
    more = len(rule.source_ids) - _MOST_NAMED
    some = ", ".join(rule.source_ids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return NotFoundError(f"{name!r} is a rule, not a source; it watches {some}")


def suggest_keyword(written: str, terminals: Collection[str]) -> str:
    """Return a suggestion among expected keywords; two keywords written as one are split."""
    keywords = get_keywords()
    spelled = {_spellings().get(name, "") for name in terminals} & keywords
    upper = written.upper()
    for keyword in sorted(spelled):
        rest = upper.removeprefix(keyword)
        if rest != upper and get_keyword(rest) is not None:
            return f" Did you mean {keyword} {rest}?"
    return did_you_mean(written, sorted(_SHOWN.get(word, word) for word in spelled))
