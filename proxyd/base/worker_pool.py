"""Worker processes that run one function; one that hangs or dies is replaced without affecting the others.

Each worker has a process and a pipe of its own, driven by one thread. ``ProcessPoolExecutor`` cannot end a single
worker, so one job that hangs would break every other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from proxyd.core.errors import ProxydError, WorkerFailedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from types import TracebackType
    from typing import Self

_R = TypeVar("_R")
_START_S = 30.0  # a worker imports its modules before the time of its first job starts
_PRELOADED = ["proxyd.probing.document_parser"]  # others import their modules at their first start


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What the workers of a pool may use."""

    timeout_s: float = 10.0  # longest time for one job, from when a worker starts it
    memory_bytes: int = 256 << 20  # data in one worker, beyond what it has before its first job
    jobs: int = 1000  # number of jobs after which a worker is replaced
    tries: int = 2  # how often a job is started if its worker dies
    idle_s: float = 150.0  # a worker without a job for so long ends, at the latest after twice that time


class WorkerPool(Generic[_R]):
    """Runs a function in separate processes, which are started when they are needed.

    Use it with ``async with``; leaving ends every worker at once, even a busy one.

    Parameters
    ----------
    function
        At a module's top level, so that another process can import it.
    name
        What users know a worker as, for reasons: ``the parser``.
    """

    def __init__(self, function: Callable[..., _R], name: str, *, workers: int, limits: WorkerLimits) -> None:
        context = _context()
        self._workers = [_Worker(context, function, name, limits) for _ in range(workers)]
        self._idle = deque(self._workers)  # the last is used next, so that the others may end
        self._idle_s = limits.idle_s
        self._is_watched = False  # without the timer itself: a pool that refers to itself keeps its pipes open
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=name.rpartition(" ")[2])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, *job: object) -> _R:
        """Return what the function returns for a job, or raise the ``ProxydError`` that it raises.

        Raises ``WorkerFailedError``: it took too long, its process died, it needed too much memory or it raised an
        unexpected error.
        """
        loop = asyncio.get_running_loop()
        if not self._is_watched:
            self._watch(loop)
        return cast("_R", await loop.run_in_executor(self._threads, self._run, job))

    async def close(self) -> None:
        """End every worker; running jobs fail."""
        for worker in self._workers:
            worker.close()
        await asyncio.get_running_loop().run_in_executor(None, self._join)

    def _join(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.end()

    def _run(self, job: tuple[object, ...]) -> object:
        """Run one job on an idle worker; there is one for each thread."""
        worker = self._idle.pop()
        try:
            return worker.run(job)
        finally:
            self._idle.append(worker)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_watched = True
        loop.call_later(self._idle_s, self._look_for_idle, loop)

    def _look_for_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the workers that have had no job since this was last called, and come again while there are others."""
        self._is_watched = False
        if any(worker.is_started for worker in self._workers):
            loop.run_in_executor(self._threads, self._end_idle)
            self._watch(loop)

    def _end_idle(self) -> None:
        for worker in self._workers:
            with suppress(ValueError):  # it has a job
                self._idle.remove(worker)
                worker.end_if_idle()
                self._idle.appendleft(worker)
        _end_server_without_workers()


class _Worker:
    """One process at a time, started on demand; used by one thread at a time, closed from any."""

    def __init__(self, context: BaseContext, function: Callable[..., object], name: str, limits: WorkerLimits) -> None:
        self._context = context
        self._function = function
        self._name = name
        self._limits = limits
        self._process: BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._jobs = 0
        self._closed = False
        self._has_rested = False  # whether it has had no job since somebody asked

    @property
    def is_started(self) -> bool:
        """Whether it has a process."""
        return self._process is not None

    def run(self, job: tuple[object, ...]) -> object:
        """Return the function's result; if the process dies, try again with a new one as often as is allowed."""
        self._has_rested = False
        for _ in range(self._limits.tries):
            try:
                return self._run_once(job)
            except (EOFError, OSError) as error:
                self.end()
                cause = error
        raise WorkerFailedError(f"{self._name} died") from cause

    def close(self) -> None:
        """End the process; the thread that waits for it then sees the end of its pipe."""
        self._closed = True
        process = self._process
        if process is not None:
            with suppress(ValueError):  # its thread has just collected it
                process.kill()

    def end_if_idle(self) -> None:
        """End the process if it has had no job since this was last called; call it as ``end``."""
        if self._has_rested:
            self.end()
        self._has_rested = True

    def _run_once(self, job: tuple[object, ...]) -> object:
        pipe = self._ready_pipe()
        pipe.send(job)
        if not pipe.poll(self._limits.timeout_s):
            self.end()
            raise WorkerFailedError(f"{self._name} took longer than {self._limits.timeout_s:g} s")
        answer = pipe.recv()
        self._jobs += 1
        if self._jobs >= self._limits.jobs:
            self.end()
        if isinstance(answer, ProxydError):
            raise answer
        return answer

    def _ready_pipe(self) -> Connection[Any, Any]:
        if self._pipe is not None:
            return self._pipe
        if self._closed:
            raise WorkerFailedError(f"{self._name} is shut down")
        self._pipe = pipe = self._start()
        if not pipe.poll(_START_S):
            raise EOFError
        pipe.recv()
        return pipe

    def _start(self) -> Connection[Any, Any]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(  # type: ignore[attr-defined]  # every concrete context has it
            target=_serve,
            args=(theirs, self._function, self._name, self._limits.memory_bytes),
            name=f"proxyd-{self._name.rpartition(' ')[2]}",
            daemon=True,
        )
        with _starting:
            process.start()
            _started.add(process)
        theirs.close()
        self._process, self._jobs = process, 0
        if self._closed:  # closed during the start
            process.kill()
        return ours

    def end(self) -> None:
        """End the process and collect it; call it only from the thread that uses the worker."""
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join()
            process.close()
            _started.discard(process)


_starting = threading.Lock()
_started: set[BaseProcess] = set()  # by any pool, and not collected yet


def _end_server_without_workers() -> None:
    """End the server that forks workers, and the tracker that it needs, if there are no workers: they take 28 MiB."""
    with _starting:
        if not _started:  # otherwise this would wait for these; both start again with the next worker
            forkserver._forkserver._stop()  # type: ignore[attr-defined]  # noqa: SLF001
            resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]  # noqa: SLF001


def _context() -> BaseContext:
    """Return forkserver, if available, with the workers' modules preloaded: new workers start in milliseconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _serve(pipe: Connection[Any, Any], function: Callable[..., object], name: str, memory_bytes: int) -> None:
    """Answer jobs until the pipe closes."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # sent to all at once; a job that ended so would count as a failed probe
    limit = _own_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            answer = wait_for_result(function, pipe.recv(), name, memory_bytes)
            try:
                pipe.send(answer)
            except MemoryError:
                pipe.send(_too_much(name, memory_bytes))


def _own_bytes() -> int:
    """Return the data that a worker has before its first job: its modules, and those of the program's main module."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)


def run_work(work: Callable[[], _R]) -> _R:
    """Return the result of work that is sent as a whole; the function of pools with different jobs."""
    return work()


def wait_for_result(
    function: Callable[..., object], job: tuple[object, ...], name: str, memory_bytes: int
) -> object | ProxydError:
    """Return a function's result, or why it has none."""
    try:
        return function(*job)
    except ProxydError as error:
        return error
    except MemoryError:
        return _too_much(name, memory_bytes)
    except Exception as error:  # noqa: BLE001 - hostile input breaks libraries: told as a reason
        return WorkerFailedError(f"{name} raised {type(error).__name__}: {error}"[:300])


def _too_much(name: str, memory_bytes: int) -> WorkerFailedError:
    return WorkerFailedError(f"{name} needs more than {memory_bytes >> 20} MiB for it")
