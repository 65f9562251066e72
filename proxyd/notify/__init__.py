"""Delivers messages from the outbox to people and their systems."""
