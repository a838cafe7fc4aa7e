"""What a call costs at the most, and what a session counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from autorubric.llm.billing import Activity, Bill, Reservation, bill, current_reservation
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import CallError, Failure, FailureKind, Reply, Request, Usage
from autorubric.llm.sharing import Amount
from tests.offenders import each


@dataclass
class Priced:
    """Takes at most 100 tokens of the prompt and `most` in all, each at one price; its calls never end."""

    price: float | None = 0.001
    name: str = "local/priced"
    most: int = 1000

    def identity(self) -> tuple[object, ...]:
        return (self.name,)

    def ceiling(self, request: Request) -> Usage | None:
        return Usage(100, self.most - 100)

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else usage.total_tokens * self.price

    async def complete(self, request: Request) -> Reply:
        reservation = current_reservation.get()
        assert reservation is not None
        reservation.note_waiting()
        for sent in request.item:
            reservation.note_sent(sent == "s")
        await asyncio.Event().wait()
        return READ

    async def close(self) -> None: ...


ASKED = Request((), "judge")
READ = Reply("MET", usage=Usage(80, 20))


@each(
    ("outcome", "resends", "price", "expected"),
    [
        (READ, 0, 0.001, Bill(Usage(80, 20), 0.1, None, None)),
        (READ, 2, 0.001, Bill(Usage(80, 20), 0.1, 2000, 2.0)),
        (replace(READ, cost=0.25), 0, 0.001, Bill(Usage(80, 20), 0.25, None, None)),
        (READ, 1, None, Bill(Usage(80, 20), None, 1000, None)),
        (replace(READ, usage=None), 0, 0.001, Bill(Usage(), None, 1000, 1.0)),
        (replace(READ, usage=None), 3, 0.001, Bill(Usage(), None, 4000, 4.0)),
        (Failure("timeout", ""), 0, 0.001, Bill(Usage(), None, 1000, 1.0)),
        (Failure("timeout", ""), 2, 0.001, Bill(Usage(), None, 3000, 3.0)),
        (Failure("timeout", "", sent=False), 0, 0.001, Bill(Usage(), None, None, None)),
        (Failure("timeout", "", sent=False), 1, 0.001, Bill(Usage(), None, 1000, 1.0)),
        (Failure("unreadable", "", reply=READ), 0, 0.001, Bill(Usage(80, 20), 0.1, None, None)),
        (Failure("unreadable", "", reply=READ), 1, 0.001, Bill(Usage(80, 20), 0.1, 1000, 1.0)),
        # Whoever answers 200 may have run the model.
        (Failure("server", "", 200), 0, 0.001, Bill(Usage(), None, 1000, 1.0)),
        (Failure("server", "", 500), 0, 0.001, Bill(Usage(), None, None, None)),
    ],
)
def test_every_attempt_that_may_have_been_billed_without_a_count_is_charged_its_worst_case(
    outcome: Reply | Failure, resends: int, price: float | None, expected: Bill
) -> None:
    assert bill(Priced(price), ASKED, outcome, Reservation(resends=resends)) == expected


def test_amounts_add_up_in_tokens_and_in_dollars() -> None:
    assert Amount.from_dollars(3, 0.5).plus(Amount.from_dollars(4, 0.25)) == Amount.from_dollars(7, 0.75)


@each("kind", ["auth", "quota", "no_model", "unreachable", "rejected", "rate_limit", "server"])
def test_a_refused_request_is_not_billed(kind: FailureKind) -> None:
    assert bill(Priced(), ASKED, Failure(kind, ""), Reservation()).most == Amount()
    assert bill(Priced(), ASKED, Failure(kind, ""), Reservation(resends=1)).most == Amount.from_dollars(1000, 1.0)


def test_a_call_that_was_sent_at_another_price_costs_that_price() -> None:
    moved = Reservation(price=Priced(0.01).cost)
    assert bill(Priced(), ASKED, READ, moved).most == Amount.from_dollars(100, 1.0)
    assert bill(Priced(), ASKED, Failure("timeout", ""), moved).most == Amount.from_dollars(1000, 10.0)


@each(
    ("outcome", "billed", "expected"),
    [
        (READ, Bill(Usage(80, 20), 0.1, None, None), Activity(1, 1, 0, 0, 0, 80, 20, 0.1)),
        (READ, Bill(Usage(80, 20), None, None, None), Activity(1, 1, 0, 0, 0, 80, 20, unpriced=1)),
        (Failure("timeout", ""), Bill(Usage(), None, 1000, None), Activity(1, failures=1, unpriced=1)),
        (Failure("timeout", ""), Bill(Usage(), None, 1000, 1.0), Activity(1, failures=1)),
        (Failure("unreadable", ""), Bill(Usage(80, 20), 0.1, 1000, None), Activity(1, 0, 0, 1, 0, 80, 20, 0.1)),
        (Failure("server", ""), Bill(Usage(), None, None, None), Activity(1, failures=1)),
    ],
)
def test_a_call_that_ended_counts_once_with_what_it_cost(
    outcome: Reply | Failure, billed: Bill, expected: Activity
) -> None:
    found = Activity(open=2)
    found.count_ended(outcome, billed)
    assert found == expected


def test_calls_that_wait_hit_or_are_refused_are_counted_apart() -> None:
    found = Activity(open=2)
    call = Reservation(activity=found)
    call.count_waiting(1)
    assert found.in_flight == 1
    call.count_waiting(-1)
    call.count_retry(rate_limited=True)
    call.count_retry(rate_limited=False)
    found.count_withdrawn()
    assert found == Activity(open=1, refused=1, retries=2, rate_limited=1)


def test_replies_that_a_batch_recorded_count_as_paid_and_not_as_hits_once_they_are_found() -> None:
    found = Activity(hits=5)
    for cost in (0.5, None, 0.5, None):
        found.count_collected(replace(READ, usage=Usage(15, 2), cost=cost))
    assert found == Activity(0, 4, 1, 0, 0, 60, 8, 1.0, 2)


async def test_only_an_attempt_in_flight_may_be_billed_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    # What the items say: nothing is sent, an attempt is in flight, one returned, one returned and one is in flight.
    expected = {"": Spending(), "s": Spending(1, 1000, 1.0), "sr": Spending(1), "srs": Spending(1, 1000, 1.0)}
    for item, spent in expected.items():
        with Ledger.open(tmp_path / f"run{item}") as ledger:
            executor = Executor(ledger, Budget(tokens=5000), detached=False)
            asking = asyncio.create_task(executor.ask(Priced(), replace(ASKED, item=item)))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            ledger.flush()
            assert (item, ledger.sum_spent(), ledger.sum_spent("judge")) == (item, spent, spent)
            assert ledger.sum_spent("rubric") == Spending()
        assert not {path.name for path in (tmp_path / f"run{item}").iterdir()} & {
            "departures",
            "arrivals.0",
            "arrivals.1",
        }


@each(("limit", "admitted"), [(2.999, False), (3.0, False), (5.999, False), (6.0, True)])
def test_a_call_that_is_sent_at_a_higher_price_is_covered_with_its_earlier_attempts(
    limit: float, admitted: bool
) -> None:
    async def repriced() -> Failure | None:
        budget = Budget(usd=limit)
        call = await budget.reserve_for(Priced(), ASKED)
        assert isinstance(call, Reservation)
        await call.extend()  # 1 dollar, twice
        refused = None
        try:
            await call.reprice(Priced(0.003).cost)
        except CallError as error:
            refused = error.failure
        assert budget.reserved.cost <= limit
        assert budget.can_cover(Amount.from_dollars(0, limit - budget.reserved.cost))
        assert not budget.can_cover(Amount.from_dollars(0, limit - budget.reserved.cost + 0.001))
        return refused

    refused = asyncio.run(repriced())
    assert (refused is None) == admitted
    assert refused is None or refused.kind == "budget"
