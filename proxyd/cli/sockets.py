"""Where the daemon of these settings listens locally."""

from __future__ import annotations

from proxyd.client import UnreachableError
from proxyd.config import Settings, socket_address


def socket_of(settings: Settings) -> str:
    """Return the address of the daemon's Unix socket; raises where its folder is not even there."""
    try:
        return socket_address(settings.socket_path)
    except OSError as error:
        raise UnreachableError(f"no daemon answers at {settings.socket_path}; start one with `proxyd serve`") from error
