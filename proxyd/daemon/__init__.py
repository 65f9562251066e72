"""The loops of the daemon: read the clock, ask the core, do the effects, record."""

from proxyd.daemon.control import Broadcast, DaemonControl
from proxyd.daemon.daemon import Daemon, DaemonSettings, Loops
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.housekeeping import Chores
from proxyd.daemon.notifying import DistantNotifier, Notifier, Notifying
from proxyd.daemon.plan_loop import Planning
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.daemon.pushes import Pushes, PushParts
from proxyd.daemon.supervision import Supervisor

__all__ = [
    "Broadcast",
    "Chores",
    "Daemon",
    "DaemonControl",
    "DaemonSettings",
    "Declarations",
    "DistantNotifier",
    "Loops",
    "Notifier",
    "Notifying",
    "Planning",
    "ProbeLoop",
    "PushParts",
    "Pushes",
    "Supervisor",
]
