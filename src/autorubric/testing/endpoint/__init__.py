"""A real HTTP server on this machine that speaks chat completions."""
