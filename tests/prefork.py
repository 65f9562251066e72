"""A process that has imported proxyd, from which daemons and verbs are forked: importing again takes seconds each time.

What is forked has a session, an environment, a folder and output of its own, as if it had been executed. With
``EXEC_ALL=1``, as in ``make test-all``, every process is executed instead.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
EXEC_ALL = os.environ.get("EXEC_ALL") == "1"
READ_AT_IMPORT = {"SSL_CERT_FILE", "SSL_CERT_DIR"}  # which a process that has imported everything has not seen
_LONGEST = 1 << 20  # bytes of a request
_FILES = 2  # stdout, stderr
_PRELOADED = ("app", "cli", "client", "cluster")


class Forked:
    """A process as asyncio's are, as far as tests use those."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._waiting = asyncio.create_task(self._ended(connection))

    async def wait(self) -> int:
        """Return the exit code once there is one."""
        return await asyncio.shield(self._waiting)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def _ended(self, connection: socket.socket) -> int:
        with connection:
            self.returncode = int(await asyncio.get_running_loop().sock_recv(connection, 64))
        return self.returncode


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether a process with this environment may be forked."""
    return not EXEC_ALL and all(env.get(name) == os.environ.get(name) for name in READ_AT_IMPORT)


async def fork(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdout: IO[bytes], stderr: IO[bytes]
) -> Forked:
    """Run ``python`` with these arguments, which begin with ``-m proxyd`` or ``-c``."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(_address())
    request = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": str(cwd)}).encode()
    socket.send_fds(connection, [request], [stdout.fileno(), stderr.fileno()])
    connection.setblocking(False)
    pid = int(await asyncio.get_running_loop().sock_recv(connection, 64))
    return Forked(pid, connection)


@cache
def _address() -> str:
    """Start the process, once, and return where it listens; it ends with us."""
    folder = tempfile.TemporaryDirectory(prefix="proxyd-fork-")
    address = f"{folder.name}/socket"
    command = [sys.executable, "-c", f"from tests.prefork import serve; serve({address!r})"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


# -- inside that process


def serve(address: str) -> None:
    """Fork what is asked for until standard input closes; what is forked returns from here, to end as programs do."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        _preload()
        os.write(1, b"ready\n")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that mind a process are not waited for
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in ready:
                return
            connection, _ = listener.accept()
            if _fork() == 0:
                break
            connection.close()
    _mind(connection)


def _preload() -> None:
    for name in _PRELOADED:
        package = importlib.import_module(f"proxyd.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    language = importlib.import_module("proxyd.core.language")
    language.check([language.SourceText("a", "")])  # makes the parser of its grammar
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # so that pages stay shared


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of numpy's libraries are made for it
        return os.fork()


def _mind(connection: socket.socket) -> None:
    """Fork the process that was asked for, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, files, _, _ = socket.recv_fds(connection, _LONGEST, _FILES)
    request = json.loads(text)
    if (pid := _fork()) == 0:
        _become(connection, files, request)
        return
    for file in files:
        os.close(file)
    _, status = os.waitpid(pid, 0)
    try:
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:  # who asked is gone
        os._exit(1)
    os._exit(0)


def _become(connection: socket.socket, files: Sequence[int], request: Mapping[str, Any]) -> None:
    """Turn into the process that was asked for, and run its program to its end."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    connection.send(str(os.getpid()).encode())
    connection.close()
    how, what, *others = request["arguments"]
    if (how, what) == ("-m", "proxyd"):
        sys.argv = ["proxyd", *others]
        sys.exit(importlib.import_module("proxyd.__main__").main())
    sys.argv = [how, *others]
    exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
