"""Composition: what is built for each role of a machine."""
