"""Schedules and policies: what to probe when, decided without reading a clock or touching the world."""

from proxyd.scheduling.budget import Budget, BudgetHours
from proxyd.scheduling.demand import Demands, DoeDemand, FixedDemand, IntervalDemand, OnceDemand
from proxyd.scheduling.edf import latest_slots
from proxyd.scheduling.intervals import Firing, PlannedInterval, expected_interval
from proxyd.scheduling.outlook import Outlook, Unmet, outlook
from proxyd.scheduling.paces import PACED, PacedDemand
from proxyd.scheduling.page import CONSTRAINTS, Page
from proxyd.scheduling.planner import PlannedProbe, Planner, PlannerSettings

__all__ = [
    "CONSTRAINTS",
    "PACED",
    "Budget",
    "BudgetHours",
    "Demands",
    "DoeDemand",
    "Firing",
    "FixedDemand",
    "IntervalDemand",
    "OnceDemand",
    "Outlook",
    "PacedDemand",
    "Page",
    "PlannedInterval",
    "PlannedProbe",
    "Planner",
    "PlannerSettings",
    "Unmet",
    "expected_interval",
    "latest_slots",
    "outlook",
]
