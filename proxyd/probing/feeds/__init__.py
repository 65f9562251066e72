"""Readers of RSS, Atom, JSON Feed and sitemaps."""
