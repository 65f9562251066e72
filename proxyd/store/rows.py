"""Conversion between rows and values of the core."""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Row

from proxyd.core.errors import BadSearchError
from proxyd.core.model.delivery import Delivery, WebhookDelivery
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import NO_VALIDATORS, Validators
from proxyd.core.model.profile import Digest
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.model_fit import NO_FIT, NO_GAPS, ItemGaps, ModelFit
from proxyd.core.rates.rate_blend import RateEvidence
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.answers.shown_events import texts_of, told_update
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.state import UNKNOWN_HEALTH, SourceHealth, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Subscription, SubscriptionStatus
from proxyd.core.rules.programs.stream_state import StreamState, Total, distinct_hash
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store.databases import tables as t

MOST_DETAIL = 1000  # characters
DAY_S = 86400.0
ACCOUNT_FIELDS = tuple(field.name for field in fields(Calibration))
_FIT_FIELDS = tuple(field.name for field in fields(ModelFit))
_GAPS = _FIT_FIELDS.index("gaps")
_HIDDEN = ("hidden", "hidden_since_s")
_SUBSCRIPTION_FIELDS = tuple(field.name for field in fields(Subscription))
_NO_FIT = json.loads(json.dumps([getattr(NO_FIT, name) for name in _FIT_FIELDS], default=bytes.hex))
_NO_HEALTH = "{}"
_SOURCE_COLUMNS, _STREAM_COLUMNS = tuple(t.sources.columns.keys()), tuple(t.streams.columns.keys())
_OFTEN_ZERO = ("not_before_s", "fresh_until_s", "lost_items", "distrust_until_s")  # SQLite returns a new float for each
_OFTEN_SAME = ("source_id", "last_outcome")
_SHORT = 100  # characters of totals that are shared
_WRITTEN = {"validators", "rate", "fit", "health"}  # in other forms than those of the state
MOVED_COLUMNS = ("url", "reading", "moved_url", "moved_times", "health")
_STATE_FIELDS = tuple(field.name for field in fields(SourceState) if field.name not in _WRITTEN)


def source_row(state: SourceState, record: SourceRecord | None = None) -> dict[str, Any]:
    """Return a row of ``sources``; ``record`` says how the planner stands with it, if it is planned."""
    row = {name: getattr(state, name) for name in _STATE_FIELDS}
    in_mass = () if state.rate.in_mass is None else (state.rate.in_mass,)
    rate = json.dumps([state.rate.as_of_s, state.rate.events, state.rate.exposure_s, *in_mass])
    fit = json.dumps([getattr(state.fit, name) for name in _FIT_FIELDS], default=bytes.hex)
    validators = {"etag": state.validators.etag, "last_modified": state.validators.last_modified}
    health = json.dumps(state.health.values(), ensure_ascii=False)
    return row | validators | {"rate": rate, "fit": fit, "health": health} | _record_columns(record)


def row_of_move(state: SourceState) -> dict[str, Any]:
    """Return the parameters that store at which address a source is read."""
    row = source_row(state)
    return {"of_source": state.source_id} | {f"is_{name}": row[name] for name in MOVED_COLUMNS}


def _record_columns(record: SourceRecord | None) -> dict[str, Any]:
    if record is None:
        return {"record": "", "hidden": 0.0, "hidden_since_s": 0.0}
    values = record.values()
    hidden = {name: values.pop(name, 0.0) for name in _HIDDEN}
    return {"record": json.dumps(values, separators=(",", ":"))} | hidden


class _KeptRecord(NamedTuple):
    """How the planner stood with a source, as it is stored, which is little."""

    record: str
    hidden: float
    hidden_since_s: float


def kept_record(row: Row[Any]) -> _KeptRecord:
    """Return what ``source_record`` reads of a row."""
    return _KeptRecord(row.record, row.hidden, row.hidden_since_s)


def source_record(row: Row[Any] | _KeptRecord) -> SourceRecord | None:
    """Return how the planner stood with a source, or ``None`` if that was not stored."""
    if not row.record:
        return None
    return SourceRecord.of_values(json.loads(row.record) | {name: getattr(row, name) for name in _HIDDEN})


def fleet_row(record: FleetRecord, part: int = 0) -> dict[str, Any]:
    """Return the row of ``fleet`` for a part of the sources."""
    return {"fleet_id": 1 + part, "record": json.dumps(asdict(record))}


def fleet_record(row: Row[Any]) -> FleetRecord:
    """Return the record that ``fleet_row`` wrote."""
    stored = json.loads(row.record).items()
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in stored}
    return FleetRecord(**values)


def source_state(row: Row[Any]) -> SourceState:
    """Return the state that ``source_row`` wrote."""
    values = dict(zip(_SOURCE_COLUMNS, row, strict=True))  # row._asdict() is slower, and there may be a million rows
    for name in ("record", *_HIDDEN):
        del values[name]
    validators, health = (values.pop("etag"), values.pop("last_modified")), values.pop("health")
    as_of_s, events, exposure_s, *in_mass = json.loads(values.pop("rate"))
    rate = RateEvidence(tuple(events), tuple(exposure_s), as_of_s, *map(tuple, in_mass))
    fit = json.loads(values.pop("fit"))
    for name in _OFTEN_ZERO:
        values[name] = values[name] or 0.0
    for name in _OFTEN_SAME:
        values[name] = None if values[name] is None else intern(values[name])  # otherwise each row keeps its own
    return SourceState(
        **values,
        validators=NO_VALIDATORS if validators == (None, None) else Validators(*validators),
        rate=rate,
        fit=NO_FIT if not fit or fit == _NO_FIT else _fit(fit),
        health=UNKNOWN_HEALTH if health == _NO_HEALTH else SourceHealth.of_values(json.loads(health)),
    )


def _fit(values: list[Any]) -> ModelFit:
    added = dict(zip(_FIT_FIELDS[_GAPS:], values[_GAPS:], strict=False))  # rows of 0.1 have no gaps nor recent items
    recent = bytes.fromhex(added.get("recent", ""))
    return replace(ModelFit(*values[:_GAPS]), gaps=ItemGaps(*added.get("gaps", NO_GAPS)), recent=recent)


def account(row: Row[Any]) -> Calibration:
    """Return the account of one day."""
    return Calibration(*(getattr(row, name) for name in ACCOUNT_FIELDS))


_LAST_KNOWN = ""  # no field has an empty path


def _fields_text(item: Item) -> str:
    """Return the fields of an item as text; the last known values of silent ones stand under ``_LAST_KNOWN``."""
    known = {_LAST_KNOWN: dict(item.last_known)} if item.last_known else {}
    return json.dumps({**item.fields, **known}, ensure_ascii=False)


def item_fields(text: str) -> dict[str, Any]:
    """Return the fields that ``_fields_text`` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields.pop(_LAST_KNOWN, None)
    return fields


def _item(item_id: str, text: str | None, published_s: float | None, content_hash: str) -> Item:
    """Return the item whose fields ``_fields_text`` wrote; without a text it has none."""
    fields = json.loads(text) if text else {}
    known = fields.pop(_LAST_KNOWN, {})
    return Item(item_id, fields, published_s, content_hash, last_known=known)


def item_row(source_id: str, stored: StoredEvent) -> dict[str, Any]:
    """Return a row of ``items``."""
    return {
        "source_id": source_id,
        "seq": stored.seq,
        "item_id": stored.item.item_id,
        "content_hash": stored.item.content_hash,
        "fields": _fields_text(stored.item),
        "words": words_of(stored.item.fields),
        "published_s": stored.item.published_s,
        "event_s": stored.event_s,
        "seen_s": stored.seen_s,
        "present_s": stored.seen_s,
        "exact": stored.exact,
        "seed": stored.seed,
        "gone_s": None,
        "is_update": False,
    }


def news_row(source_id: str, stored: StoredEvent) -> dict[str, Any] | None:
    """Return the row of ``items`` that tells readers of an update, or ``None`` for one of a feed's item.

    It counts as gone at once, so it is none of the items that the source shows.
    """
    told = told_update(stored)
    if told is None:
        return None
    row = item_row(source_id, replace(stored, item=replace(stored.item, fields=told, last_known={}), exact=False))
    return row | {"gone_s": stored.seen_s, "is_update": True}


def edit_row(observation: Observation, item: Item) -> dict[str, Any]:
    """Return the parameters that update a known item's content and time."""
    return {
        "of_source": observation.state.source_id,
        "of_item": item.item_id,
        "hash": item.content_hash,
        "text": _fields_text(item),
        "new_words": words_of(item.fields),
        "new_published_s": item.published_s,
    }


def item(row: Row[Any]) -> Item:
    """Return the item of a row of ``items`` or ``changes``, without fields if they were not read."""
    return _item(row.item_id, getattr(row, "fields", None), row.published_s, row.content_hash)


def event_of_item(row: Row[Any]) -> StoredEvent:
    """Return the event that ``item_row`` wrote."""
    return StoredEvent(row.seq, item(row), row.event_s, row.seen_s, row.exact, row.seed)


def change_row(source_id: str, stored: StoredEvent) -> dict[str, Any]:
    """Return a row of ``changes``."""
    return {
        "source_id": source_id,
        "seq": stored.seq,
        "kind": stored.kind.value,
        "item_id": stored.item.item_id,
        "content_hash": stored.item.content_hash,
        "fields": _fields_text(stored.item),
        "old_hash": stored.old.content_hash if stored.old else None,
        "old_fields": _fields_text(stored.old) if stored.old else None,
        "published_s": stored.item.published_s,
        "event_s": stored.event_s,
        "seen_s": stored.seen_s,
        "exact": stored.exact,
    }


def event_of_change(row: Row[Any]) -> StoredEvent:
    """Return the event that ``change_row`` wrote."""
    old = None
    if row.old_fields is not None:
        old = _item(row.item_id, row.old_fields, row.published_s, row.old_hash)
    kind = EventKind(row.kind)
    return StoredEvent(row.seq, item(row), row.event_s, row.seen_s, row.exact, seed=False, kind=kind, old=old)


def source_event_row(source_id: str, stored: StoredEvent) -> dict[str, Any]:
    """Return a row of ``source_events``."""
    return {
        "source_id": source_id,
        "seq": stored.seq,
        "kind": stored.kind.value,
        "item_id": stored.item.item_id,
        "fields": _fields_text(stored.item),
        "event_s": stored.event_s,
        "seen_s": stored.seen_s,
    }


def source_event(row: Row[Any]) -> StoredEvent:
    """Return the event that ``source_event_row`` wrote."""
    found = Item(row.item_id, json.loads(row.fields), row.event_s, str(row.seq))
    kind = EventKind(row.kind)
    return StoredEvent(row.seq, found, row.event_s, row.seen_s, exact=False, seed=False, kind=kind)


def subscription_row(subscription: Subscription) -> dict[str, Any]:
    """Return a row of ``subscriptions``."""
    return {name: getattr(subscription, name) for name in _SUBSCRIPTION_FIELDS} | {"status": subscription.status.value}


def subscription(row: Row[Any]) -> Subscription:
    """Return the subscription that ``subscription_row`` wrote."""
    return Subscription(**row._asdict() | {"status": SubscriptionStatus(row.status)})


def stream_row(stream: StreamState) -> dict[str, Any]:
    """Return a row of ``streams``."""
    names = ("rule", "source_id", "fired_seq", "fired_s", "captured", "missed", "utility", "seen", "counting")
    row = {name: getattr(stream, name) for name in names}
    return row | {"counts": json.dumps([_total_row(total) for total in stream.totals])}


def stream_state(row: Row[Any]) -> StreamState:
    """Return the state that ``stream_row`` wrote, without its pending events and windows."""
    values = dict(zip(_STREAM_COLUMNS, row, strict=True))
    text = values.pop("counts")
    totals = _share_totals(text) if len(text) <= _SHORT else _read_totals(text)
    for name in ("rule", "source_id", "counting"):
        values[name] = intern(values[name])
    for name in ("fired_s", "utility"):
        values[name] = values[name] or 0.0
    return StreamState(**values, totals=totals)


@lru_cache(4096)  # many streams have the same short totals
def _share_totals(text: str) -> tuple[Total, ...]:
    return _read_totals(text)


def _read_totals(text: str) -> tuple[Total, ...]:
    return tuple(_total(each) for each in json.loads(text))


def _total_row(total: Total) -> list[Any]:
    seen = None if total.seen is None else b64encode(b"".join(n.to_bytes(8) for n in sorted(total.seen))).decode()
    return [total.count, total.sum, total.least, total.most, seen]


def _total(row: int | list[Any]) -> Total:
    """Return a total; older versions stored counts as plain numbers, and distinct values themselves."""
    if isinstance(row, int):
        return Total(row, row, True, True) if row else Total()
    count, total, least, most, seen = row
    return Total(count, total, least, most, None if seen is None else _hashes(seen))


def _hashes(stored: str | list[Any]) -> frozenset[int]:
    if isinstance(stored, list):
        return frozenset(map(distinct_hash, stored))
    packed = b64decode(stored)
    return frozenset(int.from_bytes(packed[at : at + 8]) for at in range(0, len(packed), 8))


def week_row(source_id: str, week: WeekCounts) -> dict[str, Any]:
    """Return a row of ``weeks``."""
    return {
        "source_id": source_id,
        "counts": week.packed,
        "squares": week.squares,
        "since_s": week.since_s,
        "as_of_s": week.as_of_s,
    }


def week_counts(row: Any) -> WeekCounts:
    """Return the counts in a row of ``weeks``."""
    return WeekCounts(row.counts, row.squares, row.since_s, row.as_of_s)


@dataclass(frozen=True, slots=True)
class DigestTimes:
    """How a rule gathers its notifications; chronons last ``chronon_s``."""

    digest: Digest
    chronon_s: float

    def end_s(self, created_s: float) -> float:
        """Return when a notification that was created at a time is sent."""
        return self.digest.end_s(created_s, chronon_s=self.chronon_s)


def lane(rule: str, endpoint: str) -> str:
    """Return the lane of a rule and an endpoint, which has no line end: deliveries in a lane keep their order."""
    return f"{rule}\n{endpoint}"


def rule_of(lane: str) -> str:
    r"""Return the rule of a lane.

    >>> rule_of(lane("prices\nof tea", "a@example.org"))
    'prices\nof tea'
    """
    return lane.rpartition("\n")[0]


def way_of_declaration(kind: str, form: str, secret_kind: str, secret_name: str, **_others: object) -> str:
    """Return how a delivery was declared, apart from its address, in the form that ``endpoints`` stores."""
    return " ".join((kind, form, secret_kind, secret_name))


def way_of(delivery: Delivery) -> dict[str, Any]:
    """Return the columns that say how a delivery is made."""
    if isinstance(delivery, WebhookDelivery):
        secret = {"secret_kind": delivery.secret.kind, "secret_name": delivery.secret.name}
        return {"kind": delivery.kind, "form": delivery.form.value, "payload": delivery.payload or 1} | secret
    return {"kind": delivery.kind, "form": "STANDARD", "payload": 1, "secret_kind": "", "secret_name": ""}


Typed = TypeVar("Typed")


def as_type(made: type[Typed], row: Row[Any], **others: Any) -> Typed:
    """Return a value from a row: each field comes from the column of its name or from ``others``."""
    places = _places(made, row._fields)  # type: ignore[arg-type]  # classes can be hashed
    return made(**({name: row[place] for name, place in places} | others))


@lru_cache(maxsize=500)
def _places(made: type, columns: tuple[str, ...]) -> Sequence[tuple[str, int]]:
    """Return the fields of a dataclass that have a column, each with its place: a page may have thousands of rows."""
    return [(each.name, columns.index(each.name)) for each in fields(made) if each.name in columns]


MOST_WORDS = 4_000
"""The most characters of an item that can be found."""
MOST_TERMS, MOST_BEGUN = 20, 3
_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_words = re.compile(r"[^\W_]+").findall

_Phrase: TypeAlias = tuple[str, ...]
"""Words that follow each other."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for: items with every wanted phrase and with none of the others.

    The last word of those in ``begun`` may go on.
    """

    wanted: tuple[_Phrase, ...]
    begun: tuple[_Phrase, ...] = ()
    unwanted: tuple[_Phrase, ...] = ()


def words_of(fields: Mapping[str, Value]) -> str:
    """Return the words of an item's title and texts, in small letters and without accents.

    >>> words_of({"channel.title": "All", "channel.item.title": "Käse!", "channel.item.description": "<p>R&amp;D</p>"})
    'kase r d'
    """
    read = " ".join(texts_of(fields))[:MOST_WORDS]
    return " ".join(_words(_fold_text(read)[:MOST_WORDS]))  # one character may become eighteen


def search_of(text: str) -> Search:
    """Return what a text searches for; raises ``BadSearchError`` if it has no words, or asks for too much.

    All words must be there; ``"so and so"`` are words that follow each other, ``word*`` is the beginning of a word, and
    ``-word`` must not be there. A letter alone is no beginning, because most items have such a word.

    Examples
    --------
    >>> search_of('Kernel "long term" rel* -beta')
    Search(wanted=(('kernel',), ('long', 'term')), begun=(('rel',),), unwanted=(('beta',),))
    """
    wanted: list[_Phrase] = []
    begun: list[_Phrase] = []
    unwanted: list[_Phrase] = []
    for sign, quoted, plain in _TERM.findall(text):
        phrase = tuple(_words(_fold_text(quoted or plain)))
        if phrase:
            goes_on = plain.endswith("*") and not sign
            (unwanted if sign else begun if goes_on else wanted).append(phrase)
    if not (wanted or begun):
        raise BadSearchError("name a word to search for")
    if len(begun) > MOST_BEGUN:
        raise BadSearchError(f"search for at most {MOST_BEGUN} beginnings of words at once")
    if any(len(each[-1]) < 2 and each[-1].isascii() for each in begun):
        raise BadSearchError("write at least two letters before a *")
    if sum(map(len, (*wanted, *begun, *unwanted))) > MOST_TERMS:
        raise BadSearchError(f"search for at most {MOST_TERMS} words at once")
    return Search(tuple(wanted), tuple(begun), tuple(unwanted))


def _fold_text(text: str) -> str:
    """Return a text in small letters without accents, so that every database compares words alike."""
    return "".join(char for char in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(char))


def in_sqlite(search: Search, source_id: str | None) -> str:
    """Return a query of FTS5 for items, or for those of a source, whose name must be compared as well.

    >>> in_sqlite(search_of('a "b c" de* -e'), "my-source")
    '(words : ("a" AND "b c" AND "de" *) AND source_id : ("my source")) NOT words : ("e")'
    """
    parts = [*map(_quote_text, search.wanted), *(f"{_quote_text(each)} *" for each in search.begun)]
    query = f"words : ({' AND '.join(parts)})"
    name = tuple(_words(source_id or ""))
    if name:
        query = f"({query} AND source_id : ({_quote_text(name)}))"
    return f"{query} NOT words : ({' OR '.join(map(_quote_text, search.unwanted))})" if search.unwanted else query


def _quote_text(phrase: _Phrase) -> str:
    return f'"{" ".join(phrase)}"'


def in_postgresql(search: Search) -> str:
    """Return a query for ``to_tsquery``.

    >>> in_postgresql(search_of('a "b c" de* -e'))
    "'a' & ('b' <-> 'c') & 'de':* & !'e'"
    """
    begun = [_phrase_in_order(each) + ":*" for each in search.begun]
    return " & ".join(
        [*map(_phrase_in_order, search.wanted), *begun, *(f"!{_phrase_in_order(each)}" for each in search.unwanted)]
    )


def _phrase_in_order(phrase: _Phrase) -> str:
    words = " <-> ".join(f"'{word}'" for word in phrase)
    return words if len(phrase) == 1 else f"({words})"
