"""Services that differ from OpenAI's in paths and words (Mistral), or carry requests in the batch (OpenRouter)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar

from autorubric.errors import ConfigError
from autorubric.llm.batches.dialect import (
    CHAT,
    BatchDialect,
    Limits,
    Line,
    Parcel,
    RemoteBatch,
    as_dict,
    as_seconds,
    as_text,
    read_result,
    texts,
)
from autorubric.llm.batches.link import After, Body, Link, Upload

_ENDED_JOBS = frozenset({"success", "failed", "timeout_exceeded", "cancelled"})
_PAGE = 100
_HOURS = 24


@dataclass(frozen=True)
class MistralDialect(BatchDialect):
    """Batch jobs of Mistral."""

    path: ClassVar[str] = "/batch/jobs"
    pages: ClassVar[tuple[str, str, str]] = f"?page_size={_PAGE}&order_by=-created", "data", "page"
    names_model: ClassVar[bool] = False

    def creation(self, parcel: Parcel) -> tuple[str, Body]:
        """A job of the uploaded file."""
        job = {"input_files": [parcel.file], "model": parcel.model, "endpoint": CHAT, "timeout_hours": _HOURS}
        return self.path, {**job, "metadata": parcel.metadata}

    def after(self) -> After:
        """The number of the next page; the first one has number 0."""
        numbers = count(1)
        return lambda _, found: len(found) == _PAGE and next(numbers)

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """A job."""
        word = as_text(found.get("status")).lower()
        inputs = texts(*(found.get("input_files") or []))
        outputs = texts(found.get("output_file"), found.get("error_file"))
        errors = found.get("errors")
        first = as_dict(errors[0]) if isinstance(errors, list) and errors else {}
        return RemoteBatch(
            id=as_text(found.get("id")),
            word=word,
            ended=word in _ENDED_JOBS,
            whole=word == "success",
            problem=as_text(first.get("message")) or "no reason stated" if word == "failed" else "",
            outputs=outputs,
            files=(*inputs, *outputs),
            batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
            file=inputs[0] if inputs else "",
            count=found.get("total_requests"),
            created=as_seconds(found.get("created_at")),
        )


_LARGEST = 256_000_000
"""The most bytes of a batch with its results, which come in one piece."""


@dataclass(frozen=True)
class OpenRouterDialect(BatchDialect):
    """Inline batches. They carry no metadata, so a lost one is recognized by its size and confirmed by its results.

    OpenRouter states no limit on a batch. These keep its results small enough to read at once.
    """

    limits: Limits = field(default_factory=lambda: Limits(5_000, 20_000_000))
    keeps_metadata: bool = False
    files: str = ""
    names_model: ClassVar[bool] = False

    def creation(self, parcel: Parcel) -> tuple[str, Body]:
        """The requests. OpenRouter reads the body as a stream, in which they have to come last."""
        head = {"endpoint": CHAT, "model": parcel.model, "completion_window": "24h"}
        opening = json.dumps(head).removesuffix("}") + ', "requests": ['
        return self.path, Upload(parcel.path, opening.encode(), b"]}", comma=True)

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The batch as it is now."""
        return self.read(await link.find(f"{self.path}/{id}", _LARGEST))

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

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """A batch, with its results once it has some."""
        batch = super().read({**found, "errors": {"data": [found.get("error")]}})
        # Requests are counted during validation, so a new batch may state none.
        outputs = (f"{self.path}/{batch.id}",) if found.get("results") else ()
        return replace(batch, outputs=outputs, count=batch.count or None)
