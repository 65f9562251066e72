"""Probes: fetch a source, read it, and return the outcome."""
