"""The wording of notifications: the rule's SET MESSAGE, otherwise title, link and changes of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxyd.core.model.expression import Column, Expression, OutputColumn, Select, has_aggregate
from proxyd.core.model.field_values import differ
from proxyd.core.model.item import LONGEST_FIELD, EventKind, Value, is_cut
from proxyd.core.model.profile import MessageName, NotificationRule, PageClass
from proxyd.core.model.text_blocks import diff_blocks, readable
from proxyd.core.rules.programs.meter import UNMETERED, Meter
from proxyd.core.rules.programs.query_program import ResultRow

MOST_TOLD = 200
_MOST_TEXT = 2000
_MOST_TITLE = 300
_MOST_COMPARED, _COMPARED_BLOCKS = 50, 200  # rows, and blocks of a text, that are compared; the rest changed as a whole
_PAIRS = 20_000  # of blocks that are compared in one text
_STEPS_PER_TEXT, _STEPS_PER_COLUMN = 80, 4
_MOST_INLINE = 80  # a longer value that changed is told as a difference
_TITLES = ("title", "heading", "headline", "name", "subject")
_LINKS = ("link", "url")
MARKED_UP = frozenset({"channel.item.description", "channel.item.content"})
"""Columns whose values are HTML."""


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """What a rule's messages need of each row: values beside those that the query selects."""

    # the rule's SET MESSAGE: texts, names, and positions in ``expressions``; ``None`` for the default wording
    parts: tuple[str | MessageName | int, ...] | None
    expressions: tuple[Expression, ...]  # the values that each row must have beside its columns
    # the columns whose old values are in ``expressions``, by their positions there
    changed: tuple[tuple[str, int], ...] = ()
    # the positions in ``expressions`` of what tells an updated row from the others of its page
    key: tuple[int, ...] = ()
    # the positions in ``expressions`` of the titles of a row, if the rule tells of one event after another
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wording:
    """The texts of a notification: ``title`` is of its first row; there are no more than ``MOST_TOLD`` ``rows``.

    With ``names_all`` the title names what is in all rows.
    """

    title: str
    rows: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]
    names_all: bool = False


def message_plan(rule: NotificationRule, classes: Sequence[PageClass]) -> MessagePlan:
    """Return what a checked rule needs for its messages; ``classes`` are those of its query."""
    expressions: list[Expression] = []

    def position(expression: Expression) -> int:
        expressions.append(expression)
        return len(expressions) - 1

    parts = None
    if rule.message is not None:
        parts = tuple(position(part) if isinstance(part, Expression) else part for part in rule.message.parts)
    changed = tuple((name, position(Column(path, "OLD"))) for name, path in _columns_of_update(rule, classes))
    key = tuple(position(Column(path)) for path in classes[0].key) if changed and classes[0].each else ()
    steps = tuple(map(position, _titles_of_steps(rule, classes)))
    return MessagePlan(parts, tuple(expressions), changed, key, steps)


def _titles_of_steps(rule: NotificationRule, classes: Sequence[PageClass]) -> Iterator[Column]:
    """Yield the titles that a row of a rule with THEN names by default: what came first, and what followed."""
    then, query = rule.trigger.then, rule.query
    events = {rule.trigger.page_class} | ({then.page_class} if then is not None else set())
    is_plain = not (query.group_by or query.distinct or any(has_aggregate(each.expression) for each in query.columns))
    if then is None or then.is_absent or rule.message is not None or not is_plain:
        return
    if len(query.sources) != len(events) or {each.page_class for each in query.sources} != events:
        return
    titles = list(map(_title_field, classes))
    if all(titles):
        tables = zip(query.sources, titles, strict=True)
        for table, path in sorted(tables, key=lambda each: each[0].page_class != rule.trigger.page_class):
            yield Column(path, table.alias or table.page_class.name if len(events) > 1 else None)


def _title_field(page_class: PageClass) -> str:
    """Return the path of the field that names an item of a class, or an empty text."""
    return _first_named({each.path: each.path for each in page_class.fields}, _TITLES)


def _columns_of_update(rule: NotificationRule, classes: Sequence[PageClass]) -> Iterator[tuple[str, str]]:
    """Yield the columns that show the present value of a field that was updated, and the field's path."""
    query = rule.query
    if rule.trigger.kind is not EventKind.UPDATE or not _is_plain(query):
        return
    for column in query.columns or [OutputColumn(Column(field.path)) for field in classes[0].fields]:
        match column.expression:
            case Column(path, None):
                yield column.alias or path, path
            case Column(path, "NEW"):
                yield column.alias or f"NEW.{path}", path


def _is_plain(query: Select) -> bool:
    """Whether each row of the result is one event."""
    if len(query.sources) > 1 or query.sources[0].over is not None or query.group_by or query.distinct:
        return False
    return not any(has_aggregate(column.expression) for column in query.columns)


def word_rows(
    plan: MessagePlan, rows: Sequence[ResultRow], meter: Meter = UNMETERED, *, rule: str, source: str
) -> _Wording:
    """Return the texts of rows, in order; raises ``EvaluationError``."""
    changes = tuple(_changes(plan, row, n, meter) for n, row in enumerate(rows)) if plan.changed else ()
    columns = len(rows[0].columns) if rows else 0
    meter.spend((_STEPS_PER_TEXT + _STEPS_PER_COLUMN * columns) * min(len(rows), MOST_TOLD))
    usual = [_usual_words(plan, row, changes[n] if changes else {}, source) for n, row in enumerate(rows[:MOST_TOLD])]
    texts = [text or rule for _, text in usual]
    title = usual[0][0] if usual else ""
    if names_all := len(plan.steps) == 1 and len(rows) > 1:  # what followed is a row of its own
        title = _then([row.hidden[plan.steps[0]] for row in rows[:MOST_TOLD]])
    if plan.parts is not None:
        own = [_fill_template(plan.parts, row, rule, source).strip() for row in rows[:MOST_TOLD]]
        texts = [words or text for words, text in zip(own, texts, strict=True)]
        title = texts[0] if texts else ""
    return _Wording((title or rule)[:_MOST_TITLE], tuple(texts), changes, names_all)


def _then(titles: Sequence[Value]) -> str:
    """Return the titles of events in the order in which they followed each other."""
    return ", then ".join(" ".join(text.split()) for text in map(_text, titles) if text)


def _fill_template(parts: Sequence[str | MessageName | int], row: ResultRow, rule: str, source: str) -> str:
    names = {MessageName.RULE: rule, MessageName.SOURCE: source}
    texts = (
        part if isinstance(part, str) else names[part] if isinstance(part, MessageName) else _text(row.hidden[part])
        for part in parts
    )
    return _cut("".join(texts))


def _changes(plan: MessagePlan, row: ResultRow, number: int, meter: Meter) -> dict[str, Any]:
    """Return the changed columns of a row: ``from`` and ``to``, or the difference of longer texts."""
    most = _COMPARED_BLOCKS if number < _MOST_COMPARED else 0
    found: dict[str, Any] = {}
    for name, position in plan.changed:
        old, new = row.hidden[position], row.columns[name]
        meter.compare(old, new)
        if differ(old, new):
            found[name] = value_change(old, new, most=most, meter=meter)
    cut = () if found else (name for name, _ in plan.changed if is_cut(row.columns[name]))
    return found or {name: {"difference": f"changed after the first {LONGEST_FIELD} characters"} for name in cut}


def value_change(old: Value, new: Value, *, most: int, meter: Meter = UNMETERED) -> dict[str, Any]:
    """Return how a value changed: ``from`` and ``to``, or the difference of texts of at most ``most`` blocks.

    >>> value_change(30, 25, most=200)
    {'from': 30, 'to': 25}
    """
    if not (isinstance(old, str) and isinstance(new, str)) or (_is_short(old) and _is_short(new)):
        return {"from": old, "to": new}
    blocks = diff_blocks(old, new, most=most, most_compared=_PAIRS, spend=meter.spend)
    return {"difference": _cut("\n".join(map(str, blocks)))}


def change_in_words(change: Mapping[str, Any]) -> str:
    """Return what a value was and what it is now.

    >>> change_in_words({"from": 30, "to": 25})
    '30 → 25'
    """
    return f"{_text(change['from'])} → {_text(change['to'])}"


def _is_short(text: str) -> bool:
    return len(text) <= _MOST_INLINE and "\n" not in text


def _usual_words(plan: MessagePlan, found: ResultRow, changes: Mapping[str, Any], source: str) -> tuple[str, str]:
    """Return the title and the text of a row in the default wording; an updated one without a title has its key."""
    row = found.columns
    if len(plan.steps) > 1 and (told := _then([found.hidden[at] for at in plan.steps])):
        return _title_and_text(told, row)
    head = title_of(row) if not changes else _first_named(row, _TITLES, changes)
    values = [f"{_short(name)}: {change_in_words(change)}" for name, change in changes.items() if "to" in change]
    differences = [change["difference"] for change in changes.values() if "difference" in change]
    if changes:
        head = head or (" ".join(_text(found.hidden[at]) for at in plan.key) if not link_of(row) else "")
        head = ": ".join(filter(None, [head, ", ".join(values)])) or f"{source} changed"
    return _title_and_text(" ".join(head.split()), row, differences)


def _title_and_text(head: str, row: Mapping[str, Value], lines: Sequence[str] = ()) -> tuple[str, str]:
    """Return the title of a row, and its text: the title with the row's link, and further lines."""
    link = link_of(row)
    first = f"{head} {link}" if link and link != head else head
    return head, _cut("\n".join([first, *lines]))


def notifications_of(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the notifications of a recorded body's data: those of a digest, otherwise itself."""
    found: Sequence[Mapping[str, Any]] = data.get("notifications", [data])
    return found


def heading(data: Mapping[str, Any], rule: str = "", *, most: int = _MOST_TITLE) -> str:
    """Return a line about a notification or a digest: its first row, and how many more; control characters stay."""
    told = notifications_of(data)
    count = sum(1 if each.get("message", {}).get("names_all") else len(each.get("items", ())) for each in told)
    more = f" and {count - 1} more" if count > 1 else ""
    first = next((each for each in told if each.get("items")), None)
    words = ""
    if first is not None:
        words = first["message"]["title"] if "message" in first else title_of(first["items"][0])
    return " ".join((words or str(data.get("rule", rule))).split())[: most - len(more)] + more


def title_of(row: Mapping[str, Value]) -> str:
    """Return the title of a row, else the price it states, else its first text, without tags, else its first value.

    >>> title_of({"channel.item.title": None, "channel.item.description": "<p>R&amp;D <b>news</b></p>"})
    'R&D news'
    >>> title_of({"price": 12.5, "currency": "EUR"})
    '12.5 EUR'
    """
    if title := _first_named(row, _TITLES) or (price_text(row) if row.get("price") is not None else ""):
        return title
    texts = (readable(v) if name in MARKED_UP else v for name, v in row.items() if isinstance(v, str))
    others = (_text(value) for value in row.values() if value is not None and not isinstance(value, str))
    return next((text for text in texts if text.strip()), None) or next(others, "")


def price_text(fields: Mapping[str, Value]) -> str:
    """Return the price that an item of the class PRICE states: the number and its currency.

    >>> price_text({"price": 12.5, "currency": "EUR"})
    '12.5 EUR'
    """
    return " ".join(str(fields[name]) for name in ("price", "currency") if fields.get(name) is not None)


def link_of(row: Mapping[str, Value]) -> str:
    """Return the address that a row leads to, or an empty text.

    >>> link_of({"channel.link": "https://a.example/", "channel.item.link": "https://a.example/1"})
    'https://a.example/1'
    """
    return _first_named(row, _LINKS)


def _first_named(row: Mapping[str, Value], names: Sequence[str], without: Mapping[str, Any] | None = None) -> str:
    """Return the text of the first column with one of these names; those of items precede those of channels."""
    found: dict[str, str] = {}
    for column in sorted(row, key=lambda name: ".item." not in name):
        short, value = _short(column).lower(), row[column]
        if short in names and column not in (without or {}) and isinstance(value, str) and value.strip():
            found.setdefault(short, value)
    return next((found[name] for name in names if name in found), "")


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _text(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
