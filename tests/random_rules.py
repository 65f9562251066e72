"""Rules made at random from the grammar, and hostile items for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from proxyd.core.model.item import Item
from tests.fleets import rule
from tests.hostile import SHORT
from tests.hostile_rules import HostileRule, shown

_MOST_DEPTH = 5
_GRAMMAR: dict[str, Sequence[str]] = {
    "condition": [
        "(<condition> AND <condition>)",
        "(<condition> OR <condition>)",
        "NOT <condition>",
        "<text> LIKE <pattern>",
        "<text> NOT ILIKE <pattern>",
        "title LIKE <text>",
        "<text> REGEXP <regex>",
        "<text> = <text>",
        "<text> < <text>",
        "<number> BETWEEN <number> AND <number>",
        "<text> IN (<field>, <field>, <text>, 'a')",
        "<text> IS NOT NULL",
    ],
    "text": [
        "<field>",
        "(<text> || <text>)",
        "LOWER(<text>)",
        "UPPER(<text>)",
        "TRIM(<text>)",
        "REPLACE(<text>, '1', <text>)",
        "REPLACE(<text>, 'a', <text>)",
        "SUBSTR(<text>, <number>, <number>)",
        "COALESCE(NULLIF(<text>, 'a'), <text>)",
        "DIFF(<text>, <text>)",
        "REGEXP_SUBSTR(<text>, 'a(.*)')",
        "CAST(<number> AS STRING)",
        "CASE WHEN <condition> THEN <text> ELSE title END",
    ],
    "number": [
        "0",
        "-3",
        "12345.678",
        "LENGTH(<text>)",
        "NUMBER(<text>, 'de')",
        "CAST(<text> AS INTEGER)",
        "(<number> + <number>)",
        "(<number> * <number>)",
        "ROUND(<number>, <number>)",
        "HOUR(pubDate, <zone>)",
        "YEAR(pubDate, <text>)",
        "HOUR(pubDate, title)",
    ],
    "count": [
        "COUNT(*) % 1 = 0",
        "COUNT(*) % 10 = 0",
        "COUNT(DISTINCT <text>) >= 0",
        "COUNT(*) FILTER (WHERE <condition>) >= 0",
        "SUM(<number>) OVER 1 HOUR >= 0 OR COUNT(*) > 0",
        "MAX(<text>) >= ''",
        "COUNT(DISTINCT title || link) >= 0",
        "COUNT(DISTINCT <text>) OVER 24 HOURS >= 0",
        "MAX(<text>) OVER 24 HOURS >= ''",
        "MIN(title) OVER 3 HOURS <= MAX(<text>) OVER 24 HOURS",
        "SUM(<number>) OVER 48 HOURS >= MAX(<number>) OVER 2 HOURS",
        "COUNT(*) FILTER (WHERE <condition>) OVER 24 HOURS > 2",
    ],
    "pair": [
        "title = FIRST.title",
        "FIRST.link = title",
        "title = FIRST.title || 'x'",
        "title <> FIRST.title",
        "title || link <> FIRST.title || FIRST.link",
        "NOT title = FIRST.title OR link = 'x'",
        "title LIKE '%' || FIRST.title || '%'",
        "LENGTH(title) > LENGTH(FIRST.title)",
        "title = FIRST.title AND <condition>",
        "<text> = FIRST.title AND <condition>",
        "<condition>",
    ],
    "within": ["1 SECOND", "1 HOUR", "30 HOURS"],
    "query": [
        "SELECT title, <text> AS x FROM RSS",
        "SELECT title, <text> AS x FROM RSS WHERE <condition> ORDER BY <text> DESC",
        "SELECT DISTINCT title, <text> AS x FROM RSS LIMIT 3",
        "SELECT link, COUNT(*) AS n, MAX(<text>) AS m FROM RSS GROUP BY link HAVING COUNT(*) > 0",
        "SELECT a.title, b.link FROM RSS a JOIN RSS b ON a.link <> b.title WHERE LENGTH(a.title) > 3",
    ],
    "pattern": ["'%'", "'a%b%_'", "'%%%%_%'", f"'{'_' * 40}'", f"'{'%a_' * 60}'", "''"],
    "regex": ["'(a|b)*c'", "'(?:[ab]*a[ab]{60}c)'", "'(x+x+)+y'", "'[[:alpha:]]+@'", "'(?i)price'", "'\\pL+\\s\\pL+'"],
    "zone": ["'UTC'", "'Europe/Berlin'", "'no/where'", "''"],
}
_LEAVES = {"condition": ["title IS NOT NULL"], "text": ["<field>", "'a'", "''"], "number": ["-1", "99999999999", "0.1"]}


ZONES = ("Europe/Berlin", "../" * 300, "a/" * 450, "/etc/localtime", "UTC\0", "posix/" * 5_000, "Europe")
"""Texts that sources may show where a rule expects a zone; each once was a file that was looked for."""


class RandomRules:
    """Writes rules; with the same seed the same ones. A few of them do not pass the check."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(seed)
        self._fields: Sequence[str] = ()
        self._texts = [
            *SHORT.values(),
            "",
            "a" * 64_000,
            "ab" * 8_000,
            "\u00df\u00e9" * 8_000,
            "1" * 400,
            "-1e308",
            "7",
            *ZONES,
        ]
        self._texts += ["\n\n".join(str(rng.randrange(k)) for _ in range(900)) for k in (1, 2, 50, 10_000)]

    def make(self) -> HostileRule:
        """Return a rule and items."""
        rng = self._rng
        count, is_update = rng.choice([1, 1, 1, 3, 10, 40, 300]), rng.random() < 0.3
        self._fields = ["title", "link", "OLD.title", "NEW.link"] if is_update else ["title", "link"]
        query = self._make("query")
        if rng.random() < 0.2:
            return self._followed(count)
        if rng.random() < 0.4:
            text = rule("bad", query=query, when=self._make("count"))
        else:
            text = rule("bad", query=query, where=self._make("condition"))
        if rng.random() < 0.2 and "SELECT title" in query:
            text = text.rstrip().rstrip(";") + " SET MESSAGE '{title}: {x} {rule}';\n"
        if is_update:
            return HostileRule(text.replace("ON INSERT", "ON UPDATE"), self._items(count), self._items(count))
        return HostileRule(text, self._items(count))

    def _followed(self, count: int) -> HostileRule:
        """Return a rule with THEN, of new items alone."""
        self._fields = ["title", "link"]
        first = self._make("condition") if self._rng.random() < 0.3 else "title IS NOT NULL"
        self._fields = ["title", "link", "FIRST.title", "FIRST.link"]
        absent = self._rng.choice(["", "", "NO "])
        then = f"THEN {absent}INSERT TO RSS WHERE {self._make('pair')} WITHIN {self._make('within')}"
        return HostileRule(rule("bad", where=f"{first} {then}"), self._items(count))

    def _items(self, count: int) -> list[Item]:
        few = [self._rng.choice(self._texts) for _ in range(4)]
        return [shown(n, self._rng.choice(few), self._rng.choice(few)) for n in range(count)]

    def _make(self, symbol: str, depth: int = 0) -> str:
        """Return a text that a symbol of the grammar stands for."""
        if symbol == "field":
            return self._rng.choice(self._fields)
        forms = _LEAVES.get(symbol, _GRAMMAR[symbol]) if depth >= _MOST_DEPTH else _GRAMMAR[symbol]
        return re.sub(r"<([a-z]+)>", lambda found: self._make(found[1], depth + 1), self._rng.choice(forms))
