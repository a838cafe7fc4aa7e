"""The interface of a provider's batch service: one dialect is one class and one line of a table."""

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from autorubric.errors import pluralize
from autorubric.llm.batches.batch_store import BatchRecord
from autorubric.llm.batches.link import After, BatchLink, Body, Upload, read_object


class BatchLimits(NamedTuple):
    """The maximum requests and bytes of one batch."""

    requests: int = 50_000
    bytes: int = 200_000_000


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as its provider describes it.

    Attributes:
        id: the provider's name of it.
        word: its state in the provider's own word.
        ended: whether nothing more will be answered.
        whole: whether it ended with every request answered or refused.
        problem: why it failed as a whole, in the provider's words.
        outputs: where its results are.
        files: uploaded and written files, to be deleted once collected.
        batch: our name of it in its metadata, if the provider keeps metadata.
        file: the file it was made from, if there is one.
        count: its requests; None if not stated.
        created: seconds since the epoch; None if not stated.
    """

    id: str
    word: str
    ended: bool = False
    whole: bool = False
    problem: str = ""
    outputs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    batch: str = ""
    file: str = ""
    count: int | None = None
    created: float | None = None


class ResultLine(NamedTuple):
    """One result: the status and body that a single request would have been answered with.

    Status 0 means that the request did not run; the body then holds the provider's reason.
    """

    custom_id: str
    status: int
    body: bytes


CHAT = "/v1/chat/completions"
"""The path that requests in batches name."""

_ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})


@dataclass(frozen=True)
class BatchDialect:
    """OpenAI's batches, which many providers offer in the same form: a file of requests, and a file of results.

    A service that differs is a subclass with what differs.

    Attributes:
        limits: of one batch.
        keeps_metadata: whether a batch carries metadata; otherwise it is recognized by its file, or by its results.
        files: the path that takes files; empty where the creation carries the requests.
        purpose: of the uploaded file.
        path: of batches.
        pages: the query of their list, the field that holds those of a page, and the parameter of the next page.
        names_model: whether each request names its model; otherwise the batch does.
    """

    limits: BatchLimits = field(default_factory=BatchLimits)
    keeps_metadata: bool = True
    files: str = "/files"
    purpose: str = "batch"
    path: ClassVar[str] = "/batches"
    pages: ClassVar[tuple[str, str, str]] = "?limit=100", "data", "after"
    names_model: ClassVar[bool] = True

    def find_root(self, base_url: str) -> str:
        """Return the address of the service, from that of its chat completions."""
        return base_url

    def build_headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """Return the headers of each request, from those of chat completions."""
        return dict(headers)

    def build_line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of a request, from the body of a chat completion."""
        if self.names_model:
            return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}
        return {"custom_id": custom_id, "body": {name: value for name, value in body.items() if name != "model"}}

    async def upload(self, link: BatchLink, record: BatchRecord, path: Path) -> str:
        """Upload the file and return its id; empty where the creation carries the requests."""
        if not self.files:
            return ""
        named = {} if self.purpose == "batch" else {"file_name": f"autorubric-{record.id}.jsonl"}
        form = _build_form(record, path, self.purpose, **named)
        return as_text(read_object((await link.upload(self.files, form)).body).get("id"))

    def build_creation(self, record: BatchRecord, path: Path) -> tuple[str, Body]:
        """Return the path and the body that create a batch."""
        body = {"input_file_id": record.file, "endpoint": CHAT, "completion_window": "24h"}
        return self.path, body | ({"metadata": record.metadata} if self.keeps_metadata else {})

    async def create(self, link: BatchLink, record: BatchRecord, path: Path) -> RemoteBatch:
        """Create the batch, with one request that is not repeated."""
        return self.read(read_object((await link.post(*self.build_creation(record, path))).body))

    def read(self, found: Mapping[str, Any]) -> RemoteBatch:
        """Return the batch that an answer describes."""
        found = as_dict(found.get("job")) or found  # Together
        word = as_text(found.get("status")).lower()
        outputs = select_texts(found.get("output_file_id"), found.get("error_file_id"))
        file = as_text(found.get("input_file_id"))
        return RemoteBatch(
            id=as_text(found.get("id")),
            word=word,
            ended=word in _ENDED,
            whole=word == "completed",
            problem=describe_problem(found) if word == "failed" else "",
            outputs=outputs,
            files=select_texts(file, *outputs),
            batch=as_text(as_dict(found.get("metadata")).get("autorubric_batch")),
            file=file,
            count=as_dict(found.get("request_counts")).get("total"),
            created=as_seconds(found.get("created_at")),
        )

    async def find(self, link: BatchLink, id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        return self.read(await link.find(f"{self.path}/{id}"))

    async def cancel(self, link: BatchLink, id: str) -> None:
        """Ask the provider to answer no more requests of a batch; earlier answers stay."""
        await link.post(f"{self.path}/{id}/cancel")

    async def list(self, link: BatchLink) -> AsyncIterator[RemoteBatch]:
        """Yield the batches of the account, newest first."""
        query, field, mark = self.pages
        async for entry in link.list_objects(self.path + query, field, mark, self.make_pager()):
            yield self.read(entry)

    def make_pager(self) -> After:
        """Return a function of a page and its batches: the name of the next page, or nothing after the last one."""
        return lambda page, found: found and page.get("has_more") and found[-1].get("id")

    async def read_results(self, link: BatchLink, batch: RemoteBatch) -> AsyncIterator[ResultLine]:
        """Yield the results of a batch that has ended, in any order."""
        for file in batch.outputs:
            async for record in link.read_records(f"/files/{file}/content"):
                yield read_result(record)

    async def delete(self, link: BatchLink, batch: RemoteBatch) -> None:
        """Delete the files of a batch; the batch itself where the creation carried the requests."""
        for path in [f"/files/{file}" for file in batch.files] if self.files else [f"{self.path}/{batch.id}"]:
            await link.delete(path)


def _build_form(record: BatchRecord, path: Path, purpose: str, **more: str) -> Upload:
    """Return the form that uploads a file, with its purpose and `more` fields."""
    mark, name = secrets.token_hex(16), f"autorubric-{record.id}.jsonl"
    fields = {"purpose": purpose, **more}
    parts = [f'form-data; name="{field}"\r\n\r\n{value}\r\n' for field, value in fields.items()]
    parts.append(f'form-data; name="file"; filename="{name}"\r\nContent-Type: application/jsonl\r\n\r\n')
    head = "".join(f"--{mark}\r\nContent-Disposition: {part}" for part in parts)
    kind = f"multipart/form-data; boundary={mark}"
    return Upload(path, head.encode(), f"\r\n--{mark}--\r\n".encode(), kind=kind)


def read_result(record: Mapping[str, Any]) -> ResultLine:
    """Return the result in a line of results.

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
        return build_error_line(custom_id, code if isinstance(code, int) and code >= 400 else 0, error)
    return ResultLine(custom_id, status, json.dumps(body).encode())


def describe_problem(found: Mapping[str, Any]) -> str:
    """Return why a batch failed, in the words of its first error, and how many errors follow."""
    errors = as_dict(found.get("errors")).get("data")
    listed = [as_dict(error) for error in errors] if isinstance(errors, list) else []
    first = listed[0] if listed else {}
    words = as_text(first.get("message")) or as_text(found.get("error")) or as_text(first.get("code"))
    about = [as_text(first.get("code"))] if as_text(first.get("code")) != words else []
    about += [f"line {first['line']}"] if isinstance(first.get("line"), int) else []
    problem = f"{words} ({', '.join(filter(None, about))})" if any(about) else words or "no reason stated"
    return f"{problem} and {pluralize(len(listed) - 1, 'more problem')}" if len(listed) > 1 else problem


def build_error_line(custom_id: str, status: int, words: object) -> ResultLine:
    """Return a result without a completion, with the provider's words.

    Example:
        >>> build_error_line("a", 0, {"message": "expired"}).body
        b'{"error": {"message": "expired"}}'
    """
    error = words if isinstance(words, dict) else {"message": str(words or "")}
    return ResultLine(custom_id, status, json.dumps({"error": error}).encode())


def as_dict(value: object) -> dict[str, Any]:
    """Return the value if it is a dict, otherwise an empty one: providers leave out what does not apply."""
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """Return the value if it is a text, otherwise an empty one."""
    return value if isinstance(value, str) else ""


def select_texts(*values: object) -> tuple[str, ...]:
    """Return those of the values that are texts with content."""
    return tuple(value for value in values if isinstance(value, str) and value)


def as_seconds(value: object) -> float | None:
    """Return a moment in seconds since the epoch, from a number or a date; None for anything else.

    Example:
        >>> as_seconds(5), as_seconds("1970-01-01T00:00:05Z"), as_seconds(None)
        (5.0, 5.0, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return datetime.fromisoformat(as_text(value)).timestamp()
    except ValueError:
        return None
