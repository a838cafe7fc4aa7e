"""OpenAI's batches, those of Mistral and Together, which differ in paths and words, and those of OpenRouter.

OpenRouter's hold their requests and results.
"""

from __future__ import annotations

import json
import re
from typing import Any

from autorubric.testing.completion import envelope, prompt_tokens
from autorubric.testing.endpoint.batches.books import (
    EXPIRED,
    Asked,
    BatchBooks,
    ChatBody,
    Job,
    Ran,
    Refused,
    Route,
    Said,
    created,
    deleted,
    one_job,
    paged,
)


def _uploaded(books: BatchBooks, asked: Asked, _: str) -> Said:
    """A multipart form with a file."""
    mark = re.search(r"boundary=(\S+)", asked.headers.get("content-type", ""))
    parts = asked.body.split(b"--" + mark[1].encode()) if mark else []
    content = next((p.partition(b"\r\n\r\n")[2][:-2] for p in parts if b'name="file"' in p), None)
    if content is None:
        return Said({"error": {"message": "The form has no file."}}, 400)
    return Said({"id": books.keep_file(content), "object": "file", "bytes": len(content), "purpose": "batch"})


def _content(books: BatchBooks, asked: Asked, name: str) -> Said | None:
    if name not in books.files:
        return None
    job = name.removeprefix("file-out-").removeprefix("file-err-")
    return books.gone(job) or Said(books.files[name], is_cut=books.is_cut())


def _lines_in(content: bytes) -> list[tuple[str, ChatBody]]:
    lines = [json.loads(line) for line in content.splitlines() if line]
    return [(line["custom_id"], line["body"]) for line in lines]


def result_record(ran: Ran) -> dict[str, Any]:
    """One result in the form of OpenAI."""
    record: dict[str, Any] = {"id": f"batch_req_{ran.custom_id[:8]}", "custom_id": ran.custom_id, "error": None}
    said = ran.said
    if not isinstance(said, Refused):
        said_by_model = envelope(said, str(ran.body["model"]), prompt_tokens(ran.body))
        record["response"] = {"status_code": 200, "body": json.loads(said_by_model)}
    elif said.status == -1:
        record |= {"response": None, "error": {"code": "batch_expired", "message": EXPIRED}}
    elif said.status:
        record["response"] = {"status_code": said.status, "body": {"error": {"message": said.words}}}
    else:
        record |= {"response": {"status_code": 0, "body": None}, "error": {"message": said.words}}
    return record


def _result_files(books: BatchBooks, job: Job) -> tuple[str | None, str | None]:
    """The names of the files of results and of errors; None if one would be empty."""
    if not job.results:
        return None, None
    output, errors = f"file-out-{job.id}", f"file-err-{job.id}"
    if not job.is_written:
        job.is_written = True
        shown = books.shown(job.results)
        for name, lines in (
            (output, [ran for ran in shown if ran.status == 200]),
            (errors, [ran for ran in shown if ran.status != 200]),
        ):
            if lines:
                books.keep_file(b"".join(json.dumps(result_record(ran)).encode() + b"\n" for ran in lines), name)
    return (output if output in books.files else None, errors if errors in books.files else None)


def _openai(books: BatchBooks, job: Job) -> dict[str, Any]:
    output, errors = _result_files(books, job)
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


def _openai_create(books: BatchBooks, asked: Asked, _: str) -> Said | None:
    body = asked.json
    file = str(body.get("input_file_id"))
    if file not in books.files:
        return None
    about = {"file": file, "metadata": body.get("metadata")}
    return created(books, "batch_", _lines_in(books.files[file]), about, _openai)


def _openai_list(books: BatchBooks, asked: Asked, _: str) -> Said:
    jobs, more = paged(books, asked, "limit", "after")
    return Said({"object": "list", "data": [_openai(books, job) for job in jobs], "has_more": more})


def _mistral(books: BatchBooks, job: Job) -> dict[str, Any]:
    output, errors = _result_files(books, job)
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


def _mistral_create(books: BatchBooks, asked: Asked, _: str) -> Said | None:
    body = asked.json
    file = body["input_files"][0]
    if file not in books.files:
        return None
    lines = [(id, {**line, "model": body["model"]}) for id, line in _lines_in(books.files[file])]
    about = {"file": file, "metadata": body.get("metadata")}
    return created(books, "job-", lines, about, _mistral)


def _mistral_list(books: BatchBooks, asked: Asked, _: str) -> Said:
    size, page = int(asked.query.get("page_size", "20")), int(asked.query.get("page", "0"))
    jobs = books.newest()
    shown = [_mistral(books, job) for job in jobs[page * size : (page + 1) * size]]
    return Said({"object": "list", "data": shown, "total": len(jobs)})


def _openrouter_create(books: BatchBooks, asked: Asked, _: str) -> Said:
    body = asked.json
    if list(body)[-1] != "requests":
        return Said({"error": {"code": 400, "message": "endpoint and model must precede requests"}}, 400)
    lines = [(one["custom_id"], {**one["body"], "model": body["model"]}) for one in body["requests"]]
    said = created(books, "batch-", lines, {"model": body["model"]}, _openrouter)
    return said if said.status >= 400 else Said(said.body, 202)


def _openrouter(books: BatchBooks, job: Job, results: bool = False) -> dict[str, Any]:
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
        "results": [result_record(ran) for ran in books.shown(job.results or [])] if results and total else None,
        "error": {"code": 422, "message": job.problem} if word == "failed" else None,
    }


def _openrouter_find(books: BatchBooks, asked: Asked, id: str) -> Said | None:
    job = books.find(id)
    if job is None:
        return None
    shown = _openrouter(books, job, results=True)
    is_cut = shown["results"] is not None and books.is_cut()
    return Said(json.dumps(shown).encode() if is_cut else shown, is_cut=is_cut)


def _openrouter_list(books: BatchBooks, asked: Asked, _: str) -> Said:
    jobs, more = paged(books, asked, "limit", "after")
    shown = [_openrouter(books, job) for job in jobs]
    return Said({"object": "list", "data": shown, "has_more": more, "last_id": jobs[-1].id if jobs else None})


ROUTES: tuple[Route, ...] = (
    ("POST", r"/v1/files(?:/upload)?", _uploaded),
    ("GET", r"/v1/files/([^/]+)/content", _content),
    ("DELETE", r"/v1/files/([^/]+)", lambda books, _, id: deleted(books, id, {"id": id, "deleted": True})),
    ("POST", r"/v1/batches", _openai_create),
    ("GET", r"/v1/batches/([^/]+)", one_job("find", _openai)),
    ("POST", r"/v1/batches/([^/]+)/cancel", one_job("cancel", _openai)),
    ("GET", r"/v1/batches", _openai_list),
    ("POST", r"/v1/batch/jobs", _mistral_create),
    ("GET", r"/v1/batch/jobs/([^/]+)", one_job("find", _mistral)),
    ("POST", r"/v1/batch/jobs/([^/]+)/cancel", one_job("cancel", _mistral)),
    ("GET", r"/v1/batch/jobs", _mistral_list),
    ("POST", r"/api/v1/batches", _openrouter_create),
    ("GET", r"/api/v1/batches", _openrouter_list),
    ("GET", r"/api/v1/batches/([^/]+)", _openrouter_find),
    ("DELETE", r"/api/v1/batches/([^/]+)", lambda books, _, id: deleted(books, id, {"id": id, "object": "batch"})),
)
