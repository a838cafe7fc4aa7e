import math
from itertools import product

import pytest

from autorubric.metrics.intervals import beta_cdf, normal_quantile, t_p_value, t_quantile
from tests.offenders import each
from tests.oracles import stats

DEGREES = (1, 2, 3.7, 29, 500, 1e5, 1e7, 1e12)


@each(("t", "df"), product((-40.0, -3.0, -0.1, 0.0, 1e-9, 1.0, 2.2, 12.0), DEGREES))
def test_tails_of_students_t_are_those_of_scipy(t: float, df: float) -> None:
    assert t_p_value(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-9)


@each(("probability", "df"), product((0.001, 0.025, 0.4, 0.5, 0.9, 0.975, 0.9999), DEGREES))
def test_quantiles_of_students_t_are_those_of_scipy(probability: float, df: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(stats.t.ppf(probability, df), rel=1e-9)


@each(("probability", "a", "b"), product((0.001, 0.025, 0.5, 0.975), (0.5, 1, 3.25, 200), (0.5, 2, 1000)))
def test_the_beta_distribution_is_that_of_scipy(probability: float, a: float, b: float) -> None:
    quantile = stats.beta.ppf(probability, a, b)
    assert beta_cdf(quantile, a, b) == pytest.approx(probability, rel=1e-9)


def test_the_normal_distribution_is_that_of_scipy() -> None:
    for probability in (1e-6, 0.025, 0.5, 0.995):
        assert normal_quantile(probability) == pytest.approx(stats.norm.ppf(probability), rel=1e-9, abs=1e-15)
    for z in (-8.0, 0.0, 1.3, 30.0):
        assert t_p_value(z, math.inf) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)


def test_an_infinite_statistic_has_no_tail_and_quantiles_of_infinite_degrees_are_normal() -> None:
    assert t_p_value(math.inf, 3) == 0.0
    assert t_quantile(0.975, math.inf) == pytest.approx(normal_quantile(0.975))
