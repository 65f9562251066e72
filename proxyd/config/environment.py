"""Other values from the environment: the supervisor, secrets, and socket addresses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxyd.config.settings import Settings
from proxyd.core.model.delivery import SECRET_PREFIX, SecretRef


@dataclass(frozen=True, slots=True)
class Supervision:
    """The supervisor's address, and the interval within which its watchdog must be fed, if it has one."""

    address: str
    watchdog_s: float | None


def supervision(environ: Mapping[str, str] | None = None) -> Supervision | None:
    """Return systemd's settings in a service's environment, or ``None`` without a supervisor.

    >>> supervision({"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "30000000"})
    Supervision(address='/run/systemd/notify', watchdog_s=30.0)
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    address, watchdog = env.get("NOTIFY_SOCKET", ""), env.get("WATCHDOG_USEC", "")
    if not address.startswith(("/", "@")):
        return None
    is_ours = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    watchdog_s = int(watchdog) / 1e6 if is_ours and watchdog.isdecimal() and int(watchdog) else None
    return Supervision(address.replace("@", "\0", 1) if address[0] == "@" else address, watchdog_s)


def socket_address(path: Path) -> str:
    """Return a spelling of a Unix socket's path within the kernel's limit of 107 bytes.

    A longer path goes through its open folder, which stays open for the life of the process.
    """
    if len(os.fsencode(path)) < 104:
        return str(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{folder}/{path.name}"


class SecretStore:
    """Resolves ``SECRET ENV`` and ``SECRET FILE``; values are never logged or kept."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._folder = settings.secrets
        self._env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place

    def resolve(self, ref: SecretRef) -> bytes | None:
        """Return the secret, or ``None`` if it is not set, empty or unreadable."""
        if ref.kind == "env":
            value = self._env.get(ref.name) if ref.name.startswith(SECRET_PREFIX) else None
            return os.fsencode(value) if value else None
        if self._folder is None or Path(ref.name).name != ref.name:
            return None
        try:
            return (self._folder / ref.name).read_bytes().strip() or None
        except OSError:
            return None
