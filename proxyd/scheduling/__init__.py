"""Schedules and policies: what to probe when, decided without reading a clock or touching the world."""

from proxyd.model.budget import Budget, BudgetHours
from proxyd.scheduling.adoption import adopting
from proxyd.scheduling.demand import Demands, DoeDemand, FixedDemand, IntervalDemand, OnceDemand
from proxyd.scheduling.edf import latest_slots
from proxyd.scheduling.intervals import Firing, PlannedInterval, expected_interval
from proxyd.scheduling.outlook import Ahead, Outlook, Unmet, outlook
from proxyd.scheduling.paces import PACED, PacedDemand
from proxyd.scheduling.page import Page
from proxyd.scheduling.parts import Parts, Steps, whole
from proxyd.scheduling.planner import Planner
from proxyd.scheduling.settings import PlannerSettings
from proxyd.scheduling.starts import Headway, PlannedProbe

__all__ = [
    "PACED",
    "Ahead",
    "Budget",
    "BudgetHours",
    "Demands",
    "DoeDemand",
    "Firing",
    "FixedDemand",
    "Headway",
    "IntervalDemand",
    "OnceDemand",
    "Outlook",
    "PacedDemand",
    "Page",
    "Parts",
    "PlannedInterval",
    "PlannedProbe",
    "Planner",
    "PlannerSettings",
    "Steps",
    "Unmet",
    "adopting",
    "expected_interval",
    "latest_slots",
    "outlook",
    "whole",
]
