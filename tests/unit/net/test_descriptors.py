"""Open files: the soft limit is raised as far as the system lets it."""

from __future__ import annotations

import resource

import pytest

from proxyd.net.session import raise_open_files


class Limits:
    """The limits of a process; ``most`` is what the system really gives."""

    def __init__(self, soft: int, hard: int, most: int = 10**9) -> None:
        self.now = (soft, hard)
        self._most = most

    def get(self, _what: int) -> tuple[int, int]:
        return self.now

    def set(self, _what: int, limits: tuple[int, int]) -> None:
        if limits[0] > self._most:
            raise ValueError("not allowed to raise maximum limit")
        self.now = limits


def _raised(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    return raise_open_files()


def test_the_soft_limit_becomes_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1024, 4096)
    assert (_raised(limits, monkeypatch), limits.now) == (4096, (4096, 4096))


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1024, 4096, most=2048)
    assert (_raised(limits, monkeypatch), limits.now) == (1024, (1024, 4096))


def test_no_hard_limit_is_a_large_one_and_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1024, resource.RLIM_INFINITY)
    assert (_raised(limits, monkeypatch), limits.now) == (1 << 20, (1 << 20, resource.RLIM_INFINITY))
