"""Worker processes that parse documents; one that hangs or dies is replaced without affecting the others.

Each worker has a process and a pipe of its own, driven by one thread. ``ProcessPoolExecutor`` cannot end a single
worker, so one document that hangs would break every running parse.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from proxyd.errors import ProbeError
from proxyd.probing.document_parser import ParsedDocument, parse_document
from proxyd.probing.probe_failures import ParserFailedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess
    from types import TracebackType
    from typing import Self

    from proxyd.core.model.profile import PageClass


class ParseFunction(Protocol):
    """The function that a worker runs: at a module's top level, so that another process can import it."""

    def __call__(
        self, body: bytes, content_type: str | None = None, url: str = "", page_class: PageClass | None = None, /
    ) -> ParsedDocument:
        """Return what the class reads; raise a ProbeError if the document contains nothing of this."""


_Job: TypeAlias = tuple[bytes, "str | None", str, "PageClass | None"]
_MEMORY_BYTES = 256 << 20  # of data in one worker; a feed of 10 MB needs about a third
_START_S = 30.0  # a worker imports its modules before the time of its first document starts


class ParserPool:
    """Parses documents in separate processes, each within ``timeout_s``.

    Use it with ``async with``; leaving ends every worker at once, even a busy one.

    Parameters
    ----------
    timeout_s
        Longest time for one document, from when a worker starts it.
    tasks_per_worker
        Number of documents after which a worker is replaced.
    """

    def __init__(
        self,
        parse: ParseFunction = parse_document,
        *,
        workers: int = 2,
        timeout_s: float = 10.0,
        tasks_per_worker: int = 1000,
    ) -> None:
        context = _context()
        self._workers = [_Worker(context, parse, timeout_s, tasks_per_worker) for _ in range(workers)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="parser")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def parse(
        self, body: bytes, content_type: str | None = None, url: str = "", page_class: PageClass | None = None
    ) -> ParsedDocument:
        """Return what a class reads from ``body``; without a class, a feed.

        Raises
        ------
        ParserFailedError
            The parser hung, died twice or raised an unexpected error.
        FeedParseError
            The document has no such content.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, (body, content_type, url, page_class))

    async def close(self) -> None:
        """End every worker; running parses fail."""
        for worker in self._workers:
            worker.close()
        await asyncio.get_running_loop().run_in_executor(None, self._join)

    def _join(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.end()

    def _run(self, job: _Job) -> ParsedDocument:
        """Run one document on an idle worker; there is one for each thread."""
        worker = self._idle.get()
        try:
            return worker.run(job)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process at a time, started on demand; used by one thread at a time, closed from any."""

    def __init__(self, context: BaseContext, parse: ParseFunction, timeout_s: float, tasks_per_worker: int) -> None:
        self._context = context
        self._parse = parse
        self._timeout_s = timeout_s
        self._tasks_per_worker = tasks_per_worker
        self._process: BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._tasks = 0
        self._closed = False

    def run(self, job: _Job) -> ParsedDocument:
        """Return what one document holds; if the process dies, try once more with a new one."""
        try:
            return self._run_once(job)
        except (EOFError, OSError):
            self.end()
        try:
            return self._run_once(job)
        except (EOFError, OSError) as error:
            self.end()
            raise ParserFailedError("the parser died") from error

    def close(self) -> None:
        """End the process; the thread that waits for it then sees the end of its pipe."""
        self._closed = True
        process = self._process
        if process is not None:
            with suppress(ValueError):  # its thread has just collected it
                process.kill()

    def _run_once(self, job: _Job) -> ParsedDocument:
        pipe = self._ready_pipe()
        pipe.send(job)
        if not pipe.poll(self._timeout_s):
            self.end()
            raise ParserFailedError(f"the parser took longer than {self._timeout_s:g} s")
        answer = pipe.recv()
        self._tasks += 1
        if self._tasks >= self._tasks_per_worker:
            self.end()
        if isinstance(answer, ProbeError):
            raise answer
        result: ParsedDocument = answer
        return result

    def _ready_pipe(self) -> Connection[Any, Any]:
        if self._pipe is not None:
            return self._pipe
        if self._closed:
            raise ParserFailedError("the parsers are shut down")
        self._pipe = pipe = self._start()
        if not pipe.poll(_START_S):
            raise EOFError
        pipe.recv()
        return pipe

    def _start(self) -> Connection[Any, Any]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(  # type: ignore[attr-defined]  # every concrete context has it
            target=_serve, args=(theirs, self._parse), name="proxyd-parser", daemon=True
        )
        process.start()
        theirs.close()
        self._process, self._tasks = process, 0
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


def _context() -> BaseContext:
    """Return forkserver, if available, with the parsers preloaded: new workers start in milliseconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proxyd.probing.document_parser"])
    return context


def _serve(pipe: Connection[Any, Any], parse: ParseFunction) -> None:
    """Answer documents until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon decides when to end, not the terminal
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            pipe.send(_answer(parse, pipe.recv()))


def _answer(parse: ParseFunction, job: _Job) -> ParsedDocument | ProbeError:
    try:
        return parse(*job)
    except ProbeError as error:
        return error
    except MemoryError:
        return ParserFailedError(f"the document needs more than {_MEMORY_BYTES >> 20} MiB to be parsed")
    except Exception as error:  # noqa: BLE001 - hostile documents break parsers: recorded as an outcome
        return ParserFailedError(f"the parser raised {type(error).__name__}: {error}"[:300])
