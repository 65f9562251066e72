"""Throttle scopes: the hosts to which one "too many requests" response applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from publicsuffixlist import PublicSuffixList

MOST_HOSTS = 65_536


class ThrottleScopes:
    """Maps a host to its scope: the group it is declared in, else its registrable domain or the host itself.

    Parameters
    ----------
    by_domain
        Whether the hosts of a registrable domain share a scope.
    groups
        Groups of hosts that share a scope; a domain includes its hosts.

    Examples
    --------
    >>> scopes = ThrottleScopes(by_domain=True, groups=[("cdn.example", "images.example")])
    >>> scopes("blog.feeds.co.uk"), scopes("a.images.example"), scopes("192.0.2.7")
    ('feeds.co.uk', 'cdn.example|images.example', '192.0.2.7')
    """

    def __init__(self, *, by_domain: bool = False, groups: Sequence[Sequence[str]] = ()) -> None:
        self._suffixes = PublicSuffixList(accept_unknown=False) if by_domain else None
        self._groups: Mapping[str, str] = {host: "|".join(group) for group in groups for host in group}
        self._scope = lru_cache(MOST_HOSTS)(self._find)

    def __call__(self, host: str) -> str:
        """Return the scope of a host."""
        return self._scope(host)

    def _find(self, host: str) -> str:
        labels = host.split(".")
        for start in range(len(labels)):
            group = self._groups.get(".".join(labels[start:]))
            if group is not None:
                return group
        domain: str | None = self._suffixes.privatesuffix(host) if self._suffixes else None
        return domain or host
