"""Lists of feeds that are bombs: they are read or refused, and open nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxyd.core.errors import ListingError
from proxyd.core.language import read_listing
from proxyd.core.language.source_lists import SourceList
from tests.hostile import LISTS


def read(body: bytes) -> SourceList | str:
    """Return a list, or why it is refused."""
    try:
        return read_listing(body, "the list")
    except ListingError as error:
        return str(error)


@pytest.mark.parametrize("name", LISTS)
def test_a_bomb_is_read_or_refused(name: str) -> None:
    found = read(LISTS[name])
    if isinstance(found, str):
        assert len(found) < 5_000
    else:
        assert len(found.feeds) <= 100_000
        assert len(found.unreadable) <= 21
        assert all(len(each.folder) <= 100 for each in found.feeds)


def test_no_file_comes_in_through_an_entity(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    text = f"""<!DOCTYPE opml [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]>
<opml><body><outline text="&e;" xmlUrl="https://example.org/&e;"/></body></opml>"""
    assert "hunter2" not in repr(read(text.encode()))
