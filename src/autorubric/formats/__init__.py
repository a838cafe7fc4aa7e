"""Files of other projects to and from our nouns: one format a file."""
