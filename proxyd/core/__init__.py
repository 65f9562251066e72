"""What decides, as pure functions and small objects: no I/O, no clock, no logging, no global random numbers."""
