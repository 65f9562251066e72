"""The papers' experiments, done again; each yields figures: tables that can be drawn."""
