"""Composition of the parts for each role of a machine."""
