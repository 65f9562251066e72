"""Reproductions of the papers' experiments; each returns figures, which are tables that can be plotted."""
