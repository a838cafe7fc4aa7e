"""What a candidate criterion has to show before it enters the data: one gate a file."""
