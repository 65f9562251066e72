"""Execution intervals of many sources: capture all with fewest probes, or most under a capacity, or late as little."""
