"""One thin file for each trainer and evaluation framework; each is imported only by those who use it."""
