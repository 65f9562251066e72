"""One history of items, however its feed spells, orders, names, dates and cuts it: each new item is told once."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import HOUR_S, T0, Post, Reader, feed_bytes

OLDEST, NEWEST_AT_FIRST = 1, 30
STILL_SHOWN = 2  # items of the page before that a page shows at least; without any, a feed has become another one
MINUTE_S = 60.0

LINKS: Mapping[str, Callable[[str], str]] = {
    "as it was": str,
    "https": lambda link: link.replace("http:", "https:"),
    "www": lambda link: link.replace("//", "//www."),
    "slash": lambda link: f"{link}/",
    "tracking": lambda link: f"{link}?utm_source=rss&utm_medium=feed",
    "all of it": lambda link: link.replace("http://", "https://www.") + "/?fbclid=1",
    "fragment": lambda link: f"{link}#utm_source=rss",
}
GUIDS: Mapping[str, Callable[[int, int], str | None]] = {
    "address": lambda number, _: f"http://x.example/?p={number}",
    "secure address": lambda number, _: f"https://www.x.example/?p={number}&utm_source=rss",
    "made again": lambda number, turn: f"urn:{turn}:{number}",
    "none": lambda _number, _turn: None,
}
TEXTS: Mapping[str, Callable[[str], str]] = {
    "as it was": str,
    "hard spaces": lambda text: text.replace(" ", "\u00a0"),
    "soft hyphens": lambda text: text.replace("ni", "n\u00adi"),
    "runs of space": lambda text: text.replace(" ", " \n\t "),
    "marks of direction": lambda text: f"\ufeff\u200e{text}\u200f",
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "escaped": escape,
    "numbers": lambda text: text.replace("&", "&#x26;").replace("\u00e9", "&#233;"),
    "names": lambda text: escape(text).replace("\u00e9", "&eacute;"),
}
MARKUP: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "paragraph": lambda text: f"<p>{text}</p>",
    "emphasis": lambda text: text.replace("text", "<em class='x'>text</em>"),
}
CHARSETS = ["utf-8", "utf-16", "iso-8859-1", "windows-1252", "us-ascii", "iso-8859-15"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a document writes an item."""

    link: str
    guid: str
    title: str
    text: str
    markup: str

    def post(self, number: int, at_s: float, turn: int) -> Post:
        """Return the item of a number."""
        title, text = f"Caf\u00e9 & opening {number}", f"The caf\u00e9 & its opening: text {number}"
        return Post(
            TEXTS[self.title](title),
            LINKS[self.link](f"http://x.example/{number}"),
            GUIDS[self.guid](number, turn),
            at_s,
            MARKUP[self.markup](TEXTS[self.text](text)),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """What a feed does between two probes, and how it writes its next document.

    Every ``share``-th item is written in another way than the rest. Of the known items at most ``size`` are shown.
    """

    new: int
    size: int
    deleted: int | None
    spelling: Spelling
    other: Spelling
    share: int
    kind: str
    charset: str
    is_oldest_first: bool
    shift_s: float

    def document(self, times_s: Mapping[int, float], turn: int) -> bytes:
        """Return the document that shows these items."""
        posts = [
            (self.other if number % self.share == 0 else self.spelling).post(number, at_s + self.shift_s, turn)
            for number, at_s in sorted(times_s.items(), reverse=not self.is_oldest_first)
        ]
        prolog = f"<?xml version='1.0' encoding='{self.charset}'?>"
        return (prolog + feed_bytes(posts, self.kind).decode()).encode(self.charset, "xmlcharrefreplace")


SPELLINGS = st.builds(Spelling, *(st.sampled_from(list(ways)) for ways in (LINKS, GUIDS, TEXTS, TEXTS, MARKUP)))
PAGES = st.builds(
    Page,
    new=st.integers(0, 3),
    size=st.integers(3, 12),
    deleted=st.none() | st.integers(0, 11),
    spelling=SPELLINGS,
    other=SPELLINGS,
    share=st.sampled_from([1, 3, 7, 1_000]),
    kind=st.sampled_from(["rss", "atom"]),
    charset=st.sampled_from(CHARSETS),
    is_oldest_first=st.booleans(),
    shift_s=st.sampled_from([0.0, HOUR_S]),
)


STRATEGY = st.lists(PAGES, min_size=2, max_size=8)


class History:
    """The items that a feed has, by number, with their times; and which of them it showed last."""

    def __init__(self) -> None:
        numbers = range(OLDEST, NEWEST_AT_FIRST + 1)
        self.times_s = {n: T0 - 2.5 * HOUR_S * (NEWEST_AT_FIRST + 1 - n) for n in numbers}
        self.newest = NEWEST_AT_FIRST
        self.shown: Sequence[int] = []

    def go_on(self, page: Page, now_s: float) -> list[int]:
        """Delete an item, add new ones; return their numbers."""
        if page.deleted is not None and page.deleted < len(self.shown) - STILL_SHOWN:
            del self.times_s[self.shown[page.deleted]]
        new = [self.newest + number for number in range(1, page.new + 1)]
        self.times_s |= {number: now_s + MINUTE_S * (number - self.newest) for number in new}
        self.newest += page.new
        return new

    def show(self, size: int) -> dict[int, float]:
        """Return the newest items with their times."""
        self.shown = sorted(self.times_s, reverse=True)[:size]
        return {number: self.times_s[number] for number in self.shown}


def page(size: int, *, new: int = 0, guid: str = "address", shift_s: float = 0.0) -> Page:
    spelling = Spelling("as it was", guid, "as it was", "as it was", "plain")
    return Page(new, size, None, spelling, spelling, 1, "rss", "utf-8", is_oldest_first=False, shift_s=shift_s)


# Its times move by an hour twice; between, guids change and back, and what leaves meanwhile comes back with the others
HOURS_AND_GUIDS = [
    *(page(3), page(3, new=3), page(9, shift_s=HOUR_S), page(3, new=2, guid="made again"), page(3)),
    page(11, shift_s=HOUR_S),
]


@given(STRATEGY)
@example(HOURS_AND_GUIDS)
@examples(300)
async def test_each_new_item_of_a_history_is_told_once_and_no_old_one(pages: list[Page]) -> None:
    reader, history = Reader(), History()
    for turn, page in enumerate(pages):
        new = history.go_on(page, reader.now_s) if turn else []
        shown = history.show(page.size + len(new))
        told = await reader.reads(page.document(shown, turn))
        assert sorted(int(title.strip("\ufeff\u200e\u200f").rpartition(" ")[2]) for title in told) == new, page
