"""What ``proxyd probe`` says of an address."""

from __future__ import annotations

from proxyd.cli.probe import watch_statement
from proxyd.core.language import SourceText, check
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from tests.fleets import item

URL = "https://example.org/it's"


def test_the_statement_that_it_shows_can_be_declared() -> None:
    items = tuple(item(f"{day}", day * 86_400.0) for day in range(7))
    outcome = ProbeOutcome(URL, OutcomeKind.CHANGED, 700_000.0, 700_000.0, 200, items)
    checked = check([SourceText("t", watch_statement(outcome))])
    assert checked.errors == ()
    assert checked.declaration is not None
    assert [each.url for each in checked.declaration.sources.values()] == [URL]
