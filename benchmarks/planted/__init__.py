"""Criteria with planted faults: the corpus, simulated judges, and the processing of a query by the gates."""
