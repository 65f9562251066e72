from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from proxyd.core.errors import BlockedAddressError
from proxyd.net.guard import Guard, GuardedResolver, RefusedConnectionError, refusal, refusal_in

REFUSED = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("100.127.255.255", "carrier-grade NAT"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "cloud platform"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "reserved"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4 relay"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmark"),
    ("198.19.255.255", "benchmark"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::127.0.0.1", "IPv4-compatible of 127.0.0.1 (loopback)"),
    ("::8.8.8.8", "IPv4-compatible of 8.8.8.8"),
    ("::ffff:127.0.0.1", "IPv4-mapped of 127.0.0.1 (loopback)"),
    ("::ffff:8.8.8.8", "IPv4-mapped of 8.8.8.8"),
    ("::ffff:0:10.0.0.1", "IPv4-translated of 10.0.0.1 (private)"),
    ("64:ff9b::127.0.0.1", "NAT64 of 127.0.0.1 (loopback)"),
    ("64:ff9b::8.8.8.8", "NAT64 of 8.8.8.8"),
    ("64:ff9b:1::a00:1", "local NAT64"),
    ("100::1", "discard"),
    ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "Teredo of 10.0.0.1 (private)"),
    ("2001:2::1", "benchmark"),
    ("2001:10::1", "reserved"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::1", "6to4 of 127.0.0.1 (loopback)"),
    ("2002:808:808::1", "6to4 of 8.8.8.8"),
    ("3fff::1", "documentation"),
    ("4000::1", "reserved"),
    ("5f00::1", "reserved"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "private"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
]
ALLOWED = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "198.20.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "2620::1",
]


@pytest.mark.parametrize(("address", "reason"), REFUSED, ids=[address for address, _ in REFUSED])
def test_refused_with_its_reason(address: str, reason: str) -> None:
    assert refusal(ip_address(address)) == reason


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(ip_address(address)) is None


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1", "224.0.0.1", "fec0::1"])
def test_is_global_alone_would_have_let_these_through(address: str) -> None:
    """The trap: the standard library calls some of these global; the guard must not rely on it."""
    assert refusal(ip_address(address)) is not None


@pytest.mark.parametrize(
    ("address", "networks", "allowed"),
    [
        ("127.0.0.1", ["127.0.0.0/8"], True),
        ("10.1.2.3", ["10.1.0.0/16"], True),
        ("10.2.2.3", ["10.1.0.0/16"], False),
        ("::1", ["127.0.0.0/8"], False),
        ("::1", ["::1/128"], True),
        ("64:ff9b::8.8.8.8", ["64:ff9b::/96"], True),
        ("64:ff9b::10.0.0.1", ["64:ff9b::/96"], False),
        ("64:ff9b::10.0.0.1", ["64:ff9b::/96", "10.0.0.0/8"], True),
        ("::ffff:127.0.0.1", ["127.0.0.0/8"], False),
        ("::ffff:127.0.0.1", ["::/0", "0.0.0.0/0"], True),
    ],
)
def test_the_allow_list_wins_but_what_is_inside_is_judged_too(address: str, networks: list[str], allowed: bool) -> None:
    reason = refusal(ip_address(address), [ip_network(network) for network in networks])
    assert (reason is None) is allowed


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://example.org/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("/relative", "only http and https"),
        ("gopher://example.org/", "only http and https"),
        ("http://user:hunter2@example.org/", "credentials"),
        ("http://user@example.org/", "credentials"),
        ("http://:hunter2@example.org/", "credentials"),
        ("http://example.org:25/", "port 25"),
        ("http://example.org:6667/", "port 6667"),
        ("http://0x7f.1/", "127.0.0.1 is refused: loopback"),
        ("http://[::1]/", "::1 is refused: loopback"),
        ("http://127.0.0.1.5/", "looks like an IP address but is not a valid one"),
        ("http://1.2.3.256/", "looks like an IP address but is not a valid one"),
        ("http://1_0.8.8.8/", "looks like an IP address but is not a valid one"),
        ("http://127.0.0.1%00.example.org/", "letters, digits"),
        ("http://a..b/", "letters, digits"),
    ],
)
def test_urls_that_are_refused_before_any_lookup(url: str, message: str) -> None:
    with pytest.raises(BlockedAddressError, match=message) as caught:
        Guard().check_url(URL(url))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://example.org/", "https://example.org:8443/a?b", "HTTP://EXAMPLE.org"])
def test_urls_that_pass(url: str) -> None:
    Guard().check_url(URL(url))


@pytest.mark.parametrize(
    "url", ["http://8.8.8.8/", "http://0x8.8.8.8/", "http://[2606:4700::1111]/", "http://a_b.example./"]
)
def test_hosts_that_pass(url: str) -> None:
    Guard().check_url(URL(url))


def test_listed_ports_are_the_only_ones() -> None:
    guard = Guard(allow_ports=[443, 25])
    for url in ("https://example.org/", "http://example.org:25/"):
        guard.check_url(URL(url))
    with pytest.raises(BlockedAddressError, match="port 80 is not in the setting allow_ports"):
        guard.check_url(URL("http://example.org/"))


async def test_a_target_behind_a_proxy_is_refused_where_any_of_its_addresses_is() -> None:
    guard = Guard()
    await guard.check_target(URL("http://a.example/"), FixedResolver("8.8.8.8", "2606:4700::1111"))
    await guard.check_target(URL("http://8.8.8.8/"), FixedResolver("10.0.0.1"))
    for url, resolver in (
        ("http://a.example/", FixedResolver("8.8.8.8", "10.0.0.1")),
        ("http://0xa.1/", FixedResolver("8.8.8.8")),
    ):
        with pytest.raises(BlockedAddressError, match=r"10\.0\.0\.1 is refused: private"):
            await guard.check_target(URL(url), resolver)


def test_the_socket_factory_refuses_by_address() -> None:
    with pytest.raises(RefusedConnectionError, match=r"127\.0\.0\.1 is refused: loopback"):
        Guard().open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))


def test_the_socket_factory_opens_a_socket_for_an_allowed_address() -> None:
    guard = Guard([ip_network("127.0.0.0/8")])
    with guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))) as opened:
        assert opened.family == socket.AF_INET


def test_a_refusal_is_an_os_error_so_that_other_addresses_are_tried() -> None:
    error = RefusedConnectionError("why")
    assert isinstance(error, OSError)
    assert isinstance(error, BlockedAddressError)
    assert (str(error), error.message, error.errno) == ("why", "why", None)


class FixedResolver(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


async def test_the_resolver_keeps_the_allowed_addresses_of_a_name() -> None:
    resolver = GuardedResolver(Guard(), FixedResolver("10.0.0.1", "8.8.8.8", "::1"))
    assert [result["host"] for result in await resolver.resolve("mixed.example")] == ["8.8.8.8"]


async def test_the_resolver_refuses_a_name_without_an_allowed_address() -> None:
    resolver = GuardedResolver(Guard(), FixedResolver("10.0.0.1", "::1"))
    with pytest.raises(RefusedConnectionError, match="no allowed address"):
        await resolver.resolve("inside.example")


async def test_a_factory_error_that_is_no_os_error_would_be_lost() -> None:
    """The trap behind RefusedConnectionError: with several addresses aiohappyeyeballs swallows other exceptions."""

    def refuse(_info: object) -> socket.socket:
        raise BlockedAddressError("refused")

    connector = aiohttp.TCPConnector(resolver=FixedResolver("127.0.0.1", "::1"), socket_factory=refuse)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(IndexError):
            await session.get("http://two.example:9/")


async def test_the_factory_alone_ends_as_a_refusal_for_one_address() -> None:
    connector = aiohttp.TCPConnector(resolver=FixedResolver("127.0.0.1"), socket_factory=Guard().open_socket)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get("http://one.example:9/")
    assert refusal_in(caught.value) is not None


async def test_the_factory_alone_never_connects_but_loses_the_reason_for_several_addresses() -> None:
    """Why there is a resolver as well: errors of several addresses are joined into a plain OSError."""
    connector = aiohttp.TCPConnector(resolver=FixedResolver("127.0.0.1", "::1"), socket_factory=Guard().open_socket)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError, match="refused: loopback") as caught:
            await session.get("http://two.example:9/")
    assert refusal_in(caught.value) is None


def test_a_url_without_a_host_is_refused() -> None:
    with pytest.raises(BlockedAddressError, match="a URL without a host is refused"):
        Guard().check_url(URL("http:///feed"))


async def test_closing_the_resolver_closes_the_one_inside() -> None:
    closed = []

    class Closing(FixedResolver):
        async def close(self) -> None:
            closed.append(self.addresses)

    await GuardedResolver(Guard(), Closing("8.8.8.8")).close()
    assert closed == [("8.8.8.8",)]
