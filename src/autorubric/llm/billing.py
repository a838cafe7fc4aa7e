"""What a call costs: its worst case in flight, its bill once it has ended, and the counts of a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from autorubric.errors import ConfigError
from autorubric.llm.request import Failure, Model, Reply, Request, Usage
from autorubric.llm.sharing import Amount

if TYPE_CHECKING:
    from autorubric.llm.batches.batch_queue import BatchQueue
    from autorubric.llm.budget import Budget


# An endpoint that refuses a request like this has not run the model; one that answers 200 may have run it.
_NEVER_BILLED = frozenset({"auth", "quota", "no_model", "unreachable", "rejected", "rate_limit", "server"})


Outages: TypeAlias = dict[str, Callable[[], tuple[float, str] | None]]
"""By model, for how many seconds its server has failed and the last error; None once that is over."""


class Claim(NamedTuple):
    """The upper bound of the tokens of one attempt, as its model states it, and what tokens cost in dollars."""

    model: Model
    stated: Usage
    price: Callable[[Usage], float | None]

    @classmethod
    def build(cls, model: Model, request: Request) -> Claim:
        """Return what one attempt at `request` may cost; a `ConfigError` if that is unbounded."""
        stated = model.ceiling(request)
        if stated is None:
            raise ConfigError(
                f"model '{model.name}' puts no bound on the length of its replies; "
                "a budget needs one, so set its max_tokens: LLMConfig(max_tokens=2048)"
            )
        return cls(model, stated, model.cost)


@dataclass(slots=True, eq=False)
class Reservation:
    """The worst case of one call, reserved until the call is settled.

    Attributes:
        budget: what it is reserved from, if there is one.
        need: the worst case of one attempt; nothing without a budget.
        claim: what `need` is computed from, if known.
        held: attempts that `need` is reserved for.
        resends: attempts before the last one that may have been billed without a token count.
        runs: whether the call is running, so that others can wait for what it leaves.
        waits_to_be_sent: whether no request was sent yet; set only by a transport that awaits `cover` first.
        in_flight: whether an attempt may be in flight; True unless a transport says otherwise.
        waits_to_retry: whether the last attempt failed, and the next one was not sent yet.
        must_be_covered: whether the ceiling was raised while the call waited, so that it must be reserved again.
        settled: whether the call has ended.
        watch: called when an attempt is sent (True) and when one returned that was certainly not billed (False).
        price: dollars by tokens, if they are not those of the model that was asked.
        recorded: whether the reply is in the ledger already, with what it cost.
        activity: the counts of the call's role, once it has started.
        batch_queue: where requests of the executor wait for a batch, if they do.
        outages: of a run, whose calls wait until a server is back; None if they do not.
    """

    budget: Budget | None = None
    need: Amount = Amount()  # noqa: RUF009 - immutable
    claim: Claim | None = None
    held: int = 0
    resends: int = 0
    runs: bool = False
    waits_to_be_sent: bool = False
    in_flight: bool = True
    waits_to_retry: bool = False
    must_be_covered: bool = False
    settled: bool = False
    watch: Callable[[bool], None] | None = None
    price: Callable[[Usage], float | None] | None = None
    recorded: bool = False
    activity: Activity | None = None
    batch_queue: BatchQueue | None = None
    outages: Outages | None = None

    def note_waiting(self) -> None:
        """Note that no request was sent yet; `note_sent` follows."""
        self.waits_to_be_sent = True
        self.in_flight = False

    def note_sent(self, sent: bool = True) -> None:
        """Note that an attempt is in flight, or that it returned and costs nothing more.

        Raises:
            LedgerError: the disk is full, so the attempt cannot be recorded and must not be made.
        """
        if self.watch is not None:
            self.watch(sent)
        self.waits_to_be_sent = self.waits_to_retry = False
        self.in_flight = sent

    def count_waiting(self, calls: int) -> None:
        """Count the call as waiting (1) or as in flight again (-1)."""
        if self.activity is not None:
            self.activity.waiting += calls

    def count_retry(self, *, rate_limited: bool) -> None:
        """Count an attempt that is followed by another one."""
        self.waits_to_retry = True
        if self.activity is not None:
            self.activity.retries += 1
            self.activity.rate_limited += rate_limited

    @property
    def ceiling(self) -> Usage | None:
        """The upper bound of the tokens of one attempt, as far as it is known here."""
        if self.claim is None:
            return None
        return self.claim.stated if self.budget is None else self.budget.compute_ceiling(self.claim)

    async def extend(self) -> None:
        """Reserve the worst case once more, for another attempt; a `CallError` if the budget forbids it.

        A transport awaits this before it repeats a request whose last attempt may have been billed without a token
        count (a timeout, a reset, a truncated body), and holds no slot or limit meanwhile.
        """
        if self.budget is not None:
            await self.budget.reserve_again(self)
        self.resends += 1

    async def reprice(self, price: Callable[[Usage], float | None]) -> None:
        """Reserve a call that is about to be sent at another price; a `CallError` if the budget forbids it."""
        self.price = price
        if self.budget is None or self.claim is None:
            return
        self.budget.reprice(self, self.claim._replace(price=price))
        await self.cover()
        for _ in range(self.resends):  # attempts that may have been billed stay covered
            await self.budget.reserve_again(self)

    async def cover(self) -> None:
        """Reserve a worst case that was raised before anything was sent; a `CallError` if the budget forbids it."""
        while self.budget is not None and self.must_be_covered:
            await self.budget.reserve_again(self, sent=False)


current_reservation: ContextVar[Reservation | None] = ContextVar("current_reservation", default=None)


class Bill(NamedTuple):
    """What a call cost; `token_bound` and `cost_bound` are what attempts without a token count may have added.

    `cost` and `cost_bound` are None if the price is unknown, both bounds also if nothing may have been added.
    """

    usage: Usage
    cost: float | None
    token_bound: int | None
    cost_bound: float | None

    @property
    def most(self) -> Amount:
        """The maximum that the call can have cost."""
        tokens = self.usage.total_tokens + (self.token_bound or 0)
        return Amount.from_dollars(tokens, (self.cost or 0.0) + (self.cost_bound or 0.0))


def bill(model: Model, request: Request, outcome: Reply | Failure, reservation: Reservation) -> Bill:
    """The bill of a call: every attempt that may have been billed without a token count is charged its worst case.

    Example:
        >>> class Priced:
        ...     def ceiling(self, request):
        ...         return Usage(100, 900)
        ...     def cost(self, usage):
        ...         return usage.total_tokens / 1000
        >>> ask = Request(messages=(), role="judge")
        >>> bill(Priced(), ask, Reply("MET", usage=Usage(100, 20), cost=0.12), Reservation()).most.cost
        0.12
        >>> bill(Priced(), ask, Failure("timeout", "no answer in 60 s"), Reservation()).most.cost
        1.0
    """
    price = reservation.price or model.cost
    reply = outcome.reply if isinstance(outcome, Failure) else outcome
    usage = reply.usage if reply is not None else None
    cost = reply.cost if reply is not None else None
    if cost is None and usage is not None:
        cost = price(usage)
    silent = reservation.resends
    if usage is None:
        silent += isinstance(outcome, Reply) or (
            outcome.sent and (outcome.kind not in _NEVER_BILLED or outcome.status == 200)
        )
    elif not silent:
        return Bill(usage, cost, None, None)
    ceiling = (reservation.ceiling or model.ceiling(request)) if silent else None
    if ceiling is None:
        return Bill(usage or Usage(), cost, None, None)
    most = price(ceiling)
    return Bill(usage or Usage(), cost, silent * ceiling.total_tokens, None if most is None else silent * most)


@dataclass(slots=True)
class Activity:
    """The calls of one role in this session.

    Attributes:
        open: calls that have started and not ended.
        paid: calls that returned a reply.
        hits: requests answered without their own call; below 0 while replies from batches wait to be used.
        failures: calls that returned no reply.
        refused: requests refused before a call (budget, stop, a model that cannot be used).
        prompt_tokens: as counted by the endpoint; likewise `completion_tokens`.
        cost: dollars of the calls with a known price.
        unpriced: calls that may have been billed at an unknown price.
        waiting: open calls that wait for a slot, a rate limit or a retry.
        retries: attempts that were followed by another one.
        rate_limited: those of them that hit a rate limit.
        abandoned: calls that were cancelled in flight.
    """

    open: int = 0
    paid: int = 0
    hits: int = 0
    failures: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    waiting: int = 0
    retries: int = 0
    rate_limited: int = 0
    abandoned: int = 0

    @property
    def in_flight(self) -> int:
        """Calls that models are working on."""
        return self.open - self.waiting

    def count_ended(self, outcome: Reply | Failure, bill: Bill) -> None:
        """Count a call as ended, with its outcome."""
        self.open -= 1
        self.prompt_tokens += bill.usage.prompt_tokens
        self.completion_tokens += bill.usage.completion_tokens
        self.cost += bill.cost or 0.0
        if isinstance(outcome, Reply):
            self.paid += 1
            self.unpriced += bill.cost is None
        else:
            self.failures += 1
            self.unpriced += bool(bill.token_bound) and bill.cost is None and bill.cost_bound is None

    def count_collected(self, reply: Reply) -> None:
        """Count a reply that a batch recorded; when it is looked up later, that is not a hit."""
        self.open += 1
        self.count_ended(reply, Bill(reply.usage or Usage(), reply.cost, None, None))
        self.hits -= 1

    def count_withdrawn(self) -> None:
        """Count a started call as refused before anything was sent."""
        self.open -= 1
        self.refused += 1


Tally: TypeAlias = defaultdict[str, Activity]
"""Running counts by role."""
