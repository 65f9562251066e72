"""Declarations as JSON: what the language says, with a pointer to each member that is wrong."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from proxyd.api.rest.json_profiles import Members, read_declaration
from proxyd.api.wire.statement_models import DeclarationWritten
from proxyd.core.language import format_statements, parse
from tests.integration.api_world import Running, running_api

LIFETIMES = itertools.count(9.0)  # tokens are named by them
DECLARED: dict[str, Any] = {
    "domains": [
        {
            "name": "Quotes",
            "classes": [
                {
                    "name": "QUOTE",
                    "fields": [
                        {"path": "symbol", "type": "String", "found": {"reader": "JSON", "selector": "$.symbol"}},
                        {"path": "last", "type": "Decimal", "found": {"reader": "JSON", "selector": "$.last"}},
                    ],
                }
            ],
        }
    ],
    "sources": [
        {
            "name": "exchange",
            "class": "QUOTE",
            "url": 'https://exchange.example/q?s="it\'s"',
            "politeness": "12 PROBES PER HOUR, SPACING 2 MINUTES",
            "expect": "3 PER DAY",
            "zone": "Europe/Berlin",
            "headers": [{"name": "Accept", "value": "application/json"}],
            "auth": {"user": "me", "secret": {"env": "SECRET_A"}},
            "robots": "IGNORE",
        }
    ],
    "profiles": [{"name": "Trading", "domains": ["Quotes"], "users": ["me"]}],
    "notifications": [
        {
            "name": "dear",
            "profiles": ["Trading"],
            "query": "SELECT symbol, last\nFROM QUOTE",
            "trigger": "ON UPDATE TO QUOTE WHEN NEW.last > 100 AND symbol <> '\"'",
            "start": "NOW",
            "end": "NOW + '30 days'",
            "utility": "LINEAR(30 MINUTES)",
            "policy": "UNIFORM(15 MINUTES)",
            "deliveries": [
                {"webhook": "https://r.example/hook", "secret": {"env": "SECRET_A"}, "form": "GITHUB"},
                {"mail": "me@example.org"},
            ],
            "digest": "EVERY 1 HOUR AT MOST 20 ITEMS",
        }
    ],
}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as world:
        yield world


async def post(running: Running, declared: Any, query: str = "") -> tuple[int, dict[str, Any]]:
    headers = await running.token("write", expires_in_s=next(LIFETIMES))
    async with running.client.post(f"/api/v1/profiles{query}", json=declared, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_what_json_declares_is_there_as_text_and_as_json(running: Running) -> None:
    status, made = await post(running, DECLARED)
    assert (status, made["added"]) == (201, ["dear"])
    rule = running.control.declarations.declaration.rules["dear"]
    assert [delivery.endpoint for delivery in rule.deliveries] == ["https://r.example/hook", "me@example.org"]
    assert running.control.declarations.declaration.sources["exchange"].url == 'https://exchange.example/q?s="it\'s"'
    async with running.client.get("/api/v1/profiles/Trading", headers=await running.token("read")) as answer:
        shown = await answer.json()
    assert 'INSERT NOTIFICATION "dear"' in shown["text"]
    (kept,) = shown["declared"]["notifications"]
    assert kept["policy"] == "UNIFORM(15 MINUTES)"
    assert kept["deliveries"][1]["mail"] == "me@example.org"
    assert (await post(running, {"notifications": [kept]}, "?dry_run=true"))[1]["restarted"] == []


async def test_a_dry_run_says_what_it_would_cost(running: Running) -> None:
    status, made = await post(running, DECLARED, "?dry_run=true")
    assert (status, made["dry_run"], made["cost"]["sources_added"]) == (200, True, 1)
    assert "dear" not in running.control.declarations.declaration.rules


async def test_drop_removes(running: Running) -> None:
    await post(running, DECLARED)
    status, made = await post(running, {"drop": [{"kind": "NOTIFICATION", "name": "dear"}]})
    assert (status, made["removed"]) == (201, ["dear"])


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(declared: dict[str, Any]) -> None:
        *path, last = [int(part) if part.isdigit() else part for part in place.split("/")[1:]]
        found: Any = declared
        for part in path:
            found = found[part]
        found[last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("/notifications/0/policy", "UNIFORM(15 PARSECS)", "PARSECS"),
        ("/notifications/0/policy", "AUTO SET LIFE OVERWRITE", "'SET' starts another clause"),
        ("/notifications/0/policy", "AUTO; DROP DOMAIN \"Quotes\"", "';' starts another clause"),
        ("/notifications/0/policy", "AUTO /* hidden", "not closed"),
        ("/notifications/0/policy", "AUTO MATIC", "the end of the text"),
        ("/notifications/0/end", "NOW + 'two moons'", 'such as "30 days"'),
        ("/notifications/0/query", "SELECT sybmol FROM QUOTE", "sybmol"),
        ("/notifications/0/trigger", "ON UPDATE TO QUOTE WHEN", "expected"),
        ("/notifications/0/trigger", "ON UPDATE TO QUTOE", "QUTOE"),
        ("/notifications/0/profiles/0", "Trade", "Trade"),
        ("/sources/0/class", "QUTOE", "QUTOE"),
        ("/sources/0/url", "ftp://x.example/", "http"),
        ("/sources/0/zone", "Europe/Atlantis", "Atlantis"),
        ("/sources/0/expect", "3 PER PARSEC", "PARSEC"),
        ("/sources/0/auth/user", "\0", "U+0000"),
        ("/notifications/0/query", "SELECT '\ud800'", "U+D800"),
        ("/sources/0/expect", "3", "found the end of the text"),
        ("/profiles/0/domains/0", "Qutoes", "Qutoes"),
        ("/domains/0/classes/0/fields/0/found", {"reader": "JSON", "selector": "$["}, "$["),
        ("/domains/0/classes/0/fields/0/type", "Strnig", "Input should be"),
        ("/notifications/0/deliveries/1", {"mail": "a", "channel": "b"}, "one of webhook, mail"),
    ],
)  # fmt: skip
async def test_each_fault_points_to_its_member(running: Running, place: str, value: Any, said: str) -> None:
    declared = copy.deepcopy(DECLARED)
    _set(place, value)(declared)
    status, problem = await post(running, declared)
    assert status == 422
    told = {fault["pointer"]: fault["detail"] for fault in problem["errors"]}
    assert said in told[place]
    assert set(told) == {place}
    assert "dear" not in running.control.declarations.declaration.rules


async def test_a_fault_in_a_query_has_its_line_and_column_there(running: Running) -> None:
    declared = copy.deepcopy(DECLARED)
    declared["notifications"][0]["query"] = 'SELECT symbol, "last"\nFROM QUOTE\nWHERE lsat > 1'
    _, problem = await post(running, declared)
    (fault,) = problem["errors"]
    assert (fault["pointer"], fault["line"], fault["column"]) == ("/notifications/0/query", 3, 7)
    assert fault["source_line"] == "WHERE lsat > 1"


async def test_a_clause_that_is_missing_is_a_fault_of_its_rule(running: Running) -> None:
    declared = copy.deepcopy(DECLARED)
    del declared["notifications"][0]["trigger"]
    _, problem = await post(running, declared)
    (fault,) = problem["errors"]
    assert fault["pointer"].startswith("/notifications/0")
    assert "SET TRIGGER" in fault["detail"]


@pytest.mark.parametrize("body", [{}, {"rules": []}, [], "x", {"drop": [{"kind": "USER", "name": "u"}]}])
async def test_what_is_no_declaration_is_refused(running: Running, body: Any) -> None:
    status, problem = await post(running, body)
    assert status in {400, 422}
    assert problem["title"]


async def test_what_files_own_is_a_conflict_for_json_too(running: Running) -> None:
    status, problem = await post(running, {"profiles": [{"name": "P", "domains": ["D"]}]})
    assert status == 409
    assert "change it there" in problem["detail"]


def test_names_and_texts_cannot_leave_their_quotes() -> None:
    hostile = 'x"; DROP DOMAIN "Quotes"; -- \' /*'
    declared = copy.deepcopy(DECLARED)
    declared["sources"][0] |= {"name": hostile, "url": hostile, "zone": hostile}
    there = DeclarationWritten.model_validate(declared)
    parsed = read_declaration(there, Members(there))
    assert parsed.errors == ()
    text = format_statements(parsed.statements)
    assert parse(text).statements == parsed.statements
    assert text.count('"x""; DROP DOMAIN ""Quotes""; -- \' /*"') == 1
    assert text.count("'x\"; DROP DOMAIN \"Quotes\"; -- '' /*'") == 2


async def test_a_fault_in_a_clause_that_begins_with_a_quote_has_its_column(running: Running) -> None:
    declared = copy.deepcopy(DECLARED)
    declared["notifications"][0]["end"] = '"1 day" + NOWW'
    _, problem = await post(running, declared)
    (fault,) = problem["errors"]
    assert (fault["pointer"], fault["column"]) == ("/notifications/0/end", 11)


async def test_a_long_profile_has_all_of_itself_as_json(running: Running) -> None:
    rules = [copy.deepcopy(DECLARED["notifications"][0]) | {"name": f"{n} {'x' * 90}"} for n in range(200)]
    hours = ", ".join(f"{hour + 1} DURING '{hour:02d}:00-{hour + 1:02d}:00' IN 'Europe/Berlin'" for hour in range(23))
    rules[0]["importance"] = ", ".join([hours] * 3)
    for part in (rules[:100], rules[100:]):
        status, _ = await post(running, DECLARED | {"notifications": part})
        assert status == 201
    async with running.client.get("/api/v1/profiles/Trading", headers=await running.token("read")) as answer:
        shown = await answer.json()
    assert len(shown["text"]) > 65_536
    assert len(shown["declared"]["notifications"]) == 200
    assert len(shown["declared"]["notifications"][0]["importance"]) > 2000


async def test_names_that_addresses_lose_are_refused(running: Running) -> None:
    status, problem = await post(running, {"profiles": [{"name": "..", "domains": ["D"]}]})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/profiles/0/name")


def test_comments_in_clauses_are_kept_with_their_statement() -> None:
    declared = copy.deepcopy(DECLARED)
    declared["notifications"][0] |= {"query": "SELECT symbol -- only\nFROM QUOTE", "policy": "AUTO /* for now */"}
    there = DeclarationWritten.model_validate(declared)
    *_, rule = read_declaration(there, Members(there)).statements
    assert rule.comments == ("-- only", "/* for now */")


async def test_every_error_of_a_query_is_a_fault_with_its_place(running: Running) -> None:
    declared = copy.deepcopy(DECLARED)
    declared["notifications"][0]["query"] = "SELECT symbol, , last\nFROM QUOTE\nWHERE last > > 1 LIMIT x"
    status, answer = await post(running, declared)
    assert status == 422
    assert [(each["pointer"], each["line"], each["column"]) for each in answer["errors"]] == [
        ("/notifications/0/query", 1, 16),
        ("/notifications/0/query", 3, 14),
        ("/notifications/0/query", 3, 24),
    ]


async def test_a_statement_that_is_too_long_as_text_is_a_fault_of_its_name(running: Running) -> None:
    """The trap: printing doubles the quotes of a name, so a short request may make a long text."""
    declared = {"sources": [{"name": '"' * 40_000, "class": "RSS", "url": "https://example.org/"}]}
    status, answer = await post(running, declared)
    assert status == 422
    (fault,) = answer["errors"]
    assert fault["pointer"] == "/sources/0/name"
    assert "65536" in fault["detail"]
