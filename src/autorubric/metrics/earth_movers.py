"""The earth mover's distance: how far one set of scores has to be moved to become another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, numbers
from autorubric.metrics.statistic_results import INSUFFICIENT, EMDResult

_LEAST_SHIFT = 0.01


def wasserstein_distance(dist1: ArrayLike, dist2: ArrayLike, *, normalize: bool = True) -> float | None:
    """The area between the two distribution functions; None where a sample is empty.

    Args:
        dist1: one sample.
        dist2: the other; the sizes may differ.
        normalize: in shares of the scale. The scale of scores is [0, 1], whatever part of it the samples fill;
            it is longer only where a value lies beyond. False for the units of the values.

    Example:
        >>> round(wasserstein_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8]), 12)
        0.1
        >>> round(wasserstein_distance([0, 20, 40], [10, 30, 50], normalize=False), 12)
        10.0
    """
    first, second = np.sort(numbers(dist1)), np.sort(numbers(dist2))
    if not len(first) or not len(second):
        return None
    every = np.sort(np.concatenate([first, second]))
    steps = np.diff(every)
    below_first = np.searchsorted(first, every[:-1], side="right") / len(first)
    below_second = np.searchsorted(second, every[:-1], side="right") / len(second)
    distance = float((np.abs(below_first - below_second) * steps).sum())
    return distance / _length(every) if normalize else distance


def earth_movers_distance(dist1: ArrayLike, dist2: ArrayLike, *, normalize: bool = True) -> EMDResult:
    """The earth mover's distance, and in which way the first sample differs.

    Args:
        dist1: one sample, the judge's scores say.
        dist2: the other, the true scores say.
        normalize: in shares of the scale; see `wasserstein_distance`.

    Example:
        >>> found = earth_movers_distance([0.5] * 3, [0.501] * 3)
        >>> round(found.emd, 6), found.bias_direction, found.interpretation
        (0.001, 'none', 'negligible differences')
    """
    first, second = numbers(dist1), numbers(dist2)
    emd = wasserstein_distance(first, second, normalize=normalize)
    if emd is None:
        return EMDResult(
            emd=None,
            mean_diff=None,
            std_diff=None,
            bias_direction="none",
            bias_magnitude=None,
            interpretation=INSUFFICIENT,
        )
    unit = _length(np.concatenate([first, second])) if normalize else 1.0
    shift = float(first.mean() - second.mean()) / unit
    direction: Literal["higher", "lower", "none"] = "none"
    if abs(shift) > _LEAST_SHIFT:
        direction = "higher" if shift > 0 else "lower"
    return EMDResult(
        emd=emd,
        mean_diff=shift,
        std_diff=float(first.std() - second.std()) / unit,
        bias_direction=direction,
        bias_magnitude=abs(shift),
        interpretation=EMDResult.interpret_emd(emd),
    )


def _length(values: Floats) -> float:
    return float(max(values.max(), 1.0) - min(values.min(), 0.0))
