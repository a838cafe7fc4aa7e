"""The seam between whoever asks and whatever answers."""

from __future__ import annotations

from typing import Any, Protocol

from autorubric.llm.request import Reply, Request, Usage


class Model(Protocol):
    """Something that answers requests: an HTTP endpoint, the offline model, or a script.

    A model owns its transport, its retries and its rate limits. It knows no ledger and no budget: the
    executor wraps those around it.
    """

    @property
    def name(self) -> str:
        """The canonical `provider/model` string, as rows and summaries show it."""
        ...

    def identity(self) -> tuple[Any, ...]:
        """Everything of the model that shapes a reply and is not in the request.

        Endpoint, model name, sampling parameters and extra parameters; never a key. JSON values only.
        """
        ...

    def ceiling(self, request: Request) -> Usage | None:
        """The most tokens this request can be billed for, or None where nothing bounds it."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """The price of `usage` in dollars; None where the price is unknown."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer one request, retries included.

        Raises:
            CallError: the call failed for good.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
