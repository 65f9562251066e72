"""Brings probe requests to the prober: in this process, or over NATS on other machines."""

from proxyd.cluster.local_transport import LocalTransport

__all__ = ["LocalTransport"]
