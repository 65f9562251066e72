"""What all tests share: the examples of laws, the run's server of PostgreSQL, and what is said of skipped tests.

Under REQUIRE_ALL=1 a skipped test fails the run, but for replays of traces that are not there.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Generator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from tests.databases import migrate, migrated_file
from tests.examples import register_profiles
from tests.servers import PostgresServer, shared_postgres, stop_shared_postgres

REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"
NO_TRACES = "no traces beside the project"
_WITH_PROCESSES = frozenset({"acceptance", "browser", "cluster"})
_NOT_INSTALLED = re.compile(r"(\S+) is not installed")
_NAMES = {
    "chromium": "Chromium",
    "nats-server": "NATS",
    "postgresql": "PostgreSQL",
    "promtool": "Prometheus",
    "prometheus": "Prometheus",
    "amtool": "Alertmanager",
    "systemd-analyze": "systemd",
    "openssl": "OpenSSL",
}

register_profiles()
os.environ["TZ"] = "UTC"  # texts for people are in the zone of the machine unless a test sets `time_zone`
time.tzset()
os.environ["SSL_CERT_FILE"] = os.devnull  # the system's authorities, whom no test asks, took each session 50 ms
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background; what tests start inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Let tests that want the machine for themselves, or minutes, be long; begin with those that wait for processes."""
    for item in items:
        if item.get_closest_marker("alone") or item.get_closest_marker("soak"):
            item.add_marker("long")
    yield
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = _dealt(items, workers)


def _dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return tests so that half of the workers begin with those that wait for processes, and the others do the rest.

    Each worker gets an equal part of the list (``--dist worksteal``).
    """
    waiting = [item for item in items if item.path.parent.name in _WITH_PROCESSES]
    others = iter([item for item in items if item.path.parent.name not in _WITH_PROCESSES])
    beginners = max(1, workers // 2)
    dealt: list[pytest.Item] = []
    for worker in range(workers):
        first = waiting[worker::beginners] if worker < beginners else []
        size = (len(items) + worker) // workers
        dealt += [*first, *islice(others, max(0, size - len(first)))]
    return [*dealt, *others]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the tests out of garbage collections, each of which took 0.4 s: no server of a test answered meanwhile."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and NO_TRACES not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped, but REQUIRE_ALL=1: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped because a program is not installed."""
    found = [match for each in terminalreporter.stats.get("skipped", []) if (match := _missing(each)) is not None]
    if found:
        names = ", ".join(sorted({_NAMES.get(name, name) for name in found}))
        tests = "1 test" if len(found) == 1 else f"{len(found)} tests"
        terminalreporter.write_line(f"{tests} skipped: {names} not installed; .ci/run installs them", yellow=True)


def _missing(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    match = _NOT_INSTALLED.search(str(report.longrepr))
    return match[1] if match else None


def _run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of a run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what the run shares, once its workers have ended, and processes of pools that a test has not closed."""
    for process in multiprocessing.active_children():
        process.kill()  # they ignore SIGTERM: the interpreter would wait for them for ever
    factory: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    if "PYTEST_XDIST_WORKER" not in os.environ and factory is not None:
        stop_shared_postgres(factory.getbasetemp())


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> PostgresServer:
    """The run's server of PostgreSQL; every test makes databases of its own."""
    return shared_postgres(_run_folder(tmp_path_factory), migrate)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """An empty database at the newest schema, of each kind."""
    if request.param == "sqlite":
        return migrated_file(tmp_path / "p.db")
    address: str = request.getfixturevalue("postgresql").create_migrated()
    return address
