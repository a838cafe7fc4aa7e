"""What operating systems do differently. No other file of the package names a call that one of them lacks."""
