"""An endpoint that has closed for one process holds back the others at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from autorubric.jobs.lending import Lender, Purse
from autorubric.llm.http.limiter import Allowance, Limiter
from autorubric.llm.request import Failure
from autorubric.llm.sharing import Sharing, Sum, sharing
from benchmarks.simulated_limits import AtRandom, Bucket, JumpingLoop, Owner, Run, on_jumping_clock


@dataclass(eq=False)
class Process:
    """The parent's end of a process in this one; words take a millisecond each way."""

    name: Hashable
    loop: asyncio.AbstractEventLoop
    others: list[Process]
    limiter: Limiter = field(init=False)
    owner: Owner = field(default_factory=Owner)

    def __post_init__(self) -> None:
        self.lender = Lender(Purse(Sum(math.inf, math.inf)), lambda: self.others)
        token = sharing.set(Sharing(2, None, self.borrow, self.say))
        self.shared = sharing.get()
        self.limiter = Limiter(self.loop.time)
        self.limiter.join(self.owner, Allowance(100))
        sharing.reset(token)

    async def borrow(self, held: Sum, missing: Sum) -> Sum | None:
        return missing

    def say(self, seconds: float) -> None:
        self.loop.call_later(0.001, self.lender.hear, self, {"refused": seconds})

    def tell(self, **word: Any) -> None:
        assert self.shared is not None
        self.loop.call_later(0.001, self.shared.hold, word["hold"])


def test_refusals_of_one_process_hold_back_the_other_for_as_long() -> None:
    """The first process is refused 12 of 12 requests after 0.1 s, for five seconds; the second never is."""

    async def main(loop: JumpingLoop) -> list[float]:
        found: list[Process] = []
        found += [Process("one", loop, found), Process("other", loop, found)]
        one, other = found
        sent: list[float] = []

        async def refused() -> None:
            place = await one.limiter.acquire()
            await asyncio.sleep(0.1)
            one.limiter.refused(place, 5.0, Failure("rate_limit", "slow down"))
            one.limiter.release()

        async def steady() -> None:
            while loop.time() < 10:
                await other.limiter.acquire()
                sent.append(loop.time())
                await asyncio.sleep(0.05)
                other.limiter.release()

        await asyncio.gather(steady(), *(refused() for _ in range(12)))
        return sent

    sent = on_jumping_clock(main)
    before = [at for at in sent if at < 0.1]
    assert len(before) >= 2
    # The twelve leave within 0.1 s x log2(12 / 5). It stops once eight are refused, and goes on when the endpoint
    # said it would answer again, less the second by which such times are rounded up.
    during = [at for at in sent if 0.25 < at < 3.9]
    assert during == []
    after = [at for at in sent if at >= 3.9]
    assert len(after) > 20


@dataclass(eq=False)
class Hearer:
    """A process that only hears."""

    name: str
    heard: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, **word: Any) -> None:
        self.heard.append(word)


def test_a_refusal_of_one_process_halves_the_rate_of_all_at_its_account_only() -> None:
    """59 requests passed in less than the second that is the least measured time; half of that for two processes."""
    one, other = Hearer("one"), Hearer("other")
    lender = Lender(Purse(Sum(math.inf, math.inf)), lambda: [one, other])
    lender.hear(one, {"traffic": {"a": [59, 0], "b": [100, 0]}})
    assert one.heard == other.heard == []
    lender.hear(one, {"traffic": {"a": [0, 1]}})
    assert one.heard == other.heard == [{"rates": {"a": 59 / 2 / 2}}]


def test_a_process_keeps_to_the_rate_that_it_was_given() -> None:
    """Ten at once before there is a rate, then five a second for ten seconds."""

    async def main(loop: JumpingLoop) -> int:
        found: list[Process] = []
        process = Process("one", loop, found)
        assert process.shared is not None
        sent = 0
        while loop.time() < 10:
            await process.limiter.acquire()
            process.limiter.release()
            sent += 1
            if sent == 10:
                process.shared.renew({"": 5.0})
        return sent

    assert 10 + 50 <= on_jumping_clock(main) <= 10 + 52  # the first and the last one fall on the edges


def test_a_process_that_others_left_no_room_keeps_to_the_shared_rate_and_not_to_its_own() -> None:
    """The others use up the first second; alone, this process would go on at the one request a second it measured."""

    async def main(loop: JumpingLoop) -> list[float]:
        found: list[Process] = []
        process = Process("one", loop, found)
        passed: list[float] = []

        async def calling() -> None:
            while loop.time() < 12:
                place = await process.limiter.acquire()
                await asyncio.sleep(0.05)
                if passed and loop.time() < 1:
                    process.limiter.refused(place, None, Failure("rate_limit", "slow down"))
                else:
                    process.limiter.passed(place)
                    passed.append(loop.time())
                process.limiter.release()

        async def leasing() -> None:
            await asyncio.sleep(0.1)
            assert process.shared is not None
            process.shared.renew({"": 10.0})

        await asyncio.gather(leasing(), *(calling() for _ in range(30)))
        return passed

    passed = on_jumping_clock(main)
    assert 98 <= sum(2 <= at < 12 for at in passed) <= 102


def test_four_processes_use_a_limit_and_little_is_refused() -> None:
    """A limit of 60 a second that is told by nothing but refusals; the first second counts, too."""
    run = Run(Bucket(60, 6), callers=256, seconds=50, latency=0.2, processes=4)
    assert run.passed(0, 50) >= 0.75 * 60 * 50
    assert run.refused(0, 50) <= 0.03 * len(run.log)


def test_a_rate_that_doubled_far_beyond_the_limit_comes_back_at_once() -> None:
    """A bucket of 60 passes a second at twice its rate; the first refusal comes when the rate has just doubled again.

    Then half of it is too fast, too. Returning to nine tenths of it each time refused 8.5 %.
    """
    run = Run(Bucket(60, 60), callers=256, seconds=50, latency=0.2, processes=4, seed=4)
    assert run.passed(0, 50) >= 0.95 * 60 * 50
    assert run.refused(0, 50) <= 0.04 * len(run.log)


def test_four_processes_are_not_held_up_by_refusals_at_random() -> None:
    free, at_random = (Run(AtRandom(share), 64, 20, 0.2, processes=4) for share in (0.0, 0.1))
    assert at_random.passed(0, 20) >= 0.7 * free.passed(0, 20)
