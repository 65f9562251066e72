"""Estimators that no daemon runs."""
