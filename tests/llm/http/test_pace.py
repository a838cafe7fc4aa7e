"""The learned rate against simulated endpoints, in simulated time."""

from __future__ import annotations

import math
from statistics import median

import pytest

from autorubric.llm.http.pace import Pace
from autorubric.testing import RateWindow
from benchmarks.simulated_limits import (
    LIMITS_AT_RANDOM,
    AtRandom,
    Case,
    Changing,
    Charging,
    RandomCase,
    Run,
    endpoint_of,
    measured_at_random,
)
from tests.offenders import each

# Kind, window, what a 429 tells, callers, latency. Short windows are run for longer than ten of them.
CASES = [
    Case("fixed", 1.0, "nothing", 256, 0.05, 60.0),
    Case("fixed", 1.0, "headers", 64, 0.3, 20.0),
    Case("fixed", 10.0, "Retry-After", 64, 0.3, 20.0),
    Case("fixed", 10.0, "headers", 256, 0.05, 20.0),
    Case("fixed", 60.0, "nothing", 256, 0.3, 20.0),
    Case("fixed", 60.0, "headers", 256, 0.3, 20.0),
    Case("late", 1.0, "nothing", 256, 0.3, 60.0),
    Case("late", 10.0, "headers", 64, 2.0, 20.0),
    Case("late", 60.0, "Retry-After", 256, 0.3, 20.0),
    Case("sliding", 1.0, "Retry-After", 256, 0.3, 60.0),
    Case("sliding", 10.0, "nothing", 256, 0.3, 60.0),
    Case("sliding", 10.0, "headers", 256, 0.3, 20.0),
    Case("sliding", 60.0, "nothing", 256, 0.3, 20.0),
    Case("sliding", 60.0, "headers", 64, 0.3, 20.0),
    Case("bucket", 10.0, "Retry-After", 64, 0.3, 20.0),
    Case("bucket", 60.0, "nothing", 64, 0.3, 20.0),
]


@each("case", CASES)
def test_from_the_second_window_on_a_limit_is_used_and_little_is_refused(case: Case) -> None:
    endpoint, rate = endpoint_of(case)
    start, end = case.window, max(60.0, 6 * case.window)
    run = Run(endpoint, case.callers, end, case.latency)
    passed, refused = run.passed(start, end), run.refused(start, end)
    assert passed >= 0.9 * rate * (end - start)
    assert refused <= 0.03 * (passed + refused)


# Requests of different sizes are refused one by one near the limit, which costs more of them without headers.
@each(("headers", "most_refused"), [(False, 0.04), (True, 0.03)])
def test_a_limit_on_tokens_is_kept_though_requests_differ(headers: bool, most_refused: float) -> None:
    # Requests take 100 to 1900 tokens, 1000 on average: 200 requests in each window of 10 s.
    window = RateWindow(tokens=200_000, seconds=10.0, ratelimit_headers=headers)
    runs = [Run(window.open(), 64, 80, 0.3, tokens=lambda rng: rng.randint(100, 1900), seed=n) for n in (3, 4)]
    passed, refused = (sum(getattr(run, what)(10, 80) for run in runs) for what in ("passed", "refused"))
    assert passed >= 0.9 * 200 * 7 * len(runs)
    assert refused <= most_refused * (passed + refused)


@each("share", [0.1, 0.3, 1.0, 5.0])
def test_a_limit_on_tokens_is_used_though_the_endpoint_charges_another_number(share: float) -> None:
    # The endpoint's headers show what it charges: a tenth to five times what callers expect; 600 requests in 10 s.
    window = RateWindow(tokens=round(600 * 320 * share), seconds=10.0, ratelimit_headers=True)
    run = Run(Charging(window.open(), share), 256, 60, 0.3, tokens=lambda rng: 320)
    passed, refused = run.passed(10, 60), run.refused(10, 60)
    assert passed >= 0.9 * 600 * 5
    assert refused <= 0.03 * (passed + refused)


def test_900_calls_at_300_in_30_seconds_take_little_more_than_three_windows() -> None:
    run = Run(RateWindow(300, seconds=30.0).open(), callers=64, seconds=95)
    assert run.passed(0, 95) >= 900


@each("used", [50, 55])
def test_a_minute_of_which_others_have_used_a_part_does_not_hold_the_next_ones_back(used: int) -> None:
    """The first measurement sees what is left of 60; raised once in 10 requests, 80 calls took 5 to 10 minutes."""
    minute = RateWindow(60, seconds=60.0).open()
    for _ in range(used):
        minute.admit(0.0, 1)
    run = Run(minute, callers=80, seconds=240, latency=0.3)
    assert run.passed(0, 240) >= 80
    assert run.refused(0, 240) <= 65


@each(("callers", "latency"), [(16, 0.05), (64, 0.3), (256, 2.0)])
def test_one_refusal_in_ten_at_random_costs_less_than_a_fifth(callers: int, latency: float) -> None:
    free = Run(AtRandom(0.0), callers, 20, latency).passed(0, 20)
    assert Run(AtRandom(0.1), callers, 20, latency).passed(0, 20) >= 0.8 * free


def test_a_window_is_found_behind_refusals_at_random() -> None:
    limited = RateWindow(1200, seconds=60.0).open()
    run = Run(AtRandom(0.1, limited), seconds=300)
    assert run.passed(120, 300) >= 0.9 * 1200 * 3
    assert run.refused(120, 300) <= 0.13 * len([at for at, _ in run.log if at >= 120])


# The most of refusals at random at each limit, and few of them where a bucket and where a window is short.
@each(
    ("limit", "share"), [*((limit, 0.05) for limit in LIMITS_AT_RANDOM), ("bucket 0.1 s", 0.01), ("fixed 1 s", 0.01)]
)
def test_refusals_at_random_in_front_of_a_limit_do_not_hold_a_run_back(limit: str, share: float) -> None:
    """A bucket of 0.1 s was used to a median of 9 % when 5 % were refused at random; the start counts, too."""
    found = [measured_at_random(RandomCase(limit, share, 1, 2))]
    if found[0][0] < 0.8 or found[0][1] > 0.04:  # one run says little near the limits
        found += [measured_at_random(RandomCase(limit, share, 1, seed)) for seed in (1, 3)]
    used, refused = zip(*found, strict=True)
    assert median(used) >= 0.75
    assert median(refused) <= 0.05


LIMITS = [(60, 1.0), (300, 10.0), (1200, 60.0)]


@pytest.mark.parametrize(("limit", "window"), LIMITS)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_changed_limit_is_found_within_a_window(limit: int, window: float, factor: float) -> None:
    change = 5 * window if window > 1 else 20.0
    before, after = (RateWindow(round(n), seconds=window).open() for n in (limit, factor * limit))
    found = change + max(window, 10.0)
    end = found + 2 * window
    run = Run(Changing(before, change, after), seconds=end)
    assert run.passed(found, end) >= 0.85 * factor * limit * 2
    assert run.refused(found, end) <= 0.06 * 2 * factor * limit


def test_a_withdrawn_request_does_not_open_a_closed_endpoint() -> None:
    pace = Pace()
    for sent in [pace.record_sent(0.0) for _ in range(8)]:
        pace.record_refused(sent, 0.01)
    now = 0.01 + pace.delay(0.01)
    pace.record_withdrawn(pace.record_sent(now))
    tried = pace.record_sent(now)  # another one tries at once
    assert pace.delay(now) > 0.0
    pace.record_refused(tried, now + 0.01)
    assert pace.delay(now + 0.01) > 0.0
    assert pace.rate == math.inf


def test_an_endpoint_that_never_refuses_is_slowed_for_less_than_half_a_second() -> None:
    """Ten requests at once, and twice as many in each further tenth of a second: 256 after 0.1 s x log2(25.6)."""
    pace, now = Pace(), 0.0
    for _ in range(256):
        now += pace.delay(now)
        pace.record_sent(now)
    assert now == pytest.approx(0.1 * math.log2(25.6))
    for i in range(10_000):
        assert pace.delay(1 + i / 5000) == 0.0
        pace.record_sent(1 + i / 5000)
    assert pace.rate == math.inf


def test_each_reply_lets_two_more_requests_go() -> None:
    pace = Pace()
    for sent in [pace.record_sent(0.0) for _ in range(10)]:
        pace.record_accepted(sent, 0.0)
    delays = [pace.delay(0.0) for _ in range(21) if pace.record_sent(0.0)]
    assert delays == [0.0] * 19 + [pytest.approx(0.1 * math.log2(n / 10)) for n in (11, 12)]


def test_one_refusal_holds_nobody_else() -> None:
    pace = Pace()
    first, _ = pace.record_sent(0.0), pace.record_sent(0.0)
    pace.record_refused(first, 0.1, retry_after=30.0)
    assert pace.delay(0.1) == 0.0


def test_a_retry_after_stops_everything_at_an_endpoint_that_is_closed() -> None:
    pace = Pace()
    for sent in [pace.record_sent(0.0) for _ in range(8)]:
        pace.record_refused(sent, 0.0, retry_after=30.0)
    assert pace.delay(10.0) == 19.0  # the last second may be rounding
    assert pace.delay(29.0) == 0.0


def test_a_closed_endpoint_is_tried_with_one_request_at_a_time() -> None:
    pace, now, tried = Pace(), 0.1, 0
    for sent in [pace.record_sent(0.0) for _ in range(8)]:
        pace.record_refused(sent, now)
    while now < 60.0:
        now += pace.delay(now)
        sent = pace.record_sent(now)
        assert pace.delay(now) > 0.0
        now += 0.1
        pace.record_refused(sent, now)
        tried += 1
    # Gaps of 0.05 s grow by 15 % each: 0.05 (1.15^n - 1) / 0.15 = 60 at n = 37, less for the 0.1 s of each refusal.
    assert 20 <= tried <= 37


def test_a_refusal_that_comes_late_closes_the_endpoint_again() -> None:
    pace = Pace()
    for sent in [pace.record_sent(0.0) for _ in range(8)]:
        pace.record_refused(sent, 0.01)
    now = 0.01 + pace.delay(0.01)
    tried = pace.record_sent(now)
    now += pace.delay(now)
    assert pace.delay(now) == 0.0  # nothing was heard for long enough
    pace.record_refused(tried, now + 1.0)
    assert pace.delay(now + 1.0) > 0.0


def test_a_refusal_that_took_a_minute_to_arrive_is_taken_into_account() -> None:
    pace = Pace()
    pace.record_refused(pace.record_sent(0.0), now=60.0)
    assert pace.delay(60.0) == 0.0
