"""Turns statements into one declaration: resolves names, and checks types and units."""
