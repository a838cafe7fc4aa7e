"""The learned rate against simulated endpoints, in simulated time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from autorubric.llm.http.pace import Pace, Sent


class Endpoint(Protocol):
    """Says how long a request at time `t` has to wait; 0 lets it pass."""

    def wait(self, t: float) -> float: ...


class Bucket:
    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst, self.level, self.at = rate, burst, burst, 0.0

    def wait(self, t: float) -> float:
        self.level = min(self.burst, self.level + (t - self.at) * self.rate)
        self.at = t
        if self.level < 1:
            return (1 - self.level) / self.rate
        self.level -= 1
        return 0.0


class Fixed:
    """`limit` requests in each window; the first one has begun `late` seconds before the run."""

    def __init__(self, limit: int, window: float, late: float = 0.0) -> None:
        self.limit, self.window, self.late, self.number, self.count = limit, window, late, -1.0, 0

    def wait(self, t: float) -> float:
        number = (t + self.late) // self.window
        if number != self.number:
            self.number, self.count = number, 0
        if self.count >= self.limit:
            return (number + 1) * self.window - t - self.late
        self.count += 1
        return 0.0


class Sliding:
    def __init__(self, limit: int, window: float) -> None:
        self.limit, self.window = limit, window
        self.taken: deque[float] = deque()

    def wait(self, t: float) -> float:
        while self.taken and self.taken[0] <= t - self.window:
            self.taken.popleft()
        if len(self.taken) >= self.limit:
            return self.taken[0] + self.window - t
        self.taken.append(t)
        return 0.0


class AtRandom:
    def __init__(self, share: float, behind: Endpoint | None = None) -> None:
        self.share, self.behind, self.chance = share, behind, random.Random(5)

    def wait(self, t: float) -> float:
        if self.chance.random() < self.share:
            return 0.1
        return self.behind.wait(t) if self.behind else 0.0


class Changing:
    def __init__(self, before: Endpoint, at: float, after: Endpoint) -> None:
        self.before, self.at, self.after = before, at, after

    def wait(self, t: float) -> float:
        return (self.before if t < self.at else self.after).wait(t)


class Simulation:
    """Callers that never rest, an endpoint with a limit, and the pace between them."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        hint: bool = False,
        callers: int = 256,
        seconds: float = 60.0,
        refusal: float = 0.01,
    ) -> None:
        self.endpoint, self.hint, self.seconds, self.refusal = endpoint, hint, seconds, refusal
        self.pace, self.rng = Pace(), random.Random(3)
        self.queue: deque[int] = deque([0] * callers)
        self.events: list[tuple[float, int, str, Any]] = []
        self.log: list[tuple[float, bool]] = []  # when a request arrived, and whether it passed
        self.serial = 0
        self.wake_at = math.inf

    def at(self, t: float, what: str, data: Any = None) -> None:
        self.serial += 1
        heapq.heappush(self.events, (t, self.serial, what, data))

    def run(self) -> Simulation:
        self.at(0.0, "wake")
        while self.events and self.events[0][0] < self.seconds:
            now, _, what, data = heapq.heappop(self.events)
            getattr(self, what)(now, data)
            self.send_what_may_go(now)
        return self

    def wake(self, now: float, _: Any) -> None:
        if now >= self.wake_at:
            self.wake_at = math.inf

    def arrive(self, now: float, data: Any) -> None:
        wait = self.endpoint.wait(now)
        self.log.append((now, wait == 0.0))
        if wait:
            self.at(now + self.refusal * math.exp(self.rng.gauss(0, 0.4)), "refused", (*data, wait))
        else:
            self.at(now + 0.5 * math.exp(self.rng.gauss(0, 0.5)), "answered", data[1])

    def answered(self, now: float, sent: Sent) -> None:
        self.pace.passed(sent, now)
        self.queue.append(0)

    def refused(self, now: float, data: Any) -> None:
        retries, sent, wait = data
        retry_after = float(math.ceil(wait)) if self.hint else None
        self.pace.refused(sent, now, retry_after)
        backoff = self.rng.uniform(0, 0.1 * 2.0 ** min(retries, 6))
        self.at(now + max(backoff, retry_after or 0.0), "again", retries + 1)

    def again(self, now: float, retries: int) -> None:
        self.queue.append(retries)

    def send_what_may_go(self, now: float) -> None:
        while self.queue:
            delay = self.pace.delay(now)
            if delay > 0:
                if now + delay + 0.0005 < self.wake_at - 1e-9:
                    self.wake_at = now + delay + 0.0005
                    self.at(self.wake_at, "wake")
                return
            sent = self.pace.sent(now)
            self.at(now + 0.005 * self.rng.random(), "arrive", (self.queue.popleft(), sent))

    def passed(self, start: float, end: float) -> int:
        return sum(passed for t, passed in self.log if start <= t < end)

    def refusals(self, start: float, end: float) -> int:
        return sum(not passed for t, passed in self.log if start <= t < end)


WINDOWS = [(60, 1.0), (20, 1.0), (600, 10.0), (300, 30.0), (500, 60.0), (3600, 60.0)]
LIMITS: dict[str, Callable[[int, float], Endpoint]] = {
    "fixed windows": Fixed,
    "fixed windows, one half over": lambda limit, window: Fixed(limit, window, 0.6 * window),
    "sliding window": Sliding,
}


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(("limit", "window"), WINDOWS)
@pytest.mark.parametrize("hint", [False, True])
def test_windows_are_used_and_little_is_refused(kind: str, limit: int, window: float, hint: bool) -> None:
    # What comes before the third window is how the limit is found.
    end = max(40.0, 10 * window)
    run = Simulation(LIMITS[kind](limit, window), hint=hint, seconds=end).run()
    start = 2 * window if window > 1 else 5.0
    passed, refused = run.passed(start, end), run.refusals(start, end)
    assert passed >= 0.9 * limit / window * (end - start)
    assert refused <= 0.04 * (passed + refused)


BUCKETS = {"a tenth of a second": 6.0, "one second": 60.0, "three seconds": 180.0, "a minute": 3600.0}


@pytest.mark.parametrize("burst", BUCKETS)
@pytest.mark.parametrize("hint", [False, True])
def test_buckets_are_used_and_little_is_refused(burst: str, hint: bool) -> None:
    run = Simulation(Bucket(60, BUCKETS[burst]), hint=hint, seconds=90).run()
    passed, refused = run.passed(20, 90), run.refusals(20, 90)
    assert passed >= 0.95 * 60 * 70
    assert refused <= 0.03 * (passed + refused)


def test_900_calls_at_300_in_30_seconds_take_little_more_than_three_windows() -> None:
    run = Simulation(Fixed(300, 30.0), callers=64, seconds=100).run()
    assert run.passed(0, 95) >= 900


@pytest.mark.parametrize("share", [0.01, 0.04, 0.1])
@pytest.mark.parametrize(("callers", "refusal"), [(64, 0.01), (256, 0.01), (128, 0.3)])
def test_refusals_at_random_are_no_limit(share: float, callers: int, refusal: float) -> None:
    free = Simulation(AtRandom(0.0), callers=callers).run().passed(0, 60)
    run = Simulation(AtRandom(share), callers=callers, refusal=refusal).run()
    assert run.passed(0, 60) >= 0.8 * free


def test_a_window_is_found_behind_refusals_at_random() -> None:
    run = Simulation(AtRandom(0.1, Fixed(3600, 60.0)), seconds=480).run()
    assert run.passed(120, 480) >= 0.9 * 3600 * 6
    assert run.refusals(120, 480) <= 0.13 * len([t for t, _ in run.log if t >= 120])


@pytest.mark.parametrize(("limit", "window"), [(60, 1.0), (300, 10.0), (1200, 60.0)])
def test_a_raised_limit_is_found_within_a_window(limit: int, window: float) -> None:
    change = 5 * window if window > 1 else 20.0
    found = change + max(window, 10.0)
    run = Simulation(
        Changing(Fixed(limit, window), change, Fixed(2 * limit, window)), seconds=found + 3 * window
    ).run()
    assert run.passed(found, found + 3 * window) >= 0.85 * 2 * limit * 3


@pytest.mark.parametrize(("limit", "window"), [(60, 1.0), (300, 10.0), (1200, 60.0)])
def test_a_lowered_limit_is_found_within_a_window(limit: int, window: float) -> None:
    change = 5 * window if window > 1 else 20.0
    found = change + max(window, 10.0)
    run = Simulation(
        Changing(Fixed(2 * limit, window), change, Fixed(limit, window)), seconds=found + 3 * window
    ).run()
    assert run.passed(found, found + 3 * window) >= 0.85 * limit * 3
    assert run.refusals(found, found + 3 * window) <= 0.06 * 3 * limit


def test_an_endpoint_that_never_refuses_is_never_slowed() -> None:
    pace = Pace()
    for i in range(10_000):
        assert pace.delay(i / 5000) == 0.0
        pace.sent(i / 5000)
    assert pace.rate == math.inf


def test_one_refusal_holds_nobody_else() -> None:
    pace = Pace()
    first, _ = pace.sent(0.0), pace.sent(0.0)
    pace.refused(first, 0.1, retry_after=30.0)
    assert pace.delay(0.1) == 0.0


def test_a_retry_after_stops_everything_at_an_endpoint_that_is_closed() -> None:
    pace = Pace()
    for sent in [pace.sent(0.0) for _ in range(3)]:
        pace.refused(sent, 0.0, retry_after=30.0)
    assert pace.delay(10.0) == 20.0
    assert pace.delay(30.0) == 0.0


def test_a_closed_endpoint_is_tried_with_one_request_at_a_time() -> None:
    pace, now, tried = Pace(), 0.1, 0
    for sent in [pace.sent(0.0) for _ in range(3)]:
        pace.refused(sent, now)
    while now < 60.0:
        now += pace.delay(now)
        sent = pace.sent(now)
        assert pace.delay(now) > 0.0
        now += 0.1
        pace.refused(sent, now)
        tried += 1
    # Gaps of 0.05 s grow by 15 % each: 0.05 (1.15^n - 1) / 0.15 = 60 at n = 37, less for the 0.1 s of each refusal.
    assert 20 <= tried <= 37


def test_a_refusal_that_comes_late_closes_the_endpoint_again() -> None:
    pace = Pace()
    for sent in [pace.sent(0.0) for _ in range(3)]:
        pace.refused(sent, 0.01)
    now = 0.01 + pace.delay(0.01)
    tried = pace.sent(now)
    now += pace.delay(now)
    assert pace.delay(now) == 0.0  # nothing was heard for long enough
    pace.refused(tried, now + 1.0)
    assert pace.delay(now + 1.0) > 0.0


def test_a_refusal_that_took_a_minute_to_arrive_is_taken_into_account() -> None:
    pace = Pace()
    pace.refused(pace.sent(0.0), now=60.0)
    assert pace.delay(60.0) == 0.0
