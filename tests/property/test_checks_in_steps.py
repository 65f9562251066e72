"""A declaration means the same, with the same errors and warnings, whatever was checked before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import Checked, CheckSettings, check_parsed, parse

TEXTS = [
    'CREATE DOMAIN "D" AS CLASS::NEWS(channel.item.title:String, channel.item.link:URL);',
    'CREATE DOMAIN "D" AS CLASS::NEWS(channel.item.title:String);',
    'CREATE DOMAIN "E" AS CLASS::NEWS(channel.item.title:String);',
    "CREATE DOMAIN \"F\" AS CLASS::QUOTE(last:Decimal FROM JSON '$.last');",
    'CREATE PROFILE "P" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");',
    'CREATE PROFILE "P" AS (USER "u", USER "v") DELIVER TO MAIL \'ada@example.org\';',
    'CREATE PROFILE "P" AS (USER "u") ON TROUBLE TELL MAIL \'ada@example.org\';',
    "CREATE SOURCE \"a\" OF NEWS AT 'https://example.org/a';",
    "CREATE SOURCE \"a\" OF NEWS AT 'https://example.org/other' EXPECT 3 PER HOUR;",
    'CREATE SOURCE "b" OF "D".NEWS AT \'https://example.org/b\'; CREATE SOURCE "c" OF QUOTE AT \'https://example.org/c\';',
    (
        "CREATE SOURCE \"d\" OF PAGE AT 'https://example.org/d' FETCH BROWSER; "
        "CREATE SOURCE \"e\" OF PAGE AT 'https://example.org/e' FETCH BROWSER;"
    ),
    "WATCH 'https://example.org/a' WHERE title LIKE '%x%';",
    'WATCH \'https://example.org/a\' AS "again" INTO "P";',
    'WATCH \'https://example.org/d\' OF PAGE AS "page" INTO "Q" SCREENSHOT;',
    "WATCH 'https://example.org/z' AS \"z\" ON FAILURE;",
    (
        'INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT title FROM NEWS" SET TRIGGER "ON INSERT TO NEWS"'
        " START NOW END NEVER SET UTILITY STRICT;"
    ),
    (
        'INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT title FROM NEWS" SET TRIGGER "ON INSERT TO NEWS"'
        " START NOW END NEVER SET UTILITY STRICT FROM SOURCES a;"
    ),
    (
        'INSERT NOTIFICATION "s" INTO "P" SET QUERY "SELECT * FROM SOURCE" SET TRIGGER "ON FAILURE TO SOURCE"'
        " START NOW END NEVER SET UTILITY STRICT SET LIFE WINDOW(5 MINUTES);"
    ),
    (
        'INSERT NOTIFICATION "t" INTO "P" SET QUERY "SELECT last FROM QUOTE" SET TRIGGER "ON UPDATE TO QUOTE'
        ' WHERE NEW.last < OLD.last" START NOW END NEVER SET UTILITY STRICT;'
    ),
    "CREATE SOURCES \"many/\" OF NEWS FROM FILE '20.csv' ZONE 'Europe/Berlin';",
    "https://example.org/m\nhttps://example.org/n\n",
]
PARSED = [parse(text, "20.csv" if number == 20 else f"{number}.profile") for number, text in enumerate(TEXTS)]


_chosen = st.builds(  # most of these are declarations
    lambda some, others: {3, *some, *others},
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([4, 5, 6]), st.sampled_from([7, 8]), st.sampled_from([15, 16])),
    st.sets(st.sampled_from([9, 10, 11, 12, 13, 14, 17, 18, 20]) | st.sampled_from([2, *range(9, 15), *range(17, 21)])),
)


@given(steps=st.lists(st.tuples(_chosen, st.booleans(), st.booleans()), min_size=2, max_size=6))
def test_a_check_with_a_memory_equals_one_without(steps: list[tuple[set[int], bool, bool]]) -> None:
    before: Checked | None = None
    for chosen, accepted_before, can_mail in steps:
        texts = [PARSED[number] for number in sorted(chosen)]
        settings = CheckSettings(accepted_before=accepted_before, can_mail=can_mail)
        whole, quick = check_parsed(texts, settings), check_parsed(texts, settings, before)
        assert quick.declaration == whole.declaration
        assert list(map(str, quick.errors)) == list(map(str, whole.errors))
        assert list(map(str, quick.warnings)) == list(map(str, whole.warnings))
        assert quick.expanded == whole.expanded
        before = quick if quick.declaration is not None else before


def test_the_texts_can_be_read() -> None:
    assert [each.errors for each in PARSED] == [()] * len(TEXTS)


def test_what_did_not_change_is_the_same_object() -> None:
    chosen = [PARSED[number] for number in (0, 4, 7, 11, 15)]
    first = check_parsed(chosen)
    second = check_parsed([*chosen, PARSED[14]], before=first).declaration
    assert first.declaration is not None
    assert second is not None
    assert all(second.sources[name] is source for name, source in first.declaration.sources.items())
    assert all(second.rules[name] is rule for name, rule in first.declaration.rules.items())


def test_a_rule_that_gets_its_first_source_is_no_longer_warned_of() -> None:
    texts = [PARSED[number] for number in (0, 3, 5, 18)]
    before = check_parsed(texts)
    assert ["has no source of class QUOTE yet" in str(each) for each in before.warnings] == [True]
    after = check_parsed(
        [*texts, parse("CREATE SOURCE \"q\" OF QUOTE AT 'https://example.org/q';", "q")], before=before
    )
    assert after.declaration is not None
    assert list(after.declaration.rules["t"].source_ids) == ["q"]
    assert not any("no source of class" in str(each) for each in after.warnings)
