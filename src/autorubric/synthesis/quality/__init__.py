"""The thirteen principles of good rubrics as numbers: one measure a file."""
