"""Batches on the loopback endpoint, in the dialect of each provider."""

from __future__ import annotations

import re

from autorubric.testing.endpoint.batches import anthropic, gemini, openai
from autorubric.testing.endpoint.batches.books import BatchAnswer, BatchBooks, BatchFaults, BatchRequest, Route

__all__ = ["BatchAnswer", "BatchBooks", "BatchFaults", "BatchRequest", "answer"]

_ROUTES: tuple[Route, ...] = (*openai.ROUTES, *anthropic.ROUTES, *gemini.ROUTES)


def answer(books: BatchBooks, asked: BatchRequest) -> BatchAnswer | None:
    """The answer to a request on batches or their files; None for any other request."""
    for method, pattern, handler in _ROUTES:
        found = re.fullmatch(pattern, asked.path)
        if asked.method == method and found:
            name = found[1] if found.groups() else ""
            return handler(books, asked, name) or books.refuse_unknown(name)
    return None
