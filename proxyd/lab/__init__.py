"""The laboratory: the simulator, the papers' experiments, and algorithms and estimators that no daemon runs."""
