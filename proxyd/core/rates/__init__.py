"""What proxyd learns about sources: update rates, shapes of the week, model fit and siblings."""
