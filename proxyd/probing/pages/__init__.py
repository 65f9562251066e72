"""Readers of HTML and JSON pages."""
