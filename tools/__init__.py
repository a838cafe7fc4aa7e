"""Scripts that `make` runs to regenerate files of the package."""
