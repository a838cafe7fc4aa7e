"""What is wrong with a rubric that can be seen without a model: one rule a file."""
