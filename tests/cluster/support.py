"""Several machines: daemons of different roles over one PostgreSQL and one NATS, an origin with many hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.acceptance.support import Daemon, Origin, Receiver, listening
from tests.servers import NatsServer, PostgresServer, nats_server

LEASE_S = 4.0
_WRONG_CLOCK = """
import time
right = time.time
time.time = lambda: right() + {off_s}
from proxyd.__main__ import main
main()
"""
is_measured = False  # how long recovery takes; the fixture ``measured`` sets it


@dataclass
class Cluster:
    """Machines that share a database and NATS; none has started."""

    folder: Path
    origin: Origin
    receiver: Receiver
    postgresql: PostgresServer
    database: str
    nats: NatsServer
    stack: AsyncExitStack
    settings: dict[str, str] = field(default_factory=dict)
    machines: list[Daemon] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    async def machine(
        self,
        role: str,
        *,
        prefix: Sequence[str] = (),
        address: str = "127.0.0.1",
        code: str = "",
        off_s: str = "",
        **settings: str,
    ) -> Daemon:
        """Return a machine of a role, started; not yet ready. A ``prefix`` puts it into a network with that address.

        ``code`` is the folder of another version; ``off_s`` is how far its clock is ahead.
        """
        folder = self.folder / f"{role}-{next(self.numbers)}"
        folder.mkdir()
        own = {
            "role": role,
            "database": self.database,
            "nats": self.nats.url,
            "lease": f"{LEASE_S:g}s",
            "socket": str(folder / "proxyd.sock"),
        }
        made = Daemon(folder, prefix=prefix, address=address, **(own | self.settings | settings))
        daemon = await self.stack.enter_async_context(made)
        daemon.code = code
        if off_s:
            daemon.prefix = prefix or ("env",)  # a process that was forked has read the clock already
            daemon.program = ("-c", _WRONG_CLOCK.format(off_s=off_s), "serve")
        daemon.profiles.mkdir(exist_ok=True)
        for profile in (self.folder / "profiles").glob("*.profile"):
            daemon.declare(profile.read_text(), profile.stem)
        self.machines.append(daemon)
        await daemon.spawn()
        return daemon

    def declare(self, texts: Sequence[str]) -> None:
        """Declare texts on every machine that starts from now on."""
        (self.folder / "profiles").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (self.folder / "profiles" / f"{number}.profile").write_text(text, encoding="utf-8")


@asynccontextmanager
async def cluster(
    folder: Path, postgresql: PostgresServer, *, nats_host: str = "127.0.0.1", **settings: str
) -> AsyncIterator[Cluster]:
    """Yield a cluster without machines."""
    origin, receiver = Origin(), Receiver()
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(nats_server(nats_host))
        await stack.enter_async_context(listening(origin))
        await stack.enter_async_context(listening(receiver))
        yield Cluster(folder, origin, receiver, postgresql, postgresql.create(), nats, stack, dict(settings))
