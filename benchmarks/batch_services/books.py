"""The loopback endpoint's batches, for all dialects: files, jobs, requests, results and faults."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

from autorubric.errors import ConfigError
from autorubric.testing.completion import Completion

ChatBody: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[ChatBody], "Completion | BatchRefusal"]
"""Answers one request."""


@dataclass(frozen=True)
class BatchFaults:
    """Faults of batches.

    Attributes:
        expire: the share of requests that expire before they run.
        errors: statuses of failing requests, drawn at random; 0 is an error without a status.
        error_share: the share of requests that fail with one of them.
        missing: the share of requests that run, are charged, and have no line in the results.
        shuffle: whether results come in another order than requests.
        duplicates: whether each result comes twice, with one result of an unknown request.
        cut_downloads: number of downloads of results that break off in the middle.
        lost_creations: number of creations that are accepted and answered with HTTP 500.
        failing: number of batches that fail as a whole, with `reason`.
        reason: the error message of these batches.
        endless: number of batches that never end.
        gone: number of batches whose results are deleted before they are read; downloads get `gone_status`.
        forgotten: number of batches that become unknown once they have run; requests get `gone_status`.
        seconds: how long a batch takes.

    Example:
        >>> BatchFaults(expire=0.5).expire
        0.5
    """

    expire: float = 0.0
    errors: Sequence[int] = (500,)
    error_share: float = 0.0
    missing: float = 0.0
    shuffle: bool = False
    duplicates: bool = False
    cut_downloads: int = 0
    lost_creations: int = 0
    failing: int = 0
    reason: str = "The input file is not valid."
    endless: int = 0
    gone: int = 0
    forgotten: int = 0
    gone_status: int = 404
    seconds: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.expire, self.error_share, self.missing)
        if any(not 0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
            raise ConfigError(f"shares of requests {shares} are not shares of one")


FAILED = "The server had an error while processing this request."


class BatchRefusal(NamedTuple):
    """The status and message of an error; status -1 means that the request expired, 0 that there is no status."""

    status: int
    words: str = FAILED


class Result(NamedTuple):
    """The result of one request; `is_kept` is False if the result is lost."""

    custom_id: str
    body: ChatBody
    said: Completion | BatchRefusal
    is_kept: bool = True

    @property
    def status(self) -> int:
        """200, or the status of an error."""
        return self.said.status if isinstance(self.said, BatchRefusal) else 200


@dataclass
class BatchJob:
    """One batch.

    Attributes:
        id: its id.
        lines: the requests, as custom id and the body of a chat completion.
        about: metadata, file and model, as the dialect stores them.
        began: when it began, in seconds since the epoch.
        endless: whether it never ends.
        is_gone: whether its results are deleted.
        is_forgotten: whether it becomes unknown once it has ended.
        problem: why it failed as a whole.
        results: the results of its requests, once it has ended.
        is_written: whether they are written to files.
        is_cancelled: whether it was cancelled; then only the first half of its requests has run.
    """

    id: str
    lines: Sequence[tuple[str, ChatBody]]
    about: Mapping[str, Any]
    began: float = field(default_factory=time.time)
    endless: bool = False
    is_gone: bool = False
    is_forgotten: bool = False
    problem: str = ""
    results: list[Result] | None = None
    is_written: bool = False
    is_cancelled: bool = False

    @property
    def state(self) -> Literal["running", "failed", "expired", "cancelled", "done"]:
        """Its state."""
        if self.results is None:
            return "running"
        if self.is_cancelled:
            return "cancelled"
        if self.problem:
            return "failed"
        return "expired" if any(ran.status == -1 for ran in self.results) else "done"


class BatchBooks:
    """The batches and files of one endpoint.

    Attributes:
        faults: the faults of batches.
        files: uploaded and written files by name.
        jobs: batches by id, oldest first.
        paid: how often each request ran, by custom id.
        deleted: names of deleted files and batches.
    """

    def __init__(self, faults: BatchFaults, run: Run, seed: int) -> None:
        self.faults = faults
        self.files: dict[str, bytes] = {}
        self.jobs: dict[str, BatchJob] = {}
        self.paid: Counter[str] = Counter()
        self.deleted: list[str] = []
        self._run = run
        self._random = Random(seed + 2)
        self._numbers = count(1)
        self._downloads = self._creations = 0

    def name(self, kind: str) -> str:
        """A new, unique name."""
        return f"{kind}{next(self._numbers):04d}"

    def keep_file(self, content: bytes, name: str = "") -> str:
        """Store a new file; returns its name."""
        name = name or self.name("file-")
        self.files[name] = content
        return name

    def create(
        self, id: str, lines: Sequence[tuple[str, ChatBody]], about: Mapping[str, Any]
    ) -> tuple[BatchJob, bool]:
        """Create a batch; returns it, and whether the request gets its answer."""
        job = self.jobs[id] = BatchJob(id, lines, about)
        self._creations += 1
        job.endless = self._creations <= self.faults.endless
        job.is_gone = self._creations <= self.faults.gone
        job.is_forgotten = self._creations <= self.faults.forgotten
        job.problem = self.faults.reason if self._creations <= self.faults.failing else ""
        return job, self._creations > self.faults.lost_creations

    def find(self, id: str) -> BatchJob | None:
        """The batch in its current state, None if it is unknown; its requests run when its time is over."""
        job = self.jobs.get(id)
        over = job is not None and not job.endless and time.time() - job.began >= self.faults.seconds
        if job is not None and over and job.results is None:
            job.results = [] if job.problem else [self._run_request(*line) for line in job.lines]
        return None if over and job is not None and job.is_forgotten else job

    def cancel(self, id: str) -> BatchJob | None:
        """Cancel a batch that has not ended: half of its requests have run, the others never will."""
        job = self.find(id)
        if job is not None and job.results is None:
            job.is_cancelled = True
            job.results = [self._run_request(*line) for line in job.lines[: len(job.lines) // 2]]
        return job

    def list_newest(self) -> list[BatchJob]:
        """All batches, newest first."""
        return [job for id in reversed(self.jobs) if (job := self.find(id)) is not None]

    def arrange(self, results: Sequence[Result]) -> list[Result]:
        """The results for a file: shuffled, duplicated, and without missing ones, as `faults` say."""
        found = [ran for ran in results if ran.is_kept]
        if self.faults.shuffle:
            self._random.shuffle(found)
        if self.faults.duplicates and found:
            found = [result for ran in found for result in (ran, ran)]
            found.append(found[0]._replace(custom_id="0" * 32))
        return found

    def refuse(self, id: str) -> BatchAnswer | None:
        """The answer to a download of deleted results; None if the results exist."""
        job = self.jobs.get(id)
        if job is None or not job.is_gone:
            return None
        return BatchAnswer({"error": {"message": f"No such File object: {id}"}}, self.faults.gone_status)

    def refuse_unknown(self, id: str) -> BatchAnswer:
        """The answer to a request about an unknown batch or file."""
        job = self.jobs.get(id)
        status = 404 if job is None or not job.is_forgotten else self.faults.gone_status
        return BatchAnswer({"error": {"message": f"There is no such batch or file: {id}"}}, status)

    def is_cut(self) -> bool:
        """Whether this download of results breaks off."""
        self._downloads += 1
        return self._downloads <= self.faults.cut_downloads

    def summarize(self) -> dict[str, Any]:
        """The totals as JSON values.

        Example:
            >>> BatchBooks(BatchFaults(), lambda body: Completion(""), 0).summarize()["paid"]
            0
        """
        asked = Counter(custom_id for job in self.jobs.values() for custom_id, _ in job.lines)
        return {
            "batches": len(self.jobs),
            "requests": asked.total(),
            "asked_twice": sum(times > 1 for times in asked.values()),
            "paid": self.paid.total(),
            "paid_twice": sum(times > 1 for times in self.paid.values()),
            "files": len(self.files),
        }

    def _run_request(self, custom_id: str, body: ChatBody) -> Result:
        faults, point = self.faults, self._random.random()
        if point < faults.expire:
            return Result(custom_id, body, BatchRefusal(-1))
        if point < faults.expire + faults.error_share:
            return Result(custom_id, body, BatchRefusal(faults.errors[self._random.randrange(len(faults.errors))]))
        reply = self._run(body)
        self.paid[custom_id] += isinstance(reply, Completion)
        return Result(custom_id, body, reply, point >= faults.expire + faults.error_share + faults.missing)


EXPIRED = "This request could not be executed before the completion window expired."


@dataclass(frozen=True)
class BatchRequest:
    """One HTTP request about batches."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def read(cls, method: str, head: bytes, body: bytes) -> BatchRequest:
        """The request with this head and body."""
        first, *rest = head.decode("latin-1").split("\r\n")
        parts = urlsplit(first.split(" ")[1])
        pairs = (line.partition(":") for line in rest)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return cls(method, parts.path, query, headers, body)

    @property
    def keys(self) -> tuple[str, ...]:
        """The possible API keys, in the headers of each dialect."""
        names = ("authorization", "x-api-key", "x-goog-api-key")
        return tuple(self.headers.get(name, "").removeprefix("Bearer ") for name in names)

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        found = json.loads(self.body)
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class BatchAnswer:
    """An answer: JSON, or the bytes of a file; it may break off."""

    body: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False


Route: TypeAlias = tuple[str, str, Callable[[BatchBooks, BatchRequest, str], "BatchAnswer | None"]]


def list_page(books: BatchBooks, asked: BatchRequest, size: str, after: str) -> tuple[list[BatchJob], bool]:
    """A page of batches after the one that the query names, and whether there are more."""
    jobs = books.list_newest()
    start = next((n + 1 for n, job in enumerate(jobs) if job.id == asked.query.get(after)), 0)
    end = start + int(asked.query.get(size, "20"))
    return jobs[start:end], end < len(jobs)


Shown: TypeAlias = Callable[[BatchBooks, BatchJob], dict[str, Any]]
"""A batch in the form of a dialect."""


def create(
    books: BatchBooks, kind: str, lines: Sequence[tuple[str, ChatBody]], about: Any, shown: Shown
) -> BatchAnswer:
    """Create a batch; returns the answer, which may be a simulated loss."""
    job, is_answered = books.create(books.name(kind), lines, about)
    lost = {"error": {"message": "The server had an error while processing your request.", "type": "server_error"}}
    return BatchAnswer(shown(books, job)) if is_answered else BatchAnswer(lost, 500)


def delete(books: BatchBooks, id: str, reply: dict[str, Any]) -> BatchAnswer | None:
    """Delete a file or a batch; returns the answer, None if it is unknown."""
    if books.files.pop(id, None) is None and books.find(id) is None:
        return None
    books.deleted.append(id)
    return BatchAnswer(reply)


def answer_job(
    verb: Literal["find", "cancel"], shown: Shown
) -> Callable[[BatchBooks, BatchRequest, str], BatchAnswer | None]:
    """The handler of a request about one batch."""

    def respond(books: BatchBooks, asked: BatchRequest, id: str) -> BatchAnswer | None:
        job = books.find(id) if verb == "find" else books.cancel(id)
        return None if job is None else BatchAnswer(shown(books, job))

    return respond
