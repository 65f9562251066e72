"""Runs the real daemon between its own origin and receiver, and compares it with other schedules."""
