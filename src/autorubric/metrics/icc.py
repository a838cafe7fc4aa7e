"""Intraclass correlation: how much of the spread of scores is the items', not the judges'."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio

_CONSTANT = 1e-12
"""Differences below this share of the values' own size are rounding."""

IccForm: TypeAlias = Literal["one-way", "agreement", "consistency"]


def icc(values: ArrayLike, form: IccForm = "agreement", *, averaged: bool = False) -> float | None:
    """The intraclass correlation over the items that every judge scored; None where it is undefined.

    Source: Shrout and Fleiss 1979: `one-way` is ICC(1,1), `agreement` ICC(2,1), `consistency` ICC(3,1); with
    `averaged` they are ICC(1,k), ICC(2,k) and ICC(3,k).

    Args:
        values: items × judges; a NaN is a missing score.
        form: `one-way` where judges differ from item to item, `agreement` where a judge's leniency counts as
            disagreement, `consistency` where it does not.
        averaged: of the mean of all judges in place of a single one.

    Example:
        >>> icc([[1, 2], [2, 3], [3, 4]], "consistency"), icc([[1, 2], [2, 3], [3, 4]], "agreement")
        (1.0, 0.6666666666666666)
    """
    table = np.asarray(values, float)
    table = table[~np.isnan(table).any(axis=1)]
    n, k = table.shape
    if n < 2 or k < 2:
        return None
    grand = table.mean()
    least = table.size * (_CONSTANT * np.abs(table).max()) ** 2
    of_items_sum, of_judges_sum, within_sum = (
        float(total) if total > least else 0.0
        for total in (
            k * ((table.mean(axis=1) - grand) ** 2).sum(),
            n * ((table.mean(axis=0) - grand) ** 2).sum(),
            ((table - table.mean(axis=1, keepdims=True)) ** 2).sum(),
        )
    )
    of_items = of_items_sum / (n - 1)
    rest_sum = within_sum - of_judges_sum
    rest = (rest_sum if rest_sum > max(least, _CONSTANT * within_sum) else 0.0) / ((n - 1) * (k - 1))
    if form == "one-way":
        return defined(_share(of_items, within_sum / (n * (k - 1)), 0.0, (k, averaged)))
    leniency = (of_judges_sum / (k - 1) - rest) / n if form == "agreement" else 0.0
    return defined(_share(of_items, rest, leniency, (k, averaged)))


def _share(of_items: float, rest: float, leniency: float, of: tuple[int, bool]) -> Floats:
    judges, averaged = of
    if averaged:
        return ratio(of_items - rest, of_items + leniency)
    return ratio(of_items - rest, of_items + (judges - 1) * rest + judges * leniency)
