"""The plan on a terminal, as JSON, and as one HTML page."""
