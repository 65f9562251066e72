"""What waiting costs, and the compiled loops that everything else in planning calls."""
