"""What headers say of limits, in the forms that providers use."""

from __future__ import annotations

import pytest

from autorubric.llm.http.quota import Quota, Reading, parse_reset, read_limits
from tests.offenders import each

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z

HEADERS = {
    "OpenAI": (
        {
            "x-ratelimit-limit-requests": "10000",
            "x-ratelimit-remaining-requests": "9999",
            "x-ratelimit-reset-requests": "6ms",
            "x-ratelimit-limit-tokens": "30000",
            "x-ratelimit-remaining-tokens": "28500",
            "x-ratelimit-reset-tokens": "1m30s",
        },
        [Reading("requests", 10000, 9999, 0.006), Reading("tokens", 30000, 28500, 90.0)],
    ),
    "Anthropic": (
        {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:50Z",
            "anthropic-ratelimit-tokens-limit": "40000",
            "anthropic-ratelimit-tokens-remaining": "39000",
            "anthropic-ratelimit-tokens-reset": "2023-11-14T23:13:25+01:00",
        },
        [Reading("requests", 50, 0, 30.0), Reading("tokens", 40000, 39000, 5.0)],
    ),
    "Groq, resets far away": (
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14370",
            "x-ratelimit-reset-requests": "2m59.56s",
        },
        [Reading("requests", 14400, 14370, 120.0)],
    ),
    "plain seconds": (
        {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "2", "x-ratelimit-reset": "12"},
        [Reading("requests", 5, 2, 12.0)],
    ),
    "seconds since the epoch": (
        {"ratelimit-remaining": "2", "ratelimit-reset": "1700000012"},
        [Reading("requests", None, 2, 12.0)],
    ),
    "milliseconds since the epoch": (
        {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000012500"},
        [Reading("requests", 5, 0, 12.5)],
    ),
    "the endpoint's clock is an hour ahead": (
        {
            "Date": "Tue, 14 Nov 2023 23:13:20 GMT",
            "anthropic-ratelimit-requests-remaining": "1",
            "anthropic-ratelimit-requests-reset": "2023-11-14T23:13:30Z",
        },
        [Reading("requests", None, 1, 10.0)],
    ),
    "no reset": ({"x-ratelimit-remaining-requests": "0"}, []),
    "nonsense": ({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, []),
    "negative": ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "1s"}, []),
    "nothing": ({}, []),
}


@each("case", HEADERS)
def test_headers_are_read(case: str) -> None:
    headers, expected = HEADERS[case]
    found = list(read_limits(headers, NOW))
    assert [reading[:3] for reading in found] == [reading[:3] for reading in expected]
    assert [reading.reset for reading in found] == pytest.approx([reading.reset for reading in expected])


@each(
    ("text", "seconds"),
    [
        ("1m30s", 90.0),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("6m0s", 360.0),
        ("0s", 0.0),
        ("59", 59.0),
        ("2023-11-14T22:13:10Z", 0.0),  # past
        ("", None),
        ("soon", None),
        ("1m30", None),
        ("-5", None),
        ("nan", None),
        (None, None),
    ],
)
def test_resets_are_read(text: str | None, seconds: float | None) -> None:
    assert parse_reset(text, NOW) == (None if seconds is None else pytest.approx(seconds))


# A reset of 20 s at 0 s is taken for one at 20.42 s: 2 % and 0.02 s are added for rounding and travel times.


def test_what_is_left_is_spread_over_the_time_to_the_reset_less_what_is_in_flight() -> None:
    quota = Quota()
    first = quota.take(1, now=0.0)
    quota.take(1, now=0.0)
    quota.take(1, now=0.0)
    quota.apply_reading(Reading("requests", 10, 4, 20.0), first, sent_at=0.0)  # 4 left after the first of three
    assert quota.delay(1, now=0.0) == pytest.approx(10.21)
    quota.take(1, now=10.21)
    assert quota.delay(1, now=10.21) == pytest.approx(10.21 - 0.02)  # lateness is made up for
    quota.take(1, now=15.0)
    assert quota.delay(1, now=15.0) == pytest.approx(5.42)  # nothing is left


def test_the_response_to_the_newest_request_counts() -> None:
    for order in (0, 1), (1, 0):
        quota = Quota()
        heard = [(Reading("requests", 10, left, 20.0), quota.take(1, now=0.0)) for left in (1, 5)]
        for one in order:
            quota.apply_reading(*heard[one], sent_at=0.0)
        assert quota.delay(1, now=0.0) == pytest.approx(20.42 / 5)


def test_when_a_window_ends_its_units_come_back_steadily_until_a_response_tells() -> None:
    quota = Quota()
    quota.apply_reading(Reading("tokens", 100, 0, 20.0), quota.take(100, now=0.0), sent_at=0.0)
    assert quota.delay(60, now=5.0) == pytest.approx(15.42)
    assert quota.delay(60, now=20.42) == 0.0
    taken = quota.take(60, now=20.42)
    assert quota.delay(49, now=20.42) == pytest.approx(10.0 - 0.02)  # 98 of 100 tokens in 20 s
    quota.apply_reading(Reading("tokens", 100, 40, 19.0), taken, sent_at=21.0)  # until 40.4 s
    assert quota.delay(20, now=20.4) == pytest.approx(10.0)


def test_what_comes_back_at_once_is_used_at_twice_the_rate_of_the_limit() -> None:
    quota = Quota()
    quota.apply_reading(Reading("requests", 60, 59, 60.0), quota.take(1, now=0.0), sent_at=0.0)
    quota.apply_reading(Reading("requests", 60, 50, 1.0), quota.take(1, now=60.0), sent_at=60.0)
    assert quota.delay(1, now=60.0) == pytest.approx(0.5, abs=0.021)


def test_tokens_are_counted_as_the_endpoint_charges_them() -> None:
    quota = Quota()
    quota.apply_reading(Reading("tokens", 1000, 1000, 20.0), quota.take(100, now=0.0), sent_at=0.0)
    quota.apply_reading(Reading("tokens", 1000, 600, 20.0), quota.take(100, now=0.0), sent_at=0.0)  # 400 for our 100
    assert quota.delay(100, now=0.0) == pytest.approx(20.42 * 400 / 600)


def test_a_request_larger_than_the_window_is_late_and_not_stuck() -> None:
    quota = Quota()
    quota.apply_reading(Reading("tokens", 100, 99, 20.0), quota.take(0.1, now=0.0), sent_at=0.0)
    assert quota.delay(500, now=0.0) == pytest.approx(20.42)
    assert quota.delay(500, now=20.42) == 0.0


def test_past_a_reset_a_limit_that_was_never_stated_holds_nothing_back() -> None:
    quota = Quota()
    quota.apply_reading(Reading("requests", None, 0, 5.0), quota.take(1, now=0.0), sent_at=0.0)
    assert quota.delay(1, now=1.0) == pytest.approx(4.0, abs=0.2)
    quota.take(1, now=5.2)
    assert [quota.delay(1, now=5.2), quota.delay(1, now=5.3)] == [0.0, 0.0]


def test_a_shrinking_rest_is_not_taken_for_the_limit() -> None:
    quota = Quota()
    for sent, left in enumerate((60, 59, 58)):
        quota.apply_reading(Reading("requests", None, left, 60.0), quota.take(1, now=sent), sent_at=sent)
    assert quota.delay(60, now=3.0) > quota.delay(
        58, now=3.0
    )  # 60 are a whole window, which 58 that are left do not have
