"""The offline model: it plays every role without a network, from rules."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any

from autorubric.llm import attempts
from autorubric.llm.offline.answers import write_answer
from autorubric.llm.offline.criteria import write_rubric
from autorubric.llm.offline.gating import license_criteria, merge_named, rewrite_disputed, write_pitfalls
from autorubric.llm.offline.judging import choose, judge
from autorubric.llm.offline.merging import merge_rubrics, write_harder
from autorubric.llm.offline.reading import Reading, read_query, without_surrogates
from autorubric.llm.request import Reply, Request, Usage

LABEL = (
    "builtin/offline is a stand-in for trying and testing: it writes from rules and word lists,"
    " asks no model, and its output says nothing about quality."
)
_VERSION = 2  # part of the identity: raise it whenever a reply could change


class OfflineModel:
    """A deterministic stand-in for a model: for trying the commands and for testing, not for results.

    It reads `Request.role` and `Request.inputs` and falls back to the last user message. The same request
    gets the same reply on every machine; another draw gets another one. It costs nothing.

    Args:
        name: the `provider/model` string it goes by; another name writes other texts.
        latency: seconds to wait before each reply, for watching a progress display.

    Example:
        >>> import asyncio
        >>> from autorubric.llm.request import Message
        >>> ask = Request((Message("user", "Why is the sea salty?"),), role="rubric")
        >>> reply = asyncio.run(OfflineModel().complete(ask))
        >>> reply.text.splitlines()[0], reply.cost
        ('```json', 0.0)
    """

    def __init__(self, name: str = "builtin/offline", *, latency: float = 0.0) -> None:
        self._name = name
        self._latency = latency

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def identity(self) -> tuple[Any, ...]:
        """Its name and the version of its rules."""
        return ("offline", self._name, _VERSION)

    def ceiling(self, request: Request) -> Usage:
        """Exactly what the request will be counted as: the reply can be known before it is asked for."""
        return _usage(request, self._text(request))

    def cost(self, usage: Usage) -> float:
        """Nothing."""
        return 0.0

    async def complete(self, request: Request) -> Reply:
        """The reply to a request; never fails."""
        if self._latency:
            await asyncio.sleep(self._latency)
        text = self._text(request)
        reply = Reply(text, model=self._name, usage=_usage(request, text), cost=0.0, latency=self._latency)
        if attempts.watchers:
            who = (self._name, self._name, "", 1)
            attempts.tell(attempts.Attempt(request, *who, time.time(), self._latency, reply))
        return reply

    async def close(self) -> None:
        """Nothing to release."""

    def _text(self, request: Request) -> str:
        return without_surrogates(self._reply(request))

    def _reply(self, request: Request) -> str:
        inputs = request.inputs
        reading = read_query(inputs.get("query") or _last_question(request))
        random = Random(f"{self._name}|{request.role}|{request.reask}|{reading.text}|{request.draw}")
        if request.role == "rubric":
            return _fenced(write_rubric(reading, str(inputs.get("reference") or ""), random))
        if request.role == "merge":
            sets = [_items(rubric) for rubric in _items(inputs.get("sets"))]
            if all("id" in item for rubric in sets for item in rubric) and any(sets):
                return _json(merge_named(sets))
            return _fenced(merge_rubrics(sets) or write_rubric(reading, "", random))
        if request.role == "augment":
            responses = [str(text or "") for text in inputs.get("responses") or ()]
            return _fenced(write_harder(reading, _items(inputs.get("rubrics")), responses, random))
        asked_of_gates = _gated(request.role, reading, inputs, random)
        if asked_of_gates is not None:
            return _json(asked_of_gates)
        thorough = request.role != "response" or _is_thorough(reading, request.draw)
        return write_answer(reading, random, thorough=thorough)


def _gated(role: str, reading: Reading, inputs: Mapping[str, Any], random: Random) -> dict[str, Any] | None:
    """The reply to what is asked about criteria and submissions; None for other roles."""
    if role == "judge":
        return _judged(inputs)
    if role == "pitfall":
        return {"criteria": write_pitfalls(reading, random)}
    if role == "licence":
        return license_criteria(reading, _items(inputs.get("criteria")))
    if role == "rewrite":
        return rewrite_disputed(reading, _items(inputs.get("disputes")))
    return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_thorough(reading: Reading, draw: int) -> bool:
    """Neighbouring draws differ in quality; which of them is the better one depends on the query."""
    digest = blake2b(reading.text.encode(), digest_size=1).digest()
    return (digest[0] + draw) % 2 == 0


def _usage(request: Request, text: str) -> Usage:
    asked = sum(len(message.content) for message in request.messages)
    return Usage((asked + 3) // 4, (len(text) + 3) // 4)


def _last_question(request: Request) -> str:
    return next((message.content for message in reversed(request.messages) if message.role == "user"), "")


def _fenced(items: Sequence[Mapping[str, Any]]) -> str:
    return f"```json\n{json.dumps(items, ensure_ascii=False, indent=2)}\n```"


def _items(value: Any) -> list[Any]:
    """A list that may come as its JSON text, as it does where a template takes it so."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return list(value) if isinstance(value, Sequence) else []


def _judged(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The reply of a judge: on one criterion, or on all `criteria` of a rubric."""
    submission = _submission(inputs)
    criteria = inputs.get("criteria")
    if not criteria:
        return _one_judged(_requirement(inputs), submission, inputs.get("values"))
    judgments = [
        {"criterion_id": entry["id"], **_one_judged(entry["requirement"], submission, entry.get("values"))}
        for entry in criteria
    ]
    return {"judgments": judgments}


def _one_judged(requirement: str, submission: str, values: Sequence[float | None] | None) -> dict[str, Any]:
    return {**judge(requirement, submission)} if values is None else choose(requirement, submission, values)


def _requirement(inputs: Mapping[str, Any]) -> str:
    criterion = inputs.get("criterion")
    if isinstance(criterion, Mapping):
        return str(criterion.get("requirement") or "")
    return str(getattr(criterion, "requirement", criterion) or "")


def _submission(inputs: Mapping[str, Any]) -> str:
    submission = inputs.get("submission") or ""
    if isinstance(submission, str):
        return submission
    return str(submission[-1].get("content") or "") if submission else ""
