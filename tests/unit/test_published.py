"""The code is documented as a library is: what computes something has an example that runs, and parameters exist."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType

import pytest

import proxyd

PACKAGES = (  # kernels, policies and estimators; elsewhere a line says what a function does
    "proxyd.core.planning.allocation",
    "proxyd.core.planning.capture",
    "proxyd.core.planning.kernels",
    "proxyd.core.planning.policies",
    "proxyd.core.rates",
    "proxyd.lab.algorithms",
)
SHARED = {  # steps and values that modules of a package share; the examples stand where they are used
    "CountedAhead",
    "Cycle",
    "Demands",
    "Findings",
    "FleetLimits",
    "FleetState",
    "FleetTargets",
    "Frequencies",
    "HostLimits",
    "Jobs",
    "ModelFit",
    "OneSourceSchedule",
    "RateEvidence",
    "RecentChanges",
    "RuleOutlook",
    "SeenSource",
    "Spans",
    "WeekCounts",
    "WeekGrid",
    "WeekPlan",
    "WeekShapes",
    "are_disjoint",
    "belonging",
    "check_rates",
    "cycle_of_powers",
    "earliest_deadline_first",
    "flat",
    "item_times",
    "kernel",
    "pack",
    "row_places",
    "slot_loads",
    "tables",
    "timeline",
    "unpack",
}


def only_holds_values(one: object) -> bool:
    """Return whether a class has no methods of its own: an example would read back what it was given."""
    own = [each for name, each in vars(one).items() if not name.startswith("_")]
    return is_dataclass(one) and not any(callable(each) or isinstance(each, (classmethod, property)) for each in own)


def modules() -> Iterator[ModuleType]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            yield importlib.import_module(found.name)


PUBLISHED = [
    pytest.param(one, id=f"{module.__name__}.{name}")
    for module in modules()
    for name, one in vars(module).items()
    if not name.startswith("_") and name not in SHARED
    if inspect.isclass(one) or inspect.isfunction(one)
    if one.__module__ == module.__name__ and not only_holds_values(one)
]


def test_something_is_published() -> None:
    assert len(PUBLISHED) > 100


@pytest.mark.parametrize("published", PUBLISHED)
def test_it_has_an_example(published: object) -> None:
    assert ">>> " in (inspect.getdoc(published) or "")


def described(one: object) -> list[str]:
    """Return the names under ``Parameters`` in a docstring."""
    _, _, section = (inspect.getdoc(one) or "").partition("Parameters\n----------\n")
    names: list[str] = []
    for number, block in enumerate(section.split("\n\n")):
        if number and not block.startswith(" "):
            break  # the next section
        heads = [line.partition(" : ")[0] for line in block.splitlines() if not line.startswith(" ")]
        names += [name.strip("* ") for head in heads for name in head.split(",")]
    return [name for name in names if name]


def parameters(one: type | FunctionType) -> set[str]:
    """Return what can be given to a function or a class, and the names of a class's values."""
    known = set(inspect.signature(one).parameters)
    if isinstance(one, type):
        known |= {each.name for each in fields(one)} if is_dataclass(one) else set(getattr(one, "__slots__", ()))
    return known


def test_docstrings_describe_only_parameters_that_exist() -> None:
    wrong = {}
    for found in pkgutil.walk_packages(proxyd.__path__, "proxyd."):
        if found.name == "proxyd.__main__":  # importing it runs it
            continue
        module = importlib.import_module(found.name)
        own = [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
        classes = [one for one in own if isinstance(one, type)]
        methods = [one for each in classes for one in vars(each).values()]
        documented: list[type | FunctionType] = [*classes]
        documented += [one for one in (*own, *methods) if isinstance(one, FunctionType)]
        for one in documented:
            if (names := described(one)) and (unknown := set(names) - parameters(one)):
                wrong[f"{module.__name__}.{one.__qualname__}"] = unknown
    assert wrong == {}
