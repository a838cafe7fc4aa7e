from __future__ import annotations

from random import Random
from statistics import median

import pytest

from autorubric.errors import ConfigError
from autorubric.testing import Latency
from tests.offenders import each


def test_a_fixed_latency_is_the_same_for_every_call() -> None:
    latency = Latency.parse("fixed:0.2")
    assert {latency.sample(Random(seed)) for seed in range(20)} == {0.2}


def test_a_lognormal_latency_has_the_median_it_was_given() -> None:
    # The median of 4,001 draws of ln N(ln 0.2, 0.8) has a standard error of about
    # 0.2 * 0.8 * 1.25 / sqrt(4001) = 0.003; 0.015 is five of them.
    random = Random(7)
    drawn = [Latency.parse("lognormal:0.2,0.8").sample(random) for _ in range(4001)]
    assert median(drawn) == pytest.approx(0.2, abs=0.015)


def test_the_slow_share_takes_the_slow_time_and_the_rest_does_not() -> None:
    # 10,000 draws at 2 %: 200 expected, standard deviation 14; five of them are 70.
    random = Random(1)
    drawn = [Latency.parse("fixed:0+0.02@20").sample(random) for _ in range(10_000)]
    assert set(drawn) == {0.0, 20.0}
    assert abs(drawn.count(20.0) - 200) < 70


def test_the_same_seed_draws_the_same_latencies() -> None:
    latency = Latency.parse("lognormal:0.1,0.5+0.1@3")
    first, second = Random(3), Random(3)
    assert [latency.sample(first) for _ in range(50)] == [latency.sample(second) for _ in range(50)]


@each("text", ["", "0.2", "fixed:", "fixed:-1", "lognormal:0.2", "fixed:1+2@3", "fixed:1+0.1"])
def test_another_form_is_an_error_that_shows_the_right_ones(text: str) -> None:
    with pytest.raises(ConfigError, match="is not 'fixed:SECONDS' or 'lognormal:MEDIAN,SIGMA'"):
        Latency.parse(text)
