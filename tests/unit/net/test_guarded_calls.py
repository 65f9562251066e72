"""What the hook judges that hears of every connection; Python traces no code in hooks, so it is called by hand too."""

from __future__ import annotations

import socket
import threading
from ipaddress import ip_network

import pytest

from proxyd.net.guard import Guard, GuardedConnections, RefusedConnectionError, _judge, guard_calls

PUBLIC, PRIVATE = ("93.184.216.34", 443), ("10.0.0.1", 443)


def guard() -> Guard:
    return Guard((), frozenset({443}))


def test_only_connections_inside_are_judged() -> None:
    _judge("socket.connect", (None, PRIVATE))
    with guard_calls(guard()) as refused:
        _judge("open", (PRIVATE,))
        _judge("socket.connect", (None, PUBLIC))
    assert refused == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (PRIVATE, "10.0.0.1"),
        (("localhost", 443), "a connection by name, or to a local socket, is refused"),
        ("/run/proxyd.sock", "a connection by name, or to a local socket, is refused"),
        ((), "a connection by name, or to a local socket, is refused"),
    ],
)
def test_what_the_guard_refuses_is_refused_and_kept(target: object, said: str) -> None:
    with guard_calls(guard()) as refused, pytest.raises(RefusedConnectionError):
        _judge("socket.connect", (None, target))
    assert len(refused) == 1
    assert said in refused[0]


def test_a_call_whose_time_is_over_is_ended_from_another_thread() -> None:
    connections = GuardedConnections()
    allowed = Guard([ip_network("127.0.0.0/8")])
    with socket.create_server(("127.0.0.1", 0)) as server, guard_calls(allowed, connections):
        with socket.create_connection(server.getsockname()) as client:
            threading.Thread(target=connections.end).start()
            assert client.recv(1) == b""
        with pytest.raises(RefusedConnectionError, match="the time of the call is over"):
            socket.create_connection(server.getsockname())


def test_connections_are_ended_together_and_none_is_added_afterwards() -> None:
    connections = GuardedConnections()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connections.add(ours)
        connections.end()
        assert theirs.recv(1) == b""
        with pytest.raises(RefusedConnectionError, match="the time of the call is over"):
            connections.add(ours)


def test_a_real_connection_is_heard_of() -> None:
    with guard_calls(guard()) as refused, socket.socket() as opened, pytest.raises(RefusedConnectionError):
        opened.connect(("127.0.0.1", 9))
    assert len(refused) == 1
