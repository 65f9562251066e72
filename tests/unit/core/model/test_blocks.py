from __future__ import annotations

from time import process_time

import pytest

from proxyd.core.model.text_blocks import BLOCK_GAP, MOST_BLOCKS, BlockChange, ChangeKind, blocks_of, diff_blocks


def page(*blocks: str) -> str:
    return BLOCK_GAP.join(blocks)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (page("a", "b"), page("a", "b"), ()),
        ("", page("a"), (BlockChange(ChangeKind.ADDED, (), ("a",)),)),
        (page("a"), "", (BlockChange(ChangeKind.REMOVED, ("a",), ()),)),
        (page("a", "c"), page("a", "b", "c"), (BlockChange(ChangeKind.ADDED, (), ("b",)),)),
        (page("a", "b", "c"), page("a", "x", "c"), (BlockChange(ChangeKind.CHANGED, ("b",), ("x",)),)),
        (
            page("a", "b", "c", "d"),
            page("x", "b", "c"),
            (BlockChange(ChangeKind.CHANGED, ("a",), ("x",)), BlockChange(ChangeKind.REMOVED, ("d",), ())),
        ),
        (page("a", "a"), page("a", "a", "a"), (BlockChange(ChangeKind.ADDED, (), ("a",)),)),
    ],
)
def test_what_changed(old: str, new: str, expected: tuple[BlockChange, ...]) -> None:
    assert diff_blocks(old, new) == expected


def test_a_change_is_readable_line_by_line() -> None:
    assert str(BlockChange(ChangeKind.CHANGED, ("a\nb",), ("c",))) == "- a\n  b\n+ c"


def test_long_pages_take_bounded_time() -> None:
    started = process_time()
    old = page(*(f"{number % 3}" for number in range(MOST_BLOCKS // 2)))
    new = page(*(f"{number % 2}" for number in range(MOST_BLOCKS // 2)))
    assert diff_blocks(old, new)
    many = page(*(f"old {number}" for number in range(MOST_BLOCKS)))
    others = page(*(f"new {number}" for number in range(MOST_BLOCKS)))
    assert len(diff_blocks(many, others)) == 1
    assert process_time() - started < 5.0


def test_blocks_of_nothing() -> None:
    assert blocks_of("") == []
