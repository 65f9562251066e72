"""Rules compiled to programs: expressions, triggers and queries."""
