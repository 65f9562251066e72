from __future__ import annotations

from dataclasses import replace

import pytest

from proxyd.core.model.item import Item
from proxyd.core.rules.stages.identities import find_identities
from tests.fleets import Drive, changed, decider, declaration, rule, source

T0 = 1_000_000_000.0


def item(
    name: str, *, says: str = "", at_s: float | None = None, former: str | None = None, link: str | None = ""
) -> Item:
    title = says or name
    link = f"https://e.example/{title}.html" if link == "" else link
    guid = None if name.startswith("hash:") else name
    fields = {"channel.item.title": title, "channel.item.link": link, "channel.item.guid": guid}
    return Item(name, fields, at_s, f"hash {title}", (former,) if former else ())


def by_id(*items: Item) -> dict[str, Item]:
    return {each.item_id: each for each in items}


def test_an_item_known_under_a_former_identity_goes_on_under_the_new_one() -> None:
    before = item("old", says="a")
    found = find_identities([item("new", says="a", former="old")], by_id(before))
    assert found.renamed == (("old", "new"),)
    assert found.known["new"] == before
    assert found.quiet == {"new"}


def test_items_that_were_taken_for_one_are_not_new() -> None:
    items = [item(name, says="a", former="old") for name in ("1", "2", "3")]
    found = find_identities(items, by_id(item("old", says="a")))
    assert found.renamed == (("old", "1"),)
    assert found.old == {"2", "3"}


def test_what_is_later_than_the_item_that_was_stored_is_new() -> None:
    items = [
        item(name, says="a", at_s=at_s, former="old") for name, at_s in (("new", 9.0), ("same", 5.0), ("lost", 1.0))
    ]
    found = find_identities(items, by_id(item("old", says="a", at_s=5.0)))
    assert found.renamed == (("old", "same"),)
    assert found.old == {"lost"}
    assert find_identities(items[:1], by_id(item("old", says="a", at_s=5.0))).renamed == ()
    without_time = find_identities(items[:2], by_id(item("old", says="a")))
    assert (without_time.renamed, without_time.old) == ((("old", "same"),), frozenset())


def test_a_former_identity_that_another_item_has_tells_nothing() -> None:
    items = [item("old", says="a"), item("new", says="a", former="old")]
    found = find_identities(items, by_id(items[0]))
    assert (found.renamed, found.old, "new" in found.known) == ((), frozenset(), False)


def test_content_that_an_earlier_version_read_in_another_way_is_no_update() -> None:
    now = replace(item("a"), content_hash="new", former_hashes=("old",))
    stored = [replace(item("a"), content_hash=content) for content in ("old", "other", "new")]
    assert [bool(find_identities([now], by_id(each)).quiet) for each in stored] == [True, False, False]


def test_how_tags_are_spelt_is_no_update_and_where_they_lead_is() -> None:
    old = '<a b="1" href="/x">y<br /></a>'
    news = {"<a href='/x' b=1 xmlns='u'>y<br/></a>": True, "<a href='/z' b=1>y<br/></a>": False}
    for new, is_quiet in news.items():
        stored = replace(item("1", says=old, link=None), content_hash="another")
        now = replace(item("1", says=new, link=None), is_mended=True)
        assert bool(find_identities([now], by_id(stored)).quiet) == is_quiet


@pytest.mark.parametrize(
    ("title", "is_mended", "is_quiet"),
    [
        ("A & B<br />", True, False),
        ("A &amp;amp; B", True, True),
        ("A & B", False, False),
        ("A & C", True, False),
        ("A" * 1_000_000, True, False),
    ],
)
def test_texts_that_were_escaped_in_another_way_are_no_update(title: str, *, is_mended: bool, is_quiet: bool) -> None:
    now = replace(item("1", says="A & B", link=None), is_mended=is_mended)
    stored = replace(item("1", says=title, link=None), content_hash="another")
    assert bool(find_identities([now], by_id(stored)).quiet) == is_quiet


def test_items_whose_guids_change_are_known_by_what_they_say() -> None:
    shown = [item(f"guid {n}", says=f"t{n}") for n in range(3)]
    found = find_identities([replace(each, item_id=f"other {each.item_id}") for each in shown], {}, shown)
    assert found.renamed == tuple((f"guid {n}", f"other guid {n}") for n in range(3))
    assert (found.changed_guids, set(found.known)) == (3, {new for _, new in found.renamed})


@pytest.mark.parametrize(
    ("items", "shown", "changed_guids"),
    [
        ([item("b", says="x", at_s=1.0)], [item("a", says="x", at_s=1.0)], 1),
        ([item("b", says="x", at_s=2.0)], [item("a", says="x", at_s=1.0)], 0),
        ([item("b", says="x")], [item("a", says="x")], 1),
        (
            [item(f"b{n}", says="x", at_s=1.0) for n in range(4)],
            [item(f"a{n}", says="x", at_s=1.0) for n in range(4)],
            0,
        ),
        ([item(f"b{n}", says=f"x{n}", at_s=9.0) for n in range(4)], [item(f"a{n}", says=f"x{n}") for n in range(4)], 4),
        ([item(n, at_s=float(ord(n)) * 99) for n in "bcde"], [item(f"x{n}", says=n) for n in "bcde"], 4),
        ([item(n, link="l") for n in "bcde"], [item(f"x{n}", says=n, link="l") for n in "bcdef"], 4),
        ([item(n, link="l") for n in "bc"], [item(f"x{n}", says=n, link="l") for n in "bc"], 2),
        (
            [item("b", link="/b", at_s=1.0)],
            [item("xb", says="b", link="/xb", at_s=1.0)],
            1,
        ),
        ([item(f"b{n}", says=f"y{n}") for n in range(9)], [item(f"a{n}", says=f"y{n}") for n in range(3)], 3),
        ([item("a", says="x"), item("b", says="x", at_s=1.0)], [item("a", says="x", at_s=1.0)], 0),
        ([Item("b", {}, 1.0, "nothing")], [Item("a", {}, 1.0, "nothing")], 0),
    ],
    ids=[
        "the same content and time",
        "another time",
        "no time",
        "content that occurs twice",
        "the time of the answer",
        "times of their own",
        "one link for all",
        "the whole feed",
        "links made of guids",
        "most are new",
        "it is still there",
        "no content",
    ],
)
def test_only_what_is_surely_the_same_is_recognised(items: list[Item], shown: list[Item], changed_guids: int) -> None:
    known = {each.item_id: each for each in shown if each.item_id in {i.item_id for i in items}}
    found = find_identities(items, known, shown)
    assert found.changed_guids == len(found.renamed) == changed_guids


@pytest.mark.parametrize(
    ("count", "at_s", "changed_guids"),
    [(1, 1000.0, 1), (1, 930.0, 0), (2, 500.0, 2), (3, 500.0, 3)],
    ids=["the present time", "another time", "two of one time", "three of one time"],
)
def test_hashes_of_the_time_of_the_answer_are_known_by_what_they_say(
    count: int, at_s: float, changed_guids: int
) -> None:
    names = [str(number) for number in range(count)]
    shown = [item(f"hash:{name} before", says=name, at_s=1.0, link=None) for name in names]
    items = [item(f"hash:{name} now", says=name, at_s=at_s, link=None) for name in names]
    assert find_identities(items, {}, shown, seen_s=1000.0).changed_guids == changed_guids


async def test_a_feed_that_changes_its_guids_at_every_fetch_makes_events_only_of_new_items() -> None:
    drive = Drive(decider(declaration(source("s"), rule("r")), now_s=T0))
    titles = ["one", "two", "three", "four"]
    found = []
    for fetch in range(5):
        shown = titles if fetch < 3 else ["new", *titles[:3]]
        items = [item(f"{title} at {fetch}", says=title, at_s=T0 + fetch) for title in shown]
        observation = await drive.see(changed("s", items, T0 + 100.0 * (fetch + 1)))
        found.append(
            ([e.item.item_id for e in observation.found.events if not e.seed], observation.found.changed_guids)
        )
    assert found == [([], 0), ([], 4), ([], 4), (["new at 3"], 3), ([], 4)]
    assert observation.outcome.detail.endswith("; guids changed: 4 items recognised by their content")


async def test_an_upgrade_that_tells_items_apart_fires_nothing_and_the_next_item_does() -> None:
    drive = Drive(decider(declaration(source("s"), rule("r")), now_s=T0))
    await drive.see(changed("s", [item("old", says="up"), item("b")], T0 + 100))
    items = [item(name, says="up", at_s=T0 + 50, former="old") for name in ("1", "2", "3")] + [item("b")]
    after = await drive.see(changed("s", items, T0 + 200))
    assert (after.rules.notifications, [e.item.item_id for e in after.found.events]) == ((), ["3", "2"])
    assert after.found.window.lost_items == 0
    again = await drive.see(changed("s", items, T0 + 300))
    assert again.found.events == ()
    fresh = item("4", says="up", at_s=T0 + 350, former="old")
    last = await drive.see(changed("s", [fresh, *items], T0 + 400))
    assert ([e.item.item_id for e in last.found.events], len(last.rules.notifications)) == (["4"], 1)
