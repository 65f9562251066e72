"""Ways of writing addresses that are none of proxyd's business: one list for everything that sends requests."""

from __future__ import annotations

import socket
from typing import ClassVar

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

NAMES: dict[str, tuple[str, ...]] = {
    "localhost": ("127.0.0.1",),
    "localhost.": ("127.0.0.1",),
    "localhost.localdomain": ("127.0.0.1",),
    "anything.localhost": ("127.0.0.1", "::1"),
    "ip6-localhost": ("::1",),
    "broadcasthost": ("255.255.255.255",),
    "loopback.of.example": ("127.0.0.1",),
    "inside.of.example": ("10.0.0.1", "::1", "169.254.169.254"),
    "many.of.example": tuple(f"10.0.{third}.{last}" for third in range(4) for last in range(1, 200)),
    "mapped.of.example": ("::ffff:127.0.0.1",),
    "metadata.google.internal": ("169.254.169.254",),
    "metadata": ("169.254.169.254",),
    "instance-data.ec2.internal": ("169.254.169.254",),
    "metadata.azure.internal": ("168.63.129.16",),
    "kubernetes.default.svc": ("10.96.0.1",),
    "router.local": ("192.168.1.1",),
    "nat.of.example": ("100.64.0.1",),
    "v6-inside.of.example": ("fd00:ec2::254",),
}
LOOPBACK = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "2130706433",
    "2130706433.",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0x7f.0.1",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "00000000177.0.0.1",
    "127.0.0.01",
    "127.0x1",
    "\u2460\u2461\u2466.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "127\uff0e0\uff0e0\uff0e1",
    "127\uff610\uff610\uff611",
    "LOCALHOST",
    "lOcAlHoSt.",
    "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "%6c%6f%63%61%6c%68%6f%73%74",
    "127.0.0.1%00.example.org",
    "127.0.0.1%23.example.org",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000::0001]",
    "[::1%251]",
    "[::]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
    "[::FFFF:7F00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::80ff:fffe]",
    "example.org@127.0.0.1",
    "example.org:80@127.0.0.1",
    "example.org%40127.0.0.1",
    "example.org%2f@127.0.0.1",
    "@127.0.0.1",
]
INSIDE = [
    "10.0.0.1",
    "10.1",
    "167772161",
    "100.64.0.1",
    "100.127.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "172.16.0.1",
    "192.0.0.192",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fe80::a9fe:a9fe%25eth0]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "256.1.1.1",
    "1.2.3.4.5",
    "127.0.0.1.1",
    "1.2.3.4294967296",
    "08.0.0.1",
    "-1.0.0.1",
    "a..b",
]
REFUSED = [*LOOPBACK, *INSIDE, *NAMES]


class NamesResolver(AbstractResolver):
    """Knows ``NAMES`` and those given; whatever looks like a number goes to the system's own resolver."""

    known: ClassVar = NAMES

    def __init__(self, **names: tuple[str, ...]) -> None:
        self._system = ThreadedResolver()
        self._names = {**self.known, **{name.replace("_", "."): addresses for name, addresses in names.items()}}
        self.lookups: list[str] = []

    def answers(self, host: str) -> tuple[str, ...]:
        return self._names.get(host, (host,))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.lookups.append(host)
        results: list[ResolveResult] = []
        for address in self.answers(host):
            results += await self._system.resolve(address, port, socket.AF_UNSPEC)
        return results

    async def close(self) -> None:
        await self._system.close()


class RebindingResolver(NamesResolver):
    """Answers with the first addresses once, and from then on with the second."""

    def __init__(self, first: str, then: str) -> None:
        super().__init__()
        self._first, self._then = first, then

    def answers(self, host: str) -> tuple[str, ...]:
        return (self._first if self.lookups.count(host) == 1 else self._then,)
