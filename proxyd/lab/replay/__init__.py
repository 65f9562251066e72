"""Replays: policies against traces, with the daemon's own decisions, in virtual time."""
