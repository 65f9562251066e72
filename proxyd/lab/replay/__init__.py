"""Replays: policies on traces, with the daemon's own decisions, in virtual time."""
