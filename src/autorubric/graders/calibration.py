"""Which threshold a cascade should have: what each would have done on labelled data, without a call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.graders.replay import CascadePoint, LabelledCell, Replay, Reports, labelled_cells


@dataclass(frozen=True, slots=True)
class CascadeCurve:
    """The points that a cascade trades along, by rising threshold.

    Attributes:
        points: one a threshold.
        first_alone: the first judge without a second.
        then_alone: the second judge for everything.
        cells: how many labelled criteria this rests on.
        by_criterion: a curve of its own for each criterion, by name, that has labels enough.
        items: fingerprints of the labelled items, to tell when a threshold is judged by what it was made from.
    """

    points: tuple[CascadePoint, ...]
    first_alone: CascadePoint
    then_alone: CascadePoint
    cells: int
    by_criterion: Mapping[str, CascadeCurve] = field(default_factory=dict)
    items: frozenset[bytes] = field(default_factory=frozenset, repr=False)

    def best(self, max_share: float | None = None, tolerance: float = 0.0) -> CascadePoint:
        """The point with the least share among those that agree best with the labels.

        Args:
            max_share: no more than this share may be asked of the second judge.
            tolerance: how much agreement may be given up for a smaller share.

        Raises:
            InputError: no point has an agreement and a share this small.
        """
        allowed = [
            (point, point.agreement)
            for point in self.points
            if point.agreement is not None and (max_share is None or point.share <= max_share)
        ]
        if not allowed:
            least = min(point.share for point in self.points)
            raise InputError(f"max_share={max_share}: no threshold serves; the least share is {least:.3f}")
        enough = max(agreement for _, agreement in allowed) - tolerance
        near = [(point, agreement) for point, agreement in allowed if agreement >= enough - 1e-12]
        return min(near, key=lambda pair: (pair[0].share, -pair[1]))[0]

    def held_out(
        self,
        first_reports: Reports,
        then_reports: Reports,
        dataset: RubricDataset,
        threshold: float | None = None,
    ) -> CascadePoint:
        """What the cascade does on other labelled data, at the best threshold or the given one.

        Warns where items are those of the calibration: agreement on them flatters the threshold.
        """
        known = len(self.items & _fingerprints(dataset))
        if known:
            warnings.warn(
                f"{known} of {len(dataset)} items were used to calibrate the cascade; agreement on them flatters it",
                UserWarning,
                stacklevel=2,
            )
        limit = self.best().threshold if threshold is None else threshold
        return Replay.of(labelled_cells(first_reports, then_reports, dataset)).at(limit or 0.0)


def calibrate_cascade(
    first_reports: Reports,
    then_reports: Reports,
    dataset: RubricDataset,
    thresholds: Iterable[float] | None = None,
    *,
    min_cells: int = 30,
) -> CascadeCurve:
    """The curve of a cascade of two judges that both graded the whole of a labelled dataset.

    Replays the rule of `Cascade` for every threshold. A criterion's share of cost is its report's cost divided by
    the criteria. Results belong on other data than the thresholds: see `CascadeCurve.held_out`.

    Args:
        first_reports: the first judge's, one an item of the dataset; None where grading failed.
        then_reports: the second judge's, likewise.
        dataset: the labels; items without ground truth are left out.
        thresholds: those to look at; unless given, every one that makes a difference.
        min_cells: labels that a criterion needs for a curve of its own.

    Raises:
        InputError: reports and items do not fit together, nothing is labelled, or a threshold is outside [0, 1].

    Example:
        >>> from autorubric import Criterion, DataItem, Rubric
        >>> from autorubric.core.report import EnsembleCriterionReport, EnsembleEvaluationReport
        >>> rubric = Rubric([Criterion(requirement="Is right")])
        >>> labels = RubricDataset("Is it?", rubric, [DataItem(text, text, ["MET"]) for text in ("a", "b")])
        >>> def report(verdict, confidence, cost):
        ...     entry = EnsembleCriterionReport(
        ...         criterion=rubric[0], final_verdict=verdict, final_reason=None, confidence=confidence
        ...     )
        ...     return EnsembleEvaluationReport(score=None, completion_cost=cost, report=[entry])
        >>> small = [report("UNMET", 0.6, 0.01), report("MET", 0.9, 0.01)]
        >>> big = [report("MET", None, 0.2)] * 2
        >>> point = calibrate_cascade(small, big, labels).best()
        >>> point.threshold, point.share, point.agreement, round(point.cost, 2)
        (0.9, 0.5, 1.0, 0.22)
    """
    wanted = None if thresholds is None else _checked(thresholds)
    cells = labelled_cells(first_reports, then_reports, dataset)
    named: dict[str, list[LabelledCell]] = {}
    for cell in cells:
        named.setdefault(cell.name, []).append(cell)
    own = {name: _curve(found, wanted) for name, found in named.items() if len(found) >= min_cells}
    return _curve(cells, wanted, own, _fingerprints(dataset))


def _curve(
    cells: list[LabelledCell],
    thresholds: list[float] | None,
    by_criterion: Mapping[str, CascadeCurve] | None = None,
    items: frozenset[bytes] = frozenset(),
) -> CascadeCurve:
    replay = Replay.of(cells)
    if thresholds is None:
        thresholds = sorted({0.0, 1.0, *(cell.confidence for cell in cells if cell.confidence > -math.inf)})
    points = tuple(replay.at(threshold) for threshold in thresholds)
    return CascadeCurve(points, replay.first_alone(), replay.then_alone(), len(cells), by_criterion or {}, items)


def _checked(thresholds: Iterable[float]) -> list[float]:
    wanted = sorted(set(thresholds))
    problems = [f"threshold {value!r}; expected a number from 0 to 1" for value in wanted if not 0.0 <= value <= 1.0]
    if problems or not wanted:
        raise InputError(problems or "no threshold is given; leave thresholds out to look at all")
    return wanted


def _fingerprints(dataset: RubricDataset) -> frozenset[bytes]:
    """Of the labelled items: what was asked, and what was answered."""
    texts = (
        f"{dataset.get_item_prompt(index)!r}{item.submission!r}"
        for index, item in enumerate(dataset)
        if item.ground_truth is not None
    )
    return frozenset(blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest() for text in texts)
