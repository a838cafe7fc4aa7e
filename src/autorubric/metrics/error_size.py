"""How far predicted values lie from the true ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import number_pairs


def rmse(predicted: ArrayLike, true: ArrayLike) -> float | None:
    """The root of the mean squared difference, in units of the values; None for no values.

    Example:
        >>> rmse([0.0, 1.0], [0.0, 0.5])
        0.3535533905932738
    """
    difference = np.subtract(*number_pairs(predicted, true))
    return math.sqrt(float(np.mean(difference**2))) if len(difference) else None


def mae(predicted: ArrayLike, true: ArrayLike) -> float | None:
    """The mean size of the difference, in units of the values; None for no values.

    Example:
        >>> mae([0.0, 1.0], [0.0, 0.5])
        0.25
    """
    difference = np.subtract(*number_pairs(predicted, true))
    return float(np.mean(np.abs(difference))) if len(difference) else None
