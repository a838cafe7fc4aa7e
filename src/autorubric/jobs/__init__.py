"""The public functions, one file each: its settings model, the function and its async version."""
