"""From reports and ground truth to how far a judge can be trusted, and what that does to the score."""
