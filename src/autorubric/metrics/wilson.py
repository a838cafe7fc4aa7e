"""An interval for a proportion that holds at small counts and near 0 and 1."""

from __future__ import annotations

import math

from autorubric.metrics.distributions import normal_quantile
from autorubric.metrics.interval import Interval, checked_confidence


def wilson_interval(hits: float, n: float, confidence: float = 0.95) -> Interval | None:
    """The score interval of a proportion; None for no observations.

    (p + z²/2n ± z·√(p·(1 − p)/n + z²/4n²)) / (1 + z²/n). Source: Wilson 1927. The observations are independent:
    one an item, not several criteria of one item.

    Example:
        >>> low, high, _ = wilson_interval(8, 10)
        >>> round(low, 4), round(high, 4)
        (0.4902, 0.9433)
    """
    if n <= 0:
        return None
    z2 = normal_quantile(0.5 + checked_confidence(confidence) / 2.0) ** 2
    share = hits / n
    half = math.sqrt(z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n)))
    middle = share + z2 / (2.0 * n)
    ends = ((middle - half) / (1.0 + z2 / n), (middle + half) / (1.0 + z2 / n))
    # Rounding must not leave the share itself outside.
    return Interval(min(ends[0], share), max(ends[1], share), confidence).within(0.0, 1.0)
