"""Charts as coordinates, which templates draw as SVG."""
