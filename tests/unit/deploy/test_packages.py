"""What an installation by name brings along: few packages, not much of the disk, and enough to run."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import proxyd
from tests.deployment import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
MODULES_OF_EXTRAS = {
    "proxyd.api.rest.agent_tools",
    "proxyd.cli.top",
    "proxyd.cli.top_screens",
    "proxyd.probing.browser.chromium",
    "proxyd.store.databases.lease",
    "proxyd.store.databases.membership",
    "proxyd.store.databases.postgresql",
    "proxyd.tracing.otlp",
}
"""With those of ``proxyd.cluster`` all that import what an extra brings; the others do so when they need it."""


def needed(wanted: list[str]) -> Iterator[str]:
    """Yield the names of packages that pip installs for requirements here, some more than once."""
    for text in wanted:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
            own = distribution(requirement.name).requires or []
            parts = [Requirement(each) for each in own]
            yield from needed(
                [
                    str(part)
                    for part in parts
                    if part.marker is None
                    or any(part.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
                ]
            )


BASE = frozenset(needed(PROJECT["dependencies"]))


def bytes_of(package: Distribution) -> int:
    """Return the size of the files of a package, without what Python makes of them."""
    paths = [package.locate_file(file) for file in package.files or [] if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in map(ROOT.joinpath, map(str, paths)) if path.is_file())


def test_an_installation_without_extras_has_at_most_45_packages_and_220_megabytes() -> None:
    own = sum(path.stat().st_size for path in (ROOT / "proxyd").rglob("*.*") if path.suffix != ".pyc")
    assert len(BASE | {"proxyd"}) <= 45
    assert sum(bytes_of(distribution(name)) for name in BASE) + own <= 220e6


def test_feedparser_has_one_version_because_parts_of_it_are_used_that_may_change_in_any() -> None:
    """Its strict parser without its HTTP client, and the rules by which the fast reader of feeds equals it."""
    parts = {
        found
        for path in (ROOT / "proxyd/probing").rglob("*.py")
        for found in re.findall(r"^from feedparser\.(\w+) import (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert parts == {
        ("api", "StrictFeedParser"),
        ("sanitizer", "replace_doctype"),
        ("urls", "make_safe_absolute_uri"),
        ("util", "FeedParserDict"),
    }
    (pinned,) = [each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "feedparser"]
    assert str(pinned.specifier) == f"=={distribution('feedparser').version}"


def test_what_all_extras_bring_is_one_extra() -> None:
    (one,) = map(Requirement, EXTRAS["all"])
    part_of_cluster = {"postgresql"}
    assert one.extras | part_of_cluster == EXTRAS.keys() - {"all", "dev"}
    assert set(EXTRAS["postgresql"]) <= set(EXTRAS["cluster"])


def test_every_extra_is_described() -> None:
    _, _, listed = (ROOT / "docs/install.md").read_text(encoding="utf-8").partition("in extras")
    names = re.findall(r"(?:^\*|;) `(\w+)`:", listed.partition("\n## ")[0], re.MULTILINE)
    assert sorted(names) == sorted(EXTRAS.keys() - {"dev"})


def test_what_extras_bring_is_tested_in_the_same_versions() -> None:
    developed = {Requirement(each).name for each in EXTRAS["dev"]}
    for name, wanted in EXTRAS.items():
        if name not in {"all", "dev"}:
            assert {Requirement(each).name for each in wanted} <= developed, name


def test_everything_but_what_an_extra_gives_runs_without_extras() -> None:
    """In a process in which only the packages of an installation without extras can be imported."""
    others = [
        module
        for module, names in packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & {*BASE, "proxyd"}
    ]
    modules = [found.name for found in pkgutil.walk_packages(proxyd.__path__, "proxyd.")]
    script = f"""
import importlib, json, sys
sys.modules.update(dict.fromkeys({others!r}))
failed = []
for name in {modules!r}:
    if name != "proxyd.__main__":
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(name)
print(json.dumps(failed))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    failed = {name for name in json.loads(done.stdout) if not name.startswith("proxyd.cluster.")}
    assert sorted(failed) == sorted(MODULES_OF_EXTRAS)


@pytest.mark.parametrize("arguments", ["top --once", "completion bash", "mcp"])
def test_a_verb_whose_extra_is_not_installed_says_which_one_it_needs(arguments: str) -> None:
    script = f"""
import sys
from importlib import util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name in ("rich", "shtab", "mcp") else found(name, *rest)
from proxyd.cli.main import main
sys.exit(main({arguments.split()!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    extra = "mcp" if arguments == "mcp" else "terminal"
    assert done.stderr == f"proxyd: this needs proxyd[{extra}]: pip install 'proxyd[{extra}]'\n"
    assert done.returncode == 1
