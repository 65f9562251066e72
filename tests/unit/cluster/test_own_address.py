"""Where other machines reach the listener of this one."""

from __future__ import annotations

import pytest

from proxyd.cluster.machine import address_of_listener
from proxyd.config.settings import Settings

HERE, THERE = "postgresql+asyncpg://me:pa#s/s?[@127.0.0.1/x", "postgresql+asyncpg://me@192.0.2.1:6432/x"


@pytest.mark.parametrize(
    ("database", "listen", "advertise", "expected"),
    [
        (HERE, "127.0.0.1:8080", "", "127.0.0.1:8080"),
        (HERE, "localhost:8080", "", "localhost:8080"),
        (HERE, "0.0.0.0:8080", "", ""),  # others would ask themselves
        (HERE, "0.0.0.0:8080", "10.0.0.5:80", "10.0.0.5:80"),
        (THERE, "127.0.0.1:8080", "", ""),
        ("data/proxyd.db", "127.0.0.1:8080", "", ""),
        ("postgresql+asyncpg://me@nowhere.invalid/x", "0.0.0.0:8080", "", ""),
    ],
)
def test_a_listener_is_where_others_reach_it(database: str, listen: str, advertise: str, expected: str) -> None:
    settings = Settings(database=database, listen=listen, advertise=advertise)
    assert address_of_listener(settings) == expected


def test_what_cannot_be_an_address_is_refused() -> None:
    for advertise in ("foo]:80", "http://a.example:80", "a.example", "a b:80"):
        with pytest.raises(ValueError, match="is not host:port"):
            Settings(advertise=advertise)
