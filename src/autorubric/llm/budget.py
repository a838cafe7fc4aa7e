"""A hard limit in dollars or tokens: the worst case of a call is reserved before it is sent."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush

from autorubric.errors import ConfigError, pluralize
from autorubric.llm.billing import Claim, Reservation
from autorubric.llm.failure_groups import HIGHER
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.stores import Records
from autorubric.llm.request import CallError, Failure, Model, Request, Usage
from autorubric.llm.sharing import Amount, Sharing, sharing, turn, turns

_log = logging.getLogger("autorubric.llm")

NOTE = "reply excess"
_FOLLOWING = 0.05  # seconds in which a reply is recorded and read, and its re-ask or next stage asks for budget
_OVER = " (over the budget: a reply exceeded max_tokens, or earlier sessions had a higher budget or none)"
_EXCEEDED = (
    "%s: a reply took %s tokens (%s of the prompt) where at most %s + %s were allowed, so the endpoint ignores "
    "max_tokens or adds to the prompt. The budget reserves more for its calls from now on, but those already in "
    "flight may overrun it."
)


class Budget:
    """A limit on the spending of a run, over all of its sessions.

    A call is admitted if everything spent, everything reserved and its own worst case fit under the limit together.
    Otherwise it waits while calls in flight may turn out cheaper, and fails once there is nothing to wait for. The
    limit therefore holds at every moment, as long as models state their true ceiling.

    A reply with more tokens than its ceiling (from an endpoint that ignores `max_tokens`) raises the ceiling of its
    model by twice the excess, also for calls in flight. The overrun, logged and named in refusals, is then at most
    what was in flight. Later sessions know the raised ceilings, and count the calls in flight at a kill.

    Args:
        usd: the most dollars, or None for no limit.
        tokens: the most tokens, prompts and completions together, or None for no limit.
        spent: what earlier sessions have spent, as the ledger records it.

    Attributes:
        is_estimated: whether a run names the budget that is enough at its end, so that refusals do not guess one.
        refused: the refusal of the last call that was decided; None if it was admitted.
        needed: the worst case of the last call that was refused, or else of the smallest one whose cost is unknown.
        admitted: the worst case of the last call that was admitted.
        running: calls that may turn out cheaper than what is reserved for them.
        spent, reserved: by all sessions so far, worst cases included; by the calls in flight, at most.
        costs: what the calls for a record have cost so far, by `turn`, for each turn that is in it.

    Raises:
        ConfigError: a limit is not a number from 0 up, or earlier calls have no known price.

    Example:
        >>> import asyncio
        >>> from autorubric.llm.sharing import Amount
        >>> budget = Budget(tokens=1250)
        >>> held = asyncio.run(budget.reserve(Reservation(budget, Amount(1000))))
        >>> budget.settle(held, Amount(400))
        >>> print(asyncio.run(budget.reserve(Reservation(budget, Amount(1000)))))
        budget: budget of 1,250 tokens reached after 1 call: 400 spent, and the next call may cost 1,000; ...
    """

    def __init__(self, *, usd: float | None = None, tokens: int | None = None, spent: Spending | None = None) -> None:
        before = spent or Spending()
        before.check_limits(usd, tokens)
        self.usd, self.tokens = usd, tokens
        self.is_estimated = False
        self.refused: Failure | None = None
        self.needed = self.admitted = Amount()
        self._calls = before.calls
        self.spent = Amount.from_dollars(before.tokens, before.cost)
        self.reserved = Amount()
        self._limit = Amount.from_dollars(math.inf if tokens is None else tokens, math.inf if usd is None else usd)
        self._shared = sharing.get()
        if self._shared is not None:  # of several processes, each may spend what it has borrowed
            self._limit = Amount(*(a if a == math.inf else b for a, b in zip(self._limit, self.spent, strict=True)))
        self._borrowing: asyncio.Task[None] | None = None
        self._may_borrow = self._shared is not None
        self.running = 0
        self.costs: dict[int, Amount] = {}
        self._queue: list[tuple[int, int, Reservation, asyncio.Future[bool]]] = []  # a heap
        self._live: set[Reservation] = set()
        self._records: Records | None = None
        self._excess: dict[int, Usage] = {}  # by model object: two models may share a name
        self._known_excess: dict[str, list[int]] = {}  # of earlier sessions and this one, by name and address
        self._overrun_logged = False
        self._admitting: asyncio.AbstractEventLoop | None = None  # where waiting calls will soon be admitted

    def keep_in(self, records: Records) -> None:
        """Record raised ceilings with the replies, and start from those of earlier sessions."""
        self._records = records
        self._known_excess = dict(records.find_note(NOTE) or {})

    def compute_worst_case(self, model: Model, request: Request) -> Amount:
        """Return the maximum cost of one attempt at `request`; a `ConfigError` if that is unbounded."""
        return self._compute_need(Claim.build(model, request))

    async def reserve_for(self, model: Model, request: Request) -> Reservation | Failure:
        """Return a reservation for one attempt at `request` once it fits, or a failure if it never will.

        Raises:
            ConfigError: the model's price or the length of its replies is unbounded, so no limit could hold.
        """
        claim = Claim.build(model, request)
        return await self.reserve(Reservation(self, self._compute_need(claim), claim))

    async def reserve(self, reservation: Reservation) -> Reservation | Failure:
        """Return the reservation once it fits, or a failure if it never will."""
        reservation.waits_to_be_sent = reservation.must_be_covered = True
        self._live.add(reservation)
        try:
            # A ceiling may be raised between the admission and this task's next step.
            while reservation.must_be_covered:
                if not await self._wait_for_admission(reservation):
                    return self._refuse(reservation.need)
        finally:
            if not reservation.held:
                self._live.discard(reservation)
        reservation.waits_to_be_sent = False
        return reservation

    def can_cover(self, need: Amount) -> bool:
        """Return whether `need` fits on top of what is spent and reserved."""
        return self.spent.plus(self.reserved).plus(need).is_within(self._limit)

    def hold(self, need: Amount) -> Reservation:
        """Return a reservation of what may be spent already, whether it fits or not."""
        reservation = Reservation(self, need, held=1)
        self._live.add(reservation)
        self.reserved = self.reserved.plus(reservation.need)
        self._note_running(reservation, True)
        return reservation

    def reprice(self, reservation: Reservation, claim: Claim) -> None:
        """Release a call that was not sent, so that it is reserved again at the price of `claim`."""
        self._release(reservation, reservation.held)
        self._note_running(reservation, False)
        reservation.claim, reservation.need = claim, self._compute_need(claim)
        reservation.must_be_covered = True

    async def reserve_again(self, reservation: Reservation, *, sent: bool = True) -> None:
        """Reserve the worst case of a running call once more; a `CallError` if that is impossible.

        `sent` says whether an attempt may have been billed, so that the call is recorded.
        """
        # A waiting call does not count as running: two calls must not wait for each other forever.
        self._note_running(reservation, False)
        try:
            admitted = await self._wait_for_admission(reservation)
        finally:
            self._note_running(reservation, True)
        if not admitted:
            raise CallError(replace(self._refuse(reservation.need), sent=sent))

    def settle(self, reservation: Reservation, actual: Amount, usage: Usage | None = None, *, calls: int = 1) -> None:
        """Replace the reservation of a call, or of the `calls` of a batch, by the most it can have cost, once.

        `usage`, the tokens of its reply, may show that the model's ceiling is wrong.
        """
        if reservation.settled:
            return
        if usage is not None and reservation.claim is not None:
            self._learn(reservation.claim, usage)
        if self.refused is None and (usage is None or not usage.total_tokens):
            self.needed = min(self.needed, reservation.need) if any(self.needed) else reservation.need
        self._drop(reservation)
        self.spent = self.spent.plus(actual)
        if (now := turn.get()) in self.costs:
            self.costs[now] = self.costs[now].plus(actual)
        self._report_used()
        self._calls += calls
        if not self._overrun_logged and not self.spent.is_within(self._limit):
            self._overrun_logged = True
            _log.warning("the budget is overrun: %s", self.explain_refusal(reservation.need))
        self._admit_soon()

    def give_back(self, reservation: Reservation) -> None:
        """Release the reservation of a call that was never sent."""
        if not reservation.settled:
            self._drop(reservation)
            self._admit_waiting()

    def compute_ceiling(self, claim: Claim) -> Usage:
        """Return the upper bound of the tokens of one attempt: the stated one, raised by what replies have shown."""
        return claim.stated + self._find_excess(claim.model)

    async def _wait_for_admission(self, reservation: Reservation) -> bool:
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        heappush(self._queue, (turn.get(), next(turns), reservation, place))
        self._admit_soon()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self._release(reservation, 1)
                self._note_running(reservation, False)
            self._admit_waiting()
            raise

    def _admit_soon(self) -> None:
        """Admit a single waiting call now, and several once those that follow from the last replies have joined."""
        if len(self._queue) < 2:
            self._admit_waiting()
        elif self._admitting is not (loop := asyncio.get_running_loop()):
            self._admitting = loop
            loop.call_later(_FOLLOWING, self._admit_waiting)

    def _admit_waiting(self) -> None:
        """Admit or refuse waiting calls in the order of `turn`, until one has to wait longer."""
        self._admitting = None
        while self._queue:
            _, _, reservation, place = self._queue[0]
            if place.done():  # decided, or cancelled
                heappop(self._queue)
            elif self.can_cover(reservation.need):
                self._admit(reservation, place)
            elif self._is_borrowing(reservation.need) or self.running:
                return
            else:
                self._admit_smaller()

    def _admit(self, reservation: Reservation, place: asyncio.Future[bool]) -> None:
        self.refused, self.admitted = None, reservation.need
        self.reserved = self.reserved.plus(reservation.need)
        self._report_used()
        reservation.held += 1
        reservation.must_be_covered = False
        self._note_running(reservation, True)
        place.set_result(True)

    def _admit_smaller(self) -> None:
        """Admit the first waiting call that fits, or refuse all: nothing runs that may leave more to the others."""
        waiting = [entry for entry in self._queue if not entry[3].done()]
        fitting = [entry for entry in waiting if self.can_cover(entry[2].need)]
        if fitting:
            self._admit(*min(fitting)[2:])
            return
        self._queue.clear()
        self._may_borrow = self._shared is not None
        for _, _, _, place in waiting:
            place.set_result(False)

    def compute_left(self) -> Amount:
        """Return the budget that is neither spent nor reserved."""
        return self._limit.minus(self.spent).minus(self.reserved)

    def give_spare(self) -> Amount:
        """Give back what was lent to this process and is neither spent nor reserved, and return it."""
        spare = self.compute_left().clip()
        self._limit = self._limit.minus(spare)
        return spare

    def _report_used(self) -> None:
        """Report what would count as spent if this process were killed, so that others can have the rest."""
        if self._shared is not None:
            self._shared.used(self.spent.plus(self.reserved))

    def _is_borrowing(self, need: Amount) -> bool:
        """Return whether a request for more is under way, so that a call has to wait; sends one if it may help."""
        if self._borrowing is None and self._shared is not None and self._may_borrow:
            self._shared.budget, self._may_borrow = self, False
            self._borrowing = asyncio.create_task(self._borrow(self._shared, need))
        return self._borrowing is not None

    async def _borrow(self, shared: Sharing, need: Amount) -> None:
        lent = await shared.borrow(self._limit, self._compute_missing(need))
        self._may_borrow = lent is not None  # what is lent for the smallest call is not for the first in the queue
        if lent is None and self._queue and not self.running:
            smallest = self._compute_missing(min(reservation.need for _, _, reservation, _ in self._queue))
            lent = None if smallest == Amount() else await shared.borrow(self._limit, smallest)
        self._borrowing = None
        self._limit = self._limit.plus(lent or Amount())
        self._admit_waiting()

    def _compute_missing(self, need: Amount) -> Amount:
        return self.spent.plus(self.reserved).plus(need).minus(self._limit).clip()

    def _drop(self, reservation: Reservation) -> None:
        reservation.settled = True
        self._live.discard(reservation)
        self._release(reservation, reservation.held)
        self._note_running(reservation, False)

    def _release(self, reservation: Reservation, attempts: int) -> None:
        """Release the reservation of some attempts of a call."""
        self.reserved = self.reserved.plus(reservation.need.times(-attempts))
        reservation.held -= attempts
        self._may_borrow = self._shared is not None  # with what was released, less may be missing

    def _note_running(self, reservation: Reservation, runs: bool) -> None:
        """Note whether a call runs, so that others may wait for what it leaves."""
        self.running += runs - reservation.runs
        reservation.runs = runs

    def _compute_need(self, claim: Claim) -> Amount:
        ceiling = self.compute_ceiling(claim)
        cost = claim.price(ceiling)
        if self.usd is not None and cost is None:
            raise ConfigError(
                f"model '{claim.model.name}' has no known price; "
                "a budget in dollars needs one: give it (--prices FILE, LLMConfig.prices), or give the budget in "
                "tokens (--budget-tokens)"
            )
        return Amount.from_dollars(ceiling.total_tokens, cost or 0.0)

    def _find_excess(self, model: Model) -> Usage:
        return self._excess.get(id(model)) or Usage(*self._known_excess.get(_name_account(model), ()))

    def _learn(self, claim: Claim, usage: Usage) -> None:
        """Raise the ceiling of a model whose reply exceeds it, existing reservations included."""
        known = self._find_excess(claim.model)
        prompt = 2 * (usage.prompt_tokens - claim.stated.prompt_tokens)
        completion = 2 * (usage.completion_tokens - claim.stated.completion_tokens)
        raised = Usage(max(known.prompt_tokens, prompt), max(known.completion_tokens, completion))
        if raised == known:
            return
        self._excess[id(claim.model)] = raised
        self._known_excess[_name_account(claim.model)] = [raised.prompt_tokens, raised.completion_tokens]
        if self._records is not None:
            self._records.keep_note(NOTE, self._known_excess, merge_excess)
        if known == Usage():
            stated = claim.stated
            counts = usage.total_tokens, usage.prompt_tokens, stated.prompt_tokens, stated.completion_tokens
            _log.warning(_EXCEEDED, claim.model.name, *map("{:,}".format, counts))
        for claimant in self._live:
            if claimant.claim is None or claimant.claim.model is not claim.model:
                continue
            attempts = claimant.held
            self._release(claimant, attempts)
            claimant.need = self._compute_need(claimant.claim)
            if claimant.waits_to_be_sent:
                claimant.must_be_covered = True  # not in flight yet, so it need not overrun the limit
                self._note_running(claimant, False)
            else:
                claimant.held = attempts
                self.reserved = self.reserved.plus(claimant.need.times(attempts))

    def _refuse(self, need: Amount) -> Failure:
        self.needed, self.refused = need, Failure("budget", self.explain_refusal(need))
        return self.refused

    def explain_refusal(self, need: Amount, rest: Amount | None = None, basis: str = "") -> str:
        """Return why a call that may cost `need` is not made, and which budget is enough to resume.

        Args:
            need: the worst case of the call.
            rest: the expected cost of what is left to do; None if unknown, for twice the budget or more.
            basis: what the expectation is based on.
        """
        free = None if self._shared is None else self._shared.left
        left = None if free is None else free.plus(self.compute_left())
        whole = Amount.from_dollars(self.tokens or 0, self.usd or 0.0)
        room = left or whole.minus(self.spent).minus(self.reserved)
        in_tokens = self.usd is None or (self.tokens is not None and need.tokens > room.tokens)
        show, unit = partial(Amount.format, in_tokens=in_tokens), " tokens" if in_tokens else ""
        used = whole.minus(room).clip()
        if rest is None:
            used, rest = used.plus(room.clip()), whole.minus(need).clip()
        enough = show(used.plus(need).plus(rest).round_up())
        limit = show(whole) + unit
        advice = f"the next call may cost {show(need)}"
        if basis or not self.is_estimated:
            advice += f"{HIGHER}{enough}{unit}{basis}"
        if self._shared is not None and left is not None:
            by = f"reached by {self._shared.processes} processes: {show(left.clip())}"
            return f"budget of {limit} {by} is neither spent nor reserved, and {advice}"
        waiting = f", {show(self.reserved)} reserved for calls that have begun" if self.reserved != Amount() else ""
        over = "" if self.spent.is_within(self._limit) else _OVER
        head = f"reached after {pluralize(self._calls, 'call')}: {show(self.spent)} spent"
        return f"budget of {limit} {head}{over}{waiting}, and {advice}"


def merge_excess(*notes: Mapping[str, Sequence[int]] | None) -> dict[str, list[int]]:
    """Merge the raised ceilings of several ledgers: the highest of each model.

    Example:
        >>> merge_excess({"m": [10, 0]}, {"m": [4, 7], "n": [0, 1]})
        {'m': [10, 7], 'n': [0, 1]}
    """
    found: dict[str, list[int]] = {}
    for name, raised in (item for note in notes if note for item in note.items()):
        found[name] = [max(pair) for pair in zip(found.get(name, raised), raised, strict=True)]
    return found


def _name_account(model: Model) -> str:
    return f"{model.name} at {model.identity()[:1]}"
