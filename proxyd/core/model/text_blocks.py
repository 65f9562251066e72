"""The text of a page as blocks, and the changes between two texts. No I/O.

A block is a paragraph, a heading, a list item or a row of a table. Differences are sought by block, not by character:
comparing 14 kB by character takes seconds, and the result is unreadable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from functools import lru_cache
from html import unescape
from itertools import accumulate, takewhile
from typing import Any

import re2

from proxyd.core.model.expression import re2_options
from proxyd.core.model.field_values import normal_text
from proxyd.core.model.item import Value

BLOCK_GAP = "\n\n"
MOST_BLOCKS = 2_000
MOST_READ = 20_000
"""The most characters of a field that people are shown."""
_MOST_COMPARED = 200_000
"""Comparisons of blocks in one difference; blocks that are not compared count as changed."""
_TAG = re.compile(r"(<[^<>]*>)")
_NAME = re.compile(r"<\s*(/?)\s*(\w+)")
_UNREAD = frozenset({"script", "style"})
_AFTER_WORDS = tuple(".,;:!?)…")
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5"),
        *("h6", "hr", "li", "ol", "p", "pre", "tr", "ul"),
    }
)


class ChangeKind(Enum):
    """What happened to a run of blocks."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A run of blocks that changed: the old ones and the new ones."""

    kind: ChangeKind
    old: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        lines = [("- ", block) for block in self.old] + [("+ ", block) for block in self.new]
        return "\n".join(sign + block.replace("\n", "\n  ") for sign, block in lines)


def readable(value: Value) -> str:
    r"""Return a text of a feed without its tags, scripts and styles, in blocks; nothing for other values.

    >>> readable("<h1>A</h1><p>b &lt; <b>c</b><script>d()</script>")
    'A\n\nb < c'
    >>> readable("Hello <b>world</b>.")
    'Hello world.'
    """
    if not isinstance(value, str):
        return ""
    kept: list[str] = []
    unread = False
    for piece in _TAG.split(value[:MOST_READ]):
        tag = _NAME.match(piece)
        if tag is not None and tag[2].lower() in _UNREAD:
            unread = not tag[1]
        elif tag is not None or piece.startswith("<"):
            kept.append(BLOCK_GAP if tag is not None and tag[2].lower() in _BLOCKS else " ")
        elif not unread:
            if kept[-1:] == [" "] and piece[:1] in _AFTER_WORDS:
                kept.pop()
            kept.append(piece)
    blocks = (" ".join(unescape(block).split()) for block in "".join(kept).split(BLOCK_GAP))
    return BLOCK_GAP.join(filter(None, blocks))


def blocks_of(text: str) -> list[str]:
    r"""Return the blocks of a page's text.

    >>> blocks_of("a\nb\n\nc")
    ['a\nb', 'c']
    """
    return [block for block in text.split(BLOCK_GAP) if block]


_DIGITS, _DIGIT = re.compile(r"\d+"), r"\d+"
_FEWEST, _LONGEST_LINE, _MOST_NOISE = 4, 200, 8
_SIGN = re.compile(r"[][\\.^$*+?{}|()]")  # with a meaning in patterns
_IN_SLASHES = re.compile(r"/(.+)/", re.DOTALL)
_WORD = re.compile(r"\w+(?:[.,:'-]\w+)*")


def plain_pattern(text: str) -> str:
    r"""Return the pattern that finds a text itself.

    >>> plain_pattern("1.5 (new)")
    '1\\.5 \\(new\\)'
    """
    return _SIGN.sub(r"\\\g<0>", text)


def pattern_problem(pattern: str) -> str | None:
    r"""Return why lines cannot be compared with the text of an IGNORE, or ``None``.

    >>> pattern_problem("views (today)"), pattern_problem(r"/\d+ views/"), pattern_problem("/(/")
    (None, None, 'missing ): (')
    """
    try:
        _line_pattern(pattern)
    except re2.error as error:
        return str(error.args[0].decode() if isinstance(error.args[0], bytes) else error)
    return None


@lru_cache(256)
def _line_pattern(pattern: str) -> Any:
    """Return the pattern that a line is searched for: the text in any case, or what stands between slashes."""
    written = _IN_SLASHES.fullmatch(pattern)
    options = re2_options()
    options.case_sensitive = False
    return re2.compile(written[1] if written else plain_pattern(pattern), options)


def without_lines(blocks: Iterable[str], patterns: Iterable[str]) -> list[str]:
    r"""Return blocks without the lines that a pattern is found in; nothing is left of a block of such lines.

    >>> without_lines(["Prices\nUpdated 10:01", "7 Views"], ["updated", r"/^\d+ views$/"])
    ['Prices']
    """
    compiled = [_line_pattern(each) for each in patterns]
    left = (
        "\n".join(line for line in block.split("\n") if not any(each.search(line) for each in compiled))
        for block in blocks
    )
    return [block for block in left if block]


def patterns_of_noise(first: str, second: str) -> tuple[str, ...]:
    r"""Return what to IGNORE of a page that two requests one after the other saw with different texts.

    A line of which only numbers differ gives a pattern; of others, the words with which both begin.

    >>> patterns_of_noise("Tea\n\n12 views\n\nQuote: less is more", "Tea\n\n13 views\n\nQuote: be kind")
    ('/^\\d+ views$/', 'Quote:')
    """
    found: dict[str, None] = {}
    for change in diff_blocks(first, second):
        old, new = ([line for block in blocks for line in block.split("\n")] for blocks in (change.old, change.new))
        for before, after in zip(old, new, strict=False):
            if before != after and (pattern := _pattern_of_both(before, after)):
                found[pattern] = None
    return tuple(found)[:_MOST_NOISE]


def _pattern_of_both(before: str, after: str) -> str:
    """Return what finds two forms of a line, and hopefully no other; empty if they have too little in common."""
    texts = _DIGITS.split(before)
    if len(before) <= _LONGEST_LINE and texts == _DIGITS.split(after) and len("".join(texts).strip()) >= _FEWEST:
        return f"/^{_DIGIT.join(map(plain_pattern, texts))}$/"
    shared = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    words = re.sub(r"[\s\d]+\S*$", "", shared).strip()
    return words if len(words) >= _FEWEST else ""


def words_changed(changes: Iterable[BlockChange]) -> int:
    """Return how many words differ between the old and the new blocks: those that came, or those that went if more.

    >>> words_changed(diff_blocks("Tea costs 3 euros", "Tea costs 4 euros now"))
    2
    """
    total = 0
    for change in changes:
        before, after = (Counter(_WORD.findall(" ".join(blocks))) for blocks in (change.old, change.new))
        total += max((before - after).total(), (after - before).total())
    return total


def _count_nothing(_comparisons: int) -> None:
    pass


def diff_blocks(
    old: str,
    new: str,
    *,
    most: int = MOST_BLOCKS,
    most_compared: int = _MOST_COMPARED,
    spend: Callable[[int], None] = _count_nothing,
) -> tuple[BlockChange, ...]:
    r"""Return the changes from one text of a page to another, in page order.

    Where more than ``most`` blocks lie between the first and the last change, or after ``most_compared`` comparisons,
    blocks count as one change. ``spend`` is called with the number of comparisons that come next; it may raise.

    >>> print(*diff_blocks("Prices\n\nTea 3\n\nBye", "Prices\n\nTea 4\n\nNew: cake\n\nBye"), sep="\n")
    - Tea 3
    + Tea 4
    + New: cake
    """
    spend(1 + (len(old) + len(new) >> 6))
    before, after = blocks_of(old), blocks_of(new)
    if not (old.isascii() and new.isascii()):  # a block that is only spelt in another way did not change
        spelt = {normal_text(block): block for block in before}
        after = [spelt.get(normal_text(block), block) for block in after]
    start = common_start_size(before, after)
    stop = common_start_size(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - stop], after[start : len(after) - stop]
    if not before and not after:
        return ()
    if len(before) + len(after) > most:
        return (_change(before, after),)
    spend(len(before) + len(after))
    return tuple(_changes(before, after, sorted(_equal_runs(before, after, most_compared, spend))))


def _equal_runs(
    before: Sequence[str], after: Sequence[str], most_compared: int, spend: Callable[[int], None]
) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of equal blocks as difflib finds them: places in both texts, and length."""
    # It searches the longest run in each part between those already found. The number of pairs that a search compares
    # is known before it starts, so the work is counted and bounded.
    matcher = SequenceMatcher(None, before, after)
    places = matcher.b2j  # type: ignore[attr-defined]  # a public attribute that the stubs leave out
    pairs = [0, *accumulate(1 + len(places.get(block, ())) for block in before)]
    waiting = [(0, len(before), 0, len(after))]
    while waiting:
        low, high, other_low, other_high = waiting.pop()
        most_compared -= pairs[high] - pairs[low]
        if most_compared < 0:
            return
        spend(pairs[high] - pairs[low])
        place, other, length = matcher.find_longest_match(low, high, other_low, other_high)
        if not length:
            continue
        yield place, other, length
        if low < place and other_low < other:
            waiting.append((low, place, other_low, other))
        if place + length < high and other + length < other_high:
            waiting.append((place + length, high, other + length, other_high))


def _changes(
    before: Sequence[str], after: Sequence[str], runs: Sequence[tuple[int, int, int]]
) -> Iterator[BlockChange]:
    """Yield what lies between runs of equal blocks."""
    at = other_at = 0
    for place, other, length in (*runs, (len(before), len(after), 0)):
        if at < place or other_at < other:
            yield _change(before[at:place], after[other_at:other])
        at, other_at = place + length, other + length


def common_start_size(before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many texts two lists share at the start."""
    pairs = zip(before, after, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _change(before: Sequence[str], after: Sequence[str]) -> BlockChange:
    kind = ChangeKind.ADDED if not before else ChangeKind.REMOVED if not after else ChangeKind.CHANGED
    return BlockChange(kind, tuple(before), tuple(after))
