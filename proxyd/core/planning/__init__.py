"""Decides which sources to probe when, within the budget and the politeness of each host."""
