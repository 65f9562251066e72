"""The text of a page as blocks, and the changes between two texts. No I/O.

A block is a paragraph, a heading, a list item or a row of a table. Differences are sought by block, not by character:
comparing 14 kB by character takes seconds, and the result is unreadable.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

BLOCK_GAP = "\n\n"
MOST_BLOCKS = 2_000


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


def blocks_of(text: str) -> list[str]:
    r"""Return the blocks of a page's text.

    >>> blocks_of("a\nb\n\nc")
    ['a\nb', 'c']
    """
    return [block for block in text.split(BLOCK_GAP) if block]


def diff_blocks(old: str, new: str, *, most: int = MOST_BLOCKS) -> tuple[BlockChange, ...]:
    r"""Return the changes from one text of a page to another, in page order.

    If more than ``most`` blocks lie between the first and the last change, they count as one change.

    >>> print(*diff_blocks("Prices\n\nTea 3\n\nBye", "Prices\n\nTea 4\n\nNew: cake\n\nBye"), sep="\n")
    - Tea 3
    + Tea 4
    + New: cake
    """
    before, after = blocks_of(old), blocks_of(new)
    start = _common(before, after)
    stop = _common(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - stop], after[start : len(after) - stop]
    if len(before) + len(after) > most:
        return (_change(before, after),)
    codes = SequenceMatcher(None, before, after).get_opcodes()
    return tuple(_change(before[i:j], after[k:m]) for code, i, j, k, m in codes if code != "equal")


def _common(before: list[str], after: list[str]) -> int:
    """Return how many blocks the two lists share at the start."""
    pairs = zip(before, after, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _change(before: list[str], after: list[str]) -> BlockChange:
    kind = ChangeKind.ADDED if not before else ChangeKind.REMOVED if not after else ChangeKind.CHANGED
    return BlockChange(kind, tuple(before), tuple(after))
