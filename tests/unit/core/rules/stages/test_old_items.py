"""Old items that a feed shows for the first time are no news, and new ones are, wherever they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import HOUR_S, T0, Post, Reader, posts

ALL = posts(*range(38, 0, -1))


@pytest.mark.parametrize("dated", [True, False])
async def test_a_deleted_post_lets_the_next_older_one_in_which_is_no_news(*, dated: bool) -> None:
    reader, window = Reader(), posts(*range(9, 0, -1), dated=dated)
    await reader.shows(window[:8])
    assert await reader.shows([*window[:3], *window[4:]]) == []
    assert await reader.shows([*posts(120, dated=dated), *window[:3], *window[4:8]]) == ["Post 120"]


@pytest.mark.parametrize("dated", [True, False])
async def test_a_page_that_grows_shows_nothing_new(*, dated: bool) -> None:
    reader, window = Reader(), posts(*range(38, 0, -1), dated=dated)
    await reader.shows(window[:8])
    assert await reader.shows(window[:30]) == []
    assert await reader.shows(window) == []


async def test_a_page_that_grows_below_an_old_item_that_is_pinned_to_its_top_shows_nothing_new() -> None:
    reader, pinned = Reader(), replace(posts(60)[0], at_s=T0 - 1000 * HOUR_S)
    await reader.shows([pinned, *ALL[:8]])
    assert await reader.shows([pinned, *ALL[:30]]) == []
    assert await reader.shows([pinned, *posts(120), *ALL[:30]]) == ["Post 120"]


async def test_a_page_that_grows_while_all_its_times_move_by_an_hour_shows_nothing_new() -> None:
    reader = Reader()
    window = [replace(post, at_s=T0 - HOUR_S / 4 * n) for n, post in enumerate(ALL)]
    await reader.shows(window[:4])
    assert await reader.shows([replace(post, at_s=(post.at_s or 0) + HOUR_S) for post in window[:8]]) == []


async def test_a_page_that_lists_the_oldest_first_grows_at_its_beginning() -> None:
    reader = Reader()
    await reader.shows(posts(*range(5, 9)))
    assert await reader.shows(posts(*range(2, 9))) == []
    assert await reader.shows([*posts(*range(3, 9)), *posts(120)]) == ["Post 120"]


async def test_what_comes_in_among_known_items_is_news_even_if_it_is_backdated() -> None:
    reader, window = Reader(), posts(8, 7, 6)
    await reader.shows(window)
    between = replace(posts(50)[0], at_s=T0 - 500 * HOUR_S)
    assert await reader.shows([window[0], between, *window[1:]]) == ["Post 50"]


async def test_an_item_at_the_foot_that_is_later_than_the_last_probe_is_news() -> None:
    reader, window = Reader(), posts(8, 7, 6)
    await reader.shows(window)
    assert await reader.shows([*window, replace(posts(50)[0], at_s=T0 + 1.5 * HOUR_S)]) == ["Post 50"]


@pytest.mark.parametrize("dated", [True, False])
async def test_a_redirect_to_another_feed_tells_only_what_is_later_than_the_last_probe(*, dated: bool) -> None:
    reader = Reader()
    await reader.shows(posts(8, 7, 6))
    other = [Post(f"Other {n}", f"http://y.example/{n}", None, T0 - n * HOUR_S if dated else None) for n in range(9)]
    later = Post("Other later", "http://y.example/later", None, T0 + 1.5 * HOUR_S)
    assert await reader.shows([later, *other], is_redirected=True) == ["Other later"]
    assert await reader.shows([Post("Next", "http://y.example/next"), later, *other], is_redirected=True) == ["Next"]


async def test_a_redirect_to_the_same_items_tells_the_new_one() -> None:
    reader = Reader()
    await reader.shows(posts(8, 7, 6, dated=False))
    assert await reader.shows(posts(120, 8, 7, dated=False), is_redirected=True) == ["Post 120"]


@pytest.mark.parametrize(
    "first", [[], [Post("Bridge returned error 500", "http://x.example/error", "urn:error")]], ids=["empty", "an error"]
)
async def test_after_a_first_contact_that_showed_nothing_old_items_are_no_news(first: list[Post]) -> None:
    reader, later = Reader(), Post("Later", "http://x.example/later", None, T0 + HOUR_S)
    await reader.shows(first)
    assert await reader.shows([later, *ALL[:8], Post("Undated", "http://x.example/undated")]) == ["Later"]


async def test_a_feed_that_was_empty_twice_has_news_without_a_time() -> None:
    reader = Reader()
    await reader.shows([])
    await reader.shows([])
    assert await reader.shows([Post("First", "http://x.example/first"), ALL[0]]) == ["First"]


async def test_the_only_item_of_a_feed_is_followed_by_another_one() -> None:
    reader = Reader()
    await reader.shows([Post("One", "http://x.example/1")])
    assert await reader.shows([Post("Two", "http://x.example/2")]) == ["Two"]


async def test_a_feed_that_is_empty_for_a_time_shows_what_it_showed_before() -> None:
    reader, window = Reader(), posts(8, 7, 6, 5)
    await reader.shows(window)
    assert await reader.shows([]) == []
    assert await reader.shows([*posts(120), *window]) == ["Post 120"]


async def test_what_enters_at_the_foot_of_a_page_that_was_dated_anew_is_no_news() -> None:
    reader, window = Reader(), posts(9, 8, 7, 6)
    await reader.shows(window)
    rebuilt = [replace(post, at_s=reader.now_s + 100.0 - 10.0 * n) for n, post in enumerate(posts(9, 8, 7, 6, 5))]
    assert await reader.shows(rebuilt[:4]) == []
    assert await reader.shows([rebuilt[0], *rebuilt[2:]]) == []


@pytest.mark.parametrize("later_s", [-500.0, 0.0, 500.0])
async def test_a_new_item_of_a_page_that_was_dated_anew_is_news_at_either_end(later_s: float) -> None:
    for place in (0, 4):
        reader = Reader()
        await reader.shows(posts(9, 8, 7, 6))
        window = [replace(post, at_s=reader.now_s + 1000.0 - 10.0 * n) for n, post in enumerate(posts(9, 8, 7, 6))]
        new = replace(posts(10)[0], at_s=reader.now_s + 1000.0 + later_s)
        assert await reader.shows([*window[:place], new, *window[place:]]) == ["Post 10"]


async def test_items_of_one_moment_after_a_lone_one_are_news() -> None:
    reader = Reader()
    await reader.shows([Post("One", "http://x.example/1", "1", T0 - 5000.0)], "atom")
    at_s = reader.now_s + 3599.0
    window = [Post(name, f"http://x.example/{name}", name, at_s + n / 1000) for n, name in enumerate("abc")]
    assert sorted(await reader.shows(window, "atom")) == ["a", "b", "c"]
