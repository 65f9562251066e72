"""One source, n probes in a period: delay costs and optimal schedules."""
