"""From texts, and from members of JSON, to statements."""
