"""Verbs of the scheduling science: solve, simulate, reproduce. They need no daemon."""
