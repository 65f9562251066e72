"""What is chosen in the lists of sources and of watches is paused, muted, moved and removed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser

WATCHES = "".join(f"WATCH 'https://{name}.example' OF PAGE INTO \"Mine\";\n" for name in "abc")
A, B, C = "a.example", "b.example", "c.example"


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with running_api(tmp_path) as api:
        await api.control.declarations.declare(WATCHES)
        found = Browser(api)
        await found.sign_in()
        yield found


async def choose(
    browser: Browser, path: str, *names: str, shown: tuple[str, ...] = (), do: str = "", **fields: str
) -> str:
    """Send the form around a list, and return the page that it leads to."""
    pairs = [("csrf", browser.csrf), ("do", do), *fields.items(), *(("name", each) for each in names)]
    pairs += [("shown", each) for each in shown]
    async with browser.api.client.post(path, data=pairs, allow_redirects=False) as answer:
        if answer.status != 303:
            return await answer.text()
        place = answer.headers["Location"]
    assert place == path
    return (await browser.get(place))[1]


def paused(api: Running) -> set[str]:
    return {each.name for each in api.control.queries.suspensions.all()}


async def test_the_lists_have_a_box_for_each_and_a_form_that_needs_no_script(browser: Browser) -> None:
    for path, label in (("/sources?q=example", "sources"), ("/rules", "watches")):
        _, page = await browser.get(path)
        assert f'name="name" value="{A}" form="chosen"' in page
        assert f"all {label} of this page" in page


async def test_chosen_sources_are_paused_and_resumed(browser: Browser) -> None:
    page = await choose(browser, "/sources?q=example", A, B, "gone", do="pause")
    assert paused(browser.api) == {A, B}
    assert "Paused 2 sources." in page
    assert "Left alone: gone (" in page
    await choose(browser, "/sources", do="resume", all="1", shown=(A, B, C))
    assert paused(browser.api) == set()


async def test_chosen_watches_are_muted_and_unmuted(browser: Browser) -> None:
    assert "Muted 2 watches." in await choose(browser, "/rules", A, B, do="mute")
    assert paused(browser.api) == {A, B}
    await choose(browser, "/rules", A, B, do="unmute")
    assert paused(browser.api) == set()


@pytest.mark.parametrize("path", ["/sources", "/rules"])
async def test_what_is_removed_together_is_had_back_together_and_files_are_named(browser: Browser, path: str) -> None:
    declared = browser.api.control.declarations
    page = await choose(browser, path, A, B, "s" if path == "/sources" else "r", do="remove")
    assert (A in declared.declaration.rules, C in declared.declaration.rules) == (False, True)
    assert "a.profile, line " in page
    (removed,) = await declared.removals(limit=5)
    assert removed.name == "a.example, b.example"
    await declared.restore(removed.removed_id)
    assert {A, B, C} <= set(declared.declaration.rules)


@pytest.mark.parametrize("path", ["/sources", "/rules"])
async def test_chosen_watches_are_moved_into_a_profile(browser: Browser, path: str) -> None:
    page = await choose(browser, path, A, C, "r" if path == "/rules" else "s", do="into", into="Other")
    rules = browser.api.control.declarations.declaration.rules
    assert [tuple(rules[each].profiles) for each in (A, B, C)] == [("Other",), ("Mine",), ("Other",)]
    assert "Moved 2 " in page
    assert "a.profile, line " in page


async def test_imported_sources_are_moved_between_the_folders_of_their_list(browser: Browser) -> None:
    outlines = "".join(
        f'<outline text="{folder}"><outline text="{name}" xmlUrl="https://{name}.example/feed"/></outline>'
        for folder, name in (("News", "one"), ("Tech", "two"))
    )
    headers = await browser.api.token("write", expires_in_s=60.0) | {"Content-Type": "text/x-opml"}
    body = f"<opml><body>{outlines}</body></opml>"
    async with browser.api.client.post("/api/v1/import", data=body, headers=headers) as answer:
        assert answer.status == 201
    declared = browser.api.control.declarations
    page = await choose(browser, "/sources", "one", do="into", into="Tech")
    assert "Moved 1 source." in page
    assert set(declared.declaration.rules["Tech: new items"].source_ids) == {"one", "two"}
    for do, into in (("into", "Mine"), ("also", "News")):  # no folders of a list
        assert "no WATCH declares it" in await choose(browser, "/sources", "one", do=do, into=into)
    assert declared.declaration.sources["one"].domain == "Tech"


async def test_chosen_watches_are_put_into_a_further_profile(browser: Browser) -> None:
    for _ in "12":
        page = await choose(browser, "/rules", A, "r", do="also", into="Later")
    rules = browser.api.control.declarations.declaration.rules
    assert (tuple(rules[A].profiles), tuple(rules[B].profiles)) == (("Mine", "Later"), ("Mine",))
    assert "Added to the profile: 1 watch." in page
    assert "a.profile, line " in page
    await choose(browser, "/rules", A, do="into", into="Other")
    assert tuple(browser.api.control.declarations.declaration.rules[A].profiles) == ("Other",)


@pytest.mark.parametrize(
    ("names", "do", "said"),
    [
        ((), "pause", "choose one or more"),
        (tuple(map(str, range(501))), "pause", "at most 500 at once"),
        ((A,), "into", "write the name of a profile"),
        ((A,), "", "choose one of the buttons"),
    ],
)
async def test_a_form_that_says_too_little_or_too_much_does_nothing(
    browser: Browser, names: tuple[str, ...], do: str, said: str
) -> None:
    assert said in await choose(browser, "/sources", *names, do=do)
    assert paused(browser.api) == set()
