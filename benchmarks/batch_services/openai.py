"""Batches of OpenAI, of Mistral and Together, which differ in paths and terms, and of OpenRouter.

Those of OpenRouter contain their requests and results.
"""

from __future__ import annotations

import json
import re
from typing import Any

from autorubric.testing.completion import build_completion_body, count_prompt_tokens
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


def _upload(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    """Store the file of a multipart form."""
    mark = re.search(r"boundary=(\S+)", asked.headers.get("content-type", ""))
    parts = asked.body.split(b"--" + mark[1].encode()) if mark else []
    content = next((p.partition(b"\r\n\r\n")[2][:-2] for p in parts if b'name="file"' in p), None)
    if content is None:
        return BatchAnswer({"error": {"message": "The form has no file."}}, 400)
    return BatchAnswer({"id": books.keep_file(content), "object": "file", "bytes": len(content), "purpose": "batch"})


def _download(books: BatchBooks, asked: BatchRequest, name: str) -> BatchAnswer | None:
    if name not in books.files:
        return None
    job = name.removeprefix("file-out-").removeprefix("file-err-")
    return books.refuse(job) or BatchAnswer(books.files[name], is_cut=books.is_cut())


def _parse_lines(content: bytes) -> list[tuple[str, ChatBody]]:
    lines = [json.loads(line) for line in content.splitlines() if line]
    return [(line["custom_id"], line["body"]) for line in lines]


def build_result(ran: Result) -> dict[str, Any]:
    """One result in the form of OpenAI."""
    record: dict[str, Any] = {"id": f"batch_req_{ran.custom_id[:8]}", "custom_id": ran.custom_id, "error": None}
    reply = ran.said
    if not isinstance(reply, BatchRefusal):
        said_by_model = build_completion_body(reply, str(ran.body["model"]), count_prompt_tokens(ran.body))
        record["response"] = {"status_code": 200, "body": json.loads(said_by_model)}
    elif reply.status == -1:
        record |= {"response": None, "error": {"code": "batch_expired", "message": EXPIRED}}
    elif reply.status:
        record["response"] = {"status_code": reply.status, "body": {"error": {"message": reply.words}}}
    else:
        record |= {"response": {"status_code": 0, "body": None}, "error": {"message": reply.words}}
    return record


def _write_result_files(books: BatchBooks, job: BatchJob) -> tuple[str | None, str | None]:
    """The names of the files of results and of errors; None if one would be empty."""
    if not job.results:
        return None, None
    output, errors = f"file-out-{job.id}", f"file-err-{job.id}"
    if not job.is_written:
        job.is_written = True
        shown = books.arrange(job.results)
        for name, lines in (
            (output, [ran for ran in shown if ran.status == 200]),
            (errors, [ran for ran in shown if ran.status != 200]),
        ):
            if lines:
                books.keep_file(b"".join(json.dumps(build_result(ran)).encode() + b"\n" for ran in lines), name)
    return (output if output in books.files else None, errors if errors in books.files else None)


def _render_openai(books: BatchBooks, job: BatchJob) -> dict[str, Any]:
    output, errors = _write_result_files(books, job)
    word = {"running": "in_progress", "done": "completed"}.get(job.state, job.state)
    failed = {"object": "list", "data": [{"code": "invalid", "message": job.problem, "line": None}]}
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "status": word,
        "errors": failed if word == "failed" else None,
        "input_file_id": job.about["file"],
        "output_file_id": output,
        "error_file_id": errors,
        "created_at": int(job.began),
        "metadata": job.about["metadata"],
        "request_counts": {"total": len(job.lines), "completed": 0, "failed": 0},
    }


def _create_openai(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer | None:
    body = asked.json
    file = str(body.get("input_file_id"))
    if file not in books.files:
        return None
    about = {"file": file, "metadata": body.get("metadata")}
    return create(books, "batch_", _parse_lines(books.files[file]), about, _render_openai)


def _list_openai(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    jobs, more = list_page(books, asked, "limit", "after")
    return BatchAnswer({"object": "list", "data": [_render_openai(books, job) for job in jobs], "has_more": more})


def _render_mistral(books: BatchBooks, job: BatchJob) -> dict[str, Any]:
    output, errors = _write_result_files(books, job)
    word = {"expired": "timeout_exceeded", "done": "success"}.get(job.state, job.state).upper()
    return {
        "id": job.id,
        "object": "batch",
        "input_files": [job.about["file"]],
        "metadata": job.about["metadata"],
        "status": word,
        "errors": [{"message": job.problem, "count": 1}] if job.problem else [],
        "output_file": output,
        "error_file": errors,
        "created_at": int(job.began),
        "total_requests": len(job.lines),
    }


def _create_mistral(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer | None:
    body = asked.json
    file = body["input_files"][0]
    if file not in books.files:
        return None
    lines = [(id, {**line, "model": body["model"]}) for id, line in _parse_lines(books.files[file])]
    about = {"file": file, "metadata": body.get("metadata")}
    return create(books, "job-", lines, about, _render_mistral)


def _list_mistral(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    size, page = int(asked.query.get("page_size", "20")), int(asked.query.get("page", "0"))
    jobs = books.list_newest()
    shown = [_render_mistral(books, job) for job in jobs[page * size : (page + 1) * size]]
    return BatchAnswer({"object": "list", "data": shown, "total": len(jobs)})


def _create_openrouter(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    body = asked.json
    if list(body)[-1] != "requests":
        return BatchAnswer({"error": {"code": 400, "message": "endpoint and model must precede requests"}}, 400)
    lines = [(request["custom_id"], {**request["body"], "model": body["model"]}) for request in body["requests"]]
    answer = create(books, "batch-", lines, {"model": body["model"]}, _render_openrouter)
    return answer if answer.status >= 400 else BatchAnswer(answer.body, 202)


def _render_openrouter(books: BatchBooks, job: BatchJob, results: bool = False) -> dict[str, Any]:
    word = {"running": "validating", "done": "completed"}.get(job.state, job.state)
    total = 0 if job.results is None else len(job.lines)
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "model": job.about["model"],
        "status": word,
        "created_at": int(job.began),
        "request_counts": {"total": total, "completed": 0, "failed": 0},
        "results": [build_result(ran) for ran in books.arrange(job.results or [])] if results and total else None,
        "error": {"code": 422, "message": job.problem} if word == "failed" else None,
    }


def _find_openrouter(books: BatchBooks, asked: BatchRequest, id: str) -> BatchAnswer | None:
    job = books.find(id)
    if job is None:
        return None
    shown = _render_openrouter(books, job, results=True)
    is_cut = shown["results"] is not None and books.is_cut()
    return BatchAnswer(json.dumps(shown).encode() if is_cut else shown, is_cut=is_cut)


def _list_openrouter(books: BatchBooks, asked: BatchRequest, _: str) -> BatchAnswer:
    jobs, more = list_page(books, asked, "limit", "after")
    shown = [_render_openrouter(books, job) for job in jobs]
    return BatchAnswer({"object": "list", "data": shown, "has_more": more, "last_id": jobs[-1].id if jobs else None})


ROUTES: tuple[Route, ...] = (
    ("POST", r"/v1/files(?:/upload)?", _upload),
    ("GET", r"/v1/files/([^/]+)/content", _download),
    ("DELETE", r"/v1/files/([^/]+)", lambda books, _, id: delete(books, id, {"id": id, "deleted": True})),
    ("POST", r"/v1/batches", _create_openai),
    ("GET", r"/v1/batches/([^/]+)", answer_job("find", _render_openai)),
    ("POST", r"/v1/batches/([^/]+)/cancel", answer_job("cancel", _render_openai)),
    ("GET", r"/v1/batches", _list_openai),
    ("POST", r"/v1/batch/jobs", _create_mistral),
    ("GET", r"/v1/batch/jobs/([^/]+)", answer_job("find", _render_mistral)),
    ("POST", r"/v1/batch/jobs/([^/]+)/cancel", answer_job("cancel", _render_mistral)),
    ("GET", r"/v1/batch/jobs", _list_mistral),
    ("POST", r"/api/v1/batches", _create_openrouter),
    ("GET", r"/api/v1/batches", _list_openrouter),
    ("GET", r"/api/v1/batches/([^/]+)", _find_openrouter),
    ("DELETE", r"/api/v1/batches/([^/]+)", lambda books, _, id: delete(books, id, {"id": id, "object": "batch"})),
)
