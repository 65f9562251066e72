"""Brings probes to whoever makes them: this process; ``proxyd.fleet.nats`` brings them to other machines."""

from proxyd.fleet.local import LocalTransport

__all__ = ["LocalTransport"]
