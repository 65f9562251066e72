"""A site goes by the name of a WATCH that tells how it fares, not by that of another watch of its address."""

from __future__ import annotations

import pytest

from proxyd.core.language import CheckSettings, check_parsed, parse
from proxyd.daemon.declared_texts import DeclaredTexts


@pytest.mark.parametrize(
    ("watches", "title"),
    [
        ("WATCH '{url}' OF SITE AS \"Shop\"; WATCH '{url}' OF SITE;", "Shop"),
        ("WATCH '{url}' OF SITE; WATCH '{url}' OF SITE AS \"Shop\";", "Shop"),
        ("WATCH '{url}' ON FAILURE AS \"fails\"; WATCH '{url}' OF SITE;", "f.example"),
        ("WATCH '{url}' OF SITE AS \"slow\" ON SLOW; WATCH '{url}' OF SITE AS \"Shop\";", "Shop"),
        ("WATCH '{url}' AS \"News\"; WATCH '{url}' OF SITE;", "f.example (SITE)"),
        ("CREATE SOURCE s OF SITE AT '{url}'; WATCH '{url}' OF SITE AS \"Shop\";", "Shop"),
        ("WATCH 'http://f.example' OF SITE AS \"Old\"; WATCH '{url}' OF SITE;", "f.example (SITE)"),
    ],
)
def test_the_title_of_a_site_is_the_name_of_a_watch_of_how_it_fares(watches: str, title: str) -> None:
    url = "https://f.example"
    parsed = [parse(f"{each};", f"api:{n}") for n, each in enumerate(watches.format(url=url).split(";")[:-1])]
    declared = DeclaredTexts.of(check_parsed(parsed, CheckSettings()))
    assert declared.checked is not None
    assert declared.checked.declaration is not None, declared.checked.errors
    (site,) = [each for each in declared.checked.declaration.sources.values() if each.url == url and each.site]
    assert (declared.site_name(site) or site.source_id) == title
