"""The command line: parses arguments, calls the application and prints; it makes no decisions."""
