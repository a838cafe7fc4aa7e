"""The learned rate against simulated endpoints, in simulated time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from autorubric.llm.http.pace import Pace
from autorubric.llm.http.retry import Backoff
from autorubric.llm.http.traffic import Traffic


class Endpoint(Protocol):
    """Says whether a request at time `t` passes."""

    def takes(self, t: float) -> bool: ...


class TokenBucket:
    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst, self.level, self.at = rate, burst, burst, 0.0

    def takes(self, t: float) -> bool:
        self.level = min(self.burst, self.level + (t - self.at) * self.rate)
        self.at = t
        if self.level < 1:
            return False
        self.level -= 1
        return True


class FixedWindow:
    def __init__(self, per_second: int) -> None:
        self.per_second, self.second, self.count = per_second, -1, 0

    def takes(self, t: float) -> bool:
        if int(t) != self.second:
            self.second, self.count = int(t), 0
        self.count += 1
        return self.count <= self.per_second


class SlidingWindow:
    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self.taken: deque[float] = deque()

    def takes(self, t: float) -> bool:
        while self.taken and self.taken[0] <= t - 1:
            self.taken.popleft()
        if len(self.taken) >= self.per_second:
            return False
        self.taken.append(t)
        return True


class Simulation:
    """Callers that never rest, an endpoint with a limit, and the pace between them."""

    def __init__(self, endpoint: Endpoint, retry_after: float | None, calls: int, callers: int) -> None:
        self.endpoint, self.retry_after, self.left = endpoint, retry_after, calls - callers
        self.pace, self.rng, self.backoff = Pace(), random.Random(3), Backoff(1.0, 60.0)
        self.queue: deque[int] = deque([0] * callers)
        self.events: list[tuple[float, int, str, Any]] = []
        self.log: list[tuple[float, bool]] = []  # when a request arrived, and whether it passed
        self.serial = 0
        self.wake_at = math.inf

    def at(self, t: float, what: str, data: Any = None) -> None:
        self.serial += 1
        heapq.heappush(self.events, (t, self.serial, what, data))

    def run(self) -> list[tuple[float, bool]]:
        self.at(0.0, "wake")
        while self.events:
            now, _, what, data = heapq.heappop(self.events)
            getattr(self, what)(now, data)
            self.send_what_may_go(now)
        return self.log

    def wake(self, now: float, _: Any) -> None:
        if now >= self.wake_at:
            self.wake_at = math.inf

    def arrive(self, now: float, data: Any) -> None:
        passed = self.endpoint.takes(now)
        self.log.append((now, passed))
        latency = 0.2 * math.exp(self.rng.gauss(0, 0.5)) if passed else 0.01
        self.at(now + latency, "answered" if passed else "refused", data)

    def answered(self, now: float, _: Any) -> None:
        if self.left:
            self.left -= 1
            self.queue.append(0)

    def refused(self, now: float, data: Any) -> None:
        retries, sent_at = data
        self.pace.refused(sent_at, now, self.retry_after)
        self.at(now + self.backoff.wait(retries, self.retry_after, self.rng), "again", retries + 1)

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
            self.pace.sent(now)
            self.at(now + 0.005 * self.rng.random(), "arrive", (self.queue.popleft(), now))


ENDPOINTS: dict[str, Callable[[], Endpoint]] = {
    "fixed window": lambda: FixedWindow(60),
    "sliding window": lambda: SlidingWindow(60),
    "bucket of a tenth of a second": lambda: TokenBucket(60, 6),
    "bucket of one second": lambda: TokenBucket(60, 60),
    "bucket of three seconds": lambda: TokenBucket(60, 180),
}


@pytest.mark.parametrize("retry_after", [None, 1.0])
@pytest.mark.parametrize("kind", ENDPOINTS)
def test_after_warming_up_few_are_refused_and_little_is_wasted(kind: str, retry_after: float | None) -> None:
    log = Simulation(ENDPOINTS[kind](), retry_after, calls=6000, callers=256).run()
    warm = [(t, passed) for t, passed in log if 10 <= t < log[-1][0] - 5]
    seconds = warm[-1][0] - warm[0][0]
    assert sum(not passed for _, passed in warm) <= 0.03 * len(warm)
    assert sum(passed for _, passed in warm) >= 0.95 * 60 * seconds
    assert sum(passed for _, passed in log) == 6000


def test_an_endpoint_that_never_refuses_is_never_slowed() -> None:
    pace = Pace()
    for i in range(10_000):
        assert pace.delay(i / 5000) == 0.0
        pace.sent(i / 5000)
    assert pace.rate == math.inf


def test_a_first_refusal_before_any_success_leaves_a_usable_rate() -> None:
    pace = Pace()
    pace.sent(0.0)
    pace.refused(0.0, 0.1)
    assert 0 < pace.delay(0.1) <= 1.0
    assert pace.delay(1.2) == 0.0
    pace.sent(1.2)
    assert pace.delay(1.2) <= 0.5


def test_the_rate_climbs_again_when_the_limit_is_gone() -> None:
    pace, now = Pace(), 0.0
    for _ in range(100):
        pace.sent(0.0)
    for _ in range(90):
        pace.refused(0.0, 0.1)
    for _ in range(40 * 100):
        now += 0.01
        if pace.delay(now) == 0.0:
            pace.sent(now)
    assert pace.rate > 100


def test_a_retry_after_stops_everything_even_where_no_rate_is_known() -> None:
    pace = Pace()
    pace.sent(0.0)
    pace.refused(0.0, 0.0, retry_after=30.0)
    assert pace.delay(10.0) == 20.0


def at_a_known_rate() -> tuple[Pace, float]:
    """A pace that has just got its first rate: 99 of 100 requests passed within a second."""
    pace = Pace()
    for _ in range(100):
        pace.sent(0.0)
    pace.refused(0.0, 0.0)
    assert pace.delay(1.0) == 0.0
    assert pace.delay(7.0) == 0.0
    return pace, 7.0


def test_one_refusal_at_a_known_rate_holds_nobody_else() -> None:
    pace, now = at_a_known_rate()
    rate = pace.rate
    pace.sent(now)
    pace.refused(now, now + 0.1, retry_after=1.0)
    assert pace.delay(now + 0.1) == 0.0
    assert pace.rate == rate >= 97


def test_many_refusals_hold_all_for_a_moment_that_becomes_longer_while_they_go_on() -> None:
    pace, now = at_a_known_rate()
    stops: list[float] = []
    while len(stops) < 5:
        now += pace.delay(now)
        pace.sent(now)
        pace.refused(now, now, retry_after=1.0)
        if pace.delay(now) > 1 / pace.rate:
            stops.append(pace.delay(now))
    assert stops == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])


@pytest.mark.parametrize(("share", "least"), [(0.01, 150), (0.04, 10)])
def test_refusals_that_have_nothing_to_do_with_the_rate_do_not_choke_it(share: float, least: float) -> None:
    class AtRandom:
        chance = random.Random(5)

        def takes(self, t: float) -> bool:
            return self.chance.random() >= share

    # Without refusals 64 callers at 0.23 s a call make 280 a second. A pace that takes each refusal for a limit
    # ends at 40 and at less than 1.
    log = Simulation(AtRandom(), 1.0, calls=6000, callers=64).run()
    assert 6000 / log[-1][0] >= least


def test_a_refusal_that_takes_longer_than_the_memory_of_refusals_is_forgotten() -> None:
    # A proxy that retries by itself answers 429 after a while: the request left long before the refusals that count.
    traffic = Traffic()
    traffic.sent(0.0)
    traffic.refused(0.0, now=60.0)
    assert not traffic.shows_a_limit(now=60.0)
