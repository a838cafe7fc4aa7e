"""OpenRouter's batches, which hold their requests and results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from autorubric.testing.endpoint.batches.books import BatchBooks, Job
from autorubric.testing.endpoint.batches.openai import result_record
from autorubric.testing.endpoint.batches.wire import Asked, Route, Said, created, paged


def _create(books: BatchBooks, asked: Asked, _: str) -> Said:
    body = asked.json
    if list(body)[-1] != "requests":
        return Said({"error": {"code": 400, "message": "endpoint and model must precede requests"}}, 400)
    lines = [(one["custom_id"], {**one["body"], "model": body["model"]}) for one in body["requests"]]
    said = created(*books.create(books.name("batch-"), lines, {"model": body["model"]}), _shown(books, results=False))
    return said if said.status >= 400 else Said(said.body, 202)


def _shown(books: BatchBooks, *, results: bool) -> Callable[[Job], dict[str, Any]]:
    def shown(job: Job) -> dict[str, Any]:
        word, total = "validating", 0
        if job.results is not None:
            word = "failed" if job.problem else "expired" if job.has_expired else "completed"
            total = len(job.lines)
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

    return shown


def _find(books: BatchBooks, asked: Asked, id: str) -> Said | None:
    job = books.find(id)
    if job is None:
        return None
    shown = _shown(books, results=True)(job)
    is_cut = shown["results"] is not None and books.is_cut()
    return Said(json.dumps(shown).encode() if is_cut else shown, is_cut=is_cut)


def _list(books: BatchBooks, asked: Asked, _: str) -> Said:
    jobs, more = paged(books, asked, "limit", "after")
    shown = [_shown(books, results=False)(job) for job in jobs]
    return Said({"object": "list", "data": shown, "has_more": more, "last_id": jobs[-1].id if jobs else None})


def _deleted(books: BatchBooks, asked: Asked, id: str) -> Said | None:
    if books.jobs.get(id) is None:
        return None
    books.deleted.append(id)
    return Said({"id": id, "object": "batch"})


ROUTES: tuple[Route, ...] = (
    ("POST", r"/api/v1/batches", _create),
    ("GET", r"/api/v1/batches", _list),
    ("GET", r"/api/v1/batches/([^/]+)", _find),
    ("DELETE", r"/api/v1/batches/([^/]+)", _deleted),
)
