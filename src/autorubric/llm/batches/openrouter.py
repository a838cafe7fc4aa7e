"""OpenRouter's batches: requests and results travel inside the batch object; no file is uploaded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autorubric.errors import ConfigError
from autorubric.llm.batches.dialect import Limits, Line, Parcel, RemoteBatch, as_dict
from autorubric.llm.batches.link import Link, Upload, read_object
from autorubric.llm.batches.openai import CHAT, OpenAIDialect, read_result

_LARGEST = 256_000_000
"""The most bytes of a batch with its results, which come in one piece."""


@dataclass(frozen=True)
class OpenRouterDialect(OpenAIDialect):
    """Inline batches. They carry no metadata, so a lost one is recognized by its size and confirmed by its results.

    OpenRouter states no limit on a batch. These keep its results small enough to read at once.
    """

    limits: Limits = field(default_factory=lambda: Limits(5_000, 20_000_000))
    keeps_metadata: bool = False

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without the model, which the batch names."""
        return {"custom_id": custom_id, "body": {name: value for name, value in body.items() if name != "model"}}

    async def upload(self, link: Link, parcel: Parcel) -> str:
        """Nothing: the creation carries the requests."""
        return ""

    async def create(self, link: Link, parcel: Parcel) -> RemoteBatch:
        """The new batch. OpenRouter reads the body as a stream, in which the requests have to come last."""
        head = {"endpoint": CHAT, "model": parcel.model, "completion_window": "24h"}
        opening = json.dumps(head).removesuffix("}") + ', "requests": ['
        body = Upload(parcel.path, opening.encode(), b"]}", comma=True)
        reply = await link.post("/batches", body, {"Content-Type": "application/json"})
        return self._read(read_object(reply.body))

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The batch as it is now."""
        return self._read(await link.find(f"/batches/{id}", _LARGEST))

    async def results(self, link: Link, batch: RemoteBatch) -> AsyncIterator[Line]:
        """The results that the batch holds."""
        for path in batch.outputs:
            for record in (await link.find(path, _LARGEST)).get("results") or []:
                yield read_result(as_dict(record))

    async def cancel(self, link: Link, id: str) -> None:
        """Nothing: OpenRouter cancels no batch.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"OpenRouter cancels no batch, so batch {id} will be charged; collect it by the same command without "
            "--batch-cancel (in Python: batch_cancel)"
        )

    async def delete(self, link: Link, batch: RemoteBatch) -> None:
        """Delete the batch with its requests and results."""
        await link.delete(f"/batches/{batch.id}")

    def _read(self, found: Mapping[str, Any]) -> RemoteBatch:
        batch = OpenAIDialect._read(self, {**found, "errors": {"data": [found.get("error")]}})
        # Requests are counted during validation, so a new batch may state none.
        return replace(
            batch, outputs=(f"/batches/{batch.id}",) if found.get("results") else (), count=batch.count or None
        )
