"""Every reader of pages can be written, checked, and reads."""

from __future__ import annotations

from proxyd.core.language.readers import READER_KINDS
from proxyd.core.model.profile import Reader
from proxyd.probing.pages.html_pages import VIEWS


def test_every_reader_is_described() -> None:
    assert list(READER_KINDS) == list(Reader)


def test_every_reader_of_web_pages_has_its_view() -> None:
    assert set(VIEWS) == {reader for reader, kind in READER_KINDS.items() if not kind.is_of_json}
