"""Decides which sources are due in a chronon and which of them go first."""
