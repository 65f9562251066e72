"""Texts are read the same by the shortcut for plain statements as by the parser."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import Parsed, parse
from proxyd.core.language.reading import parser
from proxyd.core.language.reading.plain_statements import read_plain
from tests.examples import examples

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


def by_parser(text: str) -> Parsed:
    """Return what the parser reads without the shortcut."""
    with patch.object(parser, "read_plain", lambda _: ([], 0)):
        return parse(text)


@given(texts)
@examples(300)
def test_a_text_is_read_as_the_parser_reads_it(text: str) -> None:
    assert repr(parse(text)) == repr(by_parser(text))


def test_plain_statements_are_read_without_the_parser() -> None:
    text = "CREATE SOURCE \"a\" OF RSS AT 'http://a.example/' EXPECT 1 PER DAY;\nWATCH 'http://b.example/';\n"
    statements, after = read_plain(text)
    assert [statement.name.value for statement in statements] == ["a", "b.example"]
    assert text[after:] == "\n"
