"""Arrays of statistics, and quotients that may be undefined.

Inside the package, an undefined value is NaN, so that computations can be vectorized; results contain None instead.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autorubric.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def ratio(above: ArrayLike, below: ArrayLike) -> Floats:
    """Return the quotient; NaN where the divisor is 0."""
    top, bottom = np.asarray(above, float), np.asarray(below, float)
    undefined = np.full(np.broadcast(top, bottom).shape, np.nan)
    found: Floats = np.divide(top, bottom, out=undefined, where=bottom != 0)
    return found


def nan_to_none(value: Any) -> float | None:
    """Return the number, or None if it is NaN."""
    number = float(value)
    return None if np.isnan(number) else number


def read_numbers(*series: ArrayLike) -> list[Floats]:
    """Return each series as a flat array of finite floats; all must have the same length."""
    found = list[Floats]()
    for values in series:
        try:
            array = np.asarray(values, dtype=float).ravel()
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the values are not a series of numbers: {error}") from None
        wrong = np.flatnonzero(~np.isfinite(array))
        if len(wrong):
            raise InputError(f"value {wrong[0]} of {len(array)} is {array[wrong[0]]}; leave out missing values")
        found.append(array)
    if len({len(array) for array in found}) > 1:
        sizes = " and ".join(str(len(array)) for array in found)
        raise InputError(f"there are {sizes} values; expected series of the same length")
    return found
