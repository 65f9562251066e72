"""Documents before they are a feed or a page: their kind, text, dates and JSON, and how reading them fails."""
