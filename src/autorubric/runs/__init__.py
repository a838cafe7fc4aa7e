"""A run: its directory, ledger and manifest, a dataset on its way through a grader, and what came of it."""
