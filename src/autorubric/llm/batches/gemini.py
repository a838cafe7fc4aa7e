"""Gemini's batches: a file of `generateContent` requests, and a file of responses."""

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
from autorubric.llm.batches.link import After, Body, Link, Upload, read_object

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
    """Batches of the Gemini API. Their display name is what others keep as metadata."""

    limits: Limits = field(default_factory=lambda: Limits(50_000, 2_000_000_000))
    path: ClassVar[str] = _VERSION
    pages: ClassVar[tuple[str, str, str]] = "/batches?pageSize=100", "operations", "pageToken"

    def root(self, base_url: str) -> str:
        """The address of the service; that of chat completions ends in `/v1beta/openai`.

        Example:
            >>> GeminiDialect().root("https://generativelanguage.googleapis.com/v1beta/openai")
            'https://generativelanguage.googleapis.com'
        """
        return base_url.removesuffix("/openai").removesuffix(_VERSION)

    def headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """The headers, with the key in Google's own."""
        own = {name: value for name, value in headers.items() if name != "Authorization"}
        return {**own, **({"x-goog-api-key": key} if key else {})}

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request as `generateContent` takes it."""
        system = [one["content"] for one in body["messages"] if one["role"] == "system"]
        roles = {"user": "user", "assistant": "model"}
        request: dict[str, Any] = {
            "contents": [
                {"role": roles[one["role"]], "parts": [{"text": one["content"]}]}
                for one in body["messages"]
                if one["role"] in roles
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

    async def upload(self, link: Link, parcel: Parcel) -> str:
        """The name of the uploaded file."""
        start = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(parcel.path.stat().st_size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        named = {"file": {"display_name": _NAMED + parcel.id}}
        begun = await link.upload(f"/upload{_VERSION}/files", named, start)
        place = next((v for k, v in begun.headers.items() if k.lower() == "x-goog-upload-url"), "")
        # The key goes nowhere but to the service itself.
        path = place.removeprefix(link.root) if place.startswith(f"{link.root}/") else f"/upload{_VERSION}/files"
        sent = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
        reply = await link.upload(path, Upload(parcel.path, kind="application/jsonl"), sent)
        return as_text(as_dict(read_object(reply.body).get("file")).get("name"))

    def creation(self, parcel: Parcel) -> tuple[str, Body]:
        """A batch of the uploaded file."""
        batch = {"display_name": _NAMED + parcel.id, "input_config": {"file_name": parcel.file}}
        return f"{_VERSION}/models/{parcel.model.removeprefix('models/')}:batchGenerateContent", {"batch": batch}

    async def cancel(self, link: Link, id: str) -> None:
        """Cancel a batch. Google does not promise the results that it had by then."""
        await link.post(f"{_VERSION}/{id}:cancel", {})

    def after(self) -> After:
        """The token that a page states."""
        return lambda page, _: page.get("nextPageToken")

    async def results(self, link: Link, batch: RemoteBatch) -> AsyncIterator[Line]:
        """The lines of the file of responses."""
        for name in batch.outputs:
            async for record in link.records(f"/download{_VERSION}/{name}:download?alt=media"):
                yield _result(record)

    async def delete(self, link: Link, batch: RemoteBatch) -> None:
        """Delete the uploaded file; Google deletes all files after two days."""
        for name in batch.files:
            await link.delete(f"{_VERSION}/{name}")

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """A batch, or the operation that makes one."""
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


def _result(record: Mapping[str, Any]) -> Line:
    custom_id, response = as_text(record.get("key")), as_dict(record.get("response"))
    error = as_dict(record.get("error")) or as_dict(record.get("status"))
    if response:
        return Line(custom_id, 200, json.dumps(_chat(response)).encode())
    code = error.get("code")
    status = _CODES.get(code, 500) if isinstance(code, int) else 0
    return error_line(custom_id, code if isinstance(code, int) and code >= 400 else status, error)


def _chat(response: Mapping[str, Any]) -> dict[str, Any]:
    """A response as a chat completion."""
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
    said = {"role": "assistant", "content": texts[False], "reasoning_content": texts[True] or None}
    return {
        "model": response.get("modelVersion"),
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usageMetadata": response.get("usageMetadata"),
    }
