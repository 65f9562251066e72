"""Planner processes on one machine: they share the sources over PostgreSQL, as planners of several machines do."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

import structlog

from proxyd.config.settings import Settings

_AGAIN_S = 1.0
_END_S = 5.0  # after it should have drained
log = structlog.get_logger("roles")


def _settings_of_process(settings: Settings, number: int) -> Settings:
    """Return the settings of one of the planner processes of a machine, counted from 0.

    It listens at the port that follows those of the processes before it. With NATS the others only plan.

    >>> third = _settings_of_process(Settings(planners=4, listen="127.0.0.1:8080", socket="/run/p.sock"), 2)
    >>> third.listen, str(third.socket), third.planners
    ('127.0.0.1:8082', '/run/p-2.sock', 1)
    """
    if number == 0:
        return settings.model_copy(update={"planners": 1})
    path = settings.socket_path
    changed = {
        "planners": 1,
        "listen": _after(settings.listen, number),
        "advertise": _after(settings.advertise, number) if settings.advertise else "",
        "socket": path.with_name(f"{path.stem}-{number}{path.suffix}"),
    }
    return settings.model_copy(update=changed | ({"role": "planner"} if settings.nats else {}))


def _after(address: str, number: int) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + number}"


@asynccontextmanager
async def processes(settings: Settings, run: Callable[[Settings], None], end: asyncio.Event) -> AsyncIterator[None]:
    """Run the other planner processes of this machine until ``end``; one that ends before is started again.

    ``run`` is what each process does; it must be importable. They have ended when the context ends.
    """
    running = [
        asyncio.create_task(_keep(_settings_of_process(settings, number), run, end), name="planner")
        for number in range(1, settings.planners)
    ]
    try:
        yield
    finally:
        end.set()
        await asyncio.gather(*running)


async def _keep(settings: Settings, run: Callable[[Settings], None], end: asyncio.Event) -> None:
    """Run a process until ``end``, and start it again whenever it ends before."""
    while not end.is_set():
        process = multiprocessing.get_context("spawn").Process(target=run, args=(settings,), name="planner")
        await asyncio.to_thread(process.start)
        await _first(wait_for_end(process), end.wait())
        if end.is_set():
            await asyncio.to_thread(_end, process, settings.drain_timeout + _END_S)
            return
        log.error("a planner process has ended, and is started again", code=process.exitcode, listens=settings.listen)
        await _first(asyncio.sleep(_AGAIN_S), end.wait())


async def _first(*awaited: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended."""
    waiting = [asyncio.create_task(each) for each in awaited]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _end(process: SpawnProcess, patience_s: float) -> None:
    """Have a process drain and end; end it if it does not."""
    process.terminate()
    process.join(patience_s)
    if process.is_alive():
        process.kill()
        process.join()


async def wait_for_end(process: BaseProcess) -> None:
    """Wait until a process has ended."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, over.set)
    try:
        await over.wait()
    finally:
        with suppress(ValueError):
            loop.remove_reader(process.sentinel)
