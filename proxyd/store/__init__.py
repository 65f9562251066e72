"""The daemon's store: one transaction for each observation."""
