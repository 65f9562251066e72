"""What the checker has to know of the daemon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the checker has to know of the daemon.

    Parameters
    ----------
    secret_env_prefix
        Names after SECRET ENV must start with it, so that a rule cannot send out other variables.
    chronon_s
        Length of a chronon; durations are compared with it.
    can_subscribe
        Whether hubs can reach the daemon; WEBSUB ON has no effect otherwise.
    can_mail
        Whether there is a server that takes mail; DELIVERY MAIL waits for one otherwise.
    channel_schemes
        What DELIVERY CHANNEL may use; ``None`` for every scheme.
    has_channels
        Whether what sends to channels is installed.
    from_api
        Whether DROP may stand in the texts. The caller acts on it; the checker passes over it.
    """

    secret_env_prefix: str = "SECRET_"
    chronon_s: float = 10.0
    can_subscribe: bool = True
    can_mail: bool = True
    channel_schemes: frozenset[str] | None = None
    has_channels: bool = True
    from_api: bool = False
