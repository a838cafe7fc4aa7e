"""From reports to training data and rewards."""
