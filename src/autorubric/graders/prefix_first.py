"""Lets the first call of an item go ahead alone, so that the others find its prefix cached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from autorubric.graders.judge import Ask
from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable


class PrefixFirst:
    """An `Ask` for one case: calls that share their beginning wait until the first of them is answered.

    Everything but the criterion, which stands last, is the same in all calls of a case. An endpoint that caches
    prefixes computes it once, but only if it has seen it before: ten calls at once compute it ten times. Other
    cases fill the places that the waiting calls leave.

    Example:
        >>> from autorubric.llm.request import Message
        >>> order = []
        >>> async def ask(model, request, read, follow_up):
        ...     order.append(f"asked {request.item}")
        ...     await asyncio.sleep(0)
        ...     order.append(f"answered {request.item}")
        >>> async def main():
        ...     first = PrefixFirst(ask)
        ...     asked = [Request((Message("user", "Judge."),), "judge", item=str(n)) for n in (1, 2)]
        ...     await asyncio.gather(*(first(None, request, None, None) for request in asked))
        ...     return order
        >>> asyncio.run(main())
        ['asked 1', 'answered 1', 'asked 2', 'answered 2']
    """

    __slots__ = ("_ahead", "_ask")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ahead: dict[tuple[int, str], asyncio.Event] = {}

    async def __call__(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], Answer[Any] | Unreadable],
        follow_up: FollowUp,
    ) -> Answer[Any] | Failure:
        """The answer to `request`, asked when the first call of its kind has ended."""
        # A case has binary and multi-choice criteria: two first messages, and so two beginnings.
        kind = (id(model), request.messages[0].content)
        ahead = self._ahead.get(kind)
        if ahead is not None:
            await ahead.wait()
            return await self._ask(model, request, read, follow_up)
        ahead = self._ahead[kind] = asyncio.Event()
        try:
            return await self._ask(model, request, read, follow_up)
        finally:
            ahead.set()
