"""The terms of proxyd as values: chronons, items, rules, intervals, probes. Nothing here acts; import the modules."""
