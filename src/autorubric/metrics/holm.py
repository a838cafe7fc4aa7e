"""P-values of several tests, each as it counts among the others."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values, adjusted so that all together are wrong no more often than one alone.

    The i-th smallest of m becomes max over the smaller ones of (m − i + 1)·p, at most 1. Source: Holm 1979. Tests
    without a p-value (None) do not count.

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        adjusted[place] = least
    return adjusted
