"""A Chromium that is reached by its DevTools address, as the setting `browser` names it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import free_port, wait_for_port

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",  # or it does a part of our work
)


@dataclass
class DevTools:
    """A running Chromium."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill it with its helpers."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.process = _start(self.port, self.folder)


@contextmanager
def running_chromium(folder: Path) -> Iterator[DevTools]:
    """Run the Chromium of the distribution on a port of its own."""
    port = free_port()
    chromium = DevTools(port, folder, _start(port, folder))
    try:
        yield chromium
    finally:
        chromium.kill()


def _start(port: int, folder: Path) -> subprocess.Popen[bytes]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("chromium is not installed")
    arguments = [path, *_FLAGS, f"--user-data-dir={folder}", f"--remote-debugging-port={port}", "about:blank"]
    process = subprocess.Popen(arguments, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_port(port, process)
    return process
