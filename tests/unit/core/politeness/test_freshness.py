"""How long an answer holds: from its headers, its document, and up to what is believed."""

from __future__ import annotations

import pytest

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.politeness.host_budgets import fresh_until_s
from proxyd.net.http_values import fresh_for_s

DATE = {"Date": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.mark.parametrize(
    ("headers", "fresh_s"),
    [
        ({}, None),
        ({"Cache-Control": "max-age=300"}, 300.0),
        ({"Cache-Control": "private , MAX-AGE=300"}, 300.0),
        ({"Cache-Control": 'max-age="300"'}, 300.0),
        ({"Cache-Control": "max-age=300", "Age": "120"}, 180.0),
        ({"Cache-Control": "max-age=300", "Age": "900"}, 0.0),
        ({"Cache-Control": "max-age=300", "Age": "old"}, 300.0),
        ({"Cache-Control": "max-age=300", "Expires": "0"}, 300.0),
        ({"Cache-Control": "no-cache"}, 0.0),
        ({"Cache-Control": "no-store, max-age=300"}, 0.0),
        ({"Cache-Control": "max-age=forever"}, None),
        ({"Cache-Control": "max-age=-5"}, None),
        ({"Cache-Control": "s-maxage=300"}, None),
        ({"Cache-Control": "max-age=999999999999"}, 366 * 86400.0),
        ({"Expires": "Sun, 06 Nov 1994 08:59:37 GMT", **DATE}, 600.0),
        ({"Expires": "Sun, 06 Nov 1994 07:59:37 GMT", **DATE}, 0.0),
        ({"Expires": "-1", **DATE}, 0.0),
    ],
)
def test_headers_say_how_long_an_answer_holds(headers: dict[str, str], fresh_s: float | None) -> None:
    assert fresh_for_s(headers, now_s=784111777.0) == fresh_s


def seen(kind: OutcomeKind, fresh_s: float | None) -> ProbeOutcome:
    return ProbeOutcome("a", kind, 90.0, 100.0, fresh_for_s=fresh_s)


@pytest.mark.parametrize(
    ("kind", "fresh_s", "period_s", "until_s"),
    [
        (OutcomeKind.CHANGED, None, None, 0.0),
        (OutcomeKind.CHANGED, 60.0, None, 160.0),
        (OutcomeKind.NOT_MODIFIED, 60.0, None, 160.0),
        (OutcomeKind.SAME_BODY, 60.0, 900.0, 1000.0),
        (OutcomeKind.CHANGED, 1e6, None, 3700.0),
        (OutcomeKind.TIMEOUT, 60.0, 900.0, 0.0),
        (OutcomeKind.THROTTLED, 60.0, 900.0, 0.0),
    ],
)
def test_the_longer_word_holds_up_to_the_cap(
    kind: OutcomeKind, fresh_s: float | None, period_s: float | None, until_s: float
) -> None:
    assert fresh_until_s(seen(kind, fresh_s), period_s=period_s, cap_s=3600.0) == until_s


def test_a_cap_of_nothing_believes_nothing() -> None:
    assert fresh_until_s(seen(OutcomeKind.CHANGED, 60.0), period_s=900.0, cap_s=0.0) == 100.0
