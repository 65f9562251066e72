"""Every document of the corpus is read as it was read when somebody looked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.documents.case import described
from tests.golden.documents.corpus import GROUPS

EXPECTED = Path(__file__).parent / "expected"


@pytest.mark.parametrize("group", GROUPS)
def test_documents_are_read_as_expected(group: str, golden: Callable[[Path, str], None]) -> None:
    seen = {case.name: described(case) for case in GROUPS[group]}
    assert len(seen) == len(GROUPS[group])
    golden(EXPECTED / f"{group}.json", json.dumps(seen, indent=1, ensure_ascii=False) + "\n")


def test_the_corpus_is_wide() -> None:
    assert sum(len(cases) for cases in GROUPS.values()) >= 150
    assert {path.stem for path in EXPECTED.glob("*.json")} == set(GROUPS)
