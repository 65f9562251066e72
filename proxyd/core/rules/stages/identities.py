"""Items that are known under another identity, that come back, or that are old: what looks new and is not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import pairwise
from math import inf
from urllib.parse import parse_qsl, urlsplit

from proxyd.core.model.field_values import normal_link, normal_text, normal_value
from proxyd.core.model.item import Item, Value
from proxyd.core.model.profile import PageClass
from proxyd.core.model.text_blocks import MOST_READ
from proxyd.core.rules.known.state import ITEMS, SourceState

LINK, GUID, TITLE = "channel.item.link", "channel.item.guid", "channel.item.title"
TEXTS = ("channel.item.description", "channel.item.content")
_ENCLOSURE = "channel.item.enclosure"
_CONTENT = (TITLE, *TEXTS, LINK, _ENCLOSURE)
_MOST_ESCAPES = 3
_MOST_CHARACTERS = 300_000  # of the texts of one probe that are compared word by word
_SPELLING = re.compile(r"[/\"']+")
_SEPARATORS = re.compile(r"[\s<>]+")
_ANSWER_S = 60.0  # times that differ by less may be those of one answer
_SAME_S = 1.0
_MOST_ALIKE_CHARACTERS = 1_000_000  # of the texts of one probe that are compared
_SURELY_EMPTY = 2  # probes in a row: one that finds a feed empty may be a mistake of the origin


@dataclass(frozen=True, slots=True)
class Identities:
    """Which stored items the items of a document are."""

    known: Mapping[str, Item]  # the stored items, by the identities that the document gives them
    # the former and the new identity of stored items that go on under the new one
    renamed: tuple[tuple[str, str], ...] = ()
    # ids of known items that are no updates: several guids changed at once, or an earlier version read the text in
    # another way
    quiet: frozenset[str] = field(default_factory=frozenset)
    # ids of unknown items that are no news: an earlier version dropped them as duplicates of a stored one, or they
    # come in at the old end of the page
    old: frozenset[str] = field(default_factory=frozenset)
    changed_guids: int = 0  # the number of items whose guid changed


def find_identities(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item] = (), *, seen_s: float = 0.0
) -> Identities:
    """Return which stored items the items of a feed are; ``known`` holds stored ones also by a former identity."""
    known = {**known, **{item.item_id: item for item in shown if item.item_id in known}}  # these have their fields
    found = _find_former_identities(items, known)
    unknown = [item for item in items if item.item_id not in found.known and item.item_id not in found.old]
    if not (unknown and shown):
        return found
    stored = _find_reappearances(unknown, items, found.known, shown, seen_s=seen_s)
    if not stored:
        return found
    regenerated = frozenset(stored) if len(stored) > 1 else frozenset()
    return replace(
        found,
        known={**found.known, **stored},
        renamed=(*found.renamed, *((before.item_id, name) for name, before in stored.items())),
        quiet=found.quiet | regenerated,
        changed_guids=len(stored),
    )


def find_row_identities(items: Sequence[Item], known: Mapping[str, Item], page_class: PageClass) -> Identities:
    """Return which stored rows a page shows; ``known`` holds all stored ones."""
    found = _find_former_identities(items, known)
    own = {item.item_id for item in items}
    vanished = [item for name, item in found.known.items() if name not in own]
    unknown = [item for item in items if item.item_id not in found.known]
    if page_class.each is None or not (vanished and unknown):
        return found
    types = {each.path.lower(): each.type for each in page_class.fields}
    paths = [path.lower() for path in page_class.key]

    def key(item: Item) -> tuple[Value, ...] | None:
        values = tuple(normal_value(item.fields.get(path), types[path], path) for path in paths)
        return None if None in values else values  # a text that is no number has no value, and is not any other text

    # keys that differ only in spelling, and that no other row of both pages has
    pairs = Pages(items, list(found.known.values()), found.known).pairs(key, unknown, vanished)
    renamed = tuple((pair.before.item_id, pair.item.item_id) for pair in pairs)
    gone = {former for former, _ in renamed}
    kept = {name: item for name, item in found.known.items() if name not in gone}
    by_id = {**kept, **{pair.item.item_id: pair.before for pair in pairs}}
    return replace(found, known=by_id, renamed=(*found.renamed, *renamed))


def _find_former_identities(items: Sequence[Item], known: Mapping[str, Item]) -> Identities:
    """Return the identities of items, some of which an earlier version stored under another one or read otherwise."""
    own = {item.item_id for item in items}
    by_id = dict(known)
    sharing: dict[str, list[Item]] = {}
    quiet = set()
    left = _MOST_CHARACTERS
    for item in items:
        before = known.get(item.item_id)
        former = None if before is not None else next((n for n in item.former_ids if n in known and n not in own), None)
        if before is not None and before.content_hash != item.content_hash:
            left -= _characters(before, item)
            if _is_former_reading(before, item, may_compare=left >= 0):
                quiet.add(item.item_id)
        elif former is not None:
            sharing.setdefault(former, []).append(item)
    renamed, duplicates = [], set()
    for former, several in sharing.items():
        stored = known[former]
        candidates = [item for item in several if not _is_later(item, stored.published_s)]
        if candidates:
            same = _same(candidates, stored)
            renamed.append((former, same.item_id))
            by_id[same.item_id] = by_id.pop(former)
            duplicates |= {item.item_id for item in candidates if item is not same and _is_duplicate(item, same)}
    quiet.update(new for _, new in renamed)
    return Identities(by_id, tuple(renamed), frozenset(quiet), frozenset(duplicates))


def _characters(*items: Item) -> int:
    if not items[-1].is_mended:
        return 0
    return sum(len(str(item.fields.get(path) or "")) for item in items for path in _CONTENT)


def _is_former_reading(stored: Item, item: Item, *, may_compare: bool) -> bool:
    """Return whether an earlier version read the same content in another way."""
    if stored.content_hash in item.former_hashes:
        return True
    is_comparable = item.is_mended and may_compare and bool(stored.fields)
    return is_comparable and all(_words(stored, path) == _words(item, path) for path in _CONTENT)


def _words(item: Item, path: str) -> list[str]:
    """Return the words of a text and its tags, however often it was escaped, and however its tags are spelt."""
    text = str(item.fields.get(path) or "")
    for _ in range(_MOST_ESCAPES):
        text = unescape(text)
    words = _SEPARATORS.split(_SPELLING.sub("", text))
    return sorted(word for word in words if word and not word.startswith("xmlns"))


def _is_duplicate(item: Item, same: Item) -> bool:
    """Return whether an earlier version dropped an item as a duplicate of the same one."""
    # items of one guid without times are told apart by their places on the page
    has_place = item.published_s is None and item.fields.get(TITLE) != same.fields.get(TITLE)
    return not (has_place or _is_later(item, same.published_s))


def _same(items: Sequence[Item], stored: Item) -> Item:
    """Return the stored item: the only one with its link and title, else the one of its time, else the oldest."""
    alike = [item for item in items if _heading(item) == _heading(stored) != (None, None)]
    if len(alike) == 1:
        return alike[0]
    of_its_time = (item for item in items if item.published_s == stored.published_s)
    oldest = min(items, key=lambda item: inf if item.published_s is None else item.published_s)
    return next(of_its_time, oldest)


def _heading(item: Item) -> tuple[Value, Value]:
    return item.fields.get(LINK), item.fields.get(TITLE)


def _is_later(item: Item, time_s: float | None) -> bool:
    return item.published_s is not None and time_s is not None and item.published_s > time_s


@dataclass(frozen=True, slots=True)
class _Pair:
    """An unknown item, and the vanished one that it may be."""

    item: Item
    before: Item

    @property
    def shift_s(self) -> float | None:
        """By how much its time moved, in seconds; ``None`` if one of the two has no time."""
        if self.item.published_s is None or self.before.published_s is None:
            return None
        return self.item.published_s - self.before.published_s

    @property
    def has_same_time(self) -> bool:
        """Whether both have the same time."""
        return self.shift_s is not None and abs(self.shift_s) < _SAME_S


@dataclass(frozen=True, slots=True)
class Pages:
    """A page of a feed and the page before it."""

    # ``items``, ``shown``: the items of the page, and those of the page before it as they are stored
    items: Sequence[Item]
    shown: Sequence[Item]
    known: Mapping[str, Item]  # the stored items by the identities of this page's items
    # the stored items that are known to go on under new identities, by their new identities
    joined: Mapping[str, Item] = field(default_factory=dict)
    seen_s: float = 0.0  # the time of the answer, in unix seconds

    def pairs(
        self, key: Callable[[Item], Hashable | None], unknown: Iterable[Item], vanished: Iterable[Item]
    ) -> list[_Pair]:
        """Return the unknown items that share a key with a vanished one, if no other item of either page has it."""
        by_key = {name: item for item in vanished if (name := key(item)) is not None}
        pairs = {name: _Pair(item, by_key[name]) for item in unknown if (name := key(item)) in by_key}
        if not pairs:  # as at most probes: the keys of whole pages take a hundred times as long
            return []
        counts, counts_before = Counter(map(key, self.items)), Counter(map(key, self.shown))
        return [pair for name, pair in pairs.items() if counts[name] == counts_before[name] == 1]

    def shift_s(self, pairs: Sequence[_Pair]) -> float | None:
        """Return by how many seconds the times of most items moved, or ``None`` if most did not move by the same."""
        stored = {**self.known, **self.joined}  # a page may spell two of three guids in another way, and make one again
        others = [_Pair(item, stored[item.item_id]) for item in self.items if item.item_id in stored]
        before = {item.item_id for item in self.shown}  # what comes back has moved since another page than this one
        others = [pair for pair in others if pair.before.item_id in before] or others
        shifts = [round(shift_s) for pair in (*pairs, *others) if (shift_s := pair.shift_s) is not None]
        if not shifts:
            return None
        shift_s, count = Counter(shifts).most_common(1)[0]
        return float(shift_s) if count > 1 and 2 * count > len(shifts) else None

    def are_most(self, pairs: Sequence[_Pair]) -> bool:
        """Return whether pairs are two or more, and at least half of the items that both pages show."""
        before = {item.item_id for item in self.shown}  # what comes back from further down says nothing of this change
        kept = sum(item.item_id in before and item.item_id in self.known for item in self.items)
        return len(pairs) > 1 and len(pairs) >= kept


def _find_reappearances(
    unknown: Sequence[Item],
    items: Sequence[Item],
    known: Mapping[str, Item],
    shown: Sequence[Item],
    *,
    seen_s: float,
) -> dict[str, Item]:
    """Return the stored items that go on under new identities, by their new identities.

    ``items`` are all of the page, ``known`` the stored ones among them, ``unknown`` the others; ``shown`` are the items
    of the page before, as they are stored.
    """
    present = {name for item in items for name in (item.item_id, *item.former_ids)}
    found: dict[str, Item] = {}
    for find in (_by_address, _by_link_and_title, _by_content, _by_title, _by_title_and_time, _by_session):
        joined = {before.item_id for before in found.values()}
        vanished = [item for item in shown if item.item_id not in present and item.item_id not in joined]
        left = [item for item in unknown if item.item_id not in found]
        if not (vanished and left):
            break
        pages = Pages(items, shown, known, found, seen_s)
        found |= {pair.item.item_id: pair.before for pair in list(find(pages, left, vanished))}
    return found


def _by_address(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs whose identities are two spellings of one address."""

    def key(item: Item) -> str | None:
        name = normal_link(item.item_id)
        return name if name != item.item_id else None

    return pages.pairs(key, unknown, vanished)


def _by_link_and_title(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs with one link, one title and times that agree."""

    def key(item: Item) -> tuple[str, str] | None:
        link, title = _text(item, LINK), normal_text(_text(item, TITLE))
        return (normal_link(link).partition("#")[0], title) if link and title else None

    pairs = [pair for pair in pages.pairs(key, unknown, vanished) if _may_share_fragment(pair)]
    # a lone item with a later time is news: it may be called "Weather today" every day
    return _of_fitting_time(pages, pairs, are_same=pages.are_most(pairs))


def _of_fitting_time(pages: Pages, pairs: Sequence[_Pair], *, are_same: bool) -> Iterable[_Pair]:
    """Return the pairs with equal times, without times, or with times that moved as most times of the page did."""
    shift_s = pages.shift_s(pairs)
    return [
        pair
        for pair in pairs
        if are_same
        or pair.shift_s is None
        or pair.has_same_time
        or (shift_s is not None and abs(pair.shift_s - shift_s) <= _SAME_S)
    ]


def _may_share_fragment(pair: _Pair) -> bool:
    """Return whether the fragments of two links do not tell them apart; one may have gained or lost it."""
    fragments = {normal_link(_text(each, LINK)).partition("#")[2] for each in (pair.item, pair.before)}
    return len(fragments) == 1 or "" in fragments


def _by_title(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs with one title, if all their links changed in one way or their times are equal."""

    def key(item: Item) -> str | None:
        return normal_text(_text(item, TITLE)) or None

    pairs = pages.pairs(key, [item for item in unknown if _text(item, LINK)], [i for i in vanished if _text(i, LINK)])
    # a session in every link changes one parameter in all of them, and a move changes the host
    ways: dict[tuple[str, Hashable] | None, list[_Pair]] = {}
    for pair in pairs:
        ways.setdefault(_way_of_change(pair), []).append(pair)
    for way, alike in ways.items():
        if way is not None and pages.are_most(alike) and _tell_apart(way, alike):
            yield from _of_fitting_time(pages, alike, are_same=False)
        elif pages.are_most(pairs) or (way is not None and way[0] == "query"):
            yield from (pair for pair in alike if pair.has_same_time)


def _by_title_and_time(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs without an address that have one title and one time, if most items changed or a text was edited.

    A lone item with another text is news: "Conditions" may have the date of the day, and tell of a storm.
    """

    def key(item: Item) -> tuple[str, float] | None:
        title = normal_text(_text(item, TITLE))
        has_address = _text(item, LINK) or _text(item, GUID)
        return None if has_address or not title or item.published_s is None else (title, item.published_s)

    pairs = pages.pairs(key, unknown, vanished)
    return pairs if pages.are_most(pairs) else [pair for pair in pairs if _is_edit(pair)]


def _is_edit(pair: _Pair) -> bool:
    """Return whether at least half of the words of a text are still there."""
    texts = ([_text(each, path)[:MOST_READ] for path in TEXTS] for each in (pair.before, pair.item))
    before, now = (Counter(" ".join(each).split()) for each in texts)
    return 2 * (before & now).total() >= max(before.total(), now.total())


def _by_session(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs with one title, and with one link apart from the parameters that changed in all links."""
    # a feed may call all of its items "News", so titles alone do not tell them apart
    before, now = _parameters(pages.shown), _parameters(pages.items)
    noise = {name for name in before.keys() & now.keys() if before[name].isdisjoint(now[name])}

    def key(item: Item) -> tuple[str, str] | None:
        link, _, query = normal_link(_text(item, LINK)).partition("?")
        kept = [part for part in query.split("&") if part.partition("=")[0] not in noise]
        return (f"{link}?{'&'.join(kept)}", normal_text(_text(item, TITLE))) if query else None

    pairs = pages.pairs(key, unknown, vanished) if noise else []
    return _of_fitting_time(pages, pairs, are_same=False) if pages.are_most(pairs) else []


def _parameters(items: Iterable[Item]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for item in items:
        for part in normal_link(_text(item, LINK)).partition("?")[2].split("&"):
            name, _, value = part.partition("=")
            values.setdefault(name, set()).add(value)
    values.pop("", None)
    return values


def _tell_apart(way: tuple[str, Hashable], pairs: Sequence[_Pair]) -> bool:
    """Return False if an earlier step changed otherwise in each link, and their last steps are the same."""
    # in ``/watch/a1/index.html`` the earlier step is no session: it names the item
    links = [[normal_link(_text(each, LINK)).split("/") for each in (pair.before, pair.item)] for pair in pairs]
    changes = {(before[number], now[number]) for before, now in links for number in [way[1]] if isinstance(number, int)}
    return len(changes) <= 1 or len({now[-1] for _, now in links}) == len(pairs)


def _way_of_change(pair: _Pair) -> tuple[str, Hashable] | None:
    """Return in which one way a link changed: its host, parameters of its query, or one step of its path."""
    old, new = (urlsplit(f"//{normal_link(_text(each, LINK))}") for each in (pair.before, pair.item))
    if old.netloc != new.netloc:
        return ("host", (old.netloc, new.netloc)) if (old.path, old.query) == (new.path, new.query) else None
    if old.path == new.path:
        changed = set(parse_qsl(old.query, True)) ^ set(parse_qsl(new.query, True))
        return ("query", frozenset(name for name, _ in changed)) if changed else None
    steps = list(zip(old.path.split("/"), new.path.split("/"), strict=False))
    differing = [(number, *step) for number, step in enumerate(steps) if step[0] != step[1]]
    if len(differing) != 1 or old.path.count("/") != new.path.count("/"):
        return None
    number, before, now = differing[0]
    # the last step names the item, so it must change alike in all links; an earlier one may hold a session of each
    is_last = number == len(steps) - 1
    return ("step", (number, before, now)) if is_last else ("session", number)


def _by_content(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item]) -> Iterable[_Pair]:
    """Return the pairs with equal texts, and with equal times unless times say nothing."""
    titles = {_text(item, TITLE) for item in unknown} & {_text(item, TITLE) for item in vanished}
    alike = [item for item in (*pages.items, *pages.shown) if _text(item, TITLE) in titles]
    if sum(len(_text(item, path)) for item in alike for path in TEXTS) > _MOST_ALIKE_CHARACTERS:
        return []
    pairs = pages.pairs(lambda item: _content_of(item) if _text(item, TITLE) in titles else None, unknown, vanished)
    is_whole = len(pairs) == len(pages.items) == len(pages.shown)
    if 2 * len(pairs) >= len(unknown) and _are_of_one_answer(
        [pair.item for pair in pairs], pages.seen_s, is_whole=is_whole
    ):
        return pairs
    return [pair for pair in pairs if pair.has_same_time]


def _content_of(item: Item) -> Hashable | None:
    """Return an item's texts, enclosure and link, without a link that ends with the guid; ``None`` if it has none."""
    texts = [normal_text(_text(item, path)) for path in (TITLE, *TEXTS)]
    content = (*texts, _text(item, _ENCLOSURE), _own_link(item))
    return content if any(content) else None


def _own_link(item: Item) -> str | None:
    """Return an item's link, or ``None`` if it has none or one that ends with the guid."""
    link, guid = _text(item, LINK), _text(item, GUID)
    return None if not link or (guid and link.endswith(guid)) else normal_link(link)


def _are_of_one_answer(items: Sequence[Item], seen_s: float, *, is_whole: bool) -> bool:
    """Return whether items differ from those before only in guids or times that their feed makes for each answer.

    Their times must be missing or about equal. Two or more items must be the whole feed, or each have a link of its
    own, or have neither guid nor link. A single item must have neither guid nor link, and the present time.
    """
    times = [item.published_s for item in items if item.published_s is not None]
    if times and max(times) - min(times) > _ANSWER_S:
        return False
    links = {_own_link(item) for item in items} - {None}
    is_nameless = len(times) == len(items) and not any(_text(item, GUID) or _text(item, LINK) for item in items)
    if len(items) > 1:
        return is_whole or is_nameless or len(links) == len(items)
    return is_nameless and bool(times) and abs(times[0] - seen_s) <= _ANSWER_S


def _text(item: Item, path: str) -> str:
    value = item.fields.get(path)
    return value if isinstance(value, str) else ""


def is_first_page(state: SourceState, items: Sequence[Item], known: Mapping[str, Item]) -> bool:
    """Return whether a feed shows its items for the first time: before, it showed none, or only an error."""
    if state.next_seq == 1:
        return True
    if state.next_seq > 2 or len(items) == 1 or any(item.item_id in known for item in items):
        return False
    # a lone item that others, mostly not later, replace was an error ("Bridge returned error 500")
    later = sum(state.newest_s is not None and _is_later(item, state.newest_s) for item in items)
    return 2 * later < len(items)


def has_been_empty(state: SourceState) -> bool:
    """Return whether a feed that never showed an item was empty at two probes in a row, and so is surely new."""
    silent = state.health.silent.get(ITEMS)
    return state.next_seq == 1 and silent is not None and silent.probes >= _SURELY_EMPTY


def find_old_items(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item], *, last_s: float, is_moved: bool
) -> frozenset[str]:
    """Return the ids of unknown items that are no news; ``items`` are in the order of their places, the newest first.

    A post that is deleted lets the next older one in at the foot of the page, and a page that grows many. An item among
    or before known ones is news, even if it is backdated. If a redirect leads to a page without one known item, it is
    another feed, of which only what is later than the last probe is news.
    """
    unknown = [(place, item) for place, item in enumerate(items) if item.item_id not in known]
    last = _last_known(items, known, shown)
    if last is None:
        oldest_s = inf if is_moved else _oldest_s(shown, default=-inf)
        old = [item for _, item in unknown if is_moved or item.published_s is not None]
    else:
        foot_s = _foot_s([known[item.item_id] for item in items[: last + 1] if item.item_id in known])
        oldest_s = _oldest_s(shown, default=inf) if foot_s is None else foot_s
        old = [item for place, item in unknown if place > last]
    if not old:
        return frozenset()
    shift_s = Pages(items, shown, known).shift_s(()) or 0.0  # a page whose times move by an hour may also have grown
    is_old = (item for item in old if item.published_s is None or item.published_s - shift_s < min(oldest_s, last_s))
    return frozenset(item.item_id for item in is_old)


def _last_known(items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item]) -> int | None:
    """Return the oldest place of an item that the page before showed too; ``None`` without one."""
    before = {item.item_id for item in shown}
    stored = [known.get(item.item_id) for item in items]
    places = (place for place, item in enumerate(stored) if item is not None and item.item_id in before)
    return max(places, default=None)


def _foot_s(items: Sequence[Item]) -> float | None:
    """Return the time at the foot of a page that is in order but for what is pinned to its top, else ``None``."""
    times = [item.published_s for item in items if item.published_s is not None]
    steps = enumerate(pairwise(times[::-1]), 1)
    ordered = next((count for count, (below, above) in steps if above < below), len(times))
    return times[-1] if 2 * ordered > len(times) else None  # a pinned item is older than what enters at the foot


def _oldest_s(items: Iterable[Item], *, default: float) -> float:
    return min((item.published_s for item in items if item.published_s is not None), default=default)
