"""The loopback endpoint with the batch services of the providers, each in its own dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from autorubric.errors import ConfigError
from autorubric.testing import LoopbackEndpoint, LoopbackProcess
from autorubric.testing.completion import Completion
from autorubric.testing.endpoint.__main__ import make_endpoint
from autorubric.testing.endpoint.service import Service, ServiceOutcome
from autorubric.testing.faults import FAULTS, Fault
from benchmarks.batch_services import anthropic, gemini, openai
from benchmarks.batch_services.books import BatchAnswer, BatchBooks, BatchFaults, BatchRefusal, BatchRequest, Route

_ROUTES: tuple[Route, ...] = (*openai.ROUTES, *anthropic.ROUTES, *gemini.ROUTES)


def answer(books: BatchBooks, asked: BatchRequest) -> BatchAnswer | None:
    """The answer to a request on batches or their files; None for any other request."""
    for method, pattern, handler in _ROUTES:
        found = re.fullmatch(pattern, asked.path)
        if asked.method == method and found:
            name = found[1] if found.groups() else ""
            return handler(books, asked, name) or books.refuse_unknown(name)
    return None


class BatchService(Service):
    """Answers requests on batches too."""

    def __init__(self, behaviour: BatchEndpoint, keep: int) -> None:
        super().__init__(behaviour, keep)
        self.books = BatchBooks(behaviour.batches, self._run, behaviour.seed)
        self._in_batches = 0

    def answer_other(self, method: str, path: str, body: bytes, head: bytes) -> ServiceOutcome:
        """The answer to a request that is not for a completion."""
        if path == "/__batches":
            return ServiceOutcome(200, json.dumps(self.books.summarize()).encode())
        asked, key = BatchRequest.read(method, head, body), self._behaviour.key
        if key is not None and key not in asked.keys:
            return ServiceOutcome(401, FAULTS["401"].body or b"")
        found = answer(self.books, asked)
        if found is None:
            return super().answer_other(method, path, body, head)
        content = found.body if isinstance(found.body, bytes) else json.dumps(found.body).encode()
        return ServiceOutcome(found.status, content, found.headers, action="cut" if found.is_cut else "answer")

    def _run(self, body: dict[str, Any]) -> Completion | BatchRefusal:
        """The answer to a request in a batch."""
        fault = self.find_rejection(body)
        if fault is None:
            fault = self._faults.choose_fault(body, self._in_batches, self._fates)
            self._in_batches += 1
        if fault is not None and fault.status != 200:
            return BatchRefusal(fault.status, _read_message(fault))
        completion = self.make_reply(body)
        return completion if fault is None or fault.change is None else fault.change(completion)


@dataclass(kw_only=True)
class BatchEndpoint(LoopbackEndpoint):
    """A loopback endpoint with batches.

    Attributes:
        batches: the faults of batches, and how long they take.
    """

    batches: BatchFaults = field(default_factory=BatchFaults)

    def _make_service(self) -> BatchService:
        self._batch_service = BatchService(self, self.keep)
        return self._batch_service

    @property
    def books(self) -> BatchBooks:
        """The batches, and which of their requests ran."""
        return self._batch_service.books


class BatchProcess(LoopbackProcess):
    """The same in a separate process; its option `--batch NAME=VALUE` sets a fault."""

    module = "benchmarks.batch_services"

    def batches(self) -> dict[str, Any]:
        """The counts of batches and of their requests."""
        return self.read_json("/__batches")


def make_batch_endpoint(arguments: Sequence[str]) -> BatchEndpoint:
    """The endpoint that the command-line options of `BatchProcess` describe.

    Raises:
        ConfigError: an option is wrong.
    """
    faults, rest, words = dict[str, Any](), list[str](), iter(arguments)
    for word in words:
        if word == "--batch":
            name, value = _parse_fault(next(words))
            faults[name] = value
        else:
            rest.append(word)
    plain = make_endpoint(rest)
    settings = {part.name: getattr(plain, part.name) for part in fields(plain)}
    return BatchEndpoint(**settings, batches=BatchFaults(**faults))


def _parse_fault(pair: str) -> tuple[str, Any]:
    name, _, text = pair.partition("=")
    try:
        usual = getattr(BatchFaults(), name)
        return name, type(usual)(json.loads(text) if isinstance(usual, tuple | bool) else text)
    except (AttributeError, ValueError, TypeError):
        raise ConfigError(f"--batch {pair!r} sets nothing; write for example expire=0.5") from None


def _read_message(fault: Fault) -> str:
    return str(json.loads(fault.body or b'{"error": {}}')["error"].get("message", ""))
