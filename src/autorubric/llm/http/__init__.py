"""An OpenAI-compatible endpoint as a model: connections, retries, limits, negotiation, keys, prices."""
