"""Private servers of the installed programs, on free ports: one of PostgreSQL for a run, others for a test."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from proxyd.cluster.nats_users import CONFIG, USERS, Server, config_names, files_of

_WAIT_S = 60.0
_FIRST_PORT, _PORTS = 10_000, 22_000
_numbers = count()
_kept: list[PostgresServer] = []  # whose processes outlive the tests that began them
_UNSAFE = ("fsync=off", "full_page_writes=off", "autovacuum=off")  # nobody cuts the power
_MIGRATED, _SHARED = "migrated", "postgresql.json"


_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on, below those that the system gives to connections and to port 0.

    So nothing takes it before the caller listens there, or while a server that keeps its port is restarted; none is
    given twice in a run.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    for _ in range(10_000):
        port = secrets.randbelow(_PORTS) + _FIRST_PORT
        if port in _given or port % int(workers) != int(worker.removeprefix("gw")):
            continue
        _given.add(port)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return once somebody listens there; raise where the process ended or took too long."""
    end_s = time.monotonic() + _WAIT_S
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def postgres_program(name: str) -> str:
    """Return the path of a program of PostgreSQL's newest installed version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    path = str(found[-1]) if found else shutil.which(name)
    if path is None:
        pytest.skip("postgresql is not installed")
    return path


def _unprivileged() -> str | None:
    """Return the user that servers run as where we are root, which PostgreSQL refuses."""
    return "postgres" if os.geteuid() == 0 else None


@dataclass
class PostgresServer:
    """A cluster of databases of its own; ``stop`` and ``start`` again keep what it holds."""

    folder: Path
    port: int
    listens: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if user := _unprivileged():
            shutil.chown(self.folder, user)
        options = ("--auth=trust", "--username=proxyd", "--encoding=UTF8", "--locale=C", "--no-sync")
        command = [postgres_program("initdb"), "-D", str(self.folder / "data"), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=_unprivileged(), cwd="/")
        rules = self.folder / "data" / "pg_hba.conf"
        guarded = "host all guarded 0.0.0.0/0 scram-sha-256\n"  # the first rule that fits counts
        rules.write_text(f"{guarded}{rules.read_text()}host all all 0.0.0.0/0 trust\n")

    def start(self) -> None:
        """Start the server; its commits are not synced, for no test cuts the power."""
        settings = ("max_connections=200", f"listen_addresses={self.listens}", "log_min_messages=fatal", *_UNSAFE)
        options = [part for each in settings for part in ("-c", each)]
        command = [postgres_program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "-p", str(self.port), *options],
            user=_unprivileged(),
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        end_s = time.monotonic() + _WAIT_S
        ready = [postgres_program("pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if time.monotonic() > end_s or self.process.poll() is not None:
                raise RuntimeError("PostgreSQL does not start")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server: SIGINT ends sessions in order, SIGQUIT at once, as a crash would."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(_WAIT_S)
            self.process = None

    def make_replica(self, replica: PostgresServer, primary_port: int) -> None:
        """Copy this cluster for a server that follows it through a port, which need not be its own."""
        replica.folder.mkdir(parents=True)
        if user := _unprivileged():
            shutil.chown(replica.folder, user)
        address = ("-h", "127.0.0.1", "-p", str(primary_port), "-U", "proxyd")
        command = [postgres_program("pg_basebackup"), "-D", str(replica.folder / "data"), "-R", "-c", "fast", *address]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=_unprivileged(), cwd="/")

    def promote(self) -> None:
        """End the recovery of a replica, so that it takes writes."""
        self.query("SELECT pg_promote()")

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql+asyncpg://proxyd@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """Make a database and return its address."""
        return self._create("template1")

    def create_migrated(self) -> str:
        """Make a database at the newest schema and return its address."""
        return self._create(_MIGRATED)

    def _create(self, template: str) -> str:
        name = f"proxyd_{os.getpid()}_{next(_numbers)}"
        self.query(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def guard(self, password: str) -> None:
        """Make the user ``guarded``, who may do all and needs a password; another worker may have made it."""
        create = f"CREATE ROLE guarded SUPERUSER LOGIN PASSWORD '{password}'"
        self.query(f"DO $$ BEGIN {create}; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")

    def query(self, statement: str, database: str = "postgres", *, user: str = "proxyd") -> str:
        """Return what ``psql`` prints for a statement."""
        done = self._psql(statement, database, user)
        done.check_returncode()
        return done.stdout.strip()

    def refused(self, statement: str, database: str, *, user: str) -> str:
        """Return why a statement is refused."""
        done = self._psql(statement, database, user)
        assert done.returncode != 0, statement
        return done.stderr

    def _psql(self, statement: str, database: str, user: str) -> subprocess.CompletedProcess[str]:
        address = ("-h", str(self.folder), "-p", str(self.port), "-U", user, "-d", database)
        command = [postgres_program("psql"), "-X", "-A", "-t", "-q", *address, "-c", statement]
        return subprocess.run(command, check=False, capture_output=True, text=True)


@contextmanager
def postgres_server(listens: str = "127.0.0.1") -> Iterator[PostgresServer]:
    """Run a server of PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="proxyd-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder) / "cluster", free_port(), listens)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def shared_postgres(folder: Path, migrate: Callable[[str], None]) -> PostgresServer:
    """Return the run's server, started by who asks first; ``migrate`` makes what ``create_migrated`` copies."""
    told = folder / _SHARED
    with (folder / f"{_SHARED}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if told.exists():
            found = json.loads(told.read_text())
            return PostgresServer(Path(found["folder"]), found["port"])
        own = Path(tempfile.mkdtemp(prefix="proxyd-pg-"))
        own.chmod(0o755)
        server = PostgresServer(own / "cluster", free_port())
        server.make()
        server.start()
        assert server.process is not None
        told.write_text(json.dumps({"folder": str(server.folder), "port": server.port, "pid": server.process.pid}))
        server.query(f"CREATE DATABASE {_MIGRATED}")
        migrate(server.url(_MIGRATED))
        _kept.append(server)
        return server


def stop_shared_postgres(folder: Path) -> None:
    """Stop the run's server, where there is one."""
    told = folder / _SHARED
    if not told.exists():
        return
    found = json.loads(told.read_text())
    own = Path(found["folder"])
    with suppress(ProcessLookupError):
        os.kill(found["pid"], signal.SIGQUIT)
    end_s = time.monotonic() + _WAIT_S
    while (own / "data" / "postmaster.pid").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    shutil.rmtree(own.parent, ignore_errors=True)
    told.unlink()


@dataclass
class NatsServer:
    """A server of NATS; with a password it wants that of the user ``me``, or it has a configuration of its own."""

    port: int
    listens: str = "127.0.0.1"
    password: str = ""
    config: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return self.url_at("127.0.0.1")

    def url_at(self, host: str) -> str:
        """Return its address as others reach it."""
        who = f"me:{self.password}@" if self.password else ""
        return f"nats://{who}{host}:{self.port}"

    def start(self) -> None:
        """Start the server."""
        command = ["nats-server", "-a", self.listens, "-p", str(self.port)]
        command += ["--user", "me", "--pass", self.password] if self.password else []
        command += ["--config", str(self.config), "-m", "0"] if self.config else []
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        """Kill the server."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(_WAIT_S)
            self.process = None


@contextmanager
def nats_servers(folder: Path) -> Iterator[tuple[Sequence[NatsServer], Mapping[str, str]]]:
    """Run a cluster of three servers of NATS, as ``cluster init`` prepares it; yield them, and their addresses by role.

    Their files are written into ``folder``.
    """
    if shutil.which("nats-server") is None:
        pytest.skip("nats-server is not installed")
    servers = [Server("127.0.0.1", free_port()) for _ in range(3)]
    links = {f":{6222 + number}": f":{free_port()}" for number, _ in enumerate(servers)}  # between servers
    files = files_of(servers, ["127.0.0.1"], lambda: secrets.token_hex(8), is_encrypted=False)
    for name, text in files.items():
        stores = text.replace("\nhttp: ", f'\njetstream: {{store_dir: "{folder / name}-js"}}\n# http: ')
        (folder / name).write_text(re.sub("|".join(links), lambda port: links[port[0]], stores), encoding="utf-8")
    with ExitStack() as stack:
        started = [
            NatsServer(server.port, config=folder / name)
            for server, name in zip(servers, config_names(servers), strict=True)
        ]
        for each in started:
            stack.callback(each.stop)
            each.start()
        yield started, {role: files[f"nats_url_{role}"] for role in USERS}


@contextmanager
def nats_server(listens: str = "127.0.0.1", password: str = "", *, config: Path | None = None) -> Iterator[NatsServer]:
    """Run a server of NATS; ``config`` is the folder into which one with users is written."""
    if shutil.which("nats-server") is None:
        pytest.skip("nats-server is not installed")
    server = NatsServer(free_port(), listens, password)
    if config is not None:
        at = Server("127.0.0.1", server.port)
        for name, text in files_of([at], ["127.0.0.1"], lambda: secrets.token_hex(8), is_encrypted=False).items():
            (config / name).write_text(re.sub("(?m)^http: .*$", "", text), encoding="utf-8")
        server.config = config / CONFIG
    server.start()
    try:
        yield server
    finally:
        server.stop()
