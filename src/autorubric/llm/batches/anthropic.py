"""Anthropic's message batches: requests sent with the creation, in the form of the Messages API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from autorubric.llm.batches.dialect import (
    BatchDialect,
    Limits,
    Line,
    Parcel,
    RemoteBatch,
    as_dict,
    as_seconds,
    as_text,
    error_line,
)
from autorubric.llm.batches.link import Body, Link, Upload

_VERSION = "2023-06-01"
_LONGEST_REPLY = 4096  # the Messages API takes no request without a limit
_SAME = ("model", "temperature", "top_p", "thinking")
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


@dataclass(frozen=True)
class AnthropicDialect(BatchDialect):
    """Message batches. They carry no metadata, so one that was lost is recognized by its size and its results."""

    limits: Limits = field(default_factory=lambda: Limits(100_000, 250_000_000))
    keeps_metadata: bool = False
    files: str = ""
    path: ClassVar[str] = "/messages/batches"
    pages: ClassVar[tuple[str, str, str]] = "?limit=100", "data", "after_id"

    def headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """The headers of the Messages API."""
        own = {name: value for name, value in headers.items() if name != "Authorization"}
        return {**own, "anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request as the Messages API takes it.

        Example:
            >>> chat = {"model": "claude", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
            >>> AnthropicDialect().line("a", chat)["params"]["max_tokens"]
            9
        """
        system = "\n\n".join(one["content"] for one in body["messages"] if one["role"] == "system")
        params: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
        params["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens") or _LONGEST_REPLY
        params["messages"] = [one for one in body["messages"] if one["role"] != "system"]
        if system:
            params["system"] = system
        schema = as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema")
        if schema is not None:
            params["output_config"] = {"format": {"type": "json_schema", "schema": _closed(schema)}}
        return {"custom_id": custom_id, "params": params}

    def creation(self, parcel: Parcel) -> tuple[str, Body]:
        """The requests."""
        return self.path, Upload(parcel.path, b'{"requests":[', b"]}", comma=True)

    async def results(self, link: Link, batch: RemoteBatch) -> AsyncIterator[Line]:
        """The lines of the results."""
        for path in batch.outputs:
            async for record in link.records(path):
                yield _result(record)

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """A batch; the stated address of its results is not followed, as the key would go along."""
        word = as_text(found.get("processing_status"))
        counts = as_dict(found.get("request_counts"))
        id = as_text(found.get("id"))
        ended = word == "ended"
        return RemoteBatch(
            id=id,
            word=word,
            ended=ended,
            whole=ended and not counts.get("expired") and not counts.get("canceled"),
            outputs=(f"{self.path}/{id}/results",) if ended else (),
            count=sum(number for number in counts.values() if isinstance(number, int)),
            created=as_seconds(found.get("created_at")),
        )


def _result(record: Mapping[str, Any]) -> Line:
    custom_id, result = as_text(record.get("custom_id")), as_dict(record.get("result"))
    kind = result.get("type")
    if kind == "succeeded":
        return Line(custom_id, 200, json.dumps(_chat(as_dict(result.get("message")))).encode())
    error = as_dict(as_dict(result.get("error")).get("error"))
    if kind == "errored" and error:
        return error_line(custom_id, _STATUSES.get(as_text(error.get("type")), 500), error)
    return error_line(custom_id, 0, f"the request was {kind or 'not answered'}")


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a chat completion."""
    parts = [part for part in message.get("content") or [] if isinstance(part, dict)]
    stop = as_text(message.get("stop_reason"))
    text = "".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
    said = {"role": "assistant", "content": text, "refusal": (text or "refused") if stop == "refusal" else None}
    said["reasoning_content"] = "".join(as_text(part.get("thinking")) for part in parts) or None
    choice = {"index": 0, "message": said, "finish_reason": "content_filter" if stop == "refusal" else stop}
    return {"model": message.get("model"), "choices": [choice], "usage": message.get("usage")}


def _closed(schema: Any) -> Any:
    """The schema with every object closed, as structured outputs ask for."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _closed(value) for name, value in schema.items()}
    return {**found, "additionalProperties": False} if found.get("type") == "object" else found
