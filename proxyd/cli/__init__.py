"""The command line: parses arguments, calls the application, prints; it decides nothing."""
