"""Runs on a Ray cluster: the driver owns the run, and each worker has a ledger on its own machine."""
