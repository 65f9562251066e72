"""Answers about the plan: explanations, budget advice, and the cost of a declaration before it is applied."""
