"""The requests about an item, rebuilt, and their replies, found in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger_view import LedgerView
from autorubric.llm.records.stores import NoRecords
from autorubric.llm.request import Answer, Failure, Message, Model, Reply, Request, Unreadable

_ABOUT: ContextVar[str] = ContextVar("about", default="")


@dataclass(frozen=True)
class Exchange:
    """One request and its reply.

    Attributes:
        role: the part that the model played.
        model: its name.
        judge: the id of the judge, otherwise the slot.
        about: what it was about, such as the names of criteria.
        draw: which independent sample it is.
        reask: how often the model had been asked before because its reply could not be used.
        messages: the prompt, rebuilt; None if it cannot be rebuilt.
        reply: the reply as it came; None if there is none.
        reasoning: the reasoning that the endpoint returned next to it.
        problem: why the reply could not be used, or why there is none.
        tokens: of prompt and completion, where the endpoint counted them.
        seconds: how long the call took.
        ended: when it ended, as an ISO time; None if it is not known.
    """

    role: str
    model: str
    judge: str = ""
    about: str = ""
    draw: int = 0
    reask: int = 0
    messages: tuple[Message, ...] | None = None
    reply: str | None = None
    reasoning: str | None = None
    problem: str | None = None
    tokens: tuple[int, int] | None = None
    seconds: float | None = None
    ended: str | None = None

    @classmethod
    def from_call(cls, call: CallRow, **more: Any) -> Exchange:
        """Return the exchange of a recorded call."""
        ended = datetime.fromtimestamp(call.at, UTC).isoformat(timespec="seconds")
        problem = None if call.failure is None else str(call.failure)
        found = cls(call.role, call.model, draw=call.draw, reask=call.reask, problem=problem, ended=ended)
        if (reply := call.reply) is not None:
            tokens = None if reply.usage is None else (reply.usage.prompt_tokens, reply.usage.completion_tokens)
            fields = {"reply": reply.text, "reasoning": reply.reasoning, "tokens": tokens, "seconds": reply.latency}
            more = {**fields, **more}
        return replace(found, **more)


class _FoundReplies(NoRecords):
    """The replies of a ledger, for an executor that makes no call."""

    def __init__(self, view: LedgerView) -> None:
        super().__init__()
        self._view = view
        self.missing: list[bytes] = []
        """The keys without a reply, in the order in which they were looked for."""
        self.found: list[bytes] = []
        """The keys of replies, in the order in which they were found."""

    def find(self, key: bytes) -> Reply | None:
        """Return the recorded reply under a key, or None."""
        reply = self._view.find_reply(key)
        (self.missing if reply is None else self.found).append(key)
        return reply

    def find_note(self, name: str) -> Any:
        """Return the value stored under a name, or None."""
        return self._view.find_note(name)


@dataclass
class ReplayedCalls:
    """Repeats a part of a run on a ledger: every request that is built finds its recorded reply.

    Pass `ask_for` wherever a run asks models. Nothing is sent and nothing is written.

    Attributes:
        view: the ledger.
        names: the names of the models, by `id` of the model object.
        exchanges: what was found, in order.
    """

    view: LedgerView
    names: Mapping[int, str] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._replies = _FoundReplies(self.view)
        self._executor = Executor(self._replies)
        self._executor.stop("not recorded")
        self._used: set[bytes] = set()

    @staticmethod
    def set_subject(about: str) -> None:
        """Set what the requests of this task, and of tasks that it starts, are about."""
        _ABOUT.set(about)

    async def ask_for(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], Answer[Any] | Unreadable],
        follow_up: FollowUp = lambda request, reply, problem: request,
    ) -> Answer[Any] | Failure:
        """Return the recorded answer to a request, or the recorded failure; the exchanges on the way are kept."""
        asked = request
        about, name = _ABOUT.get(), self.names.get(id(model), "")

        def read_and_keep(reply: Reply) -> Answer[Any] | Unreadable:
            found = read(reply)
            problem = found.message if isinstance(found, Unreadable) else None
            key = self._replies.found[-1]
            self._keep(key, asked, about=about, judge=name, problem=problem)
            return found

        def follow(first: Request, reply: Reply, problem: Unreadable) -> Request:
            nonlocal asked
            asked = follow_up(first, reply, problem)
            return asked

        tried = len(self._replies.missing)
        outcome = await self._executor.ask_for(model, request, read_and_keep, follow)
        if isinstance(outcome, Failure) and outcome.kind == "stopped":
            # The executor may look for one request under several limits of its reply.
            kept = [self._keep(key, asked, about=about, judge=name) for key in self._replies.missing[tried:]]
            return next(filter(None, kept), outcome)
        return outcome

    def find(self, model: Model, request: Request) -> Reply | None:
        """Return the recorded reply to a request, or None; see `Executor.find`."""
        return self._executor.find(model, request)

    def find_others(self, item: str) -> list[Exchange]:
        """The other calls about an item: of an earlier rubric, judge or prompt, or of a run that was started over."""
        calls = (call for call in self.view.read_calls_about(item) if call.key not in self._used)
        return [Exchange.from_call(call) for call in calls]

    def _keep(self, key: bytes, asked: Request, **more: Any) -> Failure | None:
        """Keep the exchanges of a request, and return its last failure if it has no reply."""
        if key in self._used:
            return None
        self._used.add(key)
        calls = self.view.read_calls_with_key(key)
        for call in calls:
            own = more if call.failure is None else {**more, "problem": str(call.failure)}
            self.exchanges.append(Exchange.from_call(call, messages=asked.messages, **own))
        return calls[-1].failure if calls else None
