"""Prints statements and expressions in one canonical layout."""
