"""Execution intervals under a capacity: how many can be captured, and how late."""
