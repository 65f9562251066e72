"""Guids and links that several items of a document share identify none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.feeds import Post, Reader, posts


def sharing(items: Sequence[Post], **fields: object) -> list[Post]:
    return [replace(item, **fields) for item in items]  # type: ignore[arg-type]


SHARED: dict[str, dict[str, object]] = {
    "the address of the blog as guid": {"guid": "http://x.example/blog/"},
    "a word as guid": {"guid": "null"},
    "a guid and a link": {"guid": "http://x.example/blog/", "link": "http://x.example/blog/"},
    "no guid and a link": {"guid": None, "link": "http://x.example/blog/"},
    "a guid and no link": {"guid": "x", "link": None},
}


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("fields", SHARED.values(), ids=SHARED)
async def test_a_new_item_is_told_where_all_share(fields: dict[str, object], *, dated: bool) -> None:
    reader, window = Reader(), sharing(posts(*range(8, 0, -1), dated=dated), **fields)
    assert await reader.shows(window) == []
    fresh = sharing(posts(130, 120, dated=dated), **fields)
    assert await reader.shows([fresh[1], *window[:7]]) == ["Post 120"]
    assert await reader.shows([*fresh, *window[:6]]) == ["Post 130"]


@pytest.mark.parametrize("dated", [True, False])
async def test_a_feed_that_grows_from_one_item_tells_the_next_one_of_the_same_guid(*, dated: bool) -> None:
    reader, window = Reader(), sharing(posts(120, 8, dated=dated), guid="http://x.example/blog/")
    await reader.shows(window[1:])
    assert await reader.shows(window) == ["Post 120"]
    assert await reader.shows(window[:1]) == []
    assert await reader.shows([*sharing(posts(130, dated=dated), guid="http://x.example/blog/"), window[0]]) == [
        "Post 130"
    ]


async def test_an_item_that_a_document_holds_twice_is_told_once() -> None:
    reader, window = Reader(), posts(8, 7)
    await reader.shows(window)
    fresh = posts(120)[0]
    assert await reader.shows([fresh, replace(fresh, text="text 120 again"), *window]) == ["Post 120"]
    assert await reader.shows([fresh, *window]) == []
