"""The papers' experiments, reproduced; each returns figures: tables that can be plotted."""
