"""``pytest tests/golden --rewrite-golden`` writes what the tests now see; read the difference before you commit it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a file, or write it there."""
    rewrite = bool(request.config.getoption("--rewrite-golden", default=False))

    def compare(path: Path, text: str) -> None:
        if rewrite:
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
