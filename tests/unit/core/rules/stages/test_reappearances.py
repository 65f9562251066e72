"""Feeds that show known items under new identities: each item is told once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.feeds import HOUR_S, T0, Post, Reader, posts

Change = Callable[[Sequence[Post]], Sequence[Post]]
EIGHT = posts(8, 7, 6, 5, 4, 3, 2, 1)


def without_guids(items: Sequence[Post]) -> Sequence[Post]:
    return [replace(item, guid=None) for item in items]


def of_each(**changes: Callable[[Post], object]) -> Change:
    return lambda items: [replace(item, **{name: make(item) for name, make in changes.items()}) for item in items]  # type: ignore[arg-type]


def some(change: Change, *places: int) -> Change:
    return lambda items: [
        changed if n in places else item for n, (item, changed) in enumerate(zip(items, change(items), strict=True))
    ]


def secure(text: str | None) -> str:
    return (text or "").replace("http:", "https:")


secure_guid = of_each(guid=lambda item: secure(item.guid))
secure_link = of_each(link=lambda item: secure(item.link))
new_guid = of_each(guid=lambda item: f"urn:{item.title}:again")
RESPELT: dict[str, tuple[Change, Change]] = {
    "all guids become secure": (list, secure_guid),
    "one guid becomes secure": (list, some(secure_guid, 3)),
    "a third of the guids becomes secure": (list, some(secure_guid, 0, 3, 6)),
    "links become secure": (without_guids, secure_link),
    "one link becomes secure": (without_guids, some(secure_link, 2)),
    "links gain a slash": (without_guids, of_each(link=lambda item: f"{item.link}/")),
    "links gain www": (without_guids, of_each(link=lambda item: (item.link or "").replace("//", "//www."))),
    "links gain a tracking parameter": (without_guids, of_each(link=lambda item: f"{item.link}?utm_source=rss")),
    "links gain a fragment": (without_guids, of_each(link=lambda item: f"{item.link}#comments")),
    "links move to another host": (
        without_guids,
        of_each(link=lambda item: (item.link or "").replace("x.e", "blog.e")),
    ),
    "links get a step of a language": (
        without_guids,
        of_each(link=lambda item: (item.link or "").replace("e/", "e/en/")),
    ),
    "guids are made again": (list, new_guid),
    "one guid is made again": (list, some(new_guid, 4)),
    "guids and times an hour later": (
        list,
        of_each(guid=lambda item: f"{item.guid}&v=2", at_s=lambda item: (item.at_s or 0) + HOUR_S),
    ),
    "a third of the guids, with times an hour later": (
        of_each(),
        lambda items: some(new_guid, 1, 4, 7)(of_each(at_s=lambda item: (item.at_s or 0) + HOUR_S)(items)),
    ),
    "guids and longer texts": (
        list,
        of_each(guid=lambda item: f"{item.guid}&v=2", text=lambda item: f"{item.text} and more"),
    ),
    "guids made again, without times": (
        of_each(at_s=lambda _: None),
        of_each(at_s=lambda _: None, guid=lambda item: f"urn:{item.title}"),
    ),
}


@pytest.mark.parametrize(("before", "after"), RESPELT.values(), ids=RESPELT)
async def test_known_items_are_not_told_again_when(before: Change, after: Change) -> None:
    reader, fresh = Reader(), posts(120)[0]
    assert await reader.shows(before(EIGHT)) == []
    assert await reader.shows(after(EIGHT)) == []
    assert await reader.shows(after(EIGHT)) == []
    assert await reader.shows(after([fresh, *EIGHT[:7]])) == ["Post 120"]
    assert await reader.shows(before([fresh, *EIGHT[:7]])) == []


async def test_one_guid_is_made_again_while_the_others_become_secure_and_all_times_move() -> None:
    reader, later = Reader(), of_each(at_s=lambda item: (item.at_s or 0) + HOUR_S)
    await reader.shows(EIGHT[:3])
    assert await reader.shows(later([*new_guid(EIGHT[:1]), *secure_guid(EIGHT[1:3])])) == []


async def test_a_guid_is_made_again_after_all_times_moved_and_moved_back() -> None:
    reader, later = Reader(), of_each(at_s=lambda item: (item.at_s or 0) + HOUR_S)
    await reader.shows(later(EIGHT[:1]))
    await reader.shows(EIGHT)
    assert await reader.shows(some(new_guid, 0)(EIGHT)) == []


async def test_guids_are_made_again_while_a_page_shows_more_of_its_old_items_again() -> None:
    reader = Reader()
    await reader.shows(EIGHT)
    await reader.shows(EIGHT[:2])
    again = of_each(guid=lambda item: f"urn:{item.title}", at_s=lambda item: (item.at_s or 0) + 6 * HOUR_S)
    assert await reader.shows([*again(EIGHT[:2]), *EIGHT[2:]]) == []


async def test_a_feed_that_becomes_an_atom_feed_tells_nothing_again() -> None:
    reader = Reader()
    await reader.shows(EIGHT)
    assert await reader.shows(of_each(guid=lambda item: f"tag:{item.title}")(EIGHT), "atom") == []


async def test_a_new_item_that_comes_with_new_guids_is_told() -> None:
    reader = Reader()
    await reader.shows(EIGHT)
    assert await reader.shows(new_guid([*posts(120), *EIGHT[:7]])) == ["Post 120"]


@pytest.mark.parametrize("dated", [True, False])
async def test_a_session_in_every_link_is_noise(*, dated: bool) -> None:
    reader, window = Reader(), [*posts(8, 7, 6, 5, dated=dated)]

    def with_session(items: Sequence[Post], session: int) -> Sequence[Post]:
        return [replace(item, guid=None, link=f"{item.link}?view=full&s={session}") for item in items]

    for session in range(4):
        assert await reader.shows(with_session(window, session)) == []
    assert await reader.shows(with_session([*posts(120, dated=dated), *window[:3]], 9)) == ["Post 120"]


@pytest.mark.parametrize(
    "after",
    [
        Post("Weather today", "http://x.example/weather", "urn:2", T0 + HOUR_S),
        Post("Weather tomorrow", "http://x.example/weather", "urn:2"),
        Post("Weather today", "http://x.example/?day=2", None, T0 + HOUR_S),
        Post("Weather today", "http://x.example/?day=2"),
        Post("Weather today", "http://x.example/log#day2"),
    ],
    ids=["a later time", "another title", "another parameter and time", "another parameter", "another fragment"],
)
async def test_the_only_item_of_a_feed_is_news_with(after: Post) -> None:
    reader = Reader()
    link = {
        "http://x.example/?day=2": "http://x.example/?day=1",
        "http://x.example/log#day2": "http://x.example/log#day1",
    }
    before = Post(
        "Weather today",
        link.get(after.link or "", after.link),
        after.guid and "urn:1",
        T0 - HOUR_S if after.at_s else None,
    )
    await reader.shows([before])
    assert await reader.shows([after]) == [after.title]


async def test_two_items_of_one_page_are_never_taken_for_one() -> None:
    reader = Reader()
    twins = [Post("Open thread", "http://x.example/8", "urn:1"), Post("Open thread", "https://x.example/8/", "urn:2")]
    await reader.shows([twins[0], *EIGHT])
    assert await reader.shows([twins[1], twins[0], *EIGHT]) == ["Open thread"]


async def test_items_with_one_title_and_link_are_told_by_their_guids() -> None:
    reader = Reader()
    releases = [Post("Release", "http://x.example/releases", f"urn:{n}", T0 - HOUR_S * (9 - n)) for n in range(9)]
    await reader.shows(releases[2::-1])
    assert await reader.shows(releases[5:2:-1]) == ["Release"] * 3
