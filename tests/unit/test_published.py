"""The computing packages are documented as a library is: what computes something has an example that runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType

import pytest

PACKAGES = ("proxyd.core.planning", "proxyd.core.rates", "proxyd.lab.algorithms", "proxyd.lab.estimators")
SHARED = {  # steps and values that modules of a package share; the examples stand where they are used
    "Candidate",
    "Candidates",
    "DueTime",
    "DueTimes",
    "FleetLimits",
    "FleetState",
    "Frequencies",
    "HostLimits",
    "Jobs",
    "LevelFit",
    "OneSourceSchedule",
    "PlanForecast",
    "PlannerSettings",
    "RateEvidence",
    "SlotAllocator",
    "SourceQueues",
    "Spans",
    "WeekShapes",
    "are_disjoint",
    "belonging",
    "checked_rates",
    "checked_weights",
    "cycle_of_powers",
    "earliest_deadline_first",
    "em_step",
    "flat",
    "kernel",
    "log_likelihood",
    "maximise",
    "play",
    "preview_source",
    "prior_components",
    "rows_of",
    "slot_loads",
    "tables",
    "timeline",
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
