"""Garbage collections while sources are added."""

from __future__ import annotations

import gc
import weakref

import pytest

from proxyd.base.interpreter import growing


class Node:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_collection_found_is_not_looked_at_again() -> None:
    with growing():
        node = Node()
        gc.collect(0)
        assert not any(each is node for each in gc.get_objects())


def test_garbage_is_freed_before_the_rest_is_left_out() -> None:
    old = Node()
    gc.collect(0)  # it waits for the second collection of its garbage then
    found = [weakref.ref(old)]
    del old
    with growing():
        young = Node()
        found.append(weakref.ref(young))
        del young
        gc.collect(0)
    assert [each() for each in found] == [None, None]


def test_afterwards_collections_look_at_all_again() -> None:
    with pytest.raises(KeyError), growing(), growing():
        raise KeyError
    node = Node()
    gc.collect(0)
    assert any(each is node for each in gc.get_objects())
