"""LIKE and ILIKE without a regular expression find what they find with one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rules.programs.function_values import like_matcher, regex_of
from proxyd.core.rules.programs.meter import UNMETERED
from tests.examples import examples

# the Kelvin sign and the long s are lower-case k and s to a comparison that ignores case
alphabet = st.sampled_from("aAbk%_!\x00\n\u212a\u017f\u00df\u00e9.*")
texts = st.text(alphabet, max_size=8) | st.text(st.characters(codec="utf-8"), max_size=5)


@examples(1000)
@given(texts, texts, st.none() | st.sampled_from("!%_a"), st.booleans())
def test_a_pattern_matches_what_its_regular_expression_matches(
    pattern: str, text: str, escape: str | None, ignores_case: bool
) -> None:
    matches = like_matcher(pattern, escape=escape, ignores_case=ignores_case)
    expected = regex_of(pattern, escape=escape, ignores_case=ignores_case)
    for each in (text, pattern, text + pattern, pattern.replace("%", text), pattern.swapcase()):
        assert matches(each, UNMETERED) == expected.matches(each, UNMETERED), each
