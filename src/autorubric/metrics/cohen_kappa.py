"""Cohen's κ: agreement beyond what two raters of these habits reach by chance."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio
from autorubric.metrics.confusion import confusion_counts, shares

KappaWeights: TypeAlias = Literal["nominal", "linear", "quadratic"]


def agreement_weights(values: ArrayLike, kind: KappaWeights = "nominal") -> Floats:
    """How much each pair of categories counts as agreement, in [0, 1].

    Args:
        values: of the categories. Only the distances between them count, so options with values 0, 0.5 and 1
            weigh as their numbers 0, 1 and 2 would.
        kind: `nominal`: 1 for the same category, else 0; `linear`: 1 − distance / largest distance;
            `quadratic`: 1 − the square of that.

    Example:
        >>> agreement_weights([0.0, 0.5, 1.0], "quadratic")[0].tolist()
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
    """The κ of each table of counts (the last two axes); NaN where chance agreement is complete.

    κ_w = (p_o − p_e) / (1 − p_e), p_o = Σ w·p, p_e = Σ w·p_row·p_column. Source: Cohen 1968, equation 6.

    Example:
        >>> kappas([[20, 5], [10, 15]]).round(12).tolist()
        0.4
    """
    p = shares(counts)
    w = np.eye(p.shape[-1]) if weights is None else weights
    chance = p.sum(axis=-1)[..., :, None] * p.sum(axis=-2)[..., None, :]
    # Both as disagreement: 1 − p_e is exact where everything is one category.
    apart = (chance * (1.0 - w)).sum(axis=(-2, -1))
    return np.asarray(1.0 - ratio((p * (1.0 - w)).sum(axis=(-2, -1)), apart))


def cohen_kappa(
    truth: ArrayLike, judged: ArrayLike, values: ArrayLike, weights: KappaWeights = "nominal"
) -> float | None:
    """Cohen's κ of two raters, None where both use one and the same category only.

    Args:
        truth: codes: the places of the categories in `values`.
        judged: likewise.
        values: of all categories, those that nobody chose included.
        weights: how much near misses count; see `agreement_weights`.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], [0, 1])
        0.5
        >>> cohen_kappa([0, 0], [0, 0], [0, 1]) is None
        True
    """
    points = np.asarray(values, float)
    return defined(kappas(confusion_counts(truth, judged, len(points)), agreement_weights(points, weights)))


def kappa_standard_error(counts: ArrayLike, weights: Floats | None = None) -> float | None:
    """The large-sample standard error of κ from one table of counts; None where κ is undefined.

    Source: Fleiss, Cohen and Everitt 1969, equation 13.

    Example:
        >>> round(kappa_standard_error([[20, 5], [10, 15]]), 4)
        0.127
    """
    table = np.asarray(counts, float)
    total = table.sum()
    kappa = defined(kappas(table, weights))
    if kappa is None:
        return None
    p = table / total
    w = np.eye(len(p)) if weights is None else weights
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    expected = float((np.outer(rows, columns) * w).sum())
    mean = (w @ columns)[:, None] + (rows @ w)[None, :]
    spread = float((p * (w - mean * (1.0 - kappa)) ** 2).sum())
    variance = (spread - (kappa - expected * (1.0 - kappa)) ** 2) / (total * (1.0 - expected) ** 2)
    return math.sqrt(max(variance, 0.0))
