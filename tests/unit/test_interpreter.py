"""Garbage collections while sources are added."""

from __future__ import annotations

import gc

import pytest

from proxyd.interpreter import growing


def test_a_collection_leaves_out_what_it_found_while_sources_are_added() -> None:
    made = [[number] for number in range(1000)]
    before = gc.get_freeze_count()
    with growing():
        gc.collect(0)
    assert gc.get_freeze_count() >= before + len(made)
    after = gc.get_freeze_count()
    gc.collect(0)
    assert gc.get_freeze_count() <= after


def test_an_error_ends_it_too() -> None:
    before = [*gc.callbacks]
    with pytest.raises(KeyError), growing(), growing():
        raise KeyError
    assert gc.callbacks == before
