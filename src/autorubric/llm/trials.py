"""The models that are not asked any more in a session: they refuse every call, or gave no usable reply."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from autorubric.llm.request import Failure, Message, Model, Reply, Request, Unreadable

MOST_UNUSABLE = 8
"""Requests of one role that end without a usable reply before a model that never gave one is not asked any more."""
_ITEMS = 4
"""The least number of items that these requests are about: one odd text can spoil all requests about it."""
_LONGEST_QUOTE = 120  # characters of a reply that a message repeats


@dataclass(slots=True, eq=False)
class Standing:
    """What a model gave for one role. Only new replies count, and refusals do not: they depend on the text.

    Attributes:
        model: kept, so that its place in memory stays its own.
        usable: whether it gave a usable reply.
        doubted: whether it gave one that could not be used.
        lost: the item of each request that ended without a usable reply.
        turns: of the requests that may be asked while the model is doubted.
    """

    model: Model
    usable: bool = False
    doubted: bool = False
    lost: dict[tuple[Message, ...], str] = field(default_factory=dict)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_UNUSABLE))


class Trials:
    """What a session has learned about its models; by object, since two may differ in nothing but their key.

    Attributes:
        refusing: the models whose last call ended like every later one, with its failure.
        ended: the failures of those that are not asked any more.
    """

    def __init__(self) -> None:
        self.refusing: dict[int, tuple[Model, Failure]] = {}
        self.ended: dict[int, Failure] = {}
        self._standings: dict[tuple[int, str], Standing] = {}
        self.find = self._standings.get

    def open(self, model: Model, role: str) -> Standing:
        """The standing of a model that is asked for the first time."""
        return self._standings.setdefault((id(model), role), Standing(model))

    def note_refusal(self, model: Model, failure: Failure) -> None:
        """Note a failure that every later call of this model would repeat: it is not asked any more."""
        self.refusing[id(model)] = (model, failure)
        self.ended[id(model)] = failure

    def note_reply(self, model: Model, *, usable: bool = False) -> None:
        """Note that a model answers, be it usable or not."""
        _, last = self.refusing.get(id(model), (model, None))
        if last is not None and (usable or last.kind != "unusable"):
            del self.refusing[id(model)]
            self.ended.pop(id(model), None)

    def readmit(self) -> None:
        """Ask all models again, as a new session does."""
        self.ended.clear()
        self._standings.clear()


@dataclass(slots=True, eq=False)
class Trial:
    """One request and its re-asks.

    While the model has given only unusable replies, few requests are asked at the same time: the others wait.

    Attributes:
        trials: of the session.
        standing: of the model.
        request: the first one.
        asked: new replies that could not be used, without truncated ones.
        is_new: whether no reply to it is on record from an earlier session.
        unread: the failure of the last of them.
        has_turn: whether others wait for its end.
    """

    trials: Trials
    standing: Standing
    request: Request
    asked: int = 0
    is_new: bool = True
    unread: Failure | None = None
    has_turn: bool = False

    async def turn(self) -> None:
        """Wait until the model has given a usable reply, or fewer than `MOST_UNUSABLE` requests are asked."""
        if self.standing.usable or self.has_turn:
            return
        await self.standing.turns.acquire()
        self.has_turn = not self.standing.usable
        if not self.has_turn:
            self.standing.turns.release()

    def note_usable(self, reply: Reply) -> None:
        """Note the first reply that could be used."""
        if reply.fresh:
            self.standing.usable = True
            self.trials.note_reply(self.standing.model, usable=True)

    def note_unusable(self, reply: Reply, problem: Failure) -> None:
        """Note that a reply could not be used, and why."""
        self.is_new &= reply.fresh or self.asked > 0
        if problem.kind != "truncated":
            self.asked, self.unread = self.asked + reply.fresh, problem
        self.standing.doubted |= reply.fresh and problem.kind != "refusal"

    def note_lost(self, failure: Failure) -> None:
        """Note that the request ended without a usable reply; no request follows the last of `MOST_UNUSABLE`."""
        standing, reply, model = self.standing, failure.reply, self.standing.model
        # Failures of earlier sessions don't count, so that a resumed run gets past items that cannot be judged.
        if standing.usable or failure.kind == "refusal" or reply is None or not (reply.fresh and self.is_new):
            return
        lost = standing.lost
        lost[self.request.messages] = self.request.item
        is_useless = len(lost) >= MOST_UNUSABLE and len({*lost.values()}) >= _ITEMS
        if is_useless and id(model) not in self.trials.ended:
            which = f"{model.name}: the first {len(lost)} {self.request.role} requests"
            told = f"{which} ended without a usable reply; the last: {failure.message}"
            self.trials.note_refusal(model, Failure("unusable", told))


def unread_failure(problem: Unreadable, reply: Reply) -> Failure:
    """The failure after an unreadable reply: what is wrong with it, and how it begins."""
    text = " ".join(reply.text[: 2 * _LONGEST_QUOTE].split())[:_LONGEST_QUOTE]
    form = f"is {problem.form} and " if problem.form else ""
    begins = f"; the reply {form}begins: {text!r}" if problem.kind == "unreadable" else ""
    return Failure(problem.kind, problem.message + begins, attempts=reply.attempts, reply=reply)
