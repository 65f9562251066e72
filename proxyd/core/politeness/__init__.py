"""Politeness rules: when the next request may start. No I/O; nothing here waits."""
