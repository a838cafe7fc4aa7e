"""Growth of a running mean: the alarm's threshold, false alarms over whole runs, and growth that begins late."""

from __future__ import annotations

import numpy as np

from autorubric.metrics.confidence_sequence import ConfidenceSequence, GrowthSequence
from tests.offenders import each


def gaps(random: np.random.Generator, count: int, growth: float = 0.0) -> np.ndarray:
    """Differences of two judges on ten criteria, of which they see 15 % differently."""
    apart = random.binomial(10, 0.15, count)
    return np.asarray((2 * random.binomial(apart, 0.5) - apart) / 10 + growth)


def test_the_quick_test_agrees_with_the_interval() -> None:
    random = np.random.default_rng(3)
    sequence = ConfidenceSequence(0.01, -1.0, 1.0)
    for value in gaps(random, 600, 0.2):
        sequence.add(float(value))
        low = sequence.compute_interval().low
        assert not sequence.is_above(low + 1e-6)
        assert low == -1.0 or sequence.is_above(low - 1e-6)


def test_the_alarm_is_the_first_interval_that_lies_above_that_of_its_baseline() -> None:
    random = np.random.default_rng(4)
    values = [float(value) for value in [*gaps(random, 100), *gaps(random, 200, 0.5)]]
    watched = GrowthSequence(0.05, -1.0, 1.0, tolerance=0.1)
    for value in values:
        watched.add(value)
    assert watched.found is not None
    # Restart k (from 0) has alpha / ((k + 1)(k + 2)); the baseline has alpha itself.
    starts = [50, 62, 77, 96, 120, 150, 187, 233, 291]
    expected: list[tuple[int, int]] = []
    for number, start in enumerate(starts):
        before = ConfidenceSequence(0.05, -1.0, 1.0)
        after = ConfidenceSequence(0.05 / ((number + 1) * (number + 2)), -1.0, 1.0)
        for value in values[:start]:
            before.add(value)
        high = before.compute_interval().high
        for count, value in enumerate(values[start:], start + 1):
            after.add(value)
            if after.compute_interval().low > high + 0.1:
                expected.append((count, start))
                break
    assert (watched.found.count, watched.found.since) == min(expected)


def test_a_mean_that_does_not_grow_raises_the_alarm_in_fewer_runs_than_stated() -> None:
    """120 runs of 600 values at an alpha of 20 %, with an offset, and with a mean that falls: at most 24 alarms."""
    random = np.random.default_rng(5)
    alarms = 0
    for run in range(120):
        watched = GrowthSequence(0.2, -1.0, 1.0)
        values = gaps(random, 600, 0.1)
        if run % 2:
            values = values - np.linspace(0.0, 0.2, 600)
        for value in values:
            watched.add(float(value))
        alarms += watched.found is not None
    assert alarms <= 24


@each("start", [300, 3000])
def test_growth_is_found_whenever_it_begins_and_the_tolerance_is_not_growth(start: int) -> None:
    random = np.random.default_rng(6)
    values = [*gaps(random, start, 0.1), *gaps(random, 1500, 0.25)]
    found = []
    for tolerance in (0.0, 0.2):
        watched = GrowthSequence(0.05, -1.0, 1.0, tolerance)
        for value in values:
            watched.add(float(value))
        found.append(watched.found)
    growth, tolerated = found
    assert growth is not None and growth.count > start
    assert growth.since <= 1.1 * start and tolerated is None
