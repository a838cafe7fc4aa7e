"""The share of a reward that comes from criteria with several demands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autorubric.core.criterion import Criterion
from autorubric.graders.demands import Compound, is_compound
from autorubric.linting.rules.compound_demands import find_second_demand

if TYPE_CHECKING:
    from autorubric.training.observations import RewardRecord


@dataclass(frozen=True, slots=True)
class CompoundShare:
    """The contribution of criteria with several demands to the reward.

    Attributes:
        criteria: the names of these criteria, the heaviest first.
        of: the number of all criteria.
        weight: their share of the total weight, in [0, 1].
        first: their mean share of the points over the rewards of the first window; None without points.
        last: the same in the last window.
        graded: `all` if each demand was judged.
    """

    criteria: Sequence[str]
    of: int
    weight: float
    first: float | None
    last: float | None
    graded: Compound = "as_is"


def compute_points_share(points: Iterable[tuple[float, bool]]) -> float | None:
    """Compute the share of the points, given or taken, that comes from criteria with several demands.

    Args:
        points: weight · value of each criterion, and whether it has several demands.

    Example:
        >>> compute_points_share([(3.0, True), (1.0, False), (-2.0, True)])
        0.8333333333333334
        >>> compute_points_share([(0.0, True)]) is None
        True
    """
    both = [(abs(size), several) for size, several in points]
    whole = sum(size for size, _ in both)
    return sum(size for size, several in both if several) / whole if whole else None


def compute_criteria_share(criteria: Sequence[Criterion], values: Iterable[float | None]) -> float | None:
    """Return the share of a reward's points that comes from criteria with several demands; None without points.

    Example:
        >>> rubric = [Criterion(weight=3, requirement="States the dose and warns about liver damage."),
        ...           Criterion(weight=1, requirement="Names a doctor.")]
        >>> compute_criteria_share(rubric, [1.0, 1.0])
        0.75
    """
    return compute_points_share(
        (criterion.weight * (value or 0.0), is_compound(criterion))
        for criterion, value in zip(criteria, values, strict=True)
    )


class CompoundMeter:
    """Measures the share of the points in windows of rewards.

    Args:
        notes: the `Observer`'s records of rubrics, by the rubric's digest.
    """

    def __init__(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        places = {rubric: _find_compound(note) for rubric, note in notes.items()}
        self._rubrics = {
            rubric: [
                (criterion["weight"], index in places[rubric]) for index, criterion in enumerate(note["criteria"])
            ]
            for rubric, note in notes.items()
        }
        several = [note["criteria"][index] for rubric, note in notes.items() for index in places[rubric]]
        self._names = [
            criterion["name"] for criterion in sorted(several, key=lambda criterion: -abs(criterion["weight"]))
        ]
        self._graded: Compound = "all" if any(note.get("graded") == "all" for note in notes.values()) else "as_is"
        self._weight = compute_points_share(pair for own in self._rubrics.values() for pair in own) or 0.0
        self._windows: list[float | None] = []

    def add(self, records: Iterable[RewardRecord]) -> None:
        """Add the rewards of a window."""
        shares = [
            self._measure(record)
            for record in records
            if record.reward is not None and record.rubric in self._rubrics
        ]
        known = [share for share in shares if share is not None]
        self._windows.append(sum(known) / len(known) if known else None)

    def summarize(self) -> CompoundShare | None:
        """Return the measured shares; None if no criterion has several demands."""
        if not self._names or not self._windows:
            return None
        count = sum(map(len, self._rubrics.values()))
        return CompoundShare(self._names, count, self._weight, self._windows[0], self._windows[-1], self._graded)

    def _measure(self, record: RewardRecord) -> float | None:
        pairs = zip(record.values, self._rubrics[record.rubric], strict=False)
        return compute_points_share((weight * (value or 0.0), several) for value, (weight, several) in pairs)


def _find_compound(note: Mapping[str, Any]) -> set[int]:
    """Return the indices of criteria with several demands; earlier versions did not record them."""
    if "several" in note:
        return set(note["several"])
    return {index for index, criterion in enumerate(note["criteria"]) if find_second_demand(criterion["requirement"])}
