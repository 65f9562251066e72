"""What is shipped with proxyd is listed, is allowed, and is asked about."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxyd import __version__
from tests.deployment import DEPLOY, ROOT, pinned

SHIPPED = pinned(DEPLOY / "requirements.lock")
BIN = Path(sys.executable).parent
_GPL = r"(?<!L)GPL(?!.*exception)|GNU (Affero )?General Public(?!.*exception)"
DENIED = re.compile(rf"AGPL|{_GPL}|SSPL|BUSL|Commons Clause|CC-BY-NC|Proprietary|UNKNOWN", re.IGNORECASE)


def make(target: str, *settings: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a target of the Makefile in the environment that runs this test, instead of one of its own."""
    arguments = ["make", "--old-file=setup", f"BIN={BIN}", *settings, target]
    return subprocess.run(
        arguments, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dist")
    done = make("sbom", f"DIST={folder}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "sbom.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.long
def test_the_bill_of_materials_lists_every_package_with_its_version(bill: dict[str, Any]) -> None:
    listed: dict[str, set[str]] = {}
    for component in bill["components"]:
        listed.setdefault(component["name"].lower(), set()).add(component["version"])
    assert len(SHIPPED) > 50
    assert listed == SHIPPED


def test_the_bill_says_what_it_is_of_and_where_each_package_and_its_bytes_come_from(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "proxyd")
    assert bill["metadata"]["component"]["version"] == __version__
    for component in bill["components"]:
        assert component["purl"].startswith(f"pkg:pypi/{component['name'].lower()}@{component['version']}")
        assert any(reference.get("hashes") for reference in component["externalReferences"])


def test_an_audit_that_can_ask_nobody_fails() -> None:
    done = make("audit", HTTPS_PROXY="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9")
    assert done.returncode != 0
    assert "No known vulnerabilities" not in done.stdout + done.stderr


def installed_licences() -> dict[str, str]:
    done = subprocess.run(
        [BIN / "pip-licenses", "--from=mixed", "--format=json", "--packages", *SHIPPED],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {found["Name"]: found["License"] for found in json.loads(done.stdout)}


def test_every_package_that_is_shipped_is_listed_with_its_licence() -> None:
    rows = re.findall(
        r"^\| (\S+) +\| (.*?) *\|$", (ROOT / "docs/licences.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    listed = dict(rows[1:])
    assert {re.sub(r"[._]", "-", name.lower()) for name in listed} == set(SHIPPED)
    assert listed == installed_licences(), "run `make licences`"


def test_no_package_that_is_shipped_has_a_licence_that_is_denied() -> None:
    assert {name: text for name, text in installed_licences().items() if DENIED.search(text)} == {}


@pytest.mark.parametrize(
    ("licence", "is_denied"),
    [
        ("GNU Affero General Public License v3", True),
        ("GPL-3.0-only", True),
        ("GNU General Public License v2 (GPLv2)", True),
        ("UNKNOWN", True),
        ("GPL-3.0-only WITH GCC-exception-3.1", False),
        ("LGPL-2.1-or-later", False),
        ("MIT", False),
    ],
)
def test_the_list_of_denied_licences_means_what_it_says(licence: str, is_denied: bool) -> None:
    assert bool(DENIED.search(licence)) is is_denied
