"""One source, n probes in a period: expected-delay costs, optimal schedules, baselines."""

from proxyd.scheduling.single.baselines import first_arrival, parameter_for, threshold, uniform
from proxyd.scheduling.single.costs import Prefix
from proxyd.scheduling.single.cyclic import optimal_cycle
from proxyd.scheduling.single.improve import algorithm_10, improve_exactly
from proxyd.scheduling.single.optimal import Grid, OneSourceSchedule, all_optimal, optimal

__all__ = [
    "Grid",
    "OneSourceSchedule",
    "Prefix",
    "algorithm_10",
    "all_optimal",
    "first_arrival",
    "improve_exactly",
    "optimal",
    "optimal_cycle",
    "parameter_for",
    "threshold",
    "uniform",
]
