"""The rule engine: probe outcomes go in, records and notifications come out."""
