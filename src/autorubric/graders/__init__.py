"""Rubric and submission in, report out: judges, panels, cascades, and checks beside them."""
