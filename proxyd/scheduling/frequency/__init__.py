"""Access frequencies and sequences: how often to probe each source, and in which order."""
