"""WATCH is in everything the statements that it stands for."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import CheckSettings, SourceText, check, expand, format_parsed, parse
from proxyd.core.model.profile import Declaration, NotificationRule
from tests.examples import examples

_DECLARED = """
CREATE DOMAIN "Markets" AS CLASS::QUOTE(last:Decimal FROM JSON '$.last', symbol:String FROM JSON '$.symbol')
CLASS::QUAKE EACH JSON '$.features[*]' KEY id (id:String FROM JSON '$.id', mag:Decimal FROM JSON '$.mag');
CREATE SOURCE "dow" OF QUOTE AT 'https://api.example/dow';
CREATE PROFILE "money" AS (DOMAIN "Markets") DELIVER TO LOG 'money';
"""
_FIELDS = {"FEED": "title", "PAGE": "text", "QUOTE": "symbol", "QUAKE": "id"}


@st.composite
def wishes(draw: st.DrawFn) -> str:
    """Texts of WATCH that can be declared."""
    page_class = draw(st.sampled_from(list(_FIELDS)))
    event = draw(st.sampled_from(["", "INSERT", "UPDATE", *(["DELETE"] if page_class != "FEED" else [])]))
    bare = "OLD." if event == "DELETE" else ""
    options = [
        f"OF {page_class}" if page_class != "FEED" or draw(st.booleans()) else "",
        f"ON {event}" if event else "",
        draw(st.sampled_from(["", f"WHERE {bare}{_FIELDS[page_class]} LIKE '%a%'"])),
        draw(st.sampled_from(["", *(["WITHOUT 'b', '5%'"] if page_class in {"FEED", "QUAKE"} else [])])),
        draw(st.sampled_from(["", "WITHIN 10 MINUTES", "WITHIN 3", "WITHIN 1 HOUR FOR 95 %"])),
        draw(st.sampled_from(["", "MESSAGE '{rule}: {source}'"])),
        draw(st.sampled_from(["", "DIGEST NONE", "DIGEST EVERY 1 HOUR AT MOST 3 ITEMS", "DIGEST DAILY AT '08:00'"])),
        draw(st.sampled_from(["", 'INTO "money"', 'INTO "other"'])),
        *draw(st.lists(st.sampled_from(["TELL LOG 'a'", "TELL LOG 'b', LOG 'c'"]), unique=True, max_size=2)),
    ]
    address = draw(st.sampled_from(["https://a.example/", "https://a.example/x", "https://api.example/dow"]))
    return " ".join([f"WATCH '{address}' AS \"NAME\"", *draw(st.permutations([each for each in options if each]))])


def _declared(text: str) -> Declaration | None:
    return check([SourceText("a", text)], CheckSettings()).declaration


def _rules(declared: Declaration) -> dict[str, NotificationRule]:
    return {name: replace(rule, file="") for name, rule in declared.rules.items()}


@examples(100)
@given(st.lists(wishes(), min_size=1, max_size=4))
def test_watches_declare_what_their_long_form_declares(written: list[str]) -> None:
    text = _DECLARED + "\n".join(f"{each.replace('NAME', f'rule {n}')};" for n, each in enumerate(written))
    (long,) = expand([parse(text)])
    short_one, long_one = _declared(text), _declared(format_parsed(long))
    if short_one is None:  # one address as two classes has one name for two sources
        assert long_one is None
        return
    assert long_one is not None
    assert "WATCH" not in format_parsed(long)
    assert (short_one.sources, short_one.profiles) == (long_one.sources, long_one.profiles)
    assert _rules(short_one) == _rules(long_one)


@examples(50)
@given(wishes())
def test_one_watch_can_be_declared(written: str) -> None:
    declared = _declared(_DECLARED + written.replace("NAME", "rule"))
    assert declared is not None
    (rule,) = declared.rules.values()
    (source_id,) = rule.source_ids
    assert declared.sources[source_id].url in written


def test_a_profile_and_a_source_that_are_declared_elsewhere_are_used() -> None:
    texts = [
        SourceText("a", "WATCH 'https://api.example/dow' OF QUOTE INTO \"money\";"),
        SourceText("b", "WATCH 'https://api.example/dow' OF QUOTE AS \"again\";"),
        SourceText("c", _DECLARED),
    ]
    declared = check(texts).declaration
    assert declared is not None
    assert set(declared.sources) == {"dow"}
    assert set(declared.profiles) == {"money", "default"}
    assert {rule.name: rule.source_ids for rule in declared.rules.values()} == {
        "api.example/dow": ("dow",),
        "again": ("dow",),
    }
    assert declared.rules["api.example/dow"].deliveries == declared.profiles["money"].deliveries


def test_a_class_of_one_row_is_watched_for_updates_and_others_for_items() -> None:
    kinds = {"FEED": "INSERT", "PAGE": "UPDATE", "QUOTE": "UPDATE", "QUAKE": "INSERT"}
    for page_class, kind in kinds.items():
        declared = _declared(_DECLARED + f"WATCH 'https://a.example/' OF {page_class};")
        assert declared is not None
        assert declared.rules["a.example"].trigger.kind.name == kind


def test_a_declared_class_hides_the_built_in_one() -> None:
    declared = _declared(
        "CREATE DOMAIN \"mine\" AS CLASS::PAGE(h:String FROM CSS 'h1'); WATCH 'https://a.example/' OF page;"
        "WATCH 'https://b.example/' OF \"built-in\".PAGE;"
    )
    assert declared is not None
    assert declared.sources["a.example"].domain == "mine"
    assert declared.sources["b.example"].domain == "built-in"
