"""The feeds that a page names are found in any head, however broken."""

from __future__ import annotations

import pytest

from proxyd.probing.documents.document_kinds import feeds_of_page

URL = "https://example.org/blog/"
LINK = '<link rel="alternate" type="application/rss+xml" href="feed.xml">'
FEED = f"{URL}feed.xml"


@pytest.mark.parametrize(
    "before",
    ["", "<![doctype [", "<![if !IE]>", "<![CDATA[x]]>", "<!", "<!>", "</>", "<?php", "\x00", "<!-- -->", "<a href='"],
)
def test_a_broken_head_ends_nothing(before: str) -> None:
    assert feeds_of_page((before + LINK).encode(), URL) in {(FEED,), ()}


@pytest.mark.parametrize("before", ["<![doctype [x]>", "<![if !IE]>", "<![endif]-->", "<!nothing>", "</>", "\x00"])
def test_a_link_behind_declarations_that_nobody_knows_is_found(before: str) -> None:
    assert feeds_of_page((before + LINK).encode(), URL) == (FEED,)


@pytest.mark.parametrize(
    ("links", "found"),
    [
        (f"<base href='https://cdn.example/x/'>{LINK}", ("https://cdn.example/x/feed.xml",)),
        (f"<base href='https://[broken'>{LINK}", (FEED,)),
        (LINK + LINK, (FEED,)),
        ('<link rel="alternate" type="application/rss+xml" href="http://[broken">', ()),
        ('<link rel="alternate" type="text/html" href="feed.xml">', ()),
        ('<link rel="stylesheet" type="application/rss+xml" href="feed.xml">', ()),
        ('<link rel="Alternate home" type="Application/Atom+XML; charset=utf-8" href=" feed.xml ">', (FEED,)),
        ('<link rel type href="feed.xml"><link rel="alternate" type="application/rss+xml" href>', ()),
    ],
)
def test_which_links_are_feeds(links: str, found: tuple[str, ...]) -> None:
    assert feeds_of_page(f"<html><head>{links}</head></html>".encode(), URL) == found
