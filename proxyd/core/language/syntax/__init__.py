"""Reads texts, and members of JSON, into statements."""
