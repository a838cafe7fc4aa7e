"""What a provider's batch service has to offer: one dialect is one class and one line of a table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from autorubric.llm.batches.link import Link


class Limits(NamedTuple):
    """The most requests and bytes of one batch."""

    requests: int = 50_000
    bytes: int = 200_000_000


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a batch is made of.

    Attributes:
        id: of the batch, in its metadata.
        run: of the run, in its metadata.
        sha: of the file, in its metadata.
        path: the file of requests, a line each.
        model: the name that is sent.
        count: requests.
        file: the uploaded file; empty before, and where requests are sent with the creation.
    """

    id: str
    run: str
    sha: str
    path: Path
    model: str
    count: int
    file: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """What the provider keeps with the batch, by which a later session finds it."""
        return {"autorubric_run": self.run, "autorubric_batch": self.id, "autorubric_sha": self.sha}


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


class Line(NamedTuple):
    """One result: the status and body that a single request would have been answered with.

    Status 0 means that the request did not run; the body then holds the provider's reason.
    """

    custom_id: str
    status: int
    body: bytes


class BatchDialect(Protocol):
    """How one kind of batch service is spoken to."""

    @property
    def limits(self) -> Limits:
        """Of one batch."""

    @property
    def keeps_metadata(self) -> bool:
        """Whether a batch carries metadata; otherwise it is recognized by its file, or by its results."""

    def root(self, base_url: str) -> str:
        """The address of the service, from that of its chat completions."""

    def headers(self, headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """The headers of each request, from those of chat completions."""

    def line(self, custom_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The line of a request, from the body of a chat completion."""

    async def upload(self, link: Link, parcel: Parcel) -> str:
        """Upload the file and return its id; empty if requests are sent with the creation."""

    async def create(self, link: Link, parcel: Parcel) -> RemoteBatch:
        """Create the batch, with one request that is not repeated."""

    async def find(self, link: Link, id: str) -> RemoteBatch:
        """The batch as it is now."""

    async def cancel(self, link: Link, id: str) -> None:
        """Ask the provider to answer no more requests of a batch."""

    def list(self, link: Link) -> AsyncIterator[RemoteBatch]:
        """The batches of the account, newest first."""

    def results(self, link: Link, batch: RemoteBatch) -> AsyncIterator[Line]:
        """The results of a batch that has ended, in any order."""

    async def delete(self, link: Link, batch: RemoteBatch) -> None:
        """Delete the files of a batch."""


def error_line(custom_id: str, status: int, words: object) -> Line:
    """A result without a completion, with the provider's words.

    Example:
        >>> error_line("a", 0, {"message": "expired"}).body
        b'{"error": {"message": "expired"}}'
    """
    error = words if isinstance(words, dict) else {"message": str(words or "")}
    return Line(custom_id, status, json.dumps({"error": error}).encode())


def as_dict(value: object) -> dict[str, Any]:
    """The value if it is a dict, otherwise an empty one: providers leave out what they have not."""
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """The value if it is a text, otherwise an empty one."""
    return value if isinstance(value, str) else ""


def as_seconds(value: object) -> float | None:
    """A moment in seconds since the epoch, from a number or a date; None for anything else.

    Example:
        >>> as_seconds(5), as_seconds("1970-01-01T00:00:05Z"), as_seconds(None)
        (5.0, 5.0, None)
    """
    from datetime import datetime

    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return datetime.fromisoformat(as_text(value)).timestamp()
    except ValueError:
        return None
