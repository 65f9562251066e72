"""Runs a program as its users do, as a daemon or from cron, and measures what it takes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_MARK = "PEERS_RUN"
_LOOK_S = 1.0
_END_S = 15.0


@dataclass
class Used:
    """What the processes of a program took: processor seconds, bytes of memory (PSS) and bytes written."""

    processor_s: float = 0.0
    memory: list[int] = field(default_factory=list)
    written: int = 0
    starts: int = 0


@dataclass
class Running:
    """A program in a run; ``every_s`` is 0 for a daemon, or how often cron calls it."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    every_s: float
    kills: Sequence[float] = ()
    used: Used = field(default_factory=Used)
    _process: subprocess.Popen[bytes] | None = None

    async def run(self, length_s: float) -> None:
        """Run until ``length_s`` seconds have passed, with kills between."""
        watching = asyncio.create_task(self._watch())
        killing = asyncio.create_task(self._kill())
        with suppress(TimeoutError):
            async with asyncio.timeout(length_s):
                await (self._call() if self.every_s else self._keep())
        for task in (watching, killing):
            task.cancel()
        await asyncio.gather(watching, killing, return_exceptions=True)
        await self._end()

    async def _keep(self) -> None:
        while True:
            await self._one()
            await asyncio.sleep(0.1)

    async def _call(self) -> None:
        began_s, due = time.monotonic(), 0
        while True:
            await self._one()
            due = max(due + 1, int((time.monotonic() - began_s) / self.every_s))  # as cron with a lock
            await asyncio.sleep(max(0.0, began_s + due * self.every_s - time.monotonic()))

    async def _one(self) -> None:
        with (self.folder / "output.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(self.command),
                cwd=self.folder,
                env=dict(os.environ) | dict(self.environment) | {_MARK: str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.used.starts += 1
        await asyncio.shield(asyncio.ensure_future(self._reap(self._process)))

    async def _reap(self, process: subprocess.Popen[bytes]) -> None:
        _, status, used = await asyncio.to_thread(os.wait4, process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.used.processor_s += used.ru_utime + used.ru_stime
        self.used.written += 512 * used.ru_oublock

    async def _kill(self) -> None:
        began_s = time.monotonic()
        for at_s in self.kills:
            await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
            while self._process is None or self._process.returncode is not None:  # cron: in the middle of the next call
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2 if self.every_s else 0.0)
            self._signal(signal.SIGKILL)

    async def _end(self) -> None:
        self._signal(signal.SIGTERM)
        until_s = time.monotonic() + _END_S
        while self._process is not None and self._process.returncode is None:
            if time.monotonic() > until_s:
                self._signal(signal.SIGKILL)
            await asyncio.sleep(0.05)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Those that began a session of their own, too
        for pid in self._pids():
            if number is signal.SIGKILL or (self._process is not None and pid == self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _pids(self) -> list[int]:
        mark, found = f"{_MARK}={self.folder}\0".encode(), []
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                with suppress(OSError):
                    if mark in (each / "environ").read_bytes() + b"\0":
                        found.append(int(each.name))
        return found

    async def _watch(self) -> None:
        while True:
            taken = 0
            for pid in self._pids():
                with suppress(OSError):
                    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                        if line.startswith("Pss:"):
                            taken += int(line.split()[1]) * 1024
            if taken:
                self.used.memory.append(taken)
            await asyncio.sleep(_LOOK_S)
