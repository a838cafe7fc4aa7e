"""How much of what was called a category is one, how much of it is found, and both in one figure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import defined, ratio


class PrecisionRecall(NamedTuple):
    """Precision, recall and F1 of one category.

    Attributes:
        precision: TP / (TP + FP); None where it was never given.
        recall: TP / (TP + FN); None where the truth holds none.
        f1: 2·TP / (2·TP + FP + FN); None where neither holds any, 0 where none is found.
    """

    precision: float | None
    recall: float | None
    f1: float | None


def precision_recall(counts: ArrayLike, category: int = 0) -> PrecisionRecall:
    """Precision, recall and F1 of one category of a table of counts.

    Example:
        >>> precision_recall([[3, 1], [1, 5]])
        PrecisionRecall(precision=0.75, recall=0.75, f1=0.75)
        >>> precision_recall([[0, 2], [0, 5]])
        PrecisionRecall(precision=None, recall=0.0, f1=0.0)
    """
    table = np.asarray(counts, float)
    hits = table[category, category]
    given, true = table[:, category].sum(), table[category].sum()
    return PrecisionRecall(
        defined(ratio(hits, given)), defined(ratio(hits, true)), defined(ratio(2 * hits, given + true))
    )
