"""A run directory: its manifest, and what is shown while a run is under way."""
