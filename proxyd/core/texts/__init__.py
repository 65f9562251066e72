"""Texts as the world sends them: charsets, references, and what is safe to show."""
