"""The models that a session no longer calls: they refuse every call, or gave no usable reply."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autorubric.llm.billing import Outages
from autorubric.llm.records.stores import Records
from autorubric.llm.request import ENDS_RUN, Failure, Message, Model, Reply, Request, Unreadable
from autorubric.llm.sharing import sharing

MOST_UNUSABLE = 8
"""Requests of one role without a usable reply after which a model that never gave one is no longer called."""
MOST_REJECTED = 200
"""The same for requests that the endpoint or a firewall rejects, which may depend on their texts."""
MOST_ATTEMPTS = 16
"""The same for attempts without a reply, as an outage may be short: all retries of at least four requests."""
_ENOUGH = {"unusable": (MOST_UNUSABLE, 4), "no_reply": (MOST_ATTEMPTS, 4), "rejected": (1, MOST_REJECTED)}
"""By outcome, how many requests, and about how many items: one odd text can spoil all requests about it."""
_NO_REPLY = frozenset({"server", "network", "timeout", "rate_limit"})  # after all retries
_ENDS_MODEL = ENDS_RUN - {"budget", "stopped"}  # every later call of the same model would fail in the same way
_LONGEST_QUOTE = 120  # characters of a reply that a message repeats


@dataclass(slots=True, eq=False)
class Standing:
    """What a model replied in one role. Only new replies count, and refusals do not: they depend on the text.

    Attributes:
        model: referenced here, so that its `id` is not used again.
        usable: whether it gave a usable reply.
        doubted: whether a request to it had no usable reply.
        lost: by outcome, the requests without a usable reply: the item of each, and how much it counts.
        turns: bounds the concurrent requests while the model is doubted.
    """

    model: Model
    usable: bool = False
    doubted: bool = False
    lost: dict[str, dict[tuple[Message, ...], tuple[str, int]]] = field(default_factory=lambda: defaultdict(dict))
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_UNUSABLE))


class Trials:
    """What a session has learned about its models; by object, since two may differ only in their key.

    Attributes:
        stop: ends the session after the failure of a model that is no longer called; None if it goes on without it.
        in_batches: whether requests are sent in batches, which fail together: stopping early would save nothing.
        refusing: the models whose last call failed as every later one would, with that failure.
        ended: the failures of the models that are no longer called.
        standings: by model and role.
        outages: of models whose server fails, as in `Reservation`; None if the session goes on without them.
    """

    def __init__(self, stop: Callable[[Failure], object] | None = None, *, in_batches: bool = False) -> None:
        self.stop = stop
        self.in_batches = in_batches
        self.refusing: dict[int, tuple[Model, Failure]] = {}
        self.ended: dict[int, Failure] = {}
        self.standings: dict[tuple[int, str], Standing] = {}
        self.outages: Outages | None = None if stop is None else {}

    def note_failure(self, model: Model, failure: Failure, *, ahead: bool = False) -> None:
        """Note a failure. After one that every later call would repeat, the model is no longer called.

        The session ends too, unless the failure was met by a batch sent `ahead`: its requests are still to report it.
        """
        if failure.kind not in _ENDS_MODEL:
            return
        self.refusing[id(model)] = (model, failure)
        self.ended[id(model)] = failure
        if self.stop is not None and not ahead:
            self.stop(failure)

    def note_reply(self, model: Model, *, usable: bool = False) -> None:
        """Note that a model gave a reply, usable or not."""
        _, last = self.refusing.get(id(model), (model, None))
        if last is not None and (usable or last.kind != "unusable"):
            del self.refusing[id(model)]
            self.ended.pop(id(model), None)

    def readmit(self) -> None:
        """Call all models again, as a new session does."""
        self.ended.clear()
        self.standings.clear()
        if (shared := sharing.get()) is not None:
            shared.usable.clear()


@dataclass(slots=True, eq=False)
class ModelTrial:
    """One request and its re-asks.

    While the model has given only unusable replies, few requests run at the same time; the others wait.

    Attributes:
        trials: of the session.
        standing: of the model.
        request: the first one.
        asked: number of new replies that could not be used, truncated ones excluded.
        unread: the failure of the last of them.
        has_turn: whether others wait for its end.
    """

    trials: Trials
    standing: Standing
    request: Request
    asked: int = 0
    unread: Failure | None = None
    has_turn: bool = False

    async def wait_for_turn(self) -> None:
        """Wait until the model has given a usable reply, or fewer than `MOST_UNUSABLE` requests are running."""
        if self.standing.usable or self.has_turn:
            return
        await self.standing.turns.acquire()
        self.has_turn = not self.standing.usable
        if not self.has_turn:
            self.standing.turns.release()

    def note_usable(self, reply: Reply) -> None:
        """Note the first reply that could be used."""
        if reply.fresh:
            if (shared := sharing.get()) is not None:
                shared.tell_usable([self.request.role, self.standing.model.name])
            self.standing.usable = True
            self.trials.note_reply(self.standing.model, usable=True)

    def note_unusable(self, reply: Reply, problem: Failure) -> None:
        """Note that a reply could not be used, and why."""
        if problem.kind != "truncated":
            self.asked, self.unread = self.asked + reply.fresh, problem
        self.standing.doubted |= reply.fresh and problem.kind != "refusal"

    def note_lost(self, failure: Failure, records: Records) -> Failure:
        """Count a request without a usable reply; return its failure. After `_ENOUGH`, the model is dropped.

        It is also dropped after a failure with an `end`, of an endpoint that is out of order.
        """
        standing, model, request = self.standing, self.standing.model, self.request
        how = "no_reply" if failure.kind in _NO_REPLY else "unusable" if failure.reply else failure.kind
        shared = sharing.get()
        in_others = shared is not None and (request.role, model.name) in shared.usable
        end, failure = failure.end, replace(failure, end=None) if failure.end else failure
        # An end after usable replies is an outage, which ends only runs.
        is_proven = end is None or self.trials.stop is None if standing.usable else in_others
        if is_proven or failure.kind == "refusal" or how not in _ENOUGH:
            return failure
        if how == "no_reply" and self.trials.in_batches:
            return failure
        standing.doubted |= how == "no_reply"
        # Requests of earlier sessions do not count, so that a resumed run gets past items that always fail.
        if end is None and records.was_asked(request.item, request.role, model.name):
            return failure
        lost = standing.lost[how]
        lost[request.messages] = request.item, failure.attempts if how == "no_reply" else 1
        most, items = _ENOUGH[how]
        is_enough = sum(n for _, n in lost.values()) >= most and len({item for item, _ in lost.values()}) >= items
        if is_enough and end is None:
            which = f"{model.name}: the first {len(lost)} {request.role} requests ended without a usable reply"
            why = f"{which}; the last: {failure.message.removeprefix(f'{model.name}: ')}"
            end = Failure("unusable" if how == "unusable" else "no_reply", why)
        if end is not None and id(model) not in self.trials.ended:
            failure = replace(failure, end=end)
            self.trials.note_failure(model, end)
        return failure


def build_unread_failure(problem: Unreadable, reply: Reply) -> Failure:
    """Return the failure after an unreadable reply: what is wrong with it, and how it begins."""
    text = " ".join(reply.text[: 2 * _LONGEST_QUOTE].split())[:_LONGEST_QUOTE]
    form = f"is {problem.form} and " if problem.form else ""
    begins = f"; the reply {form}begins: {text!r}" if problem.kind == "unreadable" else ""
    return Failure(problem.kind, problem.message + begins, attempts=reply.attempts, reply=reply)
