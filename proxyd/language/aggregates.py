"""What an aggregate may be asked for, in a trigger and in a query."""

from __future__ import annotations

from proxyd.language.capabilities import Capability
from proxyd.language.problems import Reporter
from proxyd.language.values import Values
from proxyd.model.expression import Aggregate


def check_aggregate_options(aggregate: Aggregate, reporter: Reporter, values: Values, *, in_query: bool) -> None:
    """Report options that do not fit and what cannot be executed."""
    span = aggregate.span
    if in_query:
        reporter.need(Capability.QUERY_AGGREGATES, span)
        if aggregate.over is not None:
            reporter.error("OVER belongs to a class in FROM here, as in FROM RSS OVER 7 DAYS", span)
        if aggregate.across:
            reporter.error("ACROSS SOURCES belongs to triggers", span)
        return
    if aggregate.over is not None and reporter.need(Capability.AGGREGATE_OVER, span):
        values.durations([("OVER", aggregate.over)], span)
    if aggregate.across:
        reporter.need(Capability.ACROSS_SOURCES, span)
    if aggregate.where is not None:
        reporter.need(Capability.AGGREGATE_FILTER, span)
    if aggregate.distinct:
        reporter.need(Capability.DISTINCT_AGGREGATES, span)
    reporter.need(_function_capability(aggregate), span)


def _function_capability(aggregate: Aggregate) -> Capability:
    if aggregate.function != "COUNT":
        return Capability.VALUE_AGGREGATES
    return Capability.COUNT_ALL if aggregate.argument is None else Capability.COUNT_VALUES
