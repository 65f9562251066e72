"""Under REQUIRE_ALL=1 a skipped test fails the run, but for replays of traces that are not there."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import PostgresServer, postgres_server

REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"

settings.register_profile("proxyd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("proxyd")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    has_no_traces = "no traces beside the project" in str(report.longrepr)
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and not has_no_traces:
        report.outcome = "failed"
        report.longrepr = f"skipped, but REQUIRE_ALL=1: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """A server of PostgreSQL; every test makes databases of its own."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """An empty database, of each kind."""
    if request.param == "sqlite":
        return tmp_path / "p.db"
    address: str = request.getfixturevalue("postgresql").create()
    return address
