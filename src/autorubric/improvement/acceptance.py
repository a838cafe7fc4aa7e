"""The acceptance test of a change: paired differences by group, a jackknife interval, a permutation test, Holm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autorubric.metrics.arrays import Floats, Ints, ratio
from autorubric.metrics.intervals import Interval, adjust_p_values, normal_quantile, t_p_value, t_quantile
from autorubric.metrics.jackknife import jackknife_variance

Statistic: TypeAlias = Callable[[Floats], Floats]
"""Maps sums (…, m) to a statistic (…), higher is better; NaN where it is undefined."""

_MOST_EXACT = 12
_DRAWS = 4999
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Pairs:
    """The old and the new version on the same items, as sums by group.

    Attributes:
        old: the sums under the old version, groups × m.
        new: the sums under the new version, groups × m.
        statistic: the compared statistic, a function of sums over groups.

    Example:
        >>> right = Pairs.from_items(np.array([[1, 0], [1, 1]]), np.array([[1, 1], [1, 1]]), np.array([0, 1]), share)
        >>> right.difference
        0.5
    """

    old: Floats
    new: Floats
    statistic: Statistic

    @classmethod
    def from_items(cls, old: Floats, new: Floats, groups: Ints, statistic: Statistic) -> Pairs:
        """Sum items by group; the first sum is a count, and items with a count of 0 are left out."""
        counted = (old[:, 0] > 0) | (new[:, 0] > 0)
        old, new, groups = old[counted], new[counted], groups[counted]
        _, places = np.unique(groups, return_inverse=True)
        size = int(places.max()) + 1 if len(places) else 0
        sums = [np.zeros((size, old.shape[1])) for _ in range(2)]
        for found, items in zip(sums, (old, new), strict=True):
            np.add.at(found, places, items)
        return cls(sums[0], sums[1], statistic)

    def __len__(self) -> int:
        return len(self.old)

    @property
    def before(self) -> float:
        """The statistic of the old version."""
        return float(self.statistic(self.old.sum(axis=0)))

    @property
    def after(self) -> float:
        """The statistic of the new version."""
        return float(self.statistic(self.new.sum(axis=0)))

    @property
    def difference(self) -> float:
        """The gain: new − old."""
        return self.after - self.before

    @property
    def changed(self) -> int:
        """The number of groups on which the two versions differ."""
        return int((np.abs(self.new - self.old).max(axis=1, initial=0.0) > _ROUNDING).sum())


def share(sums: Floats) -> Floats:
    """Return the mean of a quantity, from the sums (count, quantity).

    Example:
        >>> float(share(np.array([4.0, 3.0])))
        0.75
    """
    return ratio(sums[..., 1], sums[..., 0])


def standard_error(pairs: Pairs) -> float:
    """Compute the standard error of the difference by a jackknife that leaves out one group at a time.

    NaN with fewer than two groups, or if leaving one out makes the statistic undefined.
    """
    if len(pairs) < 2:
        return math.nan
    new, old = (pairs.statistic(sums.sum(axis=0) - sums) for sums in (pairs.new, pairs.old))
    return math.sqrt(jackknife_variance(new - old))


def compute_interval(pairs: Pairs, confidence: float) -> Interval | None:
    """Return the confidence interval of the difference: Student's t with (groups − 1) degrees of freedom."""
    error = standard_error(pairs)
    if math.isnan(error) or math.isnan(pairs.difference):
        return None
    reach = t_quantile(0.5 + confidence / 2.0, len(pairs) - 1) * error
    return Interval(pairs.difference - reach, pairs.difference + reach, confidence)


def compute_permutation_p_value(pairs: Pairs, seed: int = 0) -> float:
    """Return the two-sided p-value of a permutation test over groups: exact up to 12 groups, else 4,999 draws.

    Old and new are exchanged group by group. Groups on which they do not differ are left out.
    """
    moves = pairs.new - pairs.old
    moves = moves[np.abs(moves).max(axis=1, initial=0.0) > _ROUNDING]
    if math.isnan(pairs.difference):
        return 1.0
    count = len(moves)
    if count <= _MOST_EXACT:
        swapped = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    else:
        swapped = np.random.default_rng(seed).integers(0, 2, (_DRAWS, count))
    shift = swapped.astype(float) @ moves
    drawn = pairs.statistic(pairs.new.sum(axis=0) - shift) - pairs.statistic(pairs.old.sum(axis=0) + shift)
    hits = int((~(np.abs(drawn) < abs(pairs.difference) - _ROUNDING)).sum())
    return hits / 2**count if count <= _MOST_EXACT else (hits + 1) / (_DRAWS + 1)


def compute_p_value(pairs: Pairs, seed: int = 0) -> float:
    """Return the larger p-value of the t test behind the interval and the permutation test: both must be significant.

    Example:
        >>> old, new = np.array([[1.0, 0.0]] * 5), np.array([[1.0, 1.0]] * 5)
        >>> compute_p_value(Pairs(old, new, share))
        0.0625
    """
    error = standard_error(pairs)
    if math.isnan(error) or math.isnan(pairs.difference) or pairs.difference == 0.0:
        return 1.0
    by_t = 0.0 if error == 0.0 else t_p_value(pairs.difference / error, len(pairs) - 1)
    return max(by_t, compute_permutation_p_value(pairs, seed))


@dataclass(frozen=True)
class AcceptanceDecision:
    """The evidence of the test set about one candidate.

    Attributes:
        accepted: whether the new version replaces the old one.
        pairs: the compared pairs.
        interval: the interval of the difference, at the level that Holm's method gives this candidate.
        p_value: see `compute_p_value`.
        p_holm: adjusted for all candidates that were tested.
        missed_by: the distance of the interval's lower end below 0; None if it is above 0.
        reason: why the old version stays; empty if the new one was accepted.
    """

    accepted: bool
    pairs: Pairs
    interval: Interval | None
    p_value: float
    p_holm: float
    missed_by: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values; undefined numbers are None."""
        numbers = {name: getattr(self.pairs, name) for name in ("before", "after", "difference")}
        numbers |= {"p_value": self.p_value, "p_holm": self.p_holm}
        return {
            "accepted": self.accepted,
            **{name: None if math.isnan(value) else value for name, value in numbers.items()},
            "interval": None if self.interval is None else [self.interval.low, self.interval.high],
            "confidence": None if self.interval is None else self.interval.confidence,
            "groups": len(self.pairs),
            "changed": self.pairs.changed,
            "missed_by": self.missed_by,
            "reason": self.reason,
        }


def decide_all(tested: Mapping[str, Pairs], confidence: float = 0.95, seed: int = 0) -> dict[str, AcceptanceDecision]:
    """Decide which of the candidates that were tested together are accepted.

    A candidate is accepted if its gain is above 0 and its p-value, adjusted for all candidates by Holm's method, is
    at most 1 − confidence. Its interval then lies above 0 at the level that Holm leaves for it.

    Args:
        tested: the pairs of each candidate, by its name.
        confidence: the family-wise confidence level of all candidates.
        seed: the seed of the permutation test.
    """
    p_values = {name: compute_p_value(pairs, seed) for name, pairs in tested.items()}
    adjusted = dict(zip(tested, adjust_p_values(list(p_values.values())), strict=True))
    order = sorted(tested, key=lambda name: p_values[name])
    alpha, found = 1.0 - confidence, dict[str, AcceptanceDecision]()
    for rank, name in enumerate(order):
        pairs, p_holm = tested[name], float(adjusted[name] or 0.0)
        level = 1.0 - alpha / (len(order) - rank)
        found[name] = _make_decision(pairs, compute_interval(pairs, level), p_values[name], p_holm, alpha)
    return {name: found[name] for name in tested}


def _make_decision(
    pairs: Pairs, interval: Interval | None, p_value: float, p_holm: float, alpha: float
) -> AcceptanceDecision:
    accepted = pairs.difference > 0.0 and p_holm <= alpha
    reason = "" if accepted else _explain_rejection(pairs, interval, p_holm, alpha)
    low = None if interval is None else interval.low
    missed = None if accepted or low is None or low > 0.0 else 0.0 - low
    return AcceptanceDecision(accepted, pairs, interval, p_value, p_holm, missed, reason)


def _explain_rejection(pairs: Pairs, interval: Interval | None, p_holm: float, alpha: float) -> str:
    if interval is None:
        return "the difference is undefined on these items"
    if pairs.difference <= 0.0:
        return f"no gain: {pairs.difference:+.3f}"
    if interval.low <= 0.0:
        return f"the interval of the gain {pairs.difference:+.3f} starts at {interval.low:+.3f}, not above 0"
    return f"the permutation test is not significant: adjusted p-value {p_holm:.3f}, above {alpha:.3g}"


def count_least_changed(confidence: float = 0.95) -> int:
    """Return the minimum number of groups that must improve for the permutation test to accept one candidate.

    Example:
        >>> count_least_changed(0.95), count_least_changed(0.99)
        (6, 8)
    """
    return math.ceil(math.log2(2.0 / (1.0 - confidence)) - _ROUNDING)


_POWER = 0.8
"""The power for which numbers of items are computed: the chance that a true gain is accepted."""


def estimate_items_needed(gain: float, changing: float) -> int:
    """Estimate the independent test items that show a gain in agreement at 95 % (Connor 1987, paired proportions).

    Args:
        gain: the true gain, in (0, 1].
        changing: the share of items whose correctness changes; at least the gain.

    Example:
        >>> estimate_items_needed(0.15, 0.25), estimate_items_needed(0.3, 0.35)
        (85, 29)
    """
    changing = min(max(changing, gain), 1.0)
    at_level, at_power = normal_quantile(0.975), normal_quantile(_POWER)
    spread = at_level * math.sqrt(changing) + at_power * math.sqrt(max(changing - gain * gain, 0.0))
    return max(math.ceil((spread / gain) ** 2), count_least_changed())


def estimate_groups_needed(decision: AcceptanceDecision) -> int | None:
    """Estimate the independent groups needed to show the measured gain four times in five, if it is real.

    None without a gain, or if this test shows it.

    Uses the measured spread: the standard error shrinks with the root of the number of groups.

    Example:
        >>> old, new = np.zeros((100, 2)), np.zeros((100, 2))
        >>> old[:, 0] = new[:, 0] = 1
        >>> new[:10, 1] = 1
        >>> half = t_quantile(0.975, 99) * 0.05  # a standard error of 0.05 on 100 groups
        >>> found = Interval(0.1 - half, 0.1 + half, 0.95)
        >>> tested = AcceptanceDecision(False, Pairs(old, new, share), found, 0.06, 0.06, None)
        >>> estimate_groups_needed(tested)  # (2.802 * 0.5 / 0.1) ** 2
        197
    """
    interval, gain = decision.interval, decision.pairs.difference
    if interval is None or not gain > 0.0 or decision.p_value <= 1.0 - interval.confidence:
        return None
    reach = t_quantile(0.5 + interval.confidence / 2.0, len(decision.pairs) - 1)
    spread = (interval.high - interval.low) / 2.0 / reach * math.sqrt(len(decision.pairs))
    at_level, at_power = normal_quantile(0.5 + interval.confidence / 2.0), normal_quantile(_POWER)
    needed = math.ceil((spread * (at_level + at_power) / gain) ** 2)
    return max(needed, count_least_changed(interval.confidence))


def pool(parts: Sequence[Pairs]) -> Pairs:
    """Pool the groups of several disjoint parts, such as the folds of a nested split."""
    return Pairs(
        np.concatenate([part.old for part in parts]), np.concatenate([part.new for part in parts]), parts[0].statistic
    )
