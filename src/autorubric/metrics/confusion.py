"""Statistics of a confusion matrix: rows are the labels, columns the verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, Ints, defined, ratio


def confusion_counts(truth: ArrayLike, judged: ArrayLike, categories: int) -> Ints:
    """The counts of each pair: rows are the truth, columns what was judged.

    Args:
        truth: codes from 0 to `categories` − 1.
        judged: likewise, one for each of `truth`.
        categories: how many there are, those that nobody chose included.

    Example:
        >>> confusion_counts([0, 0, 1], [0, 1, 1], 3).tolist()
        [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    pairs = np.asarray(truth, np.int64) * categories + np.asarray(judged, np.int64)
    return np.bincount(pairs, minlength=categories * categories).reshape(categories, categories).astype(np.int64)


def shares(counts: ArrayLike) -> Floats:
    """Each count of a table (its last two axes) as a share of all; NaN for an empty table.

    Example:
        >>> shares([[1, 1], [0, 2]]).tolist()
        [[0.25, 0.25], [0.0, 0.5]]
    """
    table = np.asarray(counts, float)
    total = table.sum(axis=(-2, -1), keepdims=True)
    found: Floats = np.divide(table, total, out=np.full(table.shape, np.nan), where=total > 0)
    return found


def accuracies(counts: ArrayLike, ranks: ArrayLike | None = None, within: int = 0) -> Floats:
    """The accuracy of each table of counts (the last two axes); NaN for an empty one.

    Args:
        counts: rows are the truth.
        ranks: the place of each category in the order of their values; by default their own order.
        within: how many places off still count as right.

    Example:
        >>> accuracies([[2, 1, 0], [0, 1, 0], [1, 0, 0]], within=1).tolist()
        0.8
    """
    table = np.asarray(counts, float)
    places = np.arange(table.shape[-1]) if ranks is None else np.asarray(ranks)
    right = np.abs(places[:, None] - places[None, :]) <= within
    return ratio((table * right).sum(axis=(-2, -1)), table.sum(axis=(-2, -1)))


def accuracy(counts: ArrayLike) -> float | None:
    """The share of pairs on the diagonal of a table of counts; None for an empty one.

    Example:
        >>> accuracy([[2, 1], [0, 1]]), accuracy([[0, 0], [0, 0]])
        (0.75, None)
    """
    return defined(accuracies(counts))


def balanced_accuracies(counts: ArrayLike) -> Floats:
    """The mean recall over the categories that the truth holds, for each table (the last two axes).

    NaN where the truth holds fewer than two: a recall that was never put to the test is not known.
    Source: Brodersen et al. 2010, equation 1.

    Example:
        >>> balanced_accuracies([[90, 0], [5, 5]]).tolist()
        0.75
    """
    table = np.asarray(counts, float)
    support = table.sum(axis=-1)
    recall = ratio(np.diagonal(table, axis1=-2, axis2=-1), support)
    present = (support > 0).sum(axis=-1)
    mean = ratio(np.where(support > 0, recall, 0.0).sum(axis=-1), present)
    return np.where(present >= 2, mean, np.nan)


def balanced_accuracy(counts: ArrayLike) -> float | None:
    """`balanced_accuracies` of one table; None where it is undefined.

    Example:
        >>> balanced_accuracy([[3, 1], [0, 0]]) is None
        True
    """
    return defined(balanced_accuracies(counts))


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


def mccs(counts: ArrayLike) -> Floats:
    """The coefficient of each table of counts (the last two axes); NaN where one side is constant.

    (c·s − Σ t·p) / √((s² − Σ p²)·(s² − Σ t²)), s the total, c the diagonal, t and p the margins.
    Source: Gorodkin 2004; φ where there are two categories.

    Example:
        >>> mccs([[4, 1], [1, 4]]).tolist()
        0.6
    """
    table = np.asarray(counts, float)
    total = table.sum(axis=(-2, -1))
    true, given = table.sum(axis=-1), table.sum(axis=-2)
    covariance = np.trace(table, axis1=-2, axis2=-1) * total - (true * given).sum(axis=-1)
    spread = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (given**2).sum(axis=-1))
    return ratio(covariance, np.sqrt(spread))


def mcc(counts: ArrayLike) -> float | None:
    """`mccs` of one table; None where it is undefined.

    Example:
        >>> mcc([[4, 0], [1, 0]]) is None
        True
    """
    return defined(mccs(counts))
