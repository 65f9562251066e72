"""Brings probes to whoever makes them: this process; ``proxyd.cluster`` brings them to other machines."""

from proxyd.cluster.local_transport import LocalTransport

__all__ = ["LocalTransport"]
