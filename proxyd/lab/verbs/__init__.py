"""The verbs simulate, solve and reproduce, which need no daemon."""
