"""A range that a statistic lies in, and the figure with its range that the metrics hand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from autorubric.errors import InputError


class Interval(NamedTuple):
    """A confidence interval.

    Attributes:
        low: its lower end.
        high: its upper end.
        confidence: the share of such intervals that hold the true value, such as 0.95.

    Example:
        >>> Interval(0.25, 0.75, 0.95).width
        0.5
    """

    low: float
    high: float
    confidence: float = 0.95

    @property
    def width(self) -> float:
        """The distance between its ends."""
        return self.high - self.low

    def holds(self, value: float) -> bool:
        """Whether the value lies in it, its ends included.

        Example:
            >>> Interval(0.25, 0.75).holds(0.75)
            True
        """
        return self.low <= value <= self.high

    def within(self, least: float, most: float) -> Interval:
        """The part of it between two bounds, for figures that cannot lie beyond.

        Example:
            >>> Interval(-0.1, 0.2).within(0, 1)
            Interval(low=0.0, high=0.2, confidence=0.95)
        """
        return Interval(
            float(min(max(self.low, least), most)), float(max(min(self.high, most), least)), self.confidence
        )


@dataclass(frozen=True)
class Estimate:
    """A figure, how sure it is, and what it rests on.

    Attributes:
        value: the figure; None where it is undefined, and then `reason` says why.
        interval: its confidence interval; None where there is no valid one, and then `reason` says why.
        n: how many observations it rests on.
        reason: why `value` or `interval` is None.

    Example:
        >>> Estimate(None, reason="there are no labels").interval is None
        True
    """

    value: float | None
    interval: Interval | None = None
    n: int = 0
    reason: str | None = None


def checked_confidence(confidence: float) -> float:
    """The confidence level, if it is one.

    Raises:
        InputError: it does not lie between 0 and 1.

    Example:
        >>> checked_confidence(95)
        Traceback (most recent call last):
        autorubric.errors.InputError: confidence=95; expected a number between 0 and 1, such as 0.95
    """
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence={confidence}; expected a number between 0 and 1, such as 0.95")
    return confidence
