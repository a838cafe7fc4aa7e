"""The arrays that statistics are computed on, and quotients that may be undefined.

Inside the package an undefined figure is NaN, so that whole batches are computed at once; what leaves it is None.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def ratio(above: ArrayLike, below: ArrayLike) -> Floats:
    """The quotient, NaN where the divisor is 0.

    Example:
        >>> ratio([1.0, 1.0], [2.0, 0.0])
        array([0.5, nan])
    """
    top, bottom = np.broadcast_arrays(np.asarray(above, float), np.asarray(below, float))
    found: Floats = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
    return found


def defined(value: Any) -> float | None:
    """The number, or None where it is NaN.

    Example:
        >>> defined(np.float64(0.5)), defined(float("nan"))
        (0.5, None)
    """
    number = float(value)
    return None if np.isnan(number) else number


def numbers(values: ArrayLike) -> Floats:
    """The values as a flat array of floats.

    Example:
        >>> numbers([1, 2])
        array([1., 2.])
    """
    return np.asarray(values, dtype=float).ravel()
