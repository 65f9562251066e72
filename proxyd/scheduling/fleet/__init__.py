"""The fleet planner: many sources, one budget, prices that share it, and the slots of the week that pay best."""

from proxyd.scheduling.fleet.plan import FleetPlan, plan_epoch
from proxyd.scheduling.fleet.planner import FleetLimits, FleetPlanner, WeekGrid
from proxyd.scheduling.fleet.prices import HostLimits, Prices, allocate
from proxyd.scheduling.fleet.timetable import Timetable
from proxyd.scheduling.fleet.trade import TradePoint, trade
from proxyd.scheduling.fleet.week_plan import SLOT_S, FleetState, WeekPlan, by_slot

__all__ = [
    "SLOT_S",
    "FleetLimits",
    "FleetPlan",
    "FleetPlanner",
    "FleetState",
    "HostLimits",
    "Prices",
    "Timetable",
    "TradePoint",
    "WeekGrid",
    "WeekPlan",
    "allocate",
    "by_slot",
    "plan_epoch",
    "trade",
]
