"""What every part of the daemon uses: its ports, clock, metrics and log."""
