"""Which criteria no longer tell submissions apart."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

SATURATED = 0.95
"""A criterion that so large a share of recent submissions meets, or misses, tells them apart no more."""

FEWEST_VALUES = 8
"""Recent values that it takes to call a criterion saturated."""

End: TypeAlias = Literal["met", "missed"]


@dataclass(frozen=True, slots=True)
class CriterionDrift:
    """How one criterion moved.

    Attributes:
        rubric: the digest of its rubric.
        name: its name.
        requirement: its words.
        weight: its weight.
        count: verdicts.
        before: the mean of the first half of them.
        recent: the mean of the last quarter, at least `FEWEST_VALUES`.
        saturated: `met` or `missed` where recent submissions are nearly all alike; None where they are not, or
            where there are too few verdicts.
    """

    rubric: str
    name: str
    requirement: str
    weight: float
    count: int
    before: float
    recent: float
    saturated: End | None


class Verdicts:
    """The values of every criterion so far, four bytes each.

    Example:
        >>> verdicts = Verdicts()
        >>> for _ in range(8):
        ...     verdicts.add("r", [1.0, None])
        >>> [(c.name, c.count, c.saturated) for c in verdicts.criteria({})]
        [('C1', 8, 'met')]
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, int], array[float]] = {}

    def add(self, rubric: str, values: Sequence[float | None]) -> None:
        """Take in the values of one submission."""
        for place, value in enumerate(values):
            if value is not None:
                self._values.setdefault((rubric, place), array("f")).append(value)

    def criteria(self, notes: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[CriterionDrift]:
        """How each criterion moved: the saturated ones first, of these the heaviest first.

        Args:
            notes: name, requirement and weight of the criteria, by the digest of their rubric.
        """
        found = []
        for (rubric, place), values in self._values.items():
            unknown: Mapping[str, Any] = {"name": f"C{place + 1}", "requirement": "", "weight": 1.0}
            note = notes[rubric][place] if rubric in notes else unknown
            recent = _mean(values[-max(FEWEST_VALUES, len(values) // 4) :])
            half = (len(values) + 1) // 2
            words = (rubric, note["name"], note["requirement"], note["weight"], len(values))
            found.append(CriterionDrift(*words, _mean(values[:half]), recent, _end(recent, len(values))))
        return sorted(found, key=lambda c: (c.saturated is None, -abs(c.weight), -c.count))


def _end(recent: float, count: int) -> End | None:
    if count < FEWEST_VALUES:
        return None
    return "met" if recent >= SATURATED else "missed" if recent <= 1.0 - SATURATED else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
