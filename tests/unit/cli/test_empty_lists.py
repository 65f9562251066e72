"""A list that has nothing says so, rather than to show the names of its columns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxyd.cli.main import main
from tests.canned import Canned, answering


@pytest.fixture(scope="module")
def empty_daemon() -> Iterator[str]:
    with answering(lambda _: Canned(b'{"items": []}')) as base:
        yield base


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("sources", "nothing is watched; `proxyd add ADDRESS` watches a feed or a page"),
        ("sources --failing", "no such source"),
        ("plan", "no probe is planned"),
        ("rules", "there is no rule; `proxyd add ADDRESS` makes one"),
        ("profile list", "there is no profile"),
        ("notifications", "no notification yet"),
        ("notifications --rule r", "no such notification"),
        ("webhook list", "there is no webhook"),
        ("audit", "nothing yet"),
        ("token list", "there is no token"),
        ("person list", "nobody may sign in; `proxyd person invite NAME --scope admin` makes a link"),
    ],
)
def test_an_empty_list_is_a_sentence(
    verb: str, said: str, empty_daemon: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXYD_TOKEN", "pxd_1")
    assert main([*verb.split(), "--url", empty_daemon]) == 0
    assert capsys.readouterr().out == f"{said}\n"
