"""The demands that each policy makes on the plan for one rule on one source."""
