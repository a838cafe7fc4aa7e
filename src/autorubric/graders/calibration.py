"""Calibration of a cascade: every threshold is replayed on labelled data, without a call."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, JudgeVote, MultiChoiceJudgeVote
from autorubric.core.report import EnsembleCriterionReport, EnsembleEvaluationReport
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize, warn


class Run(Protocol):
    """A graded run, such as `EvalResult`; each result has `item_idx` and `report`."""

    @property
    def item_results(self) -> Iterable[Any]:
        """One result per item."""
        ...


Reports: TypeAlias = Run | Sequence[EnsembleEvaluationReport | None]
"""A run over a dataset, or one report per item, in order; None if grading failed."""


@dataclass(frozen=True, slots=True)
class CascadePoint:
    """The results that a cascade would have had at one threshold.

    Attributes:
        threshold: the minimum confidence that suffices; None for a single judge without a cascade.
        share: the share of labelled criteria that the second judge is asked about, in [0, 1].
        agreement: the share of final verdicts that equal the label; None without a final verdict.
        coverage: the share of labelled criteria with a final verdict, in [0, 1].
        cost: dollars for all labelled criteria; None if a price is unknown.
    """

    threshold: float | None
    share: float
    agreement: float | None
    coverage: float
    cost: float | None


class LabelledCell(NamedTuple):
    """One labelled criterion of one item, with the results of both judges."""

    name: str
    confidence: float
    first: bool | None
    then: bool | None
    first_cost: float
    then_cost: float


@dataclass(frozen=True, slots=True)
class CascadeReplay:
    """Labelled cells in ascending order of confidence, with running sums over those that go to the second judge.

    Attributes:
        confidences: the confidences of the cells, ascending.
        worded: at index n, the number of final verdicts if the second judge decides the first n cells.
        right: at index n, the number of final verdicts that equal the label.
        cost: at index n, the dollars.
        then_cost: the dollars of the second judge for all cells.
    """

    confidences: tuple[float, ...]
    worded: tuple[int, ...]
    right: tuple[int, ...]
    cost: tuple[float, ...]
    then_cost: float

    @classmethod
    def from_cells(cls, cells: Iterable[LabelledCell]) -> Self:
        """Return the replay of these cells."""
        rising = sorted(cells, key=lambda cell: cell.confidence)
        worded = accumulate(
            ((cell.then is not None) - (cell.first is not None) for cell in rising),
            initial=sum(cell.first is not None for cell in rising),
        )
        right = accumulate(
            ((cell.then is True) - (cell.first is True) for cell in rising),
            initial=sum(cell.first is True for cell in rising),
        )
        cost = accumulate((cell.then_cost for cell in rising), initial=math.fsum(c.first_cost for c in rising))
        then_cost = math.fsum(cell.then_cost for cell in rising)
        return cls(tuple(c.confidence for c in rising), tuple(worded), tuple(right), tuple(cost), then_cost)

    def find_point(self, threshold: float) -> CascadePoint:
        """Return the cascade at a threshold: the second judge decides every cell below it."""
        asked = bisect_left(self.confidences, threshold)
        return self._build_point(threshold, asked, self.cost[asked])

    def replay_first(self) -> CascadePoint:
        """Return the first judge without a second."""
        return self._build_point(None, 0, self.cost[0])

    def replay_then(self) -> CascadePoint:
        """Return the second judge for everything."""
        return self._build_point(None, len(self.confidences), self.then_cost)

    def _build_point(self, threshold: float | None, asked: int, cost: float) -> CascadePoint:
        total, worded = len(self.confidences), self.worded[asked]
        agreement = self.right[asked] / worded if worded else None
        # The sum is NaN if a price is unknown.
        return CascadePoint(threshold, asked / total, agreement, worded / total, None if math.isnan(cost) else cost)


def collect_cells(first_reports: Reports, then_reports: Reports, dataset: RubricDataset) -> list[LabelledCell]:
    """Return the labelled criteria of a dataset, with the results of both judges."""
    firsts, thens = (_list_reports(reports, dataset) for reports in (first_reports, then_reports))
    problems = [
        f"got {pluralize(len(reports), 'report')} of the {which} judge for {pluralize(len(dataset), 'item')}"
        for which, reports in (("first", firsts), ("second", thens))
        if len(reports) != len(dataset)
    ]
    if problems:
        raise InputError(problems)
    cells: list[LabelledCell] = []
    for index, (item, first, then) in enumerate(zip(dataset, firsts, thens, strict=True)):
        if item.ground_truth is None:
            continue
        criteria = dataset.get_item_rubric(index).rubric
        entries = [_read_entries(report, len(criteria), index, problems) for report in (first, then)]
        costs = [_compute_cost(report) for report in (first, then)]
        for place, (criterion, label, one, two) in enumerate(
            zip(criteria, item.ground_truth, *entries, strict=True), start=1
        ):
            name, right = criterion.name or f"C{place}", [_is_label(criterion, label, entry) for entry in (one, two)]
            cells.append(LabelledCell(name, _find_confidence(one), right[0], right[1], costs[0], costs[1]))
    if problems:
        raise InputError(problems)
    if not cells:
        raise InputError("no item of the dataset has ground truth; a cascade is calibrated on labels")
    return cells


def _list_reports(reports: Reports, dataset: RubricDataset) -> Sequence[EnsembleEvaluationReport | None]:
    if isinstance(reports, Sequence):
        return reports
    found = {result.item_idx: result.report for result in reports.item_results}
    return [found.get(index) for index in range(len(dataset))]


_Entry: TypeAlias = EnsembleCriterionReport | None


def _read_entries(
    report: EnsembleEvaluationReport | None, count: int, index: int, problems: list[str]
) -> Sequence[_Entry]:
    found = None if report is None else report.report
    if found is None:
        return [None] * count
    if len(found) != count:
        problems.append(
            f"the report on item {index} has {pluralize(len(found), 'criterion')}; its rubric has {count}"
        )
        return [None] * count
    return found


def _compute_cost(report: EnsembleEvaluationReport | None) -> float:
    if report is None or not report.report:
        return 0.0
    return math.nan if report.completion_cost is None else report.completion_cost / len(report.report)


def _is_label(criterion: Criterion, label: CriterionVerdict | str, entry: _Entry) -> bool | None:
    if entry is None or entry.is_error:
        return None
    choice = entry.final_multi_choice_verdict
    if criterion.options is None:
        return entry.final_verdict is CriterionVerdict(label)
    if choice is None:
        return None
    index = criterion.find_option_by_label(label)
    return choice.selected_index == index or (choice.na and criterion.options[index].na)


def _find_confidence(entry: _Entry) -> float:
    if entry is None or entry.is_error or entry.is_na:
        return -math.inf
    if entry.confidence is not None:
        return entry.confidence
    cast: list[JudgeVote | MultiChoiceJudgeVote] = [*entry.votes, *entry.multi_choice_votes]
    votes = [vote for vote in cast if not vote.superseded and not vote.is_error]
    own = votes[0].confidence if len(votes) == 1 else entry.agreement if votes else None
    return -math.inf if own is None else own


@dataclass(frozen=True, slots=True)
class CascadeCurve:
    """The trade-off of a cascade between agreement and cost, by ascending threshold.

    Attributes:
        points: one per threshold.
        first_alone: the first judge without a second.
        then_alone: the second judge for everything.
        cells: the number of labelled criteria.
        by_criterion: the curve of each criterion with enough labels, by name.
        items: fingerprints of the labelled items, to warn when a threshold is evaluated on its calibration data.
    """

    points: tuple[CascadePoint, ...]
    first_alone: CascadePoint
    then_alone: CascadePoint
    cells: int
    by_criterion: Mapping[str, CascadeCurve] = field(default_factory=dict)
    items: frozenset[bytes] = field(default_factory=frozenset, repr=False)

    def best(self, max_share: float | None = None, tolerance: float = 0.0) -> CascadePoint:
        """Return the point with the smallest share among those that agree best with the labels.

        Args:
            max_share: the maximum share that the second judge may be asked about.
            tolerance: the loss of agreement to accept for a smaller share.

        Raises:
            InputError: no point with a defined agreement has a share this small.
        """
        allowed = [
            (point, point.agreement)
            for point in self.points
            if point.agreement is not None and (max_share is None or point.share <= max_share)
        ]
        if not allowed:
            least = min(point.share for point in self.points)
            raise InputError(f"max_share={max_share}: no threshold has a share this low; the lowest is {least:.3f}")
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
        """Evaluate the cascade on other labelled data, at the best threshold or the given one.

        Warns if items were used in the calibration, because agreement on them is optimistic.
        """
        known = len(self.items & _compute_fingerprints(dataset))
        if known:
            warn(f"{known} of {len(dataset)} items were used to calibrate the cascade; their agreement is optimistic")
        limit = self.best().threshold if threshold is None else threshold
        return CascadeReplay.from_cells(collect_cells(first_reports, then_reports, dataset)).find_point(limit or 0.0)


def calibrate_cascade(
    first_reports: Reports,
    then_reports: Reports,
    dataset: RubricDataset,
    thresholds: Iterable[float] | None = None,
    *,
    min_cells: int = 30,
) -> CascadeCurve:
    """Compute the curve of a cascade of two judges that both graded a whole labelled dataset.

    Replays the rule of `Cascade` for every threshold. The cost of a report is divided equally among its criteria.
    Report results on other data than the calibration data; see `CascadeCurve.held_out`.

    Args:
        first_reports: the first judge's run, or its reports, one per item of the dataset; None if grading failed.
        then_reports: likewise for the second judge.
        dataset: the labels; items without ground truth are left out.
        thresholds: the thresholds to evaluate; by default, every one that makes a difference.
        min_cells: the minimum number of labels of a criterion for its own curve.

    Raises:
        InputError: reports and items do not match, nothing is labelled, or a threshold is outside [0, 1].

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
    wanted = None if thresholds is None else _check_thresholds(thresholds)
    cells = collect_cells(first_reports, then_reports, dataset)
    named: dict[str, list[LabelledCell]] = {}
    for cell in cells:
        named.setdefault(cell.name, []).append(cell)
    own = {name: _build_curve(found, wanted) for name, found in named.items() if len(found) >= min_cells}
    return _build_curve(cells, wanted, own, _compute_fingerprints(dataset))


def _build_curve(
    cells: list[LabelledCell],
    thresholds: list[float] | None,
    by_criterion: Mapping[str, CascadeCurve] | None = None,
    items: frozenset[bytes] = frozenset(),
) -> CascadeCurve:
    replay = CascadeReplay.from_cells(cells)
    if thresholds is None:
        thresholds = sorted({0.0, 1.0, *(cell.confidence for cell in cells if cell.confidence > -math.inf)})
    points = tuple(replay.find_point(threshold) for threshold in thresholds)
    return CascadeCurve(points, replay.replay_first(), replay.replay_then(), len(cells), by_criterion or {}, items)


def _check_thresholds(thresholds: Iterable[float]) -> list[float]:
    wanted = sorted(set(thresholds))
    problems = [f"threshold {value!r}; expected a number from 0 to 1" for value in wanted if not 0.0 <= value <= 1.0]
    if problems or not wanted:
        raise InputError(problems or "thresholds is empty; leave it out to evaluate all thresholds")
    return wanted


def _compute_fingerprints(dataset: RubricDataset) -> frozenset[bytes]:
    """Fingerprints of the labelled items, from prompts and submissions."""
    texts = (
        f"{dataset.get_item_prompt(index)!r}{item.submission!r}"
        for index, item in enumerate(dataset)
        if item.ground_truth is not None
    )
    return frozenset(blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest() for text in texts)
