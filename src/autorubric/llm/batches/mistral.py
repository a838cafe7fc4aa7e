"""Mistral's batch jobs: OpenAI's files under other paths and words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from autorubric.llm.batches.dialect import Parcel, RemoteBatch, as_dict, as_seconds, as_text
from autorubric.llm.batches.link import Link, read_object
from autorubric.llm.batches.openai import OpenAIDialect

_ENDED = frozenset({"success", "failed", "timeout_exceeded", "cancelled"})
_JOBS = "/batch/jobs"
_PAGE = 100
_HOURS = 24


@dataclass(frozen=True)
class MistralDialect(OpenAIDialect):
    """Batch jobs of Mistral."""

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without the model, which the job names."""
        return {"custom_id": custom_id, "body": {name: value for name, value in body.items() if name != "model"}}

    async def create(self, link: Link, parcel: Parcel) -> RemoteBatch:
        """The new job."""
        body = {
            "input_files": [parcel.file],
            "model": parcel.model,
            "endpoint": "/v1/chat/completions",
            "metadata": parcel.metadata,
            "timeout_hours": _HOURS,
        }
        return _read(read_object((await link.post(_JOBS, body)).body))

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The job as it is now."""
        return _read(await link.find(f"{_JOBS}/{id}"))

    async def cancel(self, link: Link, id: str) -> None:
        """Cancel a job; what it has answered by then stays in its results."""
        await link.post(f"{_JOBS}/{id}/cancel", None)

    async def list(self, link: Link) -> AsyncIterator[RemoteBatch]:
        """The jobs of the account, newest first."""
        number = 0
        while True:
            page = await link.find(f"{_JOBS}?page={number}&page_size={_PAGE}&order_by=-created")
            found = [_read(entry) for entry in page.get("data") or [] if isinstance(entry, dict)]
            for job in found:
                yield job
            if len(found) < _PAGE:
                return
            number += 1


def _read(found: Mapping[str, Any]) -> RemoteBatch:
    word = as_text(found.get("status")).lower()
    inputs = [name for name in found.get("input_files") or [] if isinstance(name, str)]
    outputs = [name for name in (as_text(found.get("output_file")), as_text(found.get("error_file"))) if name]
    errors = found.get("errors")
    first = as_dict(errors[0]) if isinstance(errors, list) and errors else {}
    return RemoteBatch(
        id=as_text(found.get("id")),
        word=word,
        ended=word in _ENDED,
        whole=word == "success",
        problem=as_text(first.get("message")) or "no reason stated" if word == "failed" else "",
        outputs=tuple(outputs),
        files=(*inputs, *outputs),
        batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
        file=inputs[0] if inputs else "",
        count=found.get("total_requests"),
        created=as_seconds(found.get("created_at")),
    )
