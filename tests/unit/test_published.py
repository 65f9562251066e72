"""What the computing packages publish is documented as a library is: a docstring with an example that runs."""

from __future__ import annotations

import importlib
import inspect

import pytest

PACKAGES = [
    "proxyd.scheduling",
    "proxyd.scheduling.single",
    "proxyd.scheduling.frequency",
    "proxyd.scheduling.capture",
    "proxyd.scheduling.fleet",
    "proxyd.estimation",
    "proxyd.simulate",
]
PUBLISHED = [
    pytest.param(getattr(module, name), id=f"{package}.{name}")
    for package in PACKAGES
    for module in [importlib.import_module(package)]
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
]


def test_something_is_published() -> None:
    assert len(PUBLISHED) > 100


@pytest.mark.parametrize("published", PUBLISHED)
def test_it_has_an_example(published: object) -> None:
    assert ">>> " in (inspect.getdoc(published) or "")
