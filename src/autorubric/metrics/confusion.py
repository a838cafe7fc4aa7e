"""Agreement of two raters, from their confusion matrix, and of more: accuracy, κ, AC, MCC, α, ICC."""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, Ints, nan_to_none, ratio


def count_pairs(truth: ArrayLike, judged: ArrayLike, categories: int) -> Ints:
    """Return the confusion matrix, categories × categories: rows are the truth, columns the verdicts."""
    pairs = np.asarray(truth, np.int64) * categories + np.asarray(judged, np.int64)
    return np.bincount(pairs, minlength=categories * categories).reshape(categories, categories).astype(np.int64)


def accuracy(counts: ArrayLike, ranks: ArrayLike | None = None, within: int = 0) -> float | None:
    """Return the share of pairs on the diagonal of a table of counts, in [0, 1]; None for an empty one.

    Args:
        counts: rows are the truth.
        ranks: the place of each category in the order of their values; by default their own order.
        within: how many ranks apart still count as right.

    Example:
        >>> accuracy([[2, 1], [0, 1]]), accuracy([[2, 1, 0], [0, 1, 0], [1, 0, 0]], within=1)
        (0.75, 0.8)
    """
    table = np.asarray(counts, float)
    places = np.arange(table.shape[-1]) if ranks is None else np.asarray(ranks)
    right = np.abs(places[:, None] - places[None, :]) <= within
    return nan_to_none(ratio((table * right).sum(), table.sum()))


def balanced_accuracy(counts: ArrayLike) -> float | None:
    """Return the mean recall over the categories that occur in the truth, in [0, 1]; None for fewer than two.

    Source: Brodersen et al. 2010, equation 1.

    Example:
        >>> balanced_accuracy([[90, 0], [5, 5]])
        0.75
    """
    table = np.asarray(counts, float)
    support = table.sum(axis=-1)
    recall = np.where(support > 0, ratio(np.diagonal(table), support), 0.0).sum()
    present = (support > 0).sum()
    return nan_to_none(ratio(recall, present)) if present >= 2 else None


class PrecisionRecall(NamedTuple):
    """Precision, recall and F1 of one category.

    Attributes:
        precision: TP / (TP + FP); None if the category was never predicted.
        recall: TP / (TP + FN); None if the truth does not contain it.
        f1: 2·TP / (2·TP + FP + FN); None if neither side contains it, 0 if no occurrence is found.
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
        nan_to_none(ratio(hits, given)), nan_to_none(ratio(hits, true)), nan_to_none(ratio(2 * hits, given + true))
    )


def mcc(counts: ArrayLike) -> float | None:
    """Matthews' correlation coefficient of a table of counts, in [−1, 1]; None if one side is constant.

    (c·s − Σ t·p) / √((s² − Σ p²)·(s² − Σ t²)), where s is the total, c the diagonal, t and p the margins.
    Source: Gorodkin 2004; φ if there are two categories.

    Example:
        >>> mcc([[4, 1], [1, 4]])
        0.6
    """
    table = np.asarray(counts, float)
    total, true, given = table.sum(), table.sum(axis=1), table.sum(axis=0)
    covariance = np.trace(table) * total - (true * given).sum()
    spread = (total**2 - (true**2).sum()) * (total**2 - (given**2).sum())
    return nan_to_none(ratio(covariance, np.sqrt(spread)))


KappaWeights: TypeAlias = Literal["nominal", "linear", "quadratic"]


def compute_agreement_weights(values: ArrayLike, kind: KappaWeights = "nominal") -> Floats:
    """Return how much each pair of categories counts as agreement, in [0, 1].

    Args:
        values: the values of the categories. Only the distances between them count, so values 0, 0.5 and 1 give the
            same weights as 0, 1 and 2.
        kind: `nominal`: 1 for the same category, else 0; `linear`: 1 − distance / largest distance;
            `quadratic`: 1 − the square of that.

    Example:
        >>> compute_agreement_weights([0.0, 0.5, 1.0], "quadratic")[0].tolist()
        [1.0, 0.75, 0.0]
    """
    points = np.asarray(values, float)
    if kind == "nominal":
        return np.eye(len(points))
    distance = np.abs(points[:, None] - points[None, :])
    span = distance.max(initial=0.0)
    share = distance / span if span > 0 else distance
    return np.asarray(1.0 - (share if kind == "linear" else share**2))


def kappas(counts: ArrayLike, weights: Floats | None = None) -> Floats:
    """Cohen's κ of each table of counts (the last two axes), in [−1, 1]; NaN where chance agreement is complete.

    κ_w = (p_o − p_e) / (1 − p_e), p_o = Σ w·p, p_e = Σ w·p_row·p_column. Source: Cohen 1968, equation 6.
    """
    table = np.asarray(counts, float)
    size = table.shape[-1]
    # Both as disagreement times the squared total, so that 1 − p_e is exactly 0 if there is only one category.
    apart = 1.0 - (np.eye(size) if weights is None else weights)
    rows, columns = table @ np.ones(size), np.ones(size) @ table
    observed = table.reshape(*table.shape[:-2], size * size) @ apart.ravel() * (rows @ np.ones(size))
    return np.asarray(1.0 - ratio(observed, (rows @ apart * columns) @ np.ones(size)))


def cohen_kappa(
    truth: ArrayLike, judged: ArrayLike, values: ArrayLike, weights: KappaWeights = "nominal"
) -> float | None:
    """Return Cohen's κ of two raters, in [−1, 1]: agreement beyond chance; None if both use the same single category.

    Args:
        truth: the category of each item, as an index into `values`.
        judged: the same for the other rater.
        values: the values of all categories, used or not.
        weights: how much near misses count; see `compute_agreement_weights`.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], [0, 1])
        0.5
        >>> cohen_kappa([0, 0], [0, 0], [0, 1]) is None
        True
    """
    points = np.asarray(values, float)
    return nan_to_none(kappas(count_pairs(truth, judged, len(points)), compute_agreement_weights(points, weights)))


def gwet_ac(ratings: ArrayLike, weights: Floats | None = None) -> float | None:
    """Return Gwet's AC1 (AC2 with weights) of any number of raters, at most 1; None if no item has two ratings.

    (p_o − p_e) / (1 − p_e), p_e = Σw / (q·(q − 1)) · Σ π·(1 − π), π the mean share of each of q categories. Single
    ratings count only for chance. Source: Gwet 2014, Handbook of Inter-Rater Reliability, chapters 2 and 5.

    Args:
        ratings: how many raters put each item (row) into each category (column). Raters may be missing.
        weights: how much each pair of categories counts as agreement.

    Example:
        >>> gwet_ac([[2, 0], [2, 0], [0, 2], [1, 1]])
        0.5294117647058824
    """
    table = np.asarray(ratings, float)
    q = table.shape[1]
    w = np.eye(q) if weights is None else weights
    raters = table.sum(axis=1)
    paired = raters >= 2
    if not paired.any():
        return None
    some = table[paired]
    count = raters[paired]
    observed = ((some * (some @ w - 1.0)).sum(axis=1) / (count * (count - 1.0))).mean()
    rated = raters >= 1
    mean = (table[rated] / raters[rated, None]).mean(axis=0)
    chance = w.sum() / (q * (q - 1.0)) * (mean * (1.0 - mean)).sum()
    return nan_to_none(ratio(observed - chance, 1.0 - chance))


def count_ratings(codes: ArrayLike, categories: int) -> Ints:
    """Count the judges that put each item into each category, from codes of judges × items; below 0 means no vote."""
    table = np.asarray(codes, np.int64)
    cast = table >= 0
    items = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    cells = items[cast] * categories + table[cast]
    return np.bincount(cells, minlength=table.shape[1] * categories).reshape(-1, categories).astype(np.int64)


def fleiss_kappa(ratings: ArrayLike, judges: int) -> float | None:
    """Return Fleiss' κ over items that all judges voted on, at most 1; None without any or if all votes are equal.

    κ = (P̄ − P̄_e) / (1 − P̄_e), P_i = Σ n_ij·(n_ij − 1) / (n·(n − 1)), P̄_e = Σ p_j². Source: Fleiss 1971.

    Args:
        ratings: how many judges put each item (row) into each category (column).
        judges: the number of judges; items with fewer votes are left out.

    Example:
        >>> fleiss_kappa([[2, 0], [2, 0], [0, 2], [1, 1]], 2)
        0.4666666666666667
    """
    table = np.asarray(ratings, float)
    table = table[table.sum(axis=1) == judges]
    if judges < 2 or not len(table):
        return None
    observed = ((table * (table - 1.0)).sum(axis=1) / (judges * (judges - 1.0))).mean()
    chance = ((table.sum(axis=0) / table.sum()) ** 2).sum()
    return nan_to_none(ratio(observed - chance, 1.0 - chance))


Level: TypeAlias = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal", values: ArrayLike | None = None) -> float | None:
    """Return Krippendorff's α of votes, at most 1; None if all votes are equal or no item has two.

    α = 1 − D_observed / D_expected, both weighted by the squared distance of categories. Items with fewer than
    two votes are left out. Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.

    Args:
        ratings: how many judges put each item (row) into each category (column).
        level: `nominal`, `ordinal` (in the order of the columns, or of `values`) or `interval`.
        values: of the categories, for `ordinal` and `interval`; by default 0, 1, 2, …

    Example:
        >>> krippendorff_alpha([[2, 0], [2, 0], [0, 2], [1, 1]])
        0.5333333333333333
    """
    table = np.asarray(ratings, float)
    points = np.arange(table.shape[1], dtype=float) if values is None else np.asarray(values, float)
    table = table[table.sum(axis=1) >= 2]
    votes = table.sum(axis=1)
    pairs = (table / (votes - 1.0)[:, None]).T @ table
    pairs -= np.diag((table / (votes - 1.0)[:, None]).sum(axis=0))
    totals = table.sum(axis=0)
    distance = _compute_distances(totals, points, level)
    expected = (np.outer(totals, totals) * distance).sum() / max(totals.sum() - 1.0, 1.0)
    return nan_to_none(1.0 - ratio((pairs * distance).sum(), expected))


def _compute_distances(totals: Floats, points: Floats, level: Level) -> Floats:
    """Return the squared distance of each pair of categories."""
    if level == "nominal":
        return 1.0 - np.eye(len(points))
    if level == "ordinal":
        # Categories with equal values share a rank.
        places, place = np.unique(points, return_inverse=True)
        at = np.bincount(place, weights=totals, minlength=len(places))
        points = (np.cumsum(at) - at / 2.0)[place]
    return np.asarray((points[:, None] - points[None, :]) ** 2)


_CONSTANT = 1e-12
"""Differences below this share of the values are rounding errors."""


def icc(values: ArrayLike) -> float | None:
    """Return the intraclass correlation over the items that every judge scored, at most 1.

    None for fewer than two items or judges, or if all scores are equal. A judge's leniency counts as disagreement.
    Source: ICC(2,1) of Shrout and Fleiss 1979.

    Args:
        values: items × judges; a NaN is a missing score.

    Example:
        >>> icc([[1, 2], [2, 3], [3, 4]])
        0.6666666666666666
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
    leniency = (of_judges_sum / (k - 1) - rest) / n
    return nan_to_none(ratio(of_items - rest, of_items + (k - 1) * rest + k * leniency))
