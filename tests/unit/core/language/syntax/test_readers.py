"""What is wrong with a selector is found without evaluating it."""

from __future__ import annotations

import pytest

from proxyd.core.language.syntax.readers import selector_problem
from proxyd.core.model.profile import Extraction, Reader


def xpath(selector: str) -> str | None:
    return selector_problem(Extraction(Reader.XPATH, selector))


def test_a_selector_is_not_evaluated_when_it_is_checked() -> None:
    step = "count(/descendant-or-self::node()["
    assert xpath(step * 40 + "1" + "])" * 40) is None


@pytest.mark.parametrize(
    "selector",
    [
        "//a[@class='x:y(z) $w']/@href",
        "//a/@xml:lang",
        "//*[local-name() = 'x' and (position() < 3 or last() = 1)]",
        "ancestor::div[1]/following-sibling :: p",
        'string(//a) = "costs $5"',
        "//processing-instruction('x')",
        "1 div (2) mod (3)",
        "//h\u00e9/child::node()|@*",
    ],
)
def test_sound_selectors(selector: str) -> None:
    assert xpath(selector) is None


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("//p[", "Invalid expression"),
        ("", "Invalid expression"),
        ("(" * 5_000 + "a" + ")" * 5_000, "Recursion limit exceeded"),
        ("foo (//p)", "there is no XPath function 'foo'"),
        ("//p[matches(., 'x')]", "there is no XPath function 'matches'"),
        ("re:test(., 'x')", "the namespace prefix 're' is not declared; use local-name()"),
        ("//atom:entry", "the namespace prefix 'atom' is not declared; use local-name()"),
        ("//ns:*", "the namespace prefix 'ns' is not declared; use local-name()"),
        ("//p[$x]", "XPath selectors have no variables"),
    ],
)
def test_selectors_that_cannot_be_read(selector: str, problem: str) -> None:
    assert xpath(selector) == problem


@pytest.mark.parametrize("reader", list(Reader))
@pytest.mark.parametrize(
    "selector", [":not(" * 10_000, "a " * 30_000, "[" * 30_000, "a" + " " * 60_000 + "|b", "$" + "[?@.a" * 8_000]
)
def test_long_and_deep_selectors_are_refused_or_taken(reader: Reader, selector: str) -> None:
    problem = selector_problem(Extraction(reader, selector))
    assert problem is None or problem.isprintable()
