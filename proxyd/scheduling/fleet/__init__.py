"""The fleet planner: many sources, one budget, prices that share it, and the slots of the week that pay best."""

from proxyd.scheduling.fleet.plan import FleetPlan, plan_epoch
from proxyd.scheduling.fleet.planner import FleetLimits, FleetPlanner, WeekGrid
from proxyd.scheduling.fleet.prices import HostLimits, Prices, allocate
from proxyd.scheduling.fleet.timetable import Timetable

__all__ = [
    "FleetLimits",
    "FleetPlan",
    "FleetPlanner",
    "HostLimits",
    "Prices",
    "Timetable",
    "WeekGrid",
    "allocate",
    "plan_epoch",
]
