"""Batch services written from what their providers publish, as awkward as that allows."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

# The words that a batch goes through, a look each.
WORDS = {
    "openai": ["validating", "in_progress", "in_progress", "finalizing", "completed"],
    "anthropic": ["in_progress", "in_progress", "ended"],
    "gemini": ["BATCH_STATE_PENDING", "BATCH_STATE_RUNNING", "BATCH_STATE_SUCCEEDED"],
    "mistral": ["QUEUED", "RUNNING", "SUCCESS"],
    "together": ["VALIDATING", "IN_PROGRESS", "COMPLETED"],
}
EXPIRED = {
    "openai": "expired",
    "anthropic": "ended",
    "gemini": "BATCH_STATE_EXPIRED",
    "mistral": "TIMEOUT_EXCEEDED",
    "together": "EXPIRED",
}
ROUTES = [
    ("POST", r"/upload/v1beta/files.*|/v1/files(?:/upload)?", "upload"),
    ("POST", r"/v1/batches|/v1/messages/batches|/v1/batch/jobs|/v1beta/models/[^:]+:batchGenerateContent", "create"),
    ("POST", r".*(?:/|:)cancel", "cancel"),
    (
        "GET",
        r"/v1/files/([^/]+)/content|/v1/messages/batches/([^/]+)/results|/download/v1beta/(.+):download",
        "results",
    ),
    ("GET", r"/v1/batches|/v1/messages/batches|/v1/batch/jobs|/v1beta/batches", "list"),
    ("GET", r"/v1/batches/(.+)|/v1/messages/batches/(.+)|/v1/batch/jobs/(.+)|/v1beta/(batches/.+)", "find"),
    ("POST", r".*/chat/completions", "chat"),
    ("DELETE", r".*", "delete"),
]


@dataclass
class OddProvider:
    """One service.

    Attributes:
        dialect: whose form it speaks.
        say: the text that answers the body of a chat completion.
        refusals: for a step, statuses and headers of the answers to its first requests.
        expires: requests of the first batch that do not run, from its end.
        refused_lines: requests of the first batch that are refused with 400, from its end.
        refusal: the kind of their error, at Anthropic.
        lost_lines: requests of the first batch that run and have no line in the results.
        creations: statuses and bodies that answer the first creations, whose batches exist nevertheless.
        forgets_metadata: whether batches are shown without the metadata that they were created with.
        problems: for each batch in turn, the lines and words by which it fails while it is validated; empty if not.
        jobs: what the batches look like, by name.
        paid: how often each request ran.
    """

    dialect: str
    say: Callable[[Json], str]
    refusals: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    expires: int = 0
    refused_lines: int = 0
    refusal: str = "invalid_request_error"
    lost_lines: int = 0
    creations: list[tuple[int, bytes]] = field(default_factory=list)
    forgets_metadata: bool = False
    problems: list[list[Json]] = field(default_factory=list)
    jobs: dict[str, Json] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of a response."""
        step, name = next(
            (step, next(filter(None, found.groups()), ""))
            for verb, pattern, step in ROUTES
            if verb == method and (found := re.fullmatch(pattern, path))
        )
        self.asked[step] += 1
        refusals = self.refusals.get(step)
        if refusals:
            status, more = refusals.pop(0)
            return status, more, json.dumps({"error": {"message": f"Not now ({status})."}}).encode()
        if step == "upload":
            return self._upload(headers, body)
        if step == "results":
            return 200, {"Content-Type": "application/octet-stream"}, self.files[name]
        if step == "chat":
            return 200, {}, self._chat(json.loads(body)).encode()
        about = self._about_batches(step, name, body)
        if step == "create" and self.creations:
            status, content = self.creations.pop(0)
            return status, {}, content
        return 200, {}, json.dumps(about).encode()

    def _about_batches(self, step: str, name: str, body: bytes) -> Json | list[Json]:
        if step == "create":
            created = self._create(json.loads(body))
            return {"job": created, "warning": None} if self.dialect == "together" else created
        if step == "find":
            return self._find(name)
        listed = [self._shown(job) for job in reversed(self.jobs.values())] if step == "list" else []
        if self.dialect == "together":
            return listed
        return {"data": listed, "operations": listed, "has_more": False}

    def _chat(self, body: Json) -> str:
        message = {"role": "assistant", "content": self.say(body), "annotations": []}
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return json.dumps({"id": "chatcmpl-1", "model": "m-2026", "choices": [choice], "usage": usage, "x": [{}]})

    def _upload(self, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        name = f"file-{uuid.uuid4()}"
        if self.dialect != "gemini":
            mark = re.search(r"boundary=(\S+)", headers["Content-Type"])
            assert mark
            part = next(p for p in body.split(b"--" + mark[1].encode()) if b'name="file"' in p)
            self.files[name] = part.partition(b"\r\n\r\n")[2][:-2]
            return 200, {}, json.dumps({"id": name, "object": "file", "status": "processed", "new": 1}).encode()
        if headers["X-Goog-Upload-Command"] == "start":
            return 200, {"X-Goog-Upload-URL": f"{self.url}/upload/v1beta/files?upload_id=abc&more=1"}, b""
        self.files[f"files/{name}"] = body
        return 200, {}, json.dumps({"file": {"name": f"files/{name}", "state": "ACTIVE"}}).encode()

    def _create(self, body: Json) -> Json:
        name = f"batches/{uuid.uuid4().hex}" if self.dialect == "gemini" else str(uuid.uuid4())
        file = ""
        if self.dialect == "anthropic":
            lines = [(one["custom_id"], one["params"]) for one in body["requests"]]
        else:
            given = body["batch"]["input_config"]["file_name"] if self.dialect == "gemini" else None
            file = given or body.get("input_file_id") or body["input_files"][0]
            rows = [json.loads(line) for line in self.files[file].splitlines()]
            lines = [(row.get("custom_id") or row["key"], row.get("body") or row["request"]) for row in rows]
        problem = self.problems.pop(0) if self.problems else []
        job = {"id": name, "lines": lines, "file": file, "looks": 0, "problem": problem, "body": body}
        job["first"] = not self.jobs
        self.jobs[name] = job
        return self._shown(job)

    def _find(self, name: str) -> Json:
        job = self.jobs[name]
        job["looks"] += 1
        return self._shown(job)

    def _shown(self, job: Json) -> Json:
        words = WORDS[self.dialect]
        word = words[min(job["looks"], len(words) - 1)]
        over = word == words[-1]
        output, errors = self._results(job) if over and not job["problem"] else (None, None)
        if over and not job["problem"] and job["first"] and self.expires:
            word = EXPIRED[self.dialect]
        told = job["problem"] if over else []
        forms = {"anthropic": self._anthropic, "gemini": self._gemini, "mistral": self._mistral}
        return forms.get(self.dialect, self._openai)(job, word, told, output, errors)

    def _openai(self, job: Json, word: str, told: list[Json], output: str | None, errors: str | None) -> Json:
        shown = {"id": job["id"], "object": "batch", "status": "failed" if told else word, "usage": {"x": 1}}
        metadata = None if self.forgets_metadata else job["body"].get("metadata")
        shown |= {"errors": {"object": "list", "data": told} if told else None, "metadata": metadata}
        shown |= {"input_file_id": job["file"], "output_file_id": output, "error_file_id": errors}
        return {**shown, "created_at": int(time.time()), "expires_at": 1_900_000_000, "request_counts": None}

    def _mistral(self, job: Json, word: str, told: list[Json], output: str | None, errors: str | None) -> Json:
        shown = {"id": job["id"], "status": "FAILED" if told else word, "input_files": [job["file"]], "outputs": None}
        shown |= {"errors": [{"message": one["message"], "count": 1} for one in told], "agent_id": None}
        shown |= {"metadata": job["body"]["metadata"], "model": job["body"]["model"], "created_at": int(time.time())}
        return {**shown, "output_file": output, "error_file": errors}

    def _anthropic(self, job: Json, word: str, told: list[Json], output: str | None, errors: str | None) -> Json:
        counts = {"processing": 0 if output else len(job["lines"]), "errored": 0, "canceled": 0}
        counts |= {"expired": self.expires if output and job["first"] else 0}
        counts["succeeded"] = len(job["lines"]) - sum(counts.values())
        shown = {"id": job["id"], "type": "message_batch", "processing_status": word, "request_counts": counts}
        return {**shown, "created_at": _now("123456"), "archived_at": None, "results_url": None}

    def _gemini(self, job: Json, word: str, told: list[Json], output: str | None, errors: str | None) -> Json:
        failed = {"error": {"code": 3, "message": told[0]["message"]}} if told else {}
        about = {"state": "BATCH_STATE_FAILED" if failed else word, "priority": "0", "batchStats": {}}
        about |= {"createTime": _now("123456789"), "inputConfig": {"fileName": job["file"]}}
        about |= {"displayName": job["body"]["batch"]["display_name"], "@type": "x"}
        ended = {"done": True, "response": {"@type": "x", "responsesFile": output}} if output else {}
        return {"name": job["id"], "metadata": about, **ended, **failed}

    def _results(self, job: Json) -> tuple[str | None, str | None]:
        if "written" in job:
            return job["written"]  # type: ignore[no-any-return]
        count = len(job["lines"])
        settings = (self.expires, self.refused_lines, self.lost_lines)
        expires, refused, lost = settings if job["first"] else (0, 0, 0)
        fine, bad = [], []
        for place, (id, body) in enumerate(job["lines"]):
            if place >= count - expires:
                bad.append(self._line(id, None, "expired"))
            elif place >= count - expires - refused:
                bad.append(self._line(id, None, "refused"))
            else:
                self.paid[id] += 1
                fine.append(self._line(id, self.say(_chat_body(self.dialect, body)), ""))
        fine = fine[lost:]
        fine.reverse()
        written: tuple[str | None, str | None]
        if self.dialect in ("anthropic", "gemini"):
            name = job["id"] if self.dialect == "anthropic" else f"files/batch-{job['id'].rpartition('/')[2]}"
            self.files[name] = b"".join([*bad, *fine])
            written = name, None
        else:
            output, errors = (f"out-{job['id']}" if fine else None), (f"err-{job['id']}" if bad else None)
            self.files |= {name: b"".join(lines) for name, lines in ((output, fine), (errors, bad)) if name}
            written = output, errors
        job["written"] = written
        return written

    def _line(self, id: str, text: str | None, why: str) -> bytes:
        words = {"expired": "This request could not be executed before the completion window expired."}
        message = words.get(why, "max_tokens is too large: 32768.")
        if self.dialect == "anthropic":
            usage = {"input_tokens": 9, "output_tokens": 3, "service_tier": "batch", "cache_creation": {}}
            said = {"type": "message", "content": [{"type": "text", "text": text, "citations": None}], "usage": usage}
            result: Json = {"type": "succeeded", "message": {"model": "m", "stop_reason": "end_turn", **said}}
            error = {"type": "error", "error": {"type": self.refusal, "message": message}}
            bad = {"type": "expired"} if why == "expired" else {"type": "errored", "error": error}
            return _row({"custom_id": id, "result": bad if why else result})
        if self.dialect == "gemini":
            parts = [{"text": text, "thoughtSignature": "abc="}]
            candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
            usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
            response = {"candidates": [candidate], "usageMetadata": usage, "responseId": "x"}
            failed = {"error": {"code": 4 if why == "expired" else 3, "message": message}}
            return _row({"key": id, **(failed if why else {"response": response})})
        line: Json = {"id": f"batch_req_{uuid.uuid4()}", "custom_id": id, "response": None, "error": None}
        if why == "expired":
            line["error"] = {"code": "batch_expired", "message": message}
        else:
            error = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
            body = error if why else json.loads(self._chat({}) if text is None else _completion(text))
            line["response"] = {"status_code": 400 if why else 200, "request_id": "r", "body": body}
        return _row(line)


def _completion(text: str) -> str:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": None}
    choice = {"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


def _now(fraction: str) -> str:
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{fraction}Z", time.gmtime())


def _row(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\r\n"


def _chat_body(dialect: str, body: Json) -> Json:
    """The body of a chat completion, as repliers read it."""
    if dialect == "anthropic":
        form = (body.get("output_config") or {}).get("format")
        system = [{"role": "system", "content": body["system"]}] if "system" in body else []
        messages = [*system, *body["messages"]]
    elif dialect == "gemini":
        schema = (body.get("generationConfig") or {}).get("responseJsonSchema")
        form = {"schema": schema} if schema else None
        turns = [{"role": "system", **body["systemInstruction"]}] if "systemInstruction" in body else []
        messages = [
            {"role": one["role"], "content": "".join(part["text"] for part in one["parts"])}
            for one in [*turns, *body["contents"]]
        ]
    else:
        return body
    return {"messages": messages, **({"response_format": {"json_schema": form}} if form else {})}


@contextmanager
def served(provider: OddProvider) -> Iterator[OddProvider]:
    """The service on a port of its own; answers are packed where the client takes that."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                status, more, content = provider.answer(self.command, self.path.partition("?")[0], self.headers, body)
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                content, more = gzip.compress(content), {**more, "Content-Encoding": "gzip"}
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **more, "Content-Length": len(content)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            return

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
