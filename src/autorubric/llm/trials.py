"""The models that are not asked any more in a session: they refuse every call, or gave no usable reply."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from autorubric.llm.request import Failure, Message, Model, Reply, Request

MOST_UNUSABLE = 8
"""Requests of one role that end without a usable reply before a model that never gave one is not asked any more."""


@dataclass(slots=True, eq=False)
class _Standing:
    """What a model gave for one role. Only new replies count, and refusals do not: they depend on the text."""

    model: Model
    usable: bool = False
    doubted: bool = False
    lost: dict[tuple[Message, ...], str] = field(default_factory=dict)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_UNUSABLE))


class Trials:
    """What a session has learned about its models; by object, since two may differ in nothing but their key."""

    def __init__(self) -> None:
        self._refusing: dict[int, tuple[Model, Failure]] = {}  # models whose last call ended like every later one
        self._ended: set[int] = set()  # those of them that are not asked any more
        self._standings: dict[tuple[int, str], _Standing] = {}

    def open(self, model: Model, request: Request) -> Trial:
        """The trial of one request, from its first call to its last re-ask; a context manager."""
        key = (id(model), request.role)
        standing = self._standings.get(key) or self._standings.setdefault(key, _Standing(model))
        return Trial(self, standing, request)

    def note_refusal(self, model: Model, failure: Failure) -> None:
        """Note a failure that every later call of this model would repeat: it is not asked any more."""
        self._refusing[id(model)] = (model, failure)
        self._ended.add(id(model))

    def note_reply(self, model: Model, *, usable: bool = False) -> None:
        """Note that a model answers, be it usable or not."""
        if (last := self.find_last(model)) is not None and (usable or last.kind != "unusable"):
            del self._refusing[id(model)]
            self._ended.discard(id(model))

    def find_last(self, model: Model) -> Failure | None:
        """The failure that ended a model, before or after `readmit`; None once the model has replied."""
        return self._refusing[id(model)][1] if id(model) in self._refusing else None

    def find_refusal(self, model: Model) -> Failure | None:
        """Why a model is not asked any more, or None."""
        return self.find_last(model) if id(model) in self._ended else None

    def readmit(self) -> None:
        """Ask all models again, as a new session does."""
        self._ended.clear()
        self._standings.clear()


class Trial:
    """One request and its re-asks.

    While the model has given only unusable replies, few requests are asked at the same time: the others wait.

    Attributes:
        model: answers the request.
        asked: new replies that could not be used, without truncated ones.
        unread: the failure of the last of them.
    """

    __slots__ = ("_has_turn", "_request", "_standing", "_trials", "asked", "model", "unread")

    def __init__(self, trials: Trials, standing: _Standing, request: Request) -> None:
        self._trials, self._standing, self._request = trials, standing, request
        self.model, self.asked = standing.model, 0
        self.unread: Failure | None = None
        self._has_turn = False

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._has_turn:
            self._standing.turns.release()

    @property
    def waits(self) -> bool:
        """Whether `turn` has to be awaited before the next call."""
        return self._standing.doubted and not (self._standing.usable or self._has_turn)

    async def turn(self) -> None:
        """Wait until the model has given a usable reply, or fewer than `MOST_UNUSABLE` requests are asked."""
        await self._standing.turns.acquire()
        self._has_turn = not self._standing.usable
        if not self._has_turn:
            self._standing.turns.release()

    def note_usable(self, reply: Reply) -> None:
        """Note that a reply could be used."""
        if reply.fresh and not self._standing.usable:
            self._standing.usable = True
            self._trials.note_reply(self.model, usable=True)

    def note_unusable(self, reply: Reply, problem: Failure) -> None:
        """Note that a reply could not be used, and why."""
        if problem.kind != "truncated":
            self.asked, self.unread = self.asked + reply.fresh, problem
        self._standing.doubted |= reply.fresh and problem.kind != "refusal"

    def note_lost(self, failure: Failure) -> None:
        """Note that the request ended without a usable reply; no request follows the last of `MOST_UNUSABLE`."""
        standing, reply, model = self._standing, failure.reply, self.model
        if standing.usable or failure.kind == "refusal" or reply is None or not reply.fresh:
            return
        lost = standing.lost
        lost[self._request.messages] = self._request.item
        # One odd text may spoil all requests about it.
        is_useless = len(lost) >= MOST_UNUSABLE and len({*lost.values()}) > 1
        if is_useless and self._trials.find_refusal(model) is None:
            which = f"{model.name}: the first {len(lost)} {self._request.role} requests"
            told = f"{which} ended without a usable reply; the last: {failure.message}"
            self._trials.note_refusal(model, Failure("unusable", told))
