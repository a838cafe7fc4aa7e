"""Confidence sequences: intervals for a running mean that are simultaneously valid at all sample sizes."""

import math
from dataclasses import dataclass, field

from autorubric.metrics.intervals import Interval

_TIGHTEST = 10.0
"""The sum of squared deviations, in units of the squared range, at which the interval is tightest."""


@dataclass
class ConfidenceSequence:
    """A running mean with an interval that is simultaneously valid at all sample sizes.

    The interval may be checked after every value, and a decision made as soon as it allows one: the probability that
    it *ever* misses the running average of the conditional means is at most `alpha`. The values need not be
    independent or have one mean, but must stay within their range. Each value costs constant time and memory.

    Method: empirical Bernstein with a gamma-exponential mixture, theorem 4 and proposition 9 of Howard, Ramdas,
    McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of
    Statistics 49(2). The package `confseq` of its authors gives the same numbers.

    Attributes:
        alpha: the error probability of the whole sequence, between 0 and 1.
        lowest: the smallest value that can occur.
        highest: the largest value that can occur, above `lowest`.

    Example:
        >>> gaps = ConfidenceSequence(alpha=0.05, lowest=-1.0, highest=1.0)
        >>> for value in [0.1, 0.0, 0.2, 0.1] * 250:
        ...     gaps.add(value)
        >>> interval = gaps.compute_interval()
        >>> gaps.count, round(gaps.mean, 3), round(interval.low, 3), round(interval.high, 3)
        (1000, 0.1, 0.086, 0.114)
    """

    alpha: float
    lowest: float
    highest: float
    count: int = 0
    _total: float = 0.0
    _squares: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; it must lie between 0 and 1")
        if not self.lowest < self.highest:
            raise ValueError(f"the range from {self.lowest} to {self.highest} is empty")

    def add(self, value: float) -> None:
        """Add the next value.

        Raises:
            ValueError: the value lies outside the range.
        """
        if not self.lowest <= value <= self.highest:
            raise ValueError(f"{value} lies outside the range from {self.lowest} to {self.highest}")
        share = (value - self.lowest) / (self.highest - self.lowest)
        predicted = (0.5 + self._total) / (1 + self.count)
        self._squares += (share - predicted) ** 2
        self._total += share
        self.count += 1

    @property
    def mean(self) -> float:
        """The mean of the values so far; NaN without values."""
        return self._scale(self._total / self.count) if self.count else math.nan

    def compute_interval(self) -> Interval:
        """Return the current interval, within the range of the values."""
        if not self.count:
            return Interval(self.lowest, self.highest, 1 - self.alpha)
        share, reach = self._total / self.count, _compute_bound(self._squares, self.alpha / 2) / self.count
        low, high = max(0.0, share - reach), min(1.0, share + reach)
        return Interval(self._scale(low), self._scale(high), 1 - self.alpha)

    def is_above(self, bound: float) -> bool:
        """Return whether the whole interval lies above `bound`; usually far cheaper than computing the interval."""
        excess = self._total - self.count * (bound - self.lowest) / (self.highest - self.lowest)
        # A mixture of martingales is never above the best of them, whose logarithm is at most excess² / (2·squares).
        if excess <= 0 or excess * excess <= 2 * self._squares * math.log(2 / self.alpha):
            return False
        return _log_mixture(excess, self._squares, _find_rho(self.alpha / 2)) > math.log(2 / self.alpha)

    def _scale(self, share: float) -> float:
        """Convert a share of the range to the units of the values."""
        return self.lowest + share * (self.highest - self.lowest)


def _compute_bound(squares: float, alpha: float) -> float:
    """Return a uniform bound: a sum of deviations (in units of the range) ever exceeds it with probability ≤ `alpha`.

    Found by bisection: where the mixture martingale reaches 1 / alpha (Ville 1939).
    """
    rho = _find_rho(alpha)
    target = math.log(1 / alpha)
    low, high = 0.0, 1.0
    while _log_mixture(high, squares, rho) < target:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_mixture(middle, squares, rho) < target else (low, middle)
    return high


def _find_rho(alpha: float) -> float:
    """Return the tuning parameter ρ for which the mixture is tightest at `_TIGHTEST` (`best_rho` of confseq)."""
    doubled = math.log(1 / (2 * alpha)) if alpha < 0.5 else 1e-9
    return _TIGHTEST / (2 * doubled + math.log(1 + 2 * doubled))


def _log_mixture(total: float, squares: float, rho: float) -> float:
    """Return the logarithm of the gamma-exponential mixture martingale of values with range 1."""
    shape, scale = squares + rho, total + squares + rho
    constant = rho * math.log(rho) - math.lgamma(rho) - math.log(_lower_gamma(rho, rho))
    return (
        constant
        + math.lgamma(shape)
        + math.log(_lower_gamma(shape, scale))
        - shape * math.log(scale)
        + total
        + squares
    )


def _lower_gamma(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function for `x` of at least `shape`, by its power series."""
    term = total = 1.0
    step = shape
    while term > 1e-17 * total:
        step += 1
        term *= x / step
        total += term
    return math.exp(shape * math.log(x) - x - math.lgamma(shape + 1)) * total


FIRST = 50
"""Number of values before the first comparison; these are used only as the baseline."""

_SPACING = 1.25


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of the mean after a restart, compared with the mean before it.

    Attributes:
        since: the number of values in the baseline.
        count: the number of all values.
        baseline: the mean of the first `since` values.
        recent: the mean of the later values.
        interval: the interval of the difference between the two.
    """

    since: int
    count: int
    baseline: float
    recent: float
    interval: Interval

    @property
    def mean(self) -> float:
        """The difference."""
        return self.recent - self.baseline


@dataclass(slots=True)
class _Restart:
    """A point in the sequence: count, mean and interval of the values before it, and the sequence after it."""

    since: int
    baseline: float
    before: Interval
    after: ConfidenceSequence


@dataclass
class GrowthSequence:
    """Detects growth of a mean at any time, with one error probability for the whole sequence.

    The null hypothesis: at no restart and no later moment is the average of the conditional means since the restart
    more than `tolerance` above their average before it. Restarts are at values 50, 62, 77, ... (a quarter more each
    time), so that growth that begins late is compared with a baseline that ends shortly before. One confidence
    sequence gives the upper bound of all baselines; the sequence that begins at restart k has the share
    1 / ((k + 1)(k + 2)) of `alpha`. So under the null hypothesis `found` is ever set with a probability of at most
    `alpha`, however long the sequence is.

    Restarting confidence sequences to detect changes is the method of Shekhar and Ramdas (2023), "Sequential
    changepoint detection via backward confidence sequences"; spending alpha over the restarts bounds the probability
    of any false alarm instead of their rate.

    Attributes:
        alpha: the probability of a false alarm, between 0 and 1.
        lowest: the smallest value that can occur.
        highest: the largest value that can occur, above `lowest`.
        tolerance: the growth up to which no alarm is raised.

    Example:
        >>> gaps = GrowthSequence(alpha=0.05, lowest=-1.0, highest=1.0)
        >>> for value in [0.1, 0.0] * 500 + [0.3, 0.2] * 500:
        ...     gaps.add(value)
        >>> gaps.found.count, gaps.found.since, round(gaps.find_growth().mean, 2)
        (1142, 883, 0.18)
    """

    alpha: float
    lowest: float
    highest: float
    tolerance: float = 0.0
    found: Growth | None = None
    whole: ConfidenceSequence = field(init=False)
    _restarts: list[_Restart] = field(default_factory=list)
    _next: int = FIRST

    def __post_init__(self) -> None:
        self.whole = ConfidenceSequence(self.alpha, self.lowest, self.highest)

    def add(self, value: float) -> None:
        """Add the next value; the first one that shows growth sets `found`."""
        self.whole.add(value)
        for restart in self._restarts:
            restart.after.add(value)
            # Restarts continue after the alarm, so that growth can still be estimated.
            if self.found is None and restart.after.is_above(restart.before.high + self.tolerance):
                self.found = self._compare_means(restart)
        if self.whole.count >= self._next:
            self._restart()

    def find_growth(self) -> Growth | None:
        """Return the comparison with the highest lower bound; None before the first restart.

        The probability that any interval ever misses its value is at most twice `alpha`.
        """
        found = [self._compare_means(restart) for restart in self._restarts if restart.after.count]
        return max(found, key=lambda growth: growth.interval.low, default=None)

    def _restart(self) -> None:
        """Start a sequence here, with its share of `alpha`."""
        number = len(self._restarts)
        share = 1 / ((number + 1) * (number + 2))
        after = ConfidenceSequence(self.alpha * share, self.lowest, self.highest)
        self._restarts.append(_Restart(self.whole.count, self.whole.mean, self.whole.compute_interval(), after))
        self._next = math.floor(self.whole.count * _SPACING)

    def _compare_means(self, restart: _Restart) -> Growth:
        """Return the comparison at a restart; both intervals are valid with a probability of 1 − 2·`alpha`."""
        after = restart.after.compute_interval()
        interval = Interval(after.low - restart.before.high, after.high - restart.before.low, 1 - 2 * self.alpha)
        return Growth(restart.since, self.whole.count, restart.baseline, restart.after.mean, interval)
