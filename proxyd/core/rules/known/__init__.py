"""What is known: the declaration as it runs, its sources and streams, and what was learned of them."""
