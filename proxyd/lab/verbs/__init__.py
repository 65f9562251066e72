"""The verbs simulate, solve and reproduce. They need no daemon."""
