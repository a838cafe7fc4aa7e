"""Rubrics for language models: synthesis, grading, agreement, training."""
