"""Bayesian intervals for rates, under Jeffreys' prior: near their nominal coverage for few labels and rare events.

A rate has the posterior Beta(k + 1/2, n - k + 1/2). A pass rate made of several such rates has a posterior that is
integrated numerically: with x = sin²φ each beta density is a smooth function of φ, for which the midpoint rule is
exact to many digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.metrics.distributions import beta_quantile
from autorubric.metrics.interval import Interval

Array = npt.NDArray[np.float64]

_NODES = 64
_SHARE_NODES = 12
_STEPS = 30
_NEGLIGIBLE = 1e-9
_BEYOND_JEFFREYS = 1.0 / 6.0
"""Added to both counts of a class: 2/3 for Jeffreys' 1/2, with which few labels of a class cover 92 % in places."""


class LabelledCells(NamedTuple):
    """How a judge's verdicts on labelled items stand to the labels.

    Attributes:
        true_met: the judge and the label say MET.
        false_met: the judge says MET, the label UNMET.
        false_unmet: the judge says UNMET, the label MET.
        true_unmet: both say UNMET.

    Example:
        >>> LabelledCells(6, 1, 2, 21).labels
        30
    """

    true_met: int
    false_met: int
    false_unmet: int
    true_unmet: int

    @property
    def labels(self) -> int:
        """How many items are labelled."""
        return sum(self)

    @property
    def judged_met(self) -> int:
        """How many of them the judge calls MET."""
        return self.true_met + self.false_met

    @property
    def met(self) -> int:
        """How many of them are MET."""
        return self.true_met + self.false_unmet


def rate_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Jeffreys' interval for a rate: beta quantiles, open to 0 or 1 where nothing or everything succeeded.

    Source: Brown, Cai and DasGupta, Statistical Science 16 (2001), section 3.

    Example:
        >>> interval = rate_interval(1, 30)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.0036, 0.1454)
    """
    a, b = successes + 0.5, trials - successes + 0.5
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else beta_quantile(tail, a, b)
    high = 1.0 if successes == trials else beta_quantile(1.0 - tail, a, b)
    return Interval(low, high, confidence)


@lru_cache(maxsize=8192)
def split_rate_interval(cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95) -> Interval:
    """The interval of the pass rate q·p₁ + (1 - q)·p₀ that labels and a judge's verdicts on the rest give.

    Args:
        cells: the labelled items.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: of the interval.

    Example:
        >>> interval = split_rate_interval(LabelledCells(2, 1, 0, 27), 60, 600)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.024, 0.152)
    """
    judged = cells.judged_met + rest_met
    share = _posterior(judged, cells.labels + rest - judged, _SHARE_NODES)
    met = _posterior(cells.true_met, cells.false_met, _NODES)
    unmet = _posterior(cells.false_unmet, cells.true_unmet, _NODES)
    q = float(share.values @ share.weights)
    # The wider of the two is interpolated and the narrower summed over, or the steps of the sum would show.
    if q * met.spread >= (1.0 - q) * unmet.spread:
        law = _Mixture(share.values, share.weights, met, unmet)
    else:
        law = _Mixture(1.0 - share.values, share.weights, unmet, met)
    tail = (1.0 - confidence) / 2.0
    return Interval(_crossing(law.below, tail), _crossing(law.below, 1.0 - tail), confidence)


@lru_cache(maxsize=8192)
def shifted_rate_interval(
    cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95
) -> Interval | None:
    """The interval of the pass rate q - over + under: the judge's rate on the rest, shifted by its mean error.

    The shares of labels that the judge calls MET and UNMET in error have a Dirichlet posterior, of which only the
    difference is used, so that the interval is that of prediction-powered inference without tuning.

    Args:
        cells: the labelled items.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: of the interval.

    Returns:
        The interval; None where no rate from 0 to 1 fits such errors.

    Example:
        >>> interval = shifted_rate_interval(LabelledCells(2, 1, 0, 27), 60, 600)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.0, 0.152)
    """
    share = _posterior(rest_met, rest - rest_met, _NODES)
    met_in_error = _posterior(cells.false_met, cells.labels - cells.false_met + 0.5, _NODES)
    unmet_in_error = _posterior(cells.false_unmet, cells.true_met + cells.true_unmet, _NODES)
    over, of_others, weights = _pairs(met_in_error, unmet_in_error)
    error = over - (1.0 - over) * of_others
    return _inverted(lambda rate: float(weights @ share.at_most(rate + error)), confidence)


@lru_cache(maxsize=8192)
def misjudged_rate_interval(
    cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95
) -> Interval | None:
    """The interval of the pass rate π that solves q = π·Se + (1 - π)·(1 - Sp): all rates that fit what was seen.

    A rate fits unless one of q ≤ π·Se + (1 - π)·(1 - Sp) and its opposite has a posterior probability below
    (1 - confidence)/2. This inverts a test, as Fieller's interval of a ratio does, so it needs no judge that
    is surely better than chance: for one that tells nothing it runs from 0 to 1.

    Args:
        cells: the labelled items, drawn at random or by their label.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: of the interval.

    Returns:
        The interval; None where no rate from 0 to 1 fits.

    Example:
        >>> interval = misjudged_rate_interval(LabelledCells(45, 5, 5, 45), 300, 1000)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.128, 0.326)
    """
    extra = _BEYOND_JEFFREYS
    share = _posterior(rest_met, rest - rest_met, _NODES)
    true_rates = _posterior(cells.true_met + extra, cells.false_unmet + extra, _NODES)
    false_rates = _posterior(cells.false_met + extra, cells.true_unmet + extra, _NODES)
    sensitivity, false_rate, weights = _pairs(true_rates, false_rates)

    def below(rate: float) -> float:
        return float(weights @ share.at_most(rate * sensitivity + (1.0 - rate) * false_rate))

    return _inverted(below, confidence)


class _Posterior(NamedTuple):
    values: Array
    weights: Array
    edges: Array
    below: Array
    spread: float

    def at_most(self, points: Array) -> Array:
        """The probability that the rate is at most each of the points."""
        return np.asarray(np.interp(points, self.edges, self.below))


@lru_cache(maxsize=8192)
def _posterior(successes: float, failures: float, nodes: int) -> _Posterior:
    a, b = successes + 0.5, failures + 0.5
    centre, reach = math.asin(math.sqrt(a / (a + b))), 4.5 / math.sqrt(a + b)
    low, high = max(0.0, centre - reach), min(math.pi / 2.0, centre + reach)
    edges = np.linspace(low, high, nodes + 1)
    middle = (edges[1:] + edges[:-1]) / 2.0
    log_density = 2.0 * (successes * np.log(np.sin(middle)) + failures * np.log(np.cos(middle)))
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    below = np.concatenate([[0.0], np.cumsum(weights)])
    spread = math.sqrt(a * b / (a + b + 1.0)) / (a + b)
    return _Posterior(np.sin(middle) ** 2, weights, np.sin(edges) ** 2, below, spread)


def _pairs(x: _Posterior, y: _Posterior) -> tuple[Array, Array, Array]:
    """The values of two rates together, and the weights of those pairs that have any."""
    weights = np.outer(x.weights, y.weights)
    kept = weights > _NEGLIGIBLE * weights.max()
    rows, columns = np.nonzero(kept)
    return x.values[rows], y.values[columns], weights[kept]


class _Mixture:
    """The law of s·x + (1 - s)·y: x interpolated, y and the share s summed over."""

    def __init__(self, shares: Array, share_weights: Array, x: _Posterior, y: _Posterior) -> None:
        self._shares = shares[:, None]
        self._offsets = (1.0 - shares)[:, None] * y.values
        self._weights = share_weights[:, None] * y.weights
        self._x = x

    def below(self, point: float) -> float:
        at = (point - self._offsets) / self._shares
        return float(np.sum(self._weights * self._x.at_most(at)))


def _inverted(below: Callable[[float], float], confidence: float) -> Interval | None:
    """Where a probability that rises from a rate of 0 to a rate of 1 leaves neither tail; None if nowhere."""
    tail = (1.0 - confidence) / 2.0
    least, most = below(0.0), below(1.0)
    if least > 1.0 - tail or most < tail:
        return None
    low = 0.0 if least >= tail else _crossing(below, tail)
    high = 1.0 if most <= 1.0 - tail else _crossing(below, 1.0 - tail)
    return Interval(low, high, confidence)


def _crossing(below: Callable[[float], float], probability: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if below(middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0
