"""OpenAI's batches, which many providers offer in the same form: a file of requests, and a file of results.

Mistral has other paths and words for them; OpenRouter takes requests and results inside the batch object.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from autorubric.core.display import counted
from autorubric.errors import ConfigError
from autorubric.llm.batches.dialect import Limits, Line, Parcel, RemoteBatch, as_dict, as_seconds, as_text, error_line
from autorubric.llm.batches.link import Link, Upload, last_id, read_object

CHAT = "/v1/chat/completions"
"""The path that requests in batches name."""

_ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
_PAGE = 100


@dataclass(frozen=True)
class OpenAIDialect:
    """Batches in the form of OpenAI.

    Attributes:
        limits: of one batch.
        keeps_metadata: whether batches carry metadata; otherwise they are recognized by their file.
        files: the path that takes files.
        purpose: the purpose of the uploaded file.
    """

    limits: Limits = field(default_factory=Limits)
    keeps_metadata: bool = True
    files: str = "/files"
    purpose: str = "batch"

    def root(self, base_url: str) -> str:
        """The address of chat completions."""
        return base_url

    def headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """The headers of chat completions."""
        return dict(headers)

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with its method and path."""
        return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}

    async def upload(self, link: Link, parcel: Parcel) -> str:
        """The id of the uploaded file."""
        named = {} if self.purpose == "batch" else {"file_name": f"autorubric-{parcel.id}.jsonl"}
        body, kind = multipart(parcel, self.purpose, **named)
        reply = await link.upload(self.files, body, {"Content-Type": kind})
        return as_text(read_object(reply.body).get("id"))

    async def create(self, link: Link, parcel: Parcel) -> RemoteBatch:
        """The new batch."""
        body: dict[str, Any] = {
            "input_file_id": parcel.file,
            "endpoint": CHAT,
            "completion_window": "24h",
        }
        if self.keeps_metadata:
            body["metadata"] = parcel.metadata
        return self._read(read_object((await link.post("/batches", body)).body))

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The batch as it is now."""
        return self._read(await link.find(f"/batches/{id}"))

    async def list(self, link: Link) -> AsyncIterator[RemoteBatch]:
        """The batches of the account, newest first."""
        async for entry in link.listed(f"/batches?limit={_PAGE}", "data", "after", last_id):
            yield self._read(entry)

    async def results(self, link: Link, batch: RemoteBatch) -> AsyncIterator[Line]:
        """The lines of the files of results and of errors."""
        for file in batch.outputs:
            async for record in link.records(f"/files/{file}/content"):
                yield read_result(record)

    async def cancel(self, link: Link, id: str) -> None:
        """Cancel a batch; what it has answered by then stays in its results."""
        await link.post(f"/batches/{id}/cancel", {})

    async def delete(self, link: Link, batch: RemoteBatch) -> None:
        """Delete the uploaded file and those of the results."""
        for file in batch.files:
            await link.delete(f"/files/{file}")

    def _read(self, found: Mapping[str, Any]) -> RemoteBatch:
        found = as_dict(found.get("job")) or found  # Together
        word = as_text(found.get("status")).lower()
        outputs = [as_text(found.get(name)) for name in ("output_file_id", "error_file_id")]
        outputs = [name for name in outputs if name]
        file = as_text(found.get("input_file_id"))
        return RemoteBatch(
            id=as_text(found.get("id")),
            word=word,
            ended=word in _ENDED,
            whole=word == "completed",
            problem=_problem(found) if word == "failed" else "",
            outputs=tuple(outputs),
            files=tuple(name for name in (file, *outputs) if name),
            batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
            file=file,
            count=as_dict(found.get("request_counts")).get("total"),
            created=as_seconds(found.get("created_at")),
        )


def multipart(parcel: Parcel, purpose: str, **more: str) -> tuple[Upload, str]:
    """The form that uploads a file, with its purpose and `more` fields, and its content type."""
    mark, name = secrets.token_hex(16), f"autorubric-{parcel.id}.jsonl"
    fields = {"purpose": purpose, **more}
    parts = [f'form-data; name="{field}"\r\n\r\n{value}\r\n' for field, value in fields.items()]
    parts.append(f'form-data; name="file"; filename="{name}"\r\nContent-Type: application/jsonl\r\n\r\n')
    head = "".join(f"--{mark}\r\nContent-Disposition: {part}" for part in parts)
    return Upload(parcel.path, head.encode(), f"\r\n--{mark}--\r\n".encode()), f"multipart/form-data; boundary={mark}"


def read_result(record: Mapping[str, Any]) -> Line:
    """What one line of results says.

    Example:
        >>> read_result({"custom_id": "a", "response": None, "error": {"message": "expired"}}).status
        0
        >>> read_result({"custom_id": "a", "response": None, "error": {"code": 400, "message": "no stream"}}).status
        400
    """
    custom_id, response = as_text(record.get("custom_id")), as_dict(record.get("response"))
    status, body = response.get("status_code"), response.get("body")
    if not isinstance(status, int) or status == 0:
        error = record.get("error") or as_dict(body).get("error") or body
        code = as_dict(error).get("code")
        return error_line(custom_id, code if isinstance(code, int) and code >= 400 else 0, error)
    return Line(custom_id, status, json.dumps(body).encode())


def _problem(found: Mapping[str, Any]) -> str:
    errors = as_dict(found.get("errors")).get("data")
    listed = [as_dict(one) for one in errors] if isinstance(errors, list) else []
    first = listed[0] if listed else {}
    words = as_text(first.get("message")) or as_text(found.get("error")) or as_text(first.get("code"))
    about = [as_text(first.get("code"))] if as_text(first.get("code")) != words else []
    about += [f"line {first['line']}"] if isinstance(first.get("line"), int) else []
    told = f"{words} ({', '.join(filter(None, about))})" if any(about) else words or "no reason stated"
    return f"{told} and {counted(len(listed) - 1, 'more problem')}" if len(listed) > 1 else told


_ENDED_JOBS = frozenset({"success", "failed", "timeout_exceeded", "cancelled"})
_JOBS = "/batch/jobs"
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
        return _read_job(read_object((await link.post(_JOBS, body)).body))

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The job as it is now."""
        return _read_job(await link.find(f"{_JOBS}/{id}"))

    async def cancel(self, link: Link, id: str) -> None:
        """Cancel a job; what it has answered by then stays in its results."""
        await link.post(f"{_JOBS}/{id}/cancel", None)

    async def list(self, link: Link) -> AsyncIterator[RemoteBatch]:
        """The jobs of the account, newest first."""
        numbers = count(1)  # the first page has number 0
        path = f"{_JOBS}?page_size={_PAGE}&order_by=-created"
        async for entry in link.listed(path, "data", "page", lambda _, found: len(found) == _PAGE and next(numbers)):
            yield _read_job(entry)


def _read_job(found: Mapping[str, Any]) -> RemoteBatch:
    word = as_text(found.get("status")).lower()
    inputs = [name for name in found.get("input_files") or [] if isinstance(name, str)]
    outputs = [name for name in (as_text(found.get("output_file")), as_text(found.get("error_file"))) if name]
    errors = found.get("errors")
    first = as_dict(errors[0]) if isinstance(errors, list) and errors else {}
    return RemoteBatch(
        id=as_text(found.get("id")),
        word=word,
        ended=word in _ENDED_JOBS,
        whole=word == "success",
        problem=as_text(first.get("message")) or "no reason stated" if word == "failed" else "",
        outputs=tuple(outputs),
        files=(*inputs, *outputs),
        batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
        file=inputs[0] if inputs else "",
        count=found.get("total_requests"),
        created=as_seconds(found.get("created_at")),
    )


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
