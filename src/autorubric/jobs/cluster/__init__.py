"""Runs on a Ray cluster: the driver holds the run, and each worker has a ledger on its own machine."""
