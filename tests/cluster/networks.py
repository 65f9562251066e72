"""A network of its own for a machine, with two cables that can be pulled: to the servers, and to the origin."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Network:
    """A namespace: ``servers`` is this machine's address on the first cable, ``hosts`` are those on the second."""

    name: str
    number: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """What a command begins with to run inside."""
        return ("ip", "netns", "exec", self.name)

    @property
    def servers(self) -> str:
        """Where servers are reached from inside."""
        return f"10.211.{self.number}.1"

    @property
    def inside(self) -> str:
        """Where the machine inside is reached, over the servers' cable."""
        return f"10.211.{self.number}.2"

    @property
    def hosts(self) -> list[str]:
        """Addresses of hosts that both sides reach."""
        return [f"10.212.{self.number}.{host}" for host in range(10, 22)]

    def pull_servers(self) -> None:
        """Pull the cable to the servers: nothing comes through, and nobody is told."""
        _ip("link", "set", self.cable("a"), "down")

    def cable(self, letter: str) -> str:
        """Return the name of a cable's outer end."""
        return f"pxd{letter}{self.name.removeprefix('pxd-')}"


def is_allowed() -> bool:
    """Return whether this machine lets us make networks."""
    try:
        with network():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def network() -> Iterator[Network]:
    """Make a network with its cables; take it away at the end."""
    made = Network(f"pxd-{os.getpid()}-{(nth := next(_numbers))}", (3 * os.getpid() + nth) % 250 + 1)
    _ip("netns", "add", made.name)
    try:
        for letter, block in (("a", 211), ("b", 212)):
            _lay_cable(made, letter, block)
        for host in made.hosts:
            _ip("address", "add", f"{host}/32", "dev", made.cable("b"))
        _ip("-n", made.name, "link", "set", "lo", "up")
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", made.name)


def _lay_cable(made: Network, letter: str, block: int) -> None:
    outer, inner = made.cable(letter), f"in{letter}"
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", made.name)
    _ip("address", "add", f"10.{block}.{made.number}.1/24", "dev", outer)
    _ip("link", "set", outer, "up")
    _ip("-n", made.name, "address", "add", f"10.{block}.{made.number}.2/24", "dev", inner)
    _ip("-n", made.name, "link", "set", inner, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
