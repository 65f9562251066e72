"""Algorithms of the papers that no daemon runs."""
