"""The limiter under a clock that jumps from event to event, so that minutes take milliseconds."""

from __future__ import annotations

import asyncio

import pytest

from autorubric.cli.command import run as run_command
from autorubric.llm.http.limiter import Allowance, Bucket, Limiter, Slots
from autorubric.llm.http.negotiation import Gate
from autorubric.llm.request import CallError, Failure
from autorubric.llm.sharing import turn
from benchmarks.simulated_limits import JumpingLoop, Owner, on_jumping_clock


def limiter_on(loop: JumpingLoop, allowance: Allowance) -> Limiter:
    limiter = Limiter(loop.time)
    limiter.owner = Owner()  # type: ignore[attr-defined]
    limiter.join(limiter.owner, allowance)  # type: ignore[attr-defined]
    return limiter


def test_places_are_given_in_the_order_of_asking() -> None:
    async def main(loop: JumpingLoop) -> list[int]:
        limiter, order = limiter_on(loop, Allowance(3)), []

        async def call(number: int) -> None:
            await limiter.acquire()
            order.append(number)
            await asyncio.sleep(1 + number % 3)
            limiter.release()

        await asyncio.gather(*(call(i) for i in range(30)))
        assert limiter.in_flight == 0
        return order

    assert on_jumping_clock(main) == list(range(30))


def test_queues_that_share_places_take_turns_and_count_nothing_as_sent_while_they_wait() -> None:
    async def main(loop: JumpingLoop) -> list[tuple[float, int]]:
        slots, sent = Slots(1), []
        queues = [Limiter(loop.time, [slots]) for _ in range(2)]
        owner = Owner()
        for queue in queues:
            queue.join(owner, Allowance(5))

        async def call(which: int) -> None:
            place = await queues[which].acquire()
            assert place.sent.at == loop.time()
            sent.append((loop.time(), which))
            await asyncio.sleep(1)
            queues[which].release()

        await asyncio.gather(*(call(which) for which in (0, 0, 0, 1, 1, 1)))
        assert slots.take(loop, lambda: None, 0)
        return sent

    assert on_jumping_clock(main) == [(0.0, 0), (1.0, 0), (2.0, 1), (3.0, 0), (4.0, 1), (5.0, 1)]


def test_a_free_place_goes_to_the_call_for_what_was_begun_first_in_whichever_queue_it_waits() -> None:
    async def main(loop: JumpingLoop) -> list[int]:
        slots, order = Slots(1), list[int]()
        queues, owner = [Limiter(loop.time, [slots]) for _ in range(2)], Owner()
        for queue in queues:
            queue.join(owner, Allowance(5))

        async def call(which: int, begun: int) -> None:
            turn.set(begun)
            await queues[which].acquire()
            order.append(begun)
            await asyncio.sleep(1)
            queues[which].release()

        await asyncio.gather(
            *(call(which, begun) for which, begun in ((0, 9), (0, 6), (0, 3), (1, 5), (1, 1), (0, 4)))
        )
        return order

    assert on_jumping_clock(main) == [9, 1, 3, 4, 5, 6]  # the first one found the place free


def test_a_cancelled_waiter_leaves_no_trace() -> None:
    async def main(loop: JumpingLoop) -> None:
        limiter = limiter_on(loop, Allowance(1))
        await limiter.acquire()
        waiters = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(1)
        waiters[0].cancel()
        limiter.release()  # gives the place to the second ...
        waiters[1].cancel()  # ... who is cancelled before it can use it
        await asyncio.wait(waiters, timeout=5)
        assert [w.cancelled() for w in waiters] == [True, True, False]
        limiter.release()
        assert limiter.in_flight == 0

    on_jumping_clock(main)


def test_no_minute_holds_more_requests_than_allowed() -> None:
    async def main(loop: JumpingLoop) -> list[float]:
        limiter, times = limiter_on(loop, Allowance(50, requests_per_minute=120)), []
        for _ in range(400):
            await limiter.acquire()
            times.append(loop.time())
            limiter.release()
        return times

    times = on_jumping_clock(main)
    busiest = max(sum(1 for t in times if start <= t < start + 60) for start in times)
    assert busiest <= 120
    # 400 requests at 120 a minute need about 200 s; a tenth more is tolerated.
    assert 190 <= times[-1] <= 220


def test_waits_below_a_millisecond_hold_on_the_loop_of_commands_too() -> None:
    async def main() -> int:
        limiter, owner = Limiter(), Owner()
        limiter.join(
            owner, Allowance(8, requests_per_minute=120_000)
        )  # 2,000 at once, then one in half a millisecond

        async def call() -> None:
            await limiter.acquire()
            await asyncio.sleep(0)
            limiter.release()

        await asyncio.gather(*(call() for _ in range(2_200)))
        return limiter.in_flight

    assert run_command(main()) == 0


def test_tokens_that_were_not_used_are_given_back() -> None:
    async def main(loop: JumpingLoop) -> tuple[float, float]:
        times = []
        for off in (0, 900):
            limiter, start = limiter_on(loop, Allowance(50, tokens_per_minute=6000)), loop.time()
            for _ in range(20):
                await limiter.acquire(1000)
                limiter.release(off)
            times.append(loop.time() - start)
        return times[0], times[1]

    full, mostly_returned = on_jumping_clock(main)
    # 20 x 1000 tokens at 6000 a minute: near 200 s. A tenth of it when 900 of 1000 come back.
    assert 170 <= full <= 210
    assert mostly_returned <= 30


def test_a_request_larger_than_the_limit_is_late_and_not_stuck() -> None:
    bucket = Bucket(600, now=0.0)
    assert bucket.delay(100_000, now=0.0) == 0.0
    bucket.take(100_000, now=0.0)
    assert bucket.delay(1, now=1.0) > 60


def test_the_strictest_limit_counts_until_its_owner_leaves() -> None:
    limiter, one, two = Limiter(lambda: 0.0), Owner(), Owner()
    limiter.join(one, Allowance(64))
    limiter.join(two, Allowance(4))
    assert limiter.limit == 4
    limiter.leave(two)
    assert limiter.limit == 64


def test_an_endpoint_that_answers_too_late_gets_fewer_requests_at_once_and_stays_busy() -> None:
    """Two slots of a second: 20 replies in a timeout of 10 s, so 10 at once wait for 5 s.

    100 calls take 50 s, and those that a timeout breaks off in their slot at most another timeout.
    """

    async def main(loop: JumpingLoop) -> tuple[int, float, int]:
        limiter, slots = limiter_on(loop, Allowance(64)), asyncio.Semaphore(2)

        async def call() -> int:
            for attempts in range(1, 7):
                place = await limiter.acquire()
                try:
                    async with asyncio.timeout(10), slots:
                        await asyncio.sleep(1)
                    limiter.note_accepted(place)
                    limiter.note_reply()
                    return attempts
                except TimeoutError:
                    limiter.withdraw(place)
                    limiter.note_timeout(place)
                finally:
                    limiter.release()
            raise AssertionError("no reply after 6 attempts")

        tries = await asyncio.gather(*(call() for _ in range(100)))
        return max(tries), loop.time(), limiter.limit

    tries, seconds, limit = on_jumping_clock(main)
    assert (tries, 50 <= seconds <= 60, 10 <= limit <= 20) == (2, True, True)


def test_a_limit_without_any_reply_is_halved_once_for_all_requests_of_a_timeout() -> None:
    now = 0.0
    limiter, owner = Limiter(lambda: now), Owner()
    limiter.join(owner, Allowance(8))
    places = [asyncio.run(limiter.acquire()) for _ in range(8)]
    limiter.in_flight, now = 8, 10.0
    for place in places:
        limiter.note_timeout(place)
    assert limiter.limit == 4
    for _ in range(5):  # 4 + 1/4 + 1/4.25 + 1/4.49 + 1/4.71 + 1/4.92 = 5.12
        limiter.note_reply()
    assert limiter.limit == 5


def test_the_timeout_of_a_request_that_was_alone_lowers_no_limit() -> None:
    limiter, owner = Limiter(lambda: 0.0), Owner()
    limiter.join(owner, Allowance(8))
    limiter.note_timeout(asyncio.run(limiter.acquire()))
    assert limiter.limit == 8


def test_a_stricter_limit_of_tokens_counts_from_when_it_comes_and_another_limit_fills_no_bucket() -> None:
    """6,000 tokens a minute are 100 at once, then 100 a second; 600 are 10 at once, then 591 in 60 s."""

    async def main(loop: JumpingLoop) -> list[float]:
        limiter, other, sent = limiter_on(loop, Allowance(9, None, 6000)), Owner(), []
        for tokens, joined in (
            (100, None),
            (100, Allowance(9, 6000, None)),
            (10, Allowance(9, None, 600)),
            (10, None),
        ):
            if joined is not None:
                limiter.join(other, joined)
            await limiter.acquire(tokens)
            sent.append(loop.time())
            limiter.release()
        return sent

    first, second, *rest = on_jumping_clock(main)
    assert first == 0.0 and second == pytest.approx(100 / (5901 / 60), abs=0.01)
    assert [at - second for at in rest] == pytest.approx([0.0, 10 / (591 / 60)], abs=0.01)


def test_who_waits_for_a_minute_goes_earlier_once_the_limit_is_raised() -> None:
    """Of two who wait, one leaves as soon as 30 a minute are allowed, and the other 2 s later."""

    async def main(loop: JumpingLoop) -> list[float]:
        limiter, strict, sent = limiter_on(loop, Allowance(9, 30)), Owner(), []
        limiter.join(strict, Allowance(9, 1))

        async def call() -> None:
            await limiter.acquire()
            sent.append(loop.time())

        calls = [loop.create_task(call()) for _ in range(3)]
        await asyncio.sleep(1)
        limiter.leave(strict)
        await asyncio.gather(*calls)
        return sent

    assert on_jumping_clock(main) == pytest.approx([0.0, 1.0, 3.0], abs=0.01)


def test_waiters_of_a_dead_event_loop_are_forgotten() -> None:
    limiter, owner = Limiter(), Owner()
    limiter.join(owner, Allowance(1))

    async def leave_things_behind() -> None:
        await limiter.acquire()
        asyncio.get_running_loop().create_task(limiter.acquire())
        await asyncio.sleep(0)

    async def work() -> int:
        await limiter.acquire()
        return limiter.in_flight

    asyncio.run(leave_things_behind())
    assert asyncio.run(work()) == 1


def test_a_gate_lets_one_ahead_and_hands_over_when_it_leaves() -> None:
    async def main(loop: JumpingLoop) -> None:
        gate = Gate()
        assert await gate.enter()
        second = asyncio.create_task(gate.enter())
        await asyncio.sleep(1)
        assert not second.done()
        gate.leave()
        assert await second
        gate.open()
        assert not await gate.enter()

    on_jumping_clock(main)


def test_a_gate_turns_those_who_wait_away_with_the_failure() -> None:
    async def main(loop: JumpingLoop) -> None:
        gate = Gate()
        await gate.enter()
        waiter = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        gate.refuse(Failure("auth", "wrong key"))
        with pytest.raises(CallError, match="wrong key"):
            await waiter
        assert await gate.enter()
        gate.leave()

    on_jumping_clock(main)
