"""Texts are read the same by the shortcuts (plain statements, known shapes) as by the grammar alone."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import Parsed, parse
from proxyd.core.language.reading import build, parser, recovery
from proxyd.core.language.reading.pieces import read_by_grammar
from proxyd.core.language.reading.plain_statements import read_plain
from proxyd.core.language.reading.shapes import KnownShapes, Shape
from tests.examples import examples

PROFILES = sorted((Path(__file__).parents[2] / "profiles").glob("**/*.profile"))
_NAMES = ['"a"', "a", "OF", "AT", "Ünï", '"it"" s"', '" "', '"x\ny"', "select", "case", "count", "1a", "'a'"]
_URLS = ["'http://a.example/'", "'it''s'", "'x\ny'", "''", "'; CREATE SOURCE b'", '"q"', "'open"]
_OPTIONS = ["", "", " EXPECT 1 PER DAY", " EXPECT 2 ITEMS PER HOURS", " EXPECT 3 PER RSS", " WEBSUB OFF", " AS b"]
_ENDS = [";\n", ";", "; -- a comment\n", ";;/* one */ ", "\n", " ;\t", "", ";\r\n\r\n"]
_sources = st.builds(
    lambda name, of, url, option, end: f"CREATE SOURCE {name} OF {of} AT {url}{option}{end}",
    *map(st.sampled_from, (_NAMES, ["RSS", '"D".RSS', "D.RSS", "AT"], _URLS, _OPTIONS, _ENDS)),
)
_watches = st.builds(
    lambda url, option, end: f"WATCH {url}{option}{end}",
    *map(st.sampled_from, (_URLS, ["", " OF RSS", " WHERE count = 1", " WHERE count(*) = 1"], _ENDS)),
)
_others = st.sampled_from(
    ["-- a comment\n", "\ufeff", "DROP SOURCE a;", 'CREATE PROFILE "p";', "create source a of b at 'c';", "CREATE", "'"]
)
texts = st.lists(_sources | _sources | _watches | _others, max_size=6).map("".join)


def by_grammar(text: str) -> Parsed:
    """Return what the grammar reads, without the shortcuts."""
    with (
        patch.object(parser, "read_plain", lambda _: ([], 0)),
        patch.object(parser, "read_piece", read_by_grammar),
        patch.object(recovery, "read_piece", read_by_grammar),
        patch.object(build, "read_piece", read_by_grammar),
    ):
        return parse(text)


@given(texts)
@examples(300)
def test_a_text_is_read_as_the_grammar_reads_it(text: str) -> None:
    assert repr(parse(text)) == repr(by_grammar(text))


@given(st.sampled_from(PROFILES), st.data())
@examples(60)
def test_a_broken_profile_is_read_as_the_grammar_reads_it(path: Path, data: st.DataObject) -> None:
    """Spans and complaints are compared too, in texts of which a piece is missing or stands twice."""
    text = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 40)))
    for changed in (text, text[:start] + text[stop:], text[:stop] + text[start:]):
        assert repr(parse(changed)) == repr(by_grammar(changed))


def test_plain_statements_are_read_without_the_grammar() -> None:
    text = "CREATE SOURCE \"a\" OF RSS AT 'http://a.example/' EXPECT 1 PER DAY;\nWATCH 'http://b.example/';\n"
    statements, after = read_plain(text)
    assert [statement.name.value for statement in statements] == ["a", "b.example"]
    assert text[after:] == "\n"


@pytest.mark.parametrize("most_nodes", [0, 3, 1000])
def test_shapes_are_forgotten_rather_than_kept_without_limit(most_nodes: int) -> None:
    shapes, readings = KnownShapes(most_nodes), [(("NAME",), (f"T{number}",), ()) for number in range(50)]
    kept = [Shape((), number) for number in range(50)]
    for each, shape in zip(readings, kept, strict=True):
        shapes.keep("rule", each, shape)
        assert shapes.find("rule", iter(each)) is None  # it may be the only one of its shape
        shapes.keep("rule", each, shape)
    found = [shapes.find("rule", iter(each)) for each in readings]
    assert all(shape in {None, its} for shape, its in zip(found, kept, strict=True))
    assert found[-1] == kept[-1]
    assert sum(shape is not None for shape in found) <= most_nodes + 2
