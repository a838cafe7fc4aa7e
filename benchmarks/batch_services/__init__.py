"""Batch services of OpenAI, Anthropic, Gemini and others on a loopback endpoint, with faults."""
