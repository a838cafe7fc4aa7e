"""Several processes that call one endpoint go at one pace, which their parent learns from all of them."""

from __future__ import annotations

import asyncio
import math
import subprocess
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from autorubric.jobs.lending import Lender, SharedBudget
from autorubric.jobs.talk import Talk
from autorubric.llm.billing import Reservation
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.http.limiter import Allowance, Limiter
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Message, Request
from autorubric.llm.sharing import Amount, Sharing, sharing
from autorubric.testing import ScriptedModel
from benchmarks.simulated_limits import AtRandom, Bucket, Changing, JumpingLoop, Owner, Queue, Run, on_jumping_clock
from tests.offenders import offenders
from tests.warm_commands import forked_python

SLOW_DOWN = Failure("rate_limit", "slow down")


def two_processes(loop: JumpingLoop) -> tuple[Queue, Queue]:
    """Two processes; words take five milliseconds each way."""
    found: list[Queue] = []
    lender = Lender(SharedBudget(Amount(math.inf, math.inf)), lambda: found, clock=loop.time)
    one, other = (Queue(number, loop, lender, processes=2) for number in range(2))
    found += [one, other]
    for process in found:
        process.limiter.join(process.owner, Allowance(100))
    return one, other


async def refuse(process: Queue, count: int, retry_after: float | None = None) -> None:
    """Let an endpoint refuse as many requests of a process, 0.1 s after each."""

    async def refused() -> None:
        place = await process.limiter.acquire()
        await asyncio.sleep(0.1)
        process.limiter.note_refused(place, retry_after, SLOW_DOWN)
        process.limiter.release()

    await asyncio.gather(*(refused() for _ in range(count)))


def test_refusals_of_one_process_hold_back_the_other_for_as_long() -> None:
    """The first process is refused 12 of 12 requests after 0.1 s, for five seconds; the second never is."""

    async def main(loop: JumpingLoop) -> list[float]:
        one, other = two_processes(loop)
        sent: list[float] = []

        async def steady() -> None:
            while loop.time() < 20:
                place = await other.limiter.acquire()
                sent.append(loop.time())
                await asyncio.sleep(0.05)
                other.limiter.note_accepted(place)
                other.limiter.release()

        await asyncio.gather(steady(), refuse(one, 12, 5.0))
        return sent

    sent = on_jumping_clock(main)
    before = [at for at in sent if at < 0.1]
    assert len(before) >= 2
    # The twelve leave within 0.1 s x log2(12 / 5). It stops once eight are refused, and goes on when the endpoint
    # said it would answer again, less the second by which such times are rounded up. A few requests passed in those
    # four seconds, all processes together, and that is the first rate.
    during = [at for at in sent if 0.25 < at < 3.9]
    assert during == []
    after = [at for at in sent if at >= 3.9]
    assert len(after) > 20


async def borrow(held: Amount, missing: Amount) -> Amount | None:
    """As much as is asked for."""
    return missing


@dataclass(eq=False)
class Hearer:
    """A process that only hears."""

    name: str
    heard: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, **word: Any) -> None:
        self.heard.append(word)


def test_once_one_process_has_found_a_limit_all_need_permits_at_its_account_only() -> None:
    """One permit at a time tries whether the endpoint is open again; processes take turns."""

    async def main(loop: JumpingLoop) -> None:
        one, other = Hearer("one"), Hearer("other")
        lender = Lender(SharedBudget(Amount(math.inf, math.inf)), lambda: [one, other], clock=loop.time)
        sent = [[-n, 0.1] for n in range(1, 21)]
        lender.read_message(one, {"traffic": {"a": {"sent": sent}, "b": {"sent": sent, "passed": [-1]}}})
        lender.read_message(other, {"traffic": {"a": {"sent": sent}}})
        assert one.heard == other.heard == []
        lender.read_message(one, {"traffic": {"a": {"refused": [[-n, None] for n in range(1, 13)]}}})
        assert one.heard == other.heard == [{"permits": {"a": []}}]
        for process in (one, other):
            process.heard.clear()
            lender.read_message(process, {"traffic": {"a": {"wanted": 2}}})
        await asyncio.sleep(0.3)
        assert (one.heard, other.heard) == ([{"permits": {"a": [1]}}], [])
        lender.read_message(one, {"traffic": {"a": {"refused": [[1, None]]}}})
        await asyncio.sleep(0.3)
        assert (len(one.heard), other.heard) == (1, [{"permits": {"a": [2]}}])

    on_jumping_clock(main)


def test_permits_of_a_process_that_ended_are_not_waited_for() -> None:
    async def main(loop: JumpingLoop) -> None:
        one, other = Hearer("one"), Hearer("other")
        lender = Lender(SharedBudget(Amount(math.inf, math.inf)), lambda: [one, other], clock=loop.time)
        sent = [[-n, 0.1] for n in range(1, 13)]
        lender.read_message(one, {"traffic": {"a": {"sent": sent, "refused": [[n, None] for n, _ in sent]}}})
        for process in (one, other):
            lender.read_message(process, {"traffic": {"a": {"wanted": 1}}})
        await asyncio.sleep(0.3)
        assert one.heard == [{"permits": {"a": []}}, {"permits": {"a": [1]}}]
        lender.drop(one)
        lender.read_message(other, {"traffic": {"a": {"withdrawn": []}}})
        await asyncio.sleep(0.3)
        assert other.heard == [{"permits": {"a": []}}, {"permits": {"a": [2]}}]

    on_jumping_clock(main)


def test_a_process_sends_as_many_requests_as_it_has_permits() -> None:
    """Ten at once before a limit has shown, then as many as it is given, whatever its own pace has learned."""

    async def main(loop: JumpingLoop) -> list[float]:
        told: list[dict[str, Any]] = []
        shared = Sharing(2, None, borrow, told.append)
        token = sharing.set(shared)
        limiter = Limiter(loop.time, account="a")
        sharing.reset(token)
        owner, sent = Owner(), list[float]()
        limiter.join(owner, Allowance(100))

        async def call() -> None:
            place = await limiter.acquire()
            sent.append(loop.time())
            if len(sent) <= 2:
                limiter.note_refused(place, None, SLOW_DOWN)
            else:
                limiter.note_accepted(place)
            limiter.release()

        await asyncio.gather(*(call() for _ in range(10)))
        shared.pass_permits({"a": []})
        waiting = [loop.create_task(call()) for _ in range(10)]
        for number in range(1, 8):
            await asyncio.sleep(0.1)
            shared.pass_permits({"a": [number]})
        await asyncio.sleep(1)
        for task in waiting:
            task.cancel()
        assert sum(word["a"].get("wanted", 0) for word in told) == 10
        return sent[10:]

    assert [round(at, 1) for at in on_jumping_clock(main)] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_four_processes_use_a_limit_and_little_is_refused() -> None:
    """A limit of 60 a second that is told by nothing but refusals; the first second counts, too."""
    run = Run(Bucket(60, 6), callers=256, seconds=50, latency=0.2, processes=4)
    assert run.passed(0, 50) >= 0.9 * 60 * 50
    assert run.refused(0, 50) <= 0.03 * len(run.log)


def test_a_full_bucket_does_not_hide_its_rate_for_long() -> None:
    """A bucket of 60 passes a second at twice its rate before it refuses anything."""
    run = Run(Bucket(60, 60), callers=256, seconds=50, latency=0.2, processes=4, seed=4)
    assert run.passed(0, 50) >= 0.95 * 60 * 50
    assert run.refused(0, 50) <= 0.04 * len(run.log)


def test_four_processes_are_not_held_up_by_refusals_at_random() -> None:
    free, at_random = (Run(AtRandom(share), 64, 20, 0.2, processes=4) for share in (0.0, 0.1))
    assert at_random.passed(0, 20) >= 0.7 * free.passed(0, 20)


def test_four_processes_use_a_limit_behind_refusals_at_random() -> None:
    """One in twenty is refused whatever the rate; the worst of 20 seeds of halved rates used 20 %."""
    endpoint = AtRandom(0.05, Bucket(60, 6))
    run = Run(endpoint, callers=256, seconds=100, latency=0.2, processes=4)
    assert run.passed(0, 100) >= 0.75 * 60 * 100
    assert run.refused(0, 100) - endpoint.refused <= 0.05 * len(run.log)


def test_four_processes_find_a_raised_limit() -> None:
    run = Run(Changing(Bucket(30, 3), 30.0, Bucket(60, 6)), callers=256, seconds=80, latency=0.2, processes=4)
    assert run.passed(50, 80) >= 0.9 * 60 * 30


class Spender:
    """A process with its own budget, and a talk with the parent in this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.talk = Talk(lambda word: self.lender.read_message(self, word))
        self.lender = Lender(SharedBudget(Amount()), list)

    def tell(self, **word: Any) -> None:
        asyncio.get_running_loop().call_soon(self.talk.receive, word)

    def open(self, lender: Lender, base: Path | None = None) -> Budget:
        """Its budget, which lives on what it borrows; call it in a context of its own."""
        self.lender = lender
        self.talk.share(2, base)
        return Budget(tokens=100)


async def test_a_process_waits_for_what_calls_of_the_others_leave_and_makes_every_call_that_fits() -> None:
    one, other = Spender("one"), Spender("other")
    lender = Lender(SharedBudget(Amount(100, math.inf), processes=2), lambda: [one, other])
    first = copy_context().run(one.open, lender)
    second = copy_context().run(other.open, lender)
    held = await first.reserve(Reservation(first, Amount.from_dollars(80)))
    assert isinstance(held, Reservation)
    waiting = [
        asyncio.create_task(second.reserve(Reservation(second, Amount.from_dollars(need)))) for need in (95, 60, 50)
    ]
    await asyncio.sleep(0.3)
    assert not any(one.done() for one in waiting)  # 20 are left, and the call of the first may turn out cheaper
    first.settle(held, Amount.from_dollars(30))  # 70 are left
    fits = await waiting[2]
    assert isinstance(fits, Reservation)
    second.settle(fits, Amount.from_dollars(45))  # 25 are left
    refused = [await waiting[0], await waiting[1]]
    assert ["25 is neither spent nor reserved" in str(one) for one in refused] == [True, True]


async def test_what_a_process_gave_back_while_it_waited_for_more_is_there_for_all() -> None:
    one, other = Spender("one"), Spender("other")
    lender = Lender(SharedBudget(Amount(100, math.inf), processes=2), lambda: [one, other])
    first = copy_context().run(one.open, lender)
    second = copy_context().run(other.open, lender)
    ended = await first.reserve(Reservation(first, Amount.from_dollars(40)))
    assert isinstance(ended, Reservation)
    first.settle(ended, Amount.from_dollars(10))
    running = await first.reserve(Reservation(first, Amount.from_dollars(5)))
    assert isinstance(running, Reservation)
    waiting = [
        asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(95))))
        for budget in (second, first)
    ]
    await asyncio.sleep(0.3)  # the first has 25 to spare, which it gives back while its own request waits
    first.settle(running, Amount.from_dollars(5))
    assert ["85 is neither spent nor reserved" in str(await one) for one in waiting] == [True, True]


async def test_a_process_asks_for_more_again_once_a_call_of_its_own_was_given_back() -> None:
    one, other = Spender("one"), Spender("other")
    lender = Lender(SharedBudget(Amount(100, math.inf), processes=2), lambda: [one, other])
    first = copy_context().run(one.open, lender)
    second = copy_context().run(other.open, lender)
    held, elsewhere = (
        await first.reserve(Reservation(first, Amount.from_dollars(70))),
        await second.reserve(Reservation(second, Amount.from_dollars(5))),
    )
    assert isinstance(held, Reservation) and isinstance(elsewhere, Reservation)
    second.settle(elsewhere, Amount.from_dollars(5))
    waiting = asyncio.create_task(
        first.reserve(Reservation(first, Amount.from_dollars(90)))
    )  # 25 are left, and no other call may leave more
    await asyncio.sleep(0.1)
    first.give_back(held)  # 95 are left, but only a part of them is lent to this process
    assert isinstance(await waiting, Reservation)


async def test_two_processes_do_not_take_back_forever_what_is_lent_for_their_smaller_calls() -> None:
    one, other = Spender("one"), Spender("other")
    lender = Lender(SharedBudget(Amount(100, math.inf), processes=2), lambda: [one, other])
    budgets = [copy_context().run(spender.open, lender) for spender in (one, other)]

    async def spend(budget: Budget) -> list[Reservation | Failure]:
        large = asyncio.create_task(budget.reserve(Reservation(budget, Amount.from_dollars(105))))
        await asyncio.sleep(0)
        small = await budget.reserve(Reservation(budget, Amount.from_dollars(60)))
        if isinstance(small, Reservation):
            budget.settle(small, Amount.from_dollars(20))
        return [small, await large]

    async with asyncio.timeout(5):
        ended = await asyncio.gather(*map(spend, budgets))
    assert [[type(outcome) for outcome in outcomes] for outcomes in ended] == 2 * [[Reservation, Failure]]


async def test_what_a_killed_process_asked_for_is_not_lent_to_its_successor() -> None:
    """The successor asks for 30 of 100 itself; the parent must not forget 70 that it lent to it before."""
    one, other = Hearer("one"), Hearer("other")
    lender = Lender(SharedBudget(Amount(100, math.inf)), lambda: [one, other])
    lender.read_message(other, {"borrow": [[0, 0], [60, 0]]})
    await asyncio.sleep(0)
    lender.read_message(one, {"borrow": [[0, 0], [70, 0]]})  # waits for what the other can spare
    await asyncio.sleep(0)
    lender.drop(one)
    lender.read_message(other, {"gave": [60, 0], "more": False})
    await asyncio.sleep(0.01)
    lender.read_message(one, {"borrow": [[0, 0], [30, 0]]})
    await asyncio.sleep(0.01)
    assert [word["lent"] for word in one.heard if "lent" in word] == [Amount(30, 0)]
    assert lender.purse.compute_left().tokens == 70


async def test_all_processes_are_told_what_a_loan_leaves() -> None:
    one, other = Hearer("one"), Hearer("other")
    lender = Lender(SharedBudget(Amount(100, math.inf)), lambda: [one, other])
    lender.read_message(one, {"borrow": [[0, 0], [30, 0]]})
    await asyncio.sleep(0.01)
    assert other.heard == [{"left": Amount(70, math.inf)}]


async def test_a_process_that_has_ended_is_lent_nothing_that_it_asked_for_before() -> None:
    one, other = Hearer("one"), Hearer("other")
    lender = Lender(SharedBudget(Amount(100, math.inf)), lambda: [one, other])
    for borrower, missing in ((other, 60), (one, 70)):
        lender.read_message(borrower, {"borrow": [[0, 0], [missing, 0]]})
        await asyncio.sleep(0)
    lender.read_message(one, {"end": {}, "spare": [0, 0]})
    lender.read_message(other, {"gave": [60, 0], "more": False})
    await asyncio.sleep(0.01)
    assert lender.purse.compute_left().tokens == 100


async def test_a_process_without_a_reply_ends_the_run_unless_another_had_one_or_the_items_failed_before(
    tmp_path: Path,
) -> None:
    """Five requests without a reply, of four attempts each, are more than 16 attempts: the fourth ends the run."""
    why = Failure("server", "m: HTTP 500: 'boom' (4 attempts)", status=500, attempts=4)
    requests = [Request((Message("user", item),), "judge", item=item) for item in "abcde"]

    async def ask(model: ScriptedModel, folder: Path) -> list[Failure | Answer[str]]:
        with Ledger.open(folder) as ledger:
            executor = Executor(ledger, detached=False)
            if folder.parent.name == "readmitted":
                executor.readmit()
            return [await executor.ask_for(model, one, lambda reply: Answer(reply.text, reply)) for one in requests]

    dead = ScriptedModel(lambda request: why, name="m")
    await asyncio.gather(asyncio.create_task(ask(dead, tmp_path / "earlier"), context=Context()))
    cases = {"alone": ("x", None, True), "another had a reply": ("m", None, False), "again": ("x", "earlier", False)}
    cases["readmitted"] = ("m", None, True)  # as a service does every minute: the endpoint may have died since
    with offenders() as case:
        for name, (answered, base, is_ended) in cases.items():
            one, other = Spender("one"), Spender("other")
            lender = Lender(SharedBudget(Amount(), processes=2), partial(list, (one, other)))
            contexts = copy_context(), copy_context()
            for process, context in zip((one, other), contexts, strict=True):
                context.run(process.open, lender, None if base is None else tmp_path / base)
            alive = ScriptedModel(lambda request: "Yes.", name=answered)
            works = [(alive, contexts[0]), (dead, contexts[1])]
            with case(name):
                for number, (model, context) in enumerate(works):
                    work = ask(model, tmp_path / name / str(number))
                    found = await asyncio.create_task(work, context=context)
                said = [str(one) for one in found if isinstance(one, Failure)]
                assert said[:4] == [str(why)] * 4  # the one that ends the run has its own cause too
                last = "m: the first 4 judge requests ended without a usable reply; the last: HTTP 500: 'boom'"
                assert said[4] == (f"stopped: {last} (4 attempts)" if is_ended else str(why))
                assert [isinstance(one, Failure) and one.ends_run for one in found] == 3 * [False] + 2 * [is_ended]


_ENDS_FIRST = """
import sys, threading
from autorubric.jobs.talk import run_ordered

closed = threading.Event()

async def work(talk, order):
    talk.listen(lambda word: None, closed.set, 60.0)
    return {}

run_ordered(work)
print("over", file=sys.stderr, flush=True)
closed.wait(60)
"""


def test_a_message_that_comes_after_the_work_of_a_process_is_ignored() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([forked_python(), "-c", _ENDS_FIRST], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b'{"order": 1}\n')
        process.stdin.flush()
        assert process.stderr.readline() == b"over\n"
        process.stdin.write(b'{"usable": ["a", "b"]}\n')
        process.stdin.close()
        assert process.stderr.read() == b""
