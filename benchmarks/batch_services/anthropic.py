"""Anthropic's message batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from autorubric.testing.completion import count_prompt_tokens
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

_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_KINDS = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}


def _to_chat_body(params: dict[str, Any]) -> ChatBody:
    """A request of the Messages API as a chat completion request, which repliers read."""
    system = [{"role": "system", "content": params["system"]}] if "system" in params else []
    form = (params.get("output_config") or {}).get("format")
    asked = {"response_format": {"type": "json_schema", "json_schema": form}} if form else {}
    return {**params, **asked, "messages": [*system, *params["messages"]]}


def _create(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    lines = [(request["custom_id"], _to_chat_body(request["params"])) for request in asked.json["requests"]]
    return create(books, "msgbatch_", lines, {}, _render)


def _render(books: BatchBooks, job: BatchJob) -> dict[str, Any]:
    ended = job.results is not None
    by_status = [ran.status for ran in job.results or ()]
    counts = {
        "processing": 0 if ended else len(job.lines),
        "succeeded": by_status.count(200),
        "expired": by_status.count(-1),
        "errored": sum(status not in (200, -1) for status in by_status),
        "canceled": len(job.lines) - len(by_status) if job.is_cancelled else 0,
    }
    return {
        "id": job.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else "in_progress",
        "request_counts": counts,
        "created_at": datetime.fromtimestamp(job.began, UTC).isoformat(),
        "results_url": "https://elsewhere.example/results" if ended else None,
    }


def _list(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    jobs, more = list_page(books, asked, "limit", "after_id")
    return BatchAnswer(
        {"data": [_render(books, job) for job in jobs], "has_more": more, "last_id": jobs[-1].id if jobs else None}
    )


def _send_results(books: BatchBooks, asked: BatchRequest, id: str) -> BatchAnswer | None:
    job = books.find(id)
    if job is None or job.results is None:
        return None
    lines = b"".join(map(_format_line, books.arrange(job.results)))
    if job.is_cancelled:
        rest = [custom_id for custom_id, _ in job.lines[len(job.results) :]]
        canceled = ({"custom_id": custom_id, "result": {"type": "canceled"}} for custom_id in rest)
        lines += b"".join(json.dumps(result).encode() + b"\n" for result in canceled)
    return books.refuse(id) or BatchAnswer(lines, is_cut=books.is_cut())


def _format_line(ran: Result) -> bytes:
    return json.dumps({"custom_id": ran.custom_id, "result": _build_result(ran)}).encode() + b"\n"


def _build_result(ran: Result) -> dict[str, Any]:
    reply = ran.said
    if isinstance(reply, BatchRefusal):
        error = {"type": _KINDS.get(reply.status, "api_error"), "message": reply.words}
        errored = {"type": "errored", "error": {"type": "error", "error": error}}
        return {"type": "expired", "reason": EXPIRED} if reply.status == -1 else errored
    prompt, spoken = count_prompt_tokens(ran.body), reply.tokens
    thought = [{"type": "thinking", "thinking": reply.reasoning, "signature": "x"}] if reply.reasoning else []
    message = {
        "id": "msg_loopback",
        "role": "assistant",
        "model": ran.body.get("model"),
        "content": [*thought, {"type": "text", "text": reply.content or ""}],
        "stop_reason": "refusal" if reply.refusal else _STOPS.get(reply.finish_reason, reply.finish_reason),
        "usage": {"input_tokens": prompt, "output_tokens": spoken},
    }
    return {"type": "succeeded", "message": message}


def _delete(books: BatchBooks, asked: BatchRequest, id: str) -> BatchAnswer | None:
    return delete(books, id, {"id": id, "type": "message_batch_deleted"})


ROUTES: tuple[Route, ...] = (
    ("POST", r"/v1/messages/batches", _create),
    ("GET", r"/v1/messages/batches", _list),
    ("GET", r"/v1/messages/batches/([^/]+)", answer_job("find", _render)),
    ("GET", r"/v1/messages/batches/([^/]+)/results", _send_results),
    ("POST", r"/v1/messages/batches/([^/]+)/cancel", answer_job("cancel", _render)),
    ("DELETE", r"/v1/messages/batches/([^/]+)", _delete),
)
