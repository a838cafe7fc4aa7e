"""The confidence sequence of a running mean, against the package of its authors and over whole sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autorubric.metrics.confidence_sequence import ConfidenceSequence, _compute_bound
from tests.offenders import each

# gamma_exponential_mixture_bound(v, alpha, v_opt=10, c=1, alpha_opt=alpha) of confseq 0.0.11, built from source.
CONFSEQ = {
    (0.3, 0.3): 3.5035822182508123,
    (0.3, 0.025): 5.73565477164957,
    (1, 0.025): 6.624032581425126,
    (1, 0.001): 10.305583100031072,
    (10, 0.025): 13.008091040401268,
    (100, 0.3): 22.504087785944193,
    (100, 0.025): 37.00890683651323,
    (1000, 0.025): 119.51411990600036,
    (30000, 0.001): 855.4566613470627,
}


def test_the_bound_is_that_of_the_authors_package() -> None:
    for (variance, alpha), expected in CONFSEQ.items():
        assert _compute_bound(variance, alpha) == pytest.approx(expected, rel=1e-8), (variance, alpha)


def test_the_interval_is_the_mean_and_the_bound_over_the_count() -> None:
    sequence = ConfidenceSequence(0.05, 0.0, 1.0)
    assert math.isnan(sequence.mean)
    assert sequence.compute_interval()[:2] == (0.0, 1.0)
    for value in [1.0, 0.0] * 200:
        sequence.add(value)
    # Before each value the mean is predicted as (1/2 + sum) / (1 + count), which misses these values by at least 1/2.
    predicted = [(0.5 + (i + 1) // 2) / (1 + i) for i in range(400)]
    squares = sum(((1 - i % 2) - p) ** 2 for i, p in enumerate(predicted))
    low, high, confidence = sequence.compute_interval()
    assert sequence.mean == 0.5
    assert (low, high, confidence) == pytest.approx((0.5 - reach(squares), 0.5 + reach(squares), 0.95))


def reach(squares: float) -> float:
    return _compute_bound(squares, 0.025) / 400


def test_a_sequence_misses_the_running_average_of_drifting_means_at_most_as_often_as_stated() -> None:
    """100 sequences of 400 values with a drifting mean, looked at 16 times: at most 10 % may miss."""
    looks = {*range(10, 101, 10), *range(150, 401, 50)}
    random = np.random.default_rng(20)
    missed = 0
    for _ in range(100):
        means = np.clip(0.3 + 0.4 * np.cumsum(random.normal(0, 0.05, 400)), 0.05, 0.95)
        values = (random.random(400) < means).astype(float)
        averages, sequence = np.cumsum(means) / np.arange(1, 401), ConfidenceSequence(0.1, 0.0, 1.0)
        held = True
        for count, value in enumerate(values, start=1):
            sequence.add(float(value))
            if held and count in looks:
                low, high, _ = sequence.compute_interval()
                held = low <= averages[count - 1] <= high
        missed += not held
    assert missed <= 10


@each(
    ("make", "message"),
    [
        (lambda: ConfidenceSequence(0.0, 0, 1), "alpha is 0.0"),
        (lambda: ConfidenceSequence(0.05, 1, 1), "range from 1 to 1 is empty"),
        (lambda: ConfidenceSequence(0.05, 0, 1).add(1.5), "1.5 lies outside the range from 0 to 1"),
    ],
)
def test_values_that_cannot_be_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()
