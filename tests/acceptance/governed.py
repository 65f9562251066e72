"""``proxyd serve`` where a test governs what names lead to and what the machine's clock says, by a file it writes.

It runs by ``python -c``: parser processes import the main module again, where that is a file.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proxyd.app.wiring
from proxyd.base.clock import SystemClock
from proxyd.cli.main import main as run
from tests.acceptance.support import Daemon

PROGRAM = ("-c", "from tests.acceptance.governed import main; main()")
_WORLD = "world.json"


def govern(daemon: Daemon, *, names: str = "answer", ahead_s: float = 0.0) -> None:
    """Let names that end in ``.test`` ``answer``, ``fail`` or ``hang``, and the clock be ahead, from now on."""
    daemon.program = PROGRAM
    new = daemon.folder / f"{_WORLD}.new"
    new.write_text(json.dumps({"names": names, "ahead_s": ahead_s}))
    new.replace(daemon.folder / _WORLD)


def main() -> None:
    """Run the daemon in the folder of the world's file."""
    world = Path(_WORLD).absolute()
    socket.getaddrinfo = functools.partial(_look_up, world, socket.getaddrinfo)
    vars(proxyd.app.wiring)["SystemClock"] = lambda: SystemClock(lambda: time.time() + _read(world)["ahead_s"])
    sys.exit(run(["serve"]))


def _read(world: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.read_text())
    return found


def _look_up(world: Path, real: Callable[..., Any], host: Any, *arguments: Any, **options: Any) -> Any:
    if not str(host).endswith(".test"):
        return real(host, *arguments, **options)
    while (names := _read(world)["names"]) == "hang" and os.getppid() != 1:
        time.sleep(0.02)
    if names != "answer":
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return real("127.0.0.1", *arguments, **options)
