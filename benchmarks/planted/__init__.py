"""Criteria with planted faults: the corpus, models that play judges, and the way of a query through the gates."""
