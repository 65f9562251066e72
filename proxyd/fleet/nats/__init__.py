"""Probes made by several machines, which share the work through NATS; needs the extra ``cluster``."""

from proxyd.fleet.nats.link import OUTBOX, FleetSettings, Link, open_link
from proxyd.fleet.nats.prober import FleetProber, ProberSettings
from proxyd.fleet.nats.transport import NatsTransport

__all__ = ["OUTBOX", "FleetProber", "FleetSettings", "Link", "NatsTransport", "ProberSettings", "open_link"]
