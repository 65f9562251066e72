"""From statements and expressions to text in one canonical layout."""
