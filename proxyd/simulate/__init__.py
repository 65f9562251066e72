"""The simulator: the same decisions as the daemon, in virtual time."""
