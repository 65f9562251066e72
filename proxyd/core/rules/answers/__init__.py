"""What the decider can say of its plan: explanations, advice, and what a declaration would cost."""
