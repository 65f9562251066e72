"""What each policy demands of the plan for one rule on one source."""
