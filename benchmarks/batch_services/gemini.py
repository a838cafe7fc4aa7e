"""Gemini's batches of `generateContent` requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from autorubric.testing.completion import Completion, count_prompt_tokens
from benchmarks.batch_services.books import (
    EXPIRED,
    BatchAnswer,
    BatchBooks,
    BatchJob,
    BatchRefusal,
    BatchRequest,
    ChatBody,
    Result,
    Route,
    answer_job,
    create,
    delete,
    list_page,
)

_ROLES = {"user": "user", "model": "assistant"}
_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _to_chat_body(request: dict[str, Any], model: str) -> ChatBody:
    """A `generateContent` request as a chat completion request, which repliers read."""
    system = (
        [{"role": "system", "content": _join(request["systemInstruction"])}] if "systemInstruction" in request else []
    )
    messages = [{"role": _ROLES[content["role"]], "content": _join(content)} for content in request["contents"]]
    config = request.get("generationConfig") or {}
    schema = config.get("responseJsonSchema")
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"model": model, "messages": [*system, *messages], **({"response_format": form} if schema else {})}


def _join(content: dict[str, Any]) -> str:
    return "".join(part["text"] for part in content["parts"])


def _upload(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    if asked.headers.get("x-goog-upload-command") == "start":
        place = f"http://{asked.headers['host']}/upload/v1beta/files?upload_id=1"
        return BatchAnswer({}, headers=(("X-Goog-Upload-URL", place),))
    return BatchAnswer({"file": {"name": books.keep_file(asked.body, books.name("files/"))}})


def _create(books: BatchBooks, asked: BatchRequest, model: str) -> BatchAnswer | None:
    batch = asked.json["batch"]
    file = batch["input_config"]["file_name"]
    if file not in books.files:
        return None
    rows = [json.loads(line) for line in books.files[file].splitlines() if line]
    lines = [(row["key"], _to_chat_body(row["request"], model)) for row in rows]
    about = {"file": file, "name": batch["display_name"], "model": model}
    return create(books, "batches/", lines, about, _render)


def _render(books: BatchBooks, job: BatchJob) -> dict[str, Any]:
    word, more = "SUCCEEDED" if job.state == "done" else job.state.upper(), dict[str, Any]()
    if job.results is not None:
        failed = {"error": {"code": 3, "message": job.problem}}
        more = failed if job.problem else {"response": {"responsesFile": _write_results(books, job)}}
    about = {
        "model": f"models/{job.about['model']}",
        "displayName": job.about["name"],
        "state": f"BATCH_STATE_{word}",
        "inputConfig": {"fileName": job.about["file"]},
        "createTime": datetime.fromtimestamp(job.began, UTC).isoformat(),
        "batchStats": {"requestCount": str(len(job.lines))},
    }
    return {"name": job.id, "metadata": about, "done": job.results is not None, **more}


def _write_results(books: BatchBooks, job: BatchJob) -> str:
    name = f"files/out-{job.id.rpartition('/')[2]}"
    if not job.is_written:
        job.is_written = True
        books.keep_file(b"".join(map(_format_line, books.arrange(job.results or []))), name)
    return name


def _format_line(ran: Result) -> bytes:
    reply = ran.said
    if isinstance(reply, BatchRefusal):
        words = EXPIRED if reply.status == -1 else reply.words
        result = {"error": {"code": {-1: 4, 0: 1, 400: 3, 429: 8}.get(reply.status, 13), "message": words}}
    else:
        result = {"response": _build_response(ran, reply)}
    return json.dumps({"key": ran.custom_id, **result}).encode() + b"\n"


def _build_response(ran: Result, completion: Completion) -> dict[str, Any]:
    prompt, spoken = count_prompt_tokens(ran.body), completion.tokens
    parts = [{"text": completion.content or completion.refusal or ""}]
    thought = [{"text": completion.reasoning, "thought": True}] if completion.reasoning else []
    candidate = {
        "content": {"role": "model", "parts": [*thought, *parts]},
        "finishReason": _FINISHES.get(completion.finish_reason, "OTHER"),
    }
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": spoken, "totalTokenCount": prompt + spoken}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": ran.body.get("model")}


def _cancel(books: BatchBooks, asked: BatchRequest, id: str) -> BatchAnswer | None:
    return None if books.cancel(id) is None else BatchAnswer({})


def _list(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    jobs, more = list_page(books, asked, "pageSize", "pageToken")
    shown = [_render(books, job) for job in jobs]
    return BatchAnswer({"operations": shown, **({"nextPageToken": jobs[-1].id} if more else {})})


def _download(books: BatchBooks, asked: BatchRequest, name: str) -> BatchAnswer | None:
    if name not in books.files:
        return None
    return books.refuse(name.replace("files/out-", "batches/")) or BatchAnswer(
        books.files[name], is_cut=books.is_cut()
    )


ROUTES: tuple[Route, ...] = (
    ("POST", r"/upload/v1beta/files", _upload),
    ("POST", r"/v1beta/models/([^/]+):batchGenerateContent", _create),
    ("GET", r"/v1beta/batches", _list),
    ("GET", r"/v1beta/(batches/[^/]+)", answer_job("find", _render)),
    ("POST", r"/v1beta/(batches/[^/:]+):cancel", _cancel),
    ("GET", r"/download/v1beta/(files/[^/:]+):download", _download),
    ("DELETE", r"/v1beta/(files/[^/]+)", lambda books, _, name: delete(books, name, {})),
)
