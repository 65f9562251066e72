"""Garbage collections while sources are added."""

from __future__ import annotations

import gc
import subprocess
import sys

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


def test_a_full_collection_of_the_daemon_leaves_out_what_it_found() -> None:
    daemon = """
import gc
from proxyd.interpreter import tune_interpreter
tune_interpreter()
made = [[number] for number in range(1000)]
before = gc.get_freeze_count()
gc.collect(1)
assert gc.get_freeze_count() <= before
gc.collect()
print(gc.get_freeze_count() - before)
"""
    found = subprocess.run([sys.executable, "-c", daemon], capture_output=True, text=True, check=True)
    assert int(found.stdout) >= 1000


def test_an_error_ends_it_too() -> None:
    before = [*gc.callbacks]
    with pytest.raises(KeyError), growing(), growing():
        raise KeyError
    assert gc.callbacks == before
