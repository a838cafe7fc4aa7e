"""How much signal a rubric's reward gives to training on groups of rollouts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.errors import InputError


class GroupVariance(NamedTuple):
    """What groups of n rollouts of one query each are expected to show.

    Attributes:
        within: the variance of rewards of one query, unbiased and pooled over queries; None where no query has
            two rewards.
        expected: the expected variance around the group's own mean, within · (n - 1) / n; None likewise.
        silent: the chance that all n rewards are equal, so that the group teaches nothing; None where no query
            has n rewards.
        queries: how many queries have two rewards or more.
    """

    within: float | None
    expected: float | None
    silent: float | None
    queries: int


def expected_group_variance(rewards: npt.ArrayLike, queries: Sequence[Hashable], n: int) -> GroupVariance:
    """The variance of the reward in groups of n rollouts, from the rewards of submissions by query.

    `silent` averages over queries the share of groups of n, drawn without replacement from the query's
    rewards, that are all equal: Σ C(count of a value, n) / C(rewards, n).

    Args:
        rewards: one a submission; NaN where there is none.
        queries: what each submission answers.
        n: rollouts in a group, at least 2.

    Raises:
        InputError: `n` is below 2, or there are not as many queries as rewards.

    Example:
        >>> figures = expected_group_variance([0, 1, 0, 1, 1, 1], ["a", "a", "a", "a", "b", "b"], 2)
        >>> round(figures.within, 3), round(figures.expected, 3), round(figures.silent, 3)
        (0.25, 0.125, 0.667)
    """
    values = np.asarray(rewards, dtype=float)
    if n < 2:
        raise InputError(f"n={n}; a group has at least 2 rollouts")
    if len(values) != len(queries):
        raise InputError(f"there are {len(values)} rewards for {len(queries)} queries; expected one query each")
    groups: dict[Hashable, list[float]] = {}
    for value, query in zip(values.tolist(), queries, strict=True):
        if not math.isnan(value):
            groups.setdefault(query, []).append(value)
    several = [np.array(group) for group in groups.values() if len(group) > 1]
    if not several:
        return GroupVariance(None, None, None, 0)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    within = squares / sum(len(group) - 1 for group in several)
    alike = [
        sum(math.comb(count, n) for count in Counter(group.tolist()).values()) / math.comb(len(group), n)
        for group in several
        if len(group) >= n
    ]
    silent = sum(alike) / len(alike) if alike else None
    return GroupVariance(within, within * (n - 1) / n, silent, len(several))
