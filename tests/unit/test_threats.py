"""The threat model names tests that are there, and says of every threat what shows it or that nothing does."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.pages import ROOT

ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs/threats.md").read_text(encoding="utf-8"))[1:]
NAMED = sorted({named for _, _, shown in ROWS for named in re.findall(r"`([^`]+)`", shown)})


@cache
def named_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name for name in found if name.startswith("test_")}


@pytest.mark.parametrize("named", NAMED)
def test_every_test_that_is_named_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert name in {*named_in(path), "*"}
    assert named_in(path)


def test_every_threat_is_shown_to_be_held_or_said_not_to_be() -> None:
    assert len(ROWS) > 40
    silent = [threat for threat, what, shown in ROWS if "`" not in shown and "ot covered**" not in what]
    assert silent == []


@pytest.mark.parametrize(
    "word", ["SSRF", "rebinding", "bombs", "ReDoS", "XSS", "CSRF", "replay", "hub", "NATS", "stolen"]
)
def test_no_known_kind_of_threat_is_left_out(word: str) -> None:
    assert any(word in threat for threat, _, _ in ROWS)
