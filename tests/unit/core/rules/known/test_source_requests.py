"""What an origin's answers say of itself: permanent redirects, 304s that lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome, Validators
from proxyd.core.model.profile import PageClass, Rendering, Source
from proxyd.core.rules.known.compiled import MOST_NOT_MODIFIED, MOVED_AFTER, reading_of, validators
from proxyd.core.rules.known.compiled import url_after_move as moved_url_of
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.source_state import after_redirects
from tests.fleets import Drive, changed, decider, declaration, item, rule, source, unchanged

T0 = 1_000_000_000.0
TAG = Validators(etag='"one"')
STATE = SourceState("s", "https://example.org/s", TAG, full_s=T0)
NEW = "https://new.example/s"


SOURCE = Source("s", "RSS", "D", "https://example.org/s")


def test_another_locale_is_another_reading() -> None:
    pages, feeds = PageClass("PAGE", "D"), PageClass("RSS", "D")
    for page_class in (pages, feeds):
        readings = {reading_of(replace(SOURCE, locale=locale), page_class) for locale in (None, "de", "en")}
        assert len(readings) == 3


def test_the_reading_of_a_source_without_a_locale_is_what_it_was_before_there_were_locales() -> None:
    assert reading_of(SOURCE, PageClass("PAGE", "D")) == "06d2d3f68dbcb3c8317c195e20016a84"


def test_what_a_browser_shows_is_another_reading() -> None:
    how = (None, Rendering(), Rendering("li"))
    assert len({reading_of(replace(SOURCE, rendering=each), PageClass("PAGE", "D")) for each in how}) == 3


def test_a_failure_of_our_browser_does_not_end_the_trust_in_a_redirect() -> None:
    state = STATE
    for answer in (*[redirected(NEW)] * 3, redirected(None, OutcomeKind.NO_BROWSER)):
        state = after_redirects(state, answer)
    assert url_after_move(state) == NEW


def url_after_move(state: SourceState, source: Source = SOURCE) -> str | None:
    return moved_url_of(state, source)


def redirected(to: str | None, kind: OutcomeKind = OutcomeKind.NOT_MODIFIED) -> ProbeOutcome:
    return ProbeOutcome("s", kind, T0, T0, 304, permanent_url=to)


def test_a_permanent_redirect_is_followed_at_once_after_three_times_in_a_row() -> None:
    state = STATE
    for expected in (None, None, NEW):
        state = after_redirects(state, redirected(NEW))
        assert url_after_move(state) == expected
    assert url_after_move(after_redirects(state, redirected(None))) == NEW


@pytest.mark.parametrize(
    "answer",
    [redirected(None), redirected("https://other.example/"), redirected(None, OutcomeKind.HTTP_ERROR)],
)
def test_anything_else_in_between_starts_the_count_again(answer: ProbeOutcome) -> None:
    state = after_redirects(after_redirects(STATE, redirected(NEW)), redirected(NEW))
    assert url_after_move(after_redirects(after_redirects(state, answer), redirected(NEW))) is None


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (OutcomeKind.HTTP_ERROR, None),
        (OutcomeKind.UNREACHABLE, None),
        (OutcomeKind.THROTTLED, NEW),
        (OutcomeKind.TIMEOUT, NEW),
    ],
)
def test_the_declared_address_is_asked_again_where_the_new_one_fails(kind: OutcomeKind, where: str | None) -> None:
    state = replace(STATE, moved_url=NEW, moved_times=3)
    assert url_after_move(after_redirects(state, redirected(None, kind))) == where


def test_a_503_at_the_new_address_is_waited_for() -> None:
    state = replace(STATE, moved_url=NEW, moved_times=3)
    busy = replace(redirected(None, OutcomeKind.HTTP_ERROR), status=503)
    assert url_after_move(after_redirects(state, busy)) == NEW
    assert url_after_move(after_redirects(replace(state, failures=MOVED_AFTER), busy)) is None


def test_a_source_with_secrets_is_asked_where_they_were_meant_for() -> None:
    moved = replace(STATE, moved_url=NEW, moved_times=3)
    assert url_after_move(moved, replace(SOURCE, headers=(("X-Key", "k"),))) is None


def test_a_quiet_time_that_the_rate_does_not_expect_asks_for_the_whole_document() -> None:
    day = 86400.0
    quiet = replace(STATE, not_modified=3)
    assert validators(quiet, now_s=T0 + day, rate_per_s=lambda: 4 / day) == TAG
    assert validators(quiet, now_s=T0 + day, rate_per_s=lambda: 6 / day) == NO_VALIDATORS
    assert validators(replace(quiet, not_modified=2), now_s=T0 + day, rate_per_s=lambda: 6 / day) == TAG
    assert validators(replace(quiet, not_modified=MOST_NOT_MODIFIED), now_s=T0, rate_per_s=lambda: 0.0) == NO_VALIDATORS


async def lied_to() -> Drive:
    """Return a drive with a first document of T0 and three 304s after it."""
    found = Drive(decider(declaration(source("s"), rule("r")), now_s=T0))
    await found.see(replace(changed("s", [item("a", T0 - 50)], T0), validators=TAG))
    for n in (1, 2, 3):
        await found.see(unchanged("s", T0 + 1000.0 * n))
    return found


async def test_the_same_validators_on_another_document_prove_that_the_304s_lied() -> None:
    found = await lied_to()
    seen = await found.see(replace(changed("s", [item("b", T0 + 3500)], T0 + 4000), validators=TAG))
    assert [event.item.item_id for event in seen.found.events] == ["b"]
    request = found.decider.request("s", T0 + 5000)
    assert request is not None
    assert request.validators == NO_VALIDATORS
    later = found.decider.request("s", T0 + 5000 + 31 * 86400)
    assert later is not None
    assert later.validators == TAG


async def test_items_that_a_304_denied_must_be_found_twice_in_a_row() -> None:
    found = await lied_to()
    other, third = Validators(etag='"two"'), Validators(etag='"three"')
    await found.see(replace(changed("s", [item("b", T0 + 1500)], T0 + 4000), validators=other))
    assert found.decider.known.states["s"].doubts == 1
    for n in (5, 6, 7):
        await found.see(unchanged("s", T0 + 1000.0 * n))
    await found.see(replace(changed("s", [item("c", T0 + 5500)], T0 + 8000), validators=third))
    assert found.decider.known.states["s"].distrust_until_s > T0 + 8000


async def test_an_honest_304_is_believed() -> None:
    found = await lied_to()
    other = Validators(etag='"two"')
    await found.see(replace(changed("s", [item("b", T0 + 3500)], T0 + 4000), validators=other))
    state = found.decider.known.states["s"]
    assert (state.doubts, state.distrust_until_s, state.full_s, state.not_modified) == (0, 0.0, T0 + 4000, 0)
