"""Batch services that differ from OpenAI's: Mistral, OpenRouter, Anthropic and Gemini."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from autorubric.errors import ConfigError
from autorubric.llm.batches.batch_store import BatchRecord
from autorubric.llm.batches.dialect import (
    CHAT,
    BatchDialect,
    BatchLimits,
    RemoteBatch,
    ResultLine,
    as_dict,
    as_seconds,
    as_text,
    build_error_line,
    describe_problem,
    read_result,
    select_texts,
)
from autorubric.llm.batches.link import After, BatchLink, Body, Upload, read_object

_ENDED_JOBS = frozenset({"success", "failed", "timeout_exceeded", "cancelled"})
_PAGE = 100
_HOURS = 24


@dataclass(frozen=True)
class MistralDialect(BatchDialect):
    """Batch jobs of Mistral."""

    path: ClassVar[str] = "/batch/jobs"
    pages: ClassVar[tuple[str, str, str]] = f"?page_size={_PAGE}&order_by=-created", "data", "page"
    names_model: ClassVar[bool] = False

    def build_creation(self, record: BatchRecord, path: Path) -> tuple[str, Body]:
        """Return a job of the uploaded file."""
        job = {"input_files": [record.file], "model": record.served, "endpoint": CHAT, "timeout_hours": _HOURS}
        return self.path, {**job, "metadata": record.metadata}

    def make_pager(self) -> After:
        """Return the number of the next page; the first one has number 0."""
        numbers = count(1)
        return lambda _, found: len(found) == _PAGE and next(numbers)

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """Return a job."""
        word = as_text(found.get("status")).lower()
        inputs = select_texts(*(found.get("input_files") or []))
        outputs = select_texts(found.get("output_file"), found.get("error_file"))
        return RemoteBatch(
            id=as_text(found.get("id")),
            word=word,
            ended=word in _ENDED_JOBS,
            whole=word == "success",
            problem=describe_problem({"errors": {"data": found.get("errors")}}) if word == "failed" else "",
            outputs=outputs,
            files=(*inputs, *outputs),
            batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
            file=inputs[0] if inputs else "",
            count=found.get("total_requests"),
            created=as_seconds(found.get("created_at")),
        )


_LARGEST = 256_000_000
"""The maximum bytes of a batch with its results, which come in one piece."""


@dataclass(frozen=True)
class OpenRouterDialect(BatchDialect):
    """Inline batches. They carry no metadata, so a lost one is recognized by its size and confirmed by its results.

    OpenRouter states no limit on a batch. These keep its results small enough to read at once.
    """

    limits: BatchLimits = field(default_factory=lambda: BatchLimits(5_000, 20_000_000))
    keeps_metadata: bool = False
    files: str = ""
    names_model: ClassVar[bool] = False

    def build_creation(self, record: BatchRecord, path: Path) -> tuple[str, Body]:
        """Return the requests. OpenRouter reads the body as a stream, in which they have to come last."""
        head = {"endpoint": CHAT, "model": record.served, "completion_window": "24h"}
        opening = json.dumps(head).removesuffix("}") + ', "requests": ['
        return self.path, Upload(path, opening.encode(), b"]}", comma=True)

    async def find(self, link: BatchLink, id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        return self.read(await link.find(f"{self.path}/{id}", _LARGEST))

    async def read_results(self, link: BatchLink, batch: RemoteBatch) -> AsyncIterator[ResultLine]:
        """Yield the results that the batch holds."""
        for path in batch.outputs:
            for record in (await link.find(path, _LARGEST)).get("results") or []:
                yield read_result(as_dict(record))

    async def cancel(self, link: BatchLink, id: str) -> None:
        """Nothing: OpenRouter cancels no batch.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"OpenRouter cancels no batch, so batch {id} will be charged; collect it by the same command without "
            "--batch-cancel (in Python: batch_cancel)"
        )

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """Return a batch, with its results once it has some."""
        batch = super().read({**found, "errors": {"data": [found.get("error")]}})
        # Requests are counted during validation, so a new batch may state none.
        outputs = (f"{self.path}/{batch.id}",) if found.get("results") else ()
        return replace(batch, outputs=outputs, count=batch.count or None)


_ANTHROPIC_VERSION = "2023-06-01"
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

    limits: BatchLimits = field(default_factory=lambda: BatchLimits(100_000, 250_000_000))
    keeps_metadata: bool = False
    files: str = ""
    path: ClassVar[str] = "/messages/batches"
    pages: ClassVar[tuple[str, str, str]] = "?limit=100", "data", "after_id"

    def build_headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """Return the headers of the Messages API."""
        own = {name: value for name, value in headers.items() if name != "Authorization"}
        return {**own, "anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}

    def build_line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as the Messages API takes it.

        Example:
            >>> chat = {"model": "claude", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
            >>> AnthropicDialect().build_line("a", chat)["params"]["max_tokens"]
            9
        """
        system = "\n\n".join(message["content"] for message in body["messages"] if message["role"] == "system")
        params: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
        params["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens") or _LONGEST_REPLY
        params["messages"] = [message for message in body["messages"] if message["role"] != "system"]
        if system:
            params["system"] = system
        schema = as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema")
        if schema is not None:
            params["output_config"] = {"format": {"type": "json_schema", "schema": _close_objects(schema)}}
        return {"custom_id": custom_id, "params": params}

    def build_creation(self, record: BatchRecord, path: Path) -> tuple[str, Body]:
        """Return the requests."""
        return self.path, Upload(path, b'{"requests":[', b"]}", comma=True)

    async def read_results(self, link: BatchLink, batch: RemoteBatch) -> AsyncIterator[ResultLine]:
        """Yield the lines of the results."""
        for path in batch.outputs:
            async for record in link.read_records(path):
                yield _read_anthropic_result(record)

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """Return a batch; the stated address of its results is not followed, as the key would be sent there."""
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


def _read_anthropic_result(record: Mapping[str, Any]) -> ResultLine:
    custom_id, result = as_text(record.get("custom_id")), as_dict(record.get("result"))
    kind = result.get("type")
    if kind == "succeeded":
        return ResultLine(custom_id, 200, json.dumps(_convert_message(as_dict(result.get("message")))).encode())
    error = as_dict(as_dict(result.get("error")).get("error"))
    if kind == "errored" and error:
        return build_error_line(custom_id, _STATUSES.get(as_text(error.get("type")), 500), error)
    return build_error_line(custom_id, 0, f"the request was {kind or 'not answered'}")


def _convert_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a chat completion."""
    parts = [part for part in message.get("content") or [] if isinstance(part, dict)]
    stop = as_text(message.get("stop_reason"))
    text = "".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
    said = {"role": "assistant", "content": text, "refusal": (text or "refused") if stop == "refusal" else None}
    said["reasoning_content"] = "".join(as_text(part.get("thinking")) for part in parts) or None
    choice = {"index": 0, "message": said, "finish_reason": "content_filter" if stop == "refusal" else stop}
    return {"model": message.get("model"), "choices": [choice], "usage": message.get("usage")}


def _close_objects(schema: Any) -> Any:
    """Return the schema with every object closed, as structured outputs ask for."""
    if isinstance(schema, list):
        return [_close_objects(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _close_objects(value) for name, value in schema.items()}
    return {**found, "additionalProperties": False} if found.get("type") == "object" else found


_VERSION = "/v1beta"
_NAMED = "autorubric-"
_ENDED = frozenset({"succeeded", "failed", "cancelled", "expired", "partially_succeeded"})
_PARAMETERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
}
_THOUGHT = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
_CODES = {3: 400, 5: 404, 7: 403, 8: 429, 16: 401, 1: 0, 4: 0}
_FINISHES = {"STOP": "stop", "MAX_TOKENS": "length"}
_FILTERED = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})


@dataclass(frozen=True)
class GeminiDialect(BatchDialect):
    """Batches of the Gemini API. Their display name is used as metadata."""

    limits: BatchLimits = field(default_factory=lambda: BatchLimits(50_000, 2_000_000_000))
    path: ClassVar[str] = _VERSION
    pages: ClassVar[tuple[str, str, str]] = "/batches?pageSize=100", "operations", "pageToken"

    def find_root(self, base_url: str) -> str:
        """Return the address of the service; that of chat completions ends in `/v1beta/openai`.

        Example:
            >>> GeminiDialect().find_root("https://generativelanguage.googleapis.com/v1beta/openai")
            'https://generativelanguage.googleapis.com'
        """
        return base_url.removesuffix("/openai").removesuffix(_VERSION)

    def build_headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """Return the headers, with the key in Google's own."""
        own = {name: value for name, value in headers.items() if name != "Authorization"}
        return {**own, **({"x-goog-api-key": key} if key else {})}

    def build_line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as `generateContent` takes it."""
        system = [message["content"] for message in body["messages"] if message["role"] == "system"]
        roles = {"user": "user", "assistant": "model"}
        request: dict[str, Any] = {
            "contents": [
                {"role": roles[message["role"]], "parts": [{"text": message["content"]}]}
                for message in body["messages"]
                if message["role"] in roles
            ]
        }
        if system:
            request["systemInstruction"] = {"parts": [{"text": "\n\n".join(system)}]}
        config: dict[str, Any] = {sent: body[name] for name, sent in _PARAMETERS.items() if name in body}
        form = as_dict(body.get("response_format"))
        if form:
            config["responseMimeType"] = "application/json"
        if schema := as_dict(form.get("json_schema")).get("schema"):
            config["responseJsonSchema"] = schema
        if (effort := body.get("reasoning_effort")) in _THOUGHT:
            config["thinkingConfig"] = {"thinkingBudget": _THOUGHT[str(effort)]}
        return {"key": custom_id, "request": {**request, "generationConfig": config} if config else request}

    async def upload(self, link: BatchLink, record: BatchRecord, path: Path) -> str:
        """Return the name of the uploaded file."""
        start = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(path.stat().st_size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        named = {"file": {"display_name": _NAMED + record.id}}
        begun = await link.upload(f"/upload{_VERSION}/files", named, start)
        place = next((v for k, v in begun.headers.items() if k.lower() == "x-goog-upload-url"), "")
        # The key goes nowhere but to the service itself.
        there = place.removeprefix(link.root) if place.startswith(f"{link.root}/") else f"/upload{_VERSION}/files"
        sent = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
        reply = await link.upload(there, Upload(path, kind="application/jsonl"), sent)
        return as_text(as_dict(read_object(reply.body).get("file")).get("name"))

    def build_creation(self, record: BatchRecord, path: Path) -> tuple[str, Body]:
        """Return a batch of the uploaded file."""
        batch = {"display_name": _NAMED + record.id, "input_config": {"file_name": record.file}}
        return f"{_VERSION}/models/{record.served.removeprefix('models/')}:batchGenerateContent", {"batch": batch}

    async def cancel(self, link: BatchLink, id: str) -> None:
        """Cancel a batch. Google does not promise the results that it had by then."""
        await link.post(f"{_VERSION}/{id}:cancel", {})

    def make_pager(self) -> After:
        """Return the token that a page states."""
        return lambda page, _: page.get("nextPageToken")

    async def read_results(self, link: BatchLink, batch: RemoteBatch) -> AsyncIterator[ResultLine]:
        """Yield the lines of the file of responses."""
        for name in batch.outputs:
            async for record in link.read_records(f"/download{_VERSION}/{name}:download?alt=media"):
                yield _read_gemini_result(record)

    async def delete(self, link: BatchLink, batch: RemoteBatch) -> None:
        """Delete the uploaded file; Google deletes all files after two days."""
        for name in batch.files:
            await link.delete(f"{_VERSION}/{name}")

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """Return a batch, or the operation that makes one."""
        about = as_dict(found.get("metadata")) or found
        state = as_text(about.get("state"))
        word = state.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_").lower()
        output = as_dict(found.get("response")) or as_dict(about.get("output"))
        responses = as_text(output.get("responsesFile"))
        error = as_dict(found.get("error"))
        if found.get("done") and word not in _ENDED:  # an operation that ended before the batch began states no more
            word = "failed" if error else "succeeded"
        file = as_text(as_dict(about.get("inputConfig")).get("fileName"))
        named = as_text(about.get("displayName"))
        total = as_dict(about.get("batchStats")).get("requestCount")
        return RemoteBatch(
            id=as_text(found.get("name")),
            word=word,
            ended=word in _ENDED,
            whole=word == "succeeded",
            problem=as_text(error.get("message")) or "no reason stated" if word == "failed" else "",
            outputs=(responses,) if responses else (),
            files=(file,) if file else (),
            batch=named.removeprefix(_NAMED) if named.startswith(_NAMED) else "",
            file=file,
            count=int(total) if isinstance(total, str | int) and str(total).isdecimal() else None,
            created=as_seconds(about.get("createTime")),
        )


def _read_gemini_result(record: Mapping[str, Any]) -> ResultLine:
    custom_id, response = as_text(record.get("key")), as_dict(record.get("response"))
    error = as_dict(record.get("error")) or as_dict(record.get("status"))
    if response:
        return ResultLine(custom_id, 200, json.dumps(_convert_response(response)).encode())
    code = error.get("code")
    status = _CODES.get(code, 500) if isinstance(code, int) else 0
    return build_error_line(custom_id, code if isinstance(code, int) and code >= 400 else status, error)


def _convert_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response as a chat completion."""
    candidates = response.get("candidates")
    first = as_dict(candidates[0]) if isinstance(candidates, list) and candidates else {}
    blocked = as_text(as_dict(response.get("promptFeedback")).get("blockReason"))
    parts = [part for part in as_dict(first.get("content")).get("parts") or [] if isinstance(part, dict)]
    texts = {
        thought: "".join(as_text(p.get("text")) for p in parts if bool(p.get("thought")) is thought)
        for thought in (True, False)
    }
    reason = as_text(first.get("finishReason"))
    finish = "content_filter" if blocked or reason in _FILTERED else _FINISHES.get(reason, reason)
    message = {"role": "assistant", "content": texts[False], "reasoning_content": texts[True] or None}
    return {
        "model": response.get("modelVersion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usageMetadata": response.get("usageMetadata"),
    }
