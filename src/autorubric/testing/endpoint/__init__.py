"""An HTTP server on this machine with the chat completions API."""
