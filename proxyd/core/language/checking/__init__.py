"""From statements to one declaration: names, types and units."""
