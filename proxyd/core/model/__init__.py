"""The words of proxyd as values: chronons, items, rules, intervals, probes. Imported by module; nothing here acts."""
