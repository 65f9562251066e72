"""One source, n probes in a period: expected-delay costs, optimal schedules, baselines."""
