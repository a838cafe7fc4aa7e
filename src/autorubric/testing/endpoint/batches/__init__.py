"""Batches on the loopback endpoint, in the dialect of each provider."""

from __future__ import annotations

import re

from autorubric.testing.endpoint.batches import anthropic, gemini, openai
from autorubric.testing.endpoint.batches.books import Asked, BatchBooks, BatchFaults, Route, Said

__all__ = ["Asked", "BatchBooks", "BatchFaults", "Said", "answer"]

_ROUTES: tuple[Route, ...] = (*openai.ROUTES, *anthropic.ROUTES, *gemini.ROUTES)


def answer(books: BatchBooks, asked: Asked) -> Said | None:
    """The answer to a request about batches or their files; None if it is about something else."""
    for method, pattern, handler in _ROUTES:
        found = re.fullmatch(pattern, asked.path)
        if asked.method == method and found:
            name = found[1] if found.groups() else ""
            return handler(books, asked, name) or books.unknown(name)
    return None
