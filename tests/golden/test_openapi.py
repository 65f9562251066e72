"""The OpenAPI document: valid, committed as it is generated, and complete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyd import __version__
from proxyd.api.listings import Listings
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.api.rest.openapi import document
from proxyd.app.server import endpoints
from tests.fakes import no_queries

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    queries = no_queries()
    bound = endpoints(queries, Listings(queries), Streams(queries, StreamSettings()))
    return document(bound, __version__)


def test_it_is_valid(made: dict[str, Any]) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # slow to load

    assert list(OpenAPIV31SpecValidator(made).iter_errors()) == []


def test_it_is_committed_as_it_is_made(made: dict[str, Any], golden: Callable[[Path, str], None]) -> None:
    golden(COMMITTED, json.dumps(made, indent=2, ensure_ascii=False) + "\n")


def test_every_operation_is_named_once_and_says_what_it_does(made: dict[str, Any]) -> None:
    operations = [operation for path in made["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert all(operation["summary"].endswith(".") for operation in operations)


def test_what_is_under_api_asks_for_a_token_and_says_how_it_refuses(made: dict[str, Any]) -> None:
    for path, operations in made["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) == path.startswith("/api/")
            assert ({"401", "403"} <= operation["responses"].keys()) == path.startswith("/api/")
