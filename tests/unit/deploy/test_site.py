"""The site of the documents is built without a warning, is complete, and fetches nothing from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.deployment import ROOT, build_site

_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(https?:[^\"]+)|<link\b(?![^>]*\brel=\"canonical)[^>]*\bhref=\"(https?:[^\"]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_document_is_a_page_that_the_search_finds(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    documents = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    shown = {"" if path.name == "index" else f"{path.as_posix()}/".replace("README/", "") for path in documents}
    assert found == shown | {"rest/", "library/"}


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = {found[0] or found[1] for text in pages(site).values() for found in _FETCHED.findall(text)}
    assert fetched == set()


def test_the_reference_has_every_route_and_every_body(site: Path) -> None:
    document = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    page = pages(site)["rest/index.html"]
    routes = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    assert len(routes) > 40
    assert [route for route in routes if f"<code>{route}</code>" not in page] == []
    assert [name for name in document["components"]["schemas"] if f'id="{name.lower()}"' not in page] == []


def test_links_to_files_of_the_project_lead_to_its_repository(site: Path) -> None:
    page = pages(site)["runbook/index.html"]
    assert "https://github.com/proxyd/proxyd/blob/main/deploy/prometheus/rules/alerts.yml" in page
