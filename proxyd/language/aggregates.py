"""What an aggregate may be asked for, in a trigger and in a query."""

from __future__ import annotations

from proxyd.language.problems import Reporter
from proxyd.language.values import Values
from proxyd.model.expression import Aggregate


def check_aggregate_options(aggregate: Aggregate, reporter: Reporter, values: Values, *, in_query: bool) -> None:
    """Report options that do not fit."""
    span = aggregate.span
    if in_query:
        if aggregate.over is not None:
            reporter.error("OVER belongs to a class in FROM here, as in FROM RSS OVER 7 DAYS", span)
        if aggregate.across:
            reporter.error("ACROSS SOURCES belongs to triggers", span)
    else:
        values.durations([("OVER", aggregate.over)], span)
