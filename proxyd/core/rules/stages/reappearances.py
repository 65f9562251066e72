"""Finds items that a feed shows under new identities: the old ones vanished from the page at the same probe. Pure.

Two items that one document has shown stay two items, and a key that occurs twice on a page joins nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from proxyd.core.model.item import Item
from proxyd.core.model.normal_forms import normal_link, normal_text

LINK, GUID, TITLE = "channel.item.link", "channel.item.guid", "channel.item.title"
TEXTS = ("channel.item.description", "channel.item.content")
ENCLOSURE = "channel.item.enclosure"
_ANSWER_S = 60.0  # times that differ by less may be those of one answer
_SAME_S = 1.0
_MOST_CHARACTERS = 1_000_000  # of the texts of one probe that are compared


@dataclass(frozen=True, slots=True)
class Pair:
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
    """A page of a feed and the page before it.

    Parameters
    ----------
    items, shown
        The items of the page, and those of the page before it as they are stored.
    known
        The stored items by the identities of this page's items.
    joined
        The stored items that are known to go on under new identities, by their new identities.
    """

    items: Sequence[Item]
    shown: Sequence[Item]
    known: Mapping[str, Item]
    joined: Mapping[str, Item] = field(default_factory=dict)

    def pairs(
        self, key: Callable[[Item], Hashable | None], unknown: Iterable[Item], vanished: Iterable[Item]
    ) -> list[Pair]:
        """Return the unknown items that share a key with a vanished one, if no other item of either page has it."""
        by_key = {name: item for item in vanished if (name := key(item)) is not None}
        pairs = {name: Pair(item, by_key[name]) for item in unknown if (name := key(item)) in by_key}
        if not pairs:  # as at most probes: the keys of whole pages take a hundred times as long
            return []
        counts, counts_before = Counter(map(key, self.items)), Counter(map(key, self.shown))
        return [pair for name, pair in pairs.items() if counts[name] == counts_before[name] == 1]

    def shift_s(self, pairs: Sequence[Pair]) -> float | None:
        """Return by how many seconds the times of most items moved, or ``None`` if most did not move by the same."""
        stored = {**self.known, **self.joined}  # a page may spell two of three guids in another way, and make one again
        others = [Pair(item, stored[item.item_id]) for item in self.items if item.item_id in stored]
        shifts = [round(shift_s) for pair in (*pairs, *others) if (shift_s := pair.shift_s) is not None]
        if not shifts:
            return None
        shift_s, count = Counter(shifts).most_common(1)[0]
        return float(shift_s) if count > 1 and 2 * count > len(shifts) else None

    def are_most(self, pairs: Sequence[Pair]) -> bool:
        """Return whether pairs are two or more, and at least half of the items that both pages show."""
        before = {item.item_id for item in self.shown}  # what comes back from further down says nothing of this change
        kept = sum(item.item_id in before and item.item_id in self.known for item in self.items)
        return len(pairs) > 1 and len(pairs) >= kept


def find_reappearances(
    unknown: Sequence[Item],
    items: Sequence[Item],
    known: Mapping[str, Item],
    shown: Sequence[Item],
    *,
    seen_s: float,
) -> dict[str, Item]:
    """Return the stored items that go on under new identities, by their new identities.

    Parameters
    ----------
    unknown
        The items of the page that are not stored under their identities.
    items, known
        All items of the page, and the stored ones among them by identity.
    shown
        The items of the page before, as they are stored.
    seen_s
        The time of the answer, in unix seconds.
    """
    present = {name for item in items for name in (item.item_id, *item.former_ids)}
    found: dict[str, Item] = {}
    for find in (_by_address, _by_link_and_title, _by_content, _by_title, _by_session):
        joined = {before.item_id for before in found.values()}
        vanished = [item for item in shown if item.item_id not in present and item.item_id not in joined]
        left = [item for item in unknown if item.item_id not in found]
        if not (vanished and left):
            break
        pages = Pages(items, shown, known, found)
        found |= {pair.item.item_id: pair.before for pair in list(find(pages, left, vanished, seen_s))}
    return found


def _by_address(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item], _seen_s: float) -> Iterable[Pair]:
    """Return the pairs whose identities are two spellings of one address."""

    def key(item: Item) -> str | None:
        name = normal_link(item.item_id)
        return name if name != item.item_id else None

    return pages.pairs(key, unknown, vanished)


def _by_link_and_title(
    pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item], _seen_s: float
) -> Iterable[Pair]:
    """Return the pairs with one link, one title and times that agree.

    A lone item with a later time is news: the only item of a feed may be called "Weather today" every day.
    """

    def key(item: Item) -> tuple[str, str] | None:
        link, title = _text(item, LINK), normal_text(_text(item, TITLE))
        return (normal_link(link).partition("#")[0], title) if link and title else None

    pairs = [pair for pair in pages.pairs(key, unknown, vanished) if _may_share_fragment(pair)]
    return _of_fitting_time(pages, pairs, are_same=pages.are_most(pairs))


def _of_fitting_time(pages: Pages, pairs: Sequence[Pair], *, are_same: bool) -> Iterable[Pair]:
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


def _may_share_fragment(pair: Pair) -> bool:
    """Return whether the fragments of two links do not tell them apart; one may have gained or lost it."""
    fragments = {normal_link(_text(each, LINK)).partition("#")[2] for each in (pair.item, pair.before)}
    return len(fragments) == 1 or "" in fragments


def _by_title(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item], _seen_s: float) -> Iterable[Pair]:
    """Return the pairs with one title, if all their links changed in one way or their times are equal.

    A session in every link changes one parameter in all of them, and a move to another site changes the host.
    """

    def key(item: Item) -> str | None:
        return normal_text(_text(item, TITLE)) or None

    pairs = pages.pairs(key, [item for item in unknown if _text(item, LINK)], [i for i in vanished if _text(i, LINK)])
    ways: dict[tuple[str, Hashable] | None, list[Pair]] = {}
    for pair in pairs:
        ways.setdefault(_way_of_change(pair), []).append(pair)
    for way, alike in ways.items():
        if way is not None and pages.are_most(alike):
            yield from _of_fitting_time(pages, alike, are_same=False)
        elif pages.are_most(pairs) or (way is not None and way[0] == "query"):
            yield from (pair for pair in alike if pair.has_same_time)


def _by_session(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item], _seen_s: float) -> Iterable[Pair]:
    """Return the pairs with one title, and with one link apart from the parameters that changed in all links.

    A feed may call all of its items "News", so that titles alone do not tell them apart.
    """
    before, now = _parameters(pages.shown), _parameters(pages.items)
    noise = {name for name in before.keys() & now.keys() if before[name].isdisjoint(now[name])}

    def key(item: Item) -> tuple[str, str] | None:
        link, _, query = normal_link(_text(item, LINK)).partition("?")
        kept = [part for part in query.split("&") if part.partition("=")[0] not in noise]
        return (f"{link}?{'&'.join(kept)}", normal_text(_text(item, TITLE))) if query else None

    pairs = pages.pairs(key, unknown, vanished) if noise else []
    return _of_fitting_time(pages, pairs, are_same=False) if pages.are_most(pairs) else []


def _parameters(items: Iterable[Item]) -> dict[str, set[str]]:
    """Return the values of each parameter in the links of items."""
    values: dict[str, set[str]] = {}
    for item in items:
        for part in normal_link(_text(item, LINK)).partition("?")[2].split("&"):
            name, _, value = part.partition("=")
            values.setdefault(name, set()).add(value)
    values.pop("", None)
    return values


def _way_of_change(pair: Pair) -> tuple[str, Hashable] | None:
    """Return in which one way a link changed: its host, parameters of its query, or one step of its path."""
    old, new = (urlsplit(f"//{normal_link(_text(each, LINK))}") for each in (pair.before, pair.item))
    if old.netloc != new.netloc:
        return ("host", (old.netloc, new.netloc)) if (old.path, old.query) == (new.path, new.query) else None
    if old.path == new.path:
        changed = set(parse_qsl(old.query, True)) ^ set(parse_qsl(new.query, True))
        return ("query", frozenset(name for name, _ in changed)) if changed else None
    steps = list(zip(old.path.split("/"), new.path.split("/"), strict=False))
    differing = [(number, *step) for number, step in enumerate(steps) if step[0] != step[1]]
    is_one = len(differing) == 1 and old.path.count("/") == new.path.count("/")
    return ("step", differing[0]) if is_one else None


def _by_content(pages: Pages, unknown: Sequence[Item], vanished: Sequence[Item], seen_s: float) -> Iterable[Pair]:
    """Return the pairs with equal texts, and with equal times unless times say nothing."""
    titles = {_text(item, TITLE) for item in unknown} & {_text(item, TITLE) for item in vanished}
    alike = [item for item in (*pages.items, *pages.shown) if _text(item, TITLE) in titles]
    if sum(len(_text(item, path)) for item in alike for path in TEXTS) > _MOST_CHARACTERS:
        return []
    pairs = pages.pairs(lambda item: _content_of(item) if _text(item, TITLE) in titles else None, unknown, vanished)
    is_whole = len(pairs) == len(pages.items) == len(pages.shown)
    if 2 * len(pairs) >= len(unknown) and _are_of_one_answer([pair.item for pair in pairs], seen_s, is_whole=is_whole):
        return pairs
    return [pair for pair in pairs if pair.has_same_time]


def _content_of(item: Item) -> Hashable | None:
    """Return an item's texts, enclosure and link, without a link that ends with the guid; ``None`` if it has none."""
    texts = [normal_text(_text(item, path)) for path in (TITLE, *TEXTS)]
    content = (*texts, _text(item, ENCLOSURE), _own_link(item))
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
