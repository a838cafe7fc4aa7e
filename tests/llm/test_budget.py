from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.errors import ConfigError
from autorubric.llm.billing import Activity, Bill, Reservation
from autorubric.llm.budget import Budget
from autorubric.llm.models import check_priced
from autorubric.llm.records.accounts import Spending
from autorubric.llm.request import CallError, Failure, Reply, Request, Usage
from autorubric.llm.sharing import Amount, Sharing, sharing
from autorubric.testing import ScriptedModel
from tests.offenders import each
from tests.processes import LONG

REQUEST = Request((), "judge")


@dataclass
class Priced:
    """A model that is nothing but its ceiling and its price for a token."""

    most: Usage | None
    price: float | None
    name: str = "test/priced"

    def identity(self) -> tuple[Any, ...]:
        return (self.name,)

    def ceiling(self, request: Request) -> Usage | None:
        return self.most

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else usage.total_tokens * self.price

    async def complete(self, request: Request) -> Reply:
        return Reply("")

    async def close(self) -> None: ...


async def reserved(budget: Budget, tokens: int, cost: float = 0.0) -> Reservation:
    held = await budget.reserve(Reservation(budget, Amount.from_dollars(tokens, cost)))
    assert isinstance(held, Reservation)
    return held


async def refused(budget: Budget, tokens: int, cost: float = 0.0) -> str:
    failure = await budget.reserve(Reservation(budget, Amount.from_dollars(tokens, cost)))
    assert isinstance(failure, Failure)
    assert failure.kind == "budget"
    return failure.message


async def test_a_call_that_fits_to_the_last_token_is_admitted_and_the_next_is_not() -> None:
    budget = Budget(tokens=100)
    budget.settle(await reserved(budget, 60), Amount.from_dollars(60))
    budget.settle(await reserved(budget, 40), Amount.from_dollars(40))
    assert await refused(budget, 1) == (
        "budget of 100 tokens reached after 2 calls: 100 spent, and the next call may cost 1; "
        "resume with a budget of 200 tokens"
    )


async def test_prices_that_binary_fractions_cannot_hold_add_up_exactly() -> None:
    # 10 x $0.10 is $1.00, though ten times 0.1 is less than 1 in floating point, and 3 x 0.1 more than 0.3.
    budget = Budget(usd=1.0)
    for _ in range(10):
        budget.settle(await reserved(budget, 5, 0.1), Amount.from_dollars(5, 0.1))
    assert await refused(budget, 5, 0.0001) == (
        "budget of $1.00 reached after 10 calls: $1.00 spent, and the next call may cost $0.0001; "
        "resume with a budget of $2.00"
    )
    for price, limit in ((0.1, 0.3), (0.67, 2.01)):
        budget = Budget(usd=limit)
        for _ in range(3):
            await reserved(budget, 5, price)


async def test_a_call_that_does_not_fit_waits_for_calls_in_flight_that_turn_out_cheaper() -> None:
    budget = Budget(tokens=100)
    first = await reserved(budget, 80)
    second = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(80))))
    await asyncio.sleep(0)
    assert not second.done()
    budget.settle(first, Amount.from_dollars(20))
    assert isinstance(await second, Reservation)
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(20), Amount.from_dollars(80))


async def test_a_call_that_waited_is_refused_when_the_calls_in_flight_leave_no_room() -> None:
    budget = Budget(tokens=100)
    first = await reserved(budget, 80)
    second = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(80))))
    await asyncio.sleep(0)
    budget.settle(first, Amount.from_dollars(21))
    assert isinstance(await second, Failure)
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(21), Amount.from_dollars(0))


async def test_a_smaller_call_does_not_overtake_one_that_waits() -> None:
    budget = Budget(tokens=100)
    first = await reserved(budget, 60)
    big = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(90))))
    small = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(10))))
    await asyncio.sleep(0)
    assert not small.done()
    budget.settle(first, Amount.from_dollars(0))
    assert isinstance(await big, Reservation)
    assert isinstance(await small, Reservation)


async def test_a_cancelled_wait_leaves_the_queue_and_holds_nothing() -> None:
    budget = Budget(tokens=100)
    first = await reserved(budget, 60)
    big = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(90))))
    small = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(10))))
    await asyncio.sleep(0)
    big.cancel()
    assert isinstance(await small, Reservation)
    budget.settle(first, Amount.from_dollars(60))
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(60), Amount.from_dollars(10))


async def test_a_call_cancelled_in_the_moment_of_its_admission_holds_nothing() -> None:
    budget = Budget(tokens=100)
    first = await reserved(budget, 60)
    second = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(90))))
    await asyncio.sleep(0)
    budget.settle(first, Amount.from_dollars(0))
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert (second.cancelled(), budget.reserved) == (True, Amount.from_dollars(0))
    await reserved(budget, 100)


async def test_settling_twice_counts_once() -> None:
    budget = Budget(tokens=100)
    held = await reserved(budget, 60)
    budget.settle(held, Amount.from_dollars(50))
    budget.settle(held, Amount.from_dollars(50))
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(50), Amount.from_dollars(0))


async def test_a_new_session_starts_from_what_the_earlier_ones_spent() -> None:
    budget = Budget(usd=5.0, spent=Spending(calls=812, tokens=9_000, cost=4.9876))
    assert await refused(budget, 100, 0.02) == (
        "budget of $5.00 reached after 812 calls: $4.988 spent, and the next call may cost $0.02; "
        "resume with a budget of $10.00"
    )
    await reserved(budget, 100, 0.0124)


async def test_a_refusal_names_what_is_held_in_the_unit_of_the_limit() -> None:
    for budget, cost, words in (
        (
            Budget(usd=0.5),
            0.2,
            "$0.00 spent, $0.40 reserved for calls that have begun, and the next call may cost $0.20;",
        ),
        (Budget(usd=0.25), 0.123, "$0.00 spent, $0.246 reserved for calls"),
        (Budget(tokens=100), 0.0, "0 spent, 80 reserved for calls that have begun, and the next call may cost 40;"),
    ):
        held = [await reserved(budget, 40, cost), await reserved(budget, 40, cost)]
        more = asyncio.gather(*(one.extend() for one in held), return_exceptions=True)
        told = [one.failure.message for one in await asyncio.wait_for(more, LONG) if isinstance(one, CallError)]
        assert len(told) == 2 and words in told[0]


async def test_both_limits_hold_and_the_one_that_is_reached_is_named() -> None:
    budget = Budget(usd=1.0, tokens=1_000_000)
    assert "budget of 1,000,000 tokens" in await refused(budget, 1_000_001, 0.5)
    assert "budget of $1.00" in await refused(budget, 10, 1.5)


async def test_another_attempt_is_covered_like_a_call_of_its_own() -> None:
    budget = Budget(tokens=100)
    held = await reserved(budget, 40)
    await held.extend()
    assert (held.resends, budget.reserved) == (1, Amount.from_dollars(80))
    with pytest.raises(CallError, match="budget of 100 tokens reached"):
        await held.extend()
    assert budget.refused is not None
    await reserved(budget, 20)  # less still fits, so the budget has not ended the run
    assert budget.refused is None
    assert (held.resends, budget.reserved) == (1, Amount.from_dollars(100))
    budget.settle(held, Amount.from_dollars(90))
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(90), Amount.from_dollars(20))


async def test_a_call_waits_for_one_whose_second_attempt_is_in_flight() -> None:
    budget = Budget(tokens=200)
    first = await reserved(budget, 80)
    await budget.reserve_again(first)
    second = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(80))))  # 160 are held
    await asyncio.sleep(0)
    assert not second.done()
    budget.settle(first, Amount.from_dollars(100))
    assert isinstance(await second, Reservation)


async def test_calls_that_all_wait_for_another_attempt_do_not_wait_for_each_other_for_ever() -> None:
    budget = Budget(tokens=100)
    held = [await reserved(budget, 40), await reserved(budget, 40)]
    more = asyncio.gather(*(one.extend() for one in held), return_exceptions=True)
    outcomes = await asyncio.wait_for(more, LONG)
    assert all(isinstance(outcome, CallError) for outcome in outcomes)
    for one in held:
        budget.settle(one, Amount.from_dollars(40))
    assert (budget.spent, budget.reserved) == (Amount.from_dollars(80), Amount.from_dollars(0))
    await reserved(budget, 20)


def test_a_price_that_nobody_knows_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="model 'test/priced' has no known price; a budget in dollars"):
        Budget(usd=1.0).compute_worst_case(Priced(Usage(10, 90), None), REQUEST)
    assert Budget(tokens=100).compute_worst_case(Priced(Usage(10, 90), None), REQUEST) == Amount.from_dollars(
        100, 0.0
    )


@each("budget", [Budget(usd=1.0), Budget(tokens=100)])
def test_a_call_without_a_ceiling_is_refused_before_anything_is_sent(budget: Budget) -> None:
    with pytest.raises(ConfigError, match="model 'test/priced' puts no bound on the length of its replies"):
        budget.compute_worst_case(Priced(None, 0.5), REQUEST)


def test_a_budget_in_dollars_names_every_model_without_a_price() -> None:
    models = {"judge": ScriptedModel({}), "merge": ScriptedModel({})}
    names = r"no price is known for judge \(scripted\), merge \(scripted\); a budget in dollars needs one"
    with pytest.raises(ConfigError, match=names):
        check_priced(models, 1.0)
    with pytest.raises(ConfigError, match="no price is known for scripted; a budget"):
        check_priced({"scripted": ScriptedModel(lambda request: "yes")}, 1.0)


def test_limits_that_are_no_limits_are_refused_together() -> None:
    with pytest.raises(ConfigError) as refusal:
        Budget(usd=float("nan"), tokens=-1)
    assert refusal.value.problems == (
        "a budget of nan dollars is not a limit; expected a finite number from 0 up",
        "a budget of -1 tokens is not a limit; expected a finite number from 0 up",
    )


def test_a_budget_in_dollars_cannot_start_from_calls_whose_price_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="3 recorded calls have no known price"):
        Budget(usd=1.0, spent=Spending(calls=3, tokens=10, unpriced=3))
    Budget(tokens=100, spent=Spending(calls=3, tokens=10, unpriced=3))


@each("limit", [{"usd": 1.0}, {"tokens": 100}, {"usd": 1.0, "tokens": 100}])
def test_no_budget_can_start_from_calls_whose_records_are_lost(limit: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="what 2 calls cost is not known, because their records are lost"):
        Budget(**limit, spent=Spending(calls=3, tokens=10, lost=2))
    Budget(spent=Spending(calls=3, tokens=10, lost=2))


@dataclass(frozen=True)
class Plan:
    """One call of the property test: its worst case, what it really costs, and how it behaves in time."""

    need: int
    share: float
    before: int
    during: int
    resends: int
    cancelled_after: int | None


plans = st.builds(
    Plan,
    need=st.integers(0, 60),
    share=st.floats(0, 1),
    before=st.integers(0, 6),
    during=st.integers(0, 6),
    resends=st.integers(0, 2),
    cancelled_after=st.none() | st.integers(0, 12),
)


class Life:
    """Calls that share a budget, checked at every step of the event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.budget = Budget(tokens=limit, usd=limit * 0.1)
        self.paid: list[int] = []

    def assert_within(self) -> None:
        spent, held = self.budget.spent, self.budget.reserved
        assert spent.tokens + held.tokens <= self.limit
        assert spent.cost + held.cost <= self.limit * 0.1 + 1e-9

    async def ticks(self, count: int) -> None:
        for _ in range(count):
            self.assert_within()
            await asyncio.sleep(0)

    async def call(self, plan: Plan) -> None:
        await self.ticks(plan.before)
        held = await self.budget.reserve(Reservation(self.budget, Amount.from_dollars(plan.need, plan.need * 0.1)))
        if isinstance(held, Failure):
            return
        # Each attempt that was sent again, and a last one that ended without a word, counts in full.
        last = plan.need
        try:
            if await self.attempts(plan, held):
                last = int(plan.need * plan.share)
        finally:
            self.paid.append(held.resends * plan.need + last)
            self.budget.settle(held, Amount.from_dollars(self.paid[-1], self.paid[-1] * 0.1))
            self.assert_within()

    async def attempts(self, plan: Plan, held: Reservation) -> bool:
        for _ in range(plan.resends):
            await self.ticks(plan.during)
            try:
                await held.extend()
            except CallError:
                return False
        await self.ticks(plan.during)
        return True

    async def live(self, calls: list[Plan]) -> None:
        tasks = [asyncio.create_task(self.call(plan)) for plan in calls]
        stoppers = [cancel(task, plan.cancelled_after) for task, plan in zip(tasks, calls, strict=True)]
        await asyncio.wait_for(asyncio.gather(*tasks, *stoppers, return_exceptions=True), 10)
        for task in tasks:
            if not task.cancelled():
                task.result()


async def cancel(task: asyncio.Task[None], after: int | None) -> None:
    if after is not None:
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()


@given(st.integers(0, 200), st.lists(plans, min_size=1, max_size=12))
def test_the_limit_holds_at_every_moment_whatever_calls_do(limit: int, calls: list[Plan]) -> None:
    life = Life(limit)
    asyncio.run(life.live(calls))
    life.assert_within()
    assert life.budget.reserved == Amount.from_dollars(0, 0.0)
    assert life.budget.spent.tokens == sum(life.paid)


def test_a_call_that_is_withdrawn_is_refused_and_one_that_failed_counts_once() -> None:
    now = Activity(open=3)
    now.count_withdrawn()
    now.count_ended(Failure("server", "down"), Bill(Usage(), None, None, None))
    assert (now.open, now.refused, now.failures, now.paid) == (1, 1, 1, 0)


async def test_a_reply_raises_the_part_of_the_ceiling_that_it_exceeds_by_twice_the_excess() -> None:
    budget, model = Budget(), Priced(Usage(10, 90), 0.01)
    # The prompt exceeds 10 by 20, the completion nothing: 10 + 2 x 20 + 90. Then the completion exceeds 90 by 410.
    for usage, most in ((Usage(30, 25), 140), (Usage(5, 500), 140 + 2 * 410)):
        held = await budget.reserve_for(model, REQUEST)
        assert isinstance(held, Reservation)
        budget.settle(held, Amount.from_dollars(usage.total_tokens), usage)
        assert budget.compute_worst_case(model, REQUEST).tokens == most


async def test_a_raised_ceiling_counts_at_once_for_calls_of_the_model_in_flight_and_for_nothing_else() -> None:
    budget, model = Budget(tokens=10_000), Priced(Usage(10, 90), 0.01)
    first, second, other = [
        await budget.reserve_for(one, REQUEST) for one in (model, model, Priced(Usage(10, 90), 0.01))
    ]
    assert isinstance(first, Reservation) and isinstance(second, Reservation) and isinstance(other, Reservation)
    budget.hold(Amount.from_dollars(50))
    # The prompt exceeds 10 by 20: the second call may take 100 + 2 x 20; the other model's and what is held stay.
    budget.settle(first, Amount.from_dollars(120), Usage(30, 90))
    assert budget.reserved.tokens == 140 + 100 + 50
    assert (second.need.tokens, other.need.tokens) == (140, 100)
    assert not (second.must_be_covered or other.must_be_covered)


@each(
    ("limits", "left", "need", "message"),
    [
        # Twice the limit, although only $0.50 are spent.
        ({"usd": 2.0}, Amount(math.inf, 15 * 10**11), (100, 1.75), ("$2.00", "$1.50", "$1.75", "$4.00")),
        ({"usd": 2.0}, Amount(math.inf, 15 * 10**11), (100, 3.0), ("$2.00", "$1.50", "$3.00", "$5.00")),
        ({"tokens": 1000}, Amount(40, math.inf), (60, 1.75), ("1,000 tokens", "40", "60", "2,000 tokens")),
        # Of two limits, the one that is named leaves too little for the call.
        ({"usd": 2.0, "tokens": 1000}, Amount(900, 15 * 10**11), (900, 1.75), ("$2.00", "$1.50", "$1.75", "$4.00")),
        (
            {"usd": 2.0, "tokens": 1000},
            Amount(900, 15 * 10**11),
            (950, 0.5),
            ("1,000 tokens", "900", "950", "2,000 tokens"),
        ),
        # What is overdrawn is not there.
        ({"tokens": 1000}, Amount(-40, math.inf), (60, 0.0), ("1,000 tokens", "0", "60", "2,100 tokens")),
    ],
)
def test_several_processes_are_refused_what_none_of_them_has_left(
    limits: dict[str, Any], left: Amount, need: tuple[int, float], message: tuple[str, ...]
) -> None:
    async def borrow(held: Amount, missing: Amount) -> None:
        shared.left = left

    async def main() -> str:
        token = sharing.set(shared)
        try:
            budget = Budget(**limits)
        finally:
            sharing.reset(token)
        return await refused(budget, *need)

    shared = Sharing(3, None, borrow, lambda seconds: None)
    limit, free, next_call, enough = message
    assert asyncio.run(main()) == (
        f"budget of {limit} reached by 3 processes: {free} is neither spent nor reserved, "
        f"and the next call may cost {next_call}; resume with a budget of {enough}"
    )


async def test_one_of_several_processes_may_overrun_what_it_has_borrowed(caplog: pytest.LogCaptureFixture) -> None:
    async def borrow(held: Amount, missing: Amount) -> Amount:
        return missing

    token = sharing.set(Sharing(2, None, borrow, lambda seconds: None))
    try:
        budget = Budget(tokens=1000)
    finally:
        sharing.reset(token)
    budget.settle(await reserved(budget, 100), Amount.from_dollars(510))
    assert budget.spent == Amount.from_dollars(510)
    assert "the budget is overrun: budget of 1,000 tokens reached after 1 call: 510 spent" in caplog.text


@each(("limits", "words"), [({"tokens": 0}, "budget of 0 tokens reached"), ({"usd": 0.0}, "budget of $0.00 reached")])
def test_a_budget_of_nothing_is_called_so(limits: dict[str, Any], words: str) -> None:
    assert words in asyncio.run(refused(Budget(**limits), 1, 0.01))


async def test_a_large_call_lets_smaller_ones_go_out_once_nothing_runs_and_all_that_fit_are_made() -> None:
    budget = Budget(tokens=100)
    first = await budget.reserve(Reservation(budget, Amount.from_dollars(60)))
    assert isinstance(first, Reservation)
    waiting = [
        asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(need))))
        for need in (90, 70, 30, 90, 10)
    ]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)  # the call that runs may turn out cheaper
    budget.settle(first, Amount.from_dollars(60))  # 40 are left: for 30, and then for 10, but for none of the others
    third = await waiting[2]
    assert isinstance(third, Reservation)
    assert not any(waiting[place].done() for place in (0, 1, 3, 4))
    budget.settle(third, Amount.from_dollars(30))
    last = await waiting[4]
    assert isinstance(last, Reservation)
    budget.settle(last, Amount.from_dollars(9))
    refused = [await waiting[place] for place in (0, 1, 3)]
    assert [one.kind for one in refused if isinstance(one, Failure)] == ["budget"] * 3
    assert all("reserved for calls" not in str(one) for one in refused)
