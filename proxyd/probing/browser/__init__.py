"""Pages that a browser renders: their requests, and the browser."""
