"""Reports and ground truth as arrays: items down, criteria across, NaN where nothing was said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion
from autorubric.core.criterion_names import criterion_names
from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
)
from autorubric.core.scoring import cell
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.joining import GradedItem, Places, each_once, other_criteria, places_of
from autorubric.metrics.verdicts import criterion_of

Array: TypeAlias = npt.NDArray[np.float64]
Report: TypeAlias = EvaluationReport | EnsembleEvaluationReport


class GradedRun(Protocol):
    """A graded run: what `autorubric.runs.EvalResult` is."""

    @property
    def item_results(self) -> Sequence[GradedItem]:
        """The items that were graded or failed."""


@dataclass(frozen=True)
class Graded:
    """One item with the criteria that apply to it and its report, whose entries stand in their order."""

    index: int
    item: DataItem
    criteria: Sequence[Criterion]
    report: Report


@dataclass(frozen=True)
class JudgedTable:
    """A run over one rubric as arrays.

    Attributes:
        criteria: the rubric.
        indices: each row's item, as its place in the dataset.
        values: what the judge's word is worth, in [0, 1]; items × criteria, as the next two.
        truth: what the ground truth is worth.
        dissent: the share of pairs of votes that differ; NaN with fewer than two votes.
        labelled: the rows whose item has ground truth, an abstention too.
    """

    criteria: tuple[Criterion, ...]
    indices: tuple[int, ...]
    values: Array
    truth: Array
    dissent: Array
    labelled: tuple[int, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the criteria, each its own; `C1`, `C2`, … where they have none."""
        return criterion_names(self.criteria)


def graded_items(run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None) -> list[Graded]:
    """The items of a dataset that have a report with criteria, in the run's order.

    The items of a run are found in the dataset as `autorubric.metrics.joining.join` finds them.

    Args:
        run: a run, or one report (or None) for each item of the dataset.
        dataset: what was graded; None for the items that the run itself has, judged by the criteria of its reports.

    Raises:
        InputError: the run has other items than the dataset, or a report has other criteria than its item.
    """
    if dataset is None:
        return _of_run(run)
    pairs = list(_reports_by_item(run, dataset))
    outside = [place for place, (index, _) in enumerate(pairs) if index is None]
    if outside:
        raise InputError(
            f"{len(outside)} of the run's {len(pairs)} items are not in the dataset: {_some(outside)}",
            "Is this the dataset that was graded?",
        )
    found, problems, seen = [], [], set[int]()
    for index, report in pairs:
        if index is None or index in seen or report is None or report.report is None:
            continue
        seen.add(index)
        rubric, said = dataset.get_item_rubric(index), [criterion_of(entry) for entry in report.report]
        order = places_of(said, rubric.rubric)
        if order is None:
            problems.append(other_criteria(index, dataset[index], said, rubric))
            continue
        ordered = report.model_copy(update={"report": [report.report[place] for place in order]})
        found.append(Graded(index, dataset[index], tuple(rubric), ordered))
    if problems:
        raise InputError(problems, "Is this the dataset that was graded?")
    return found


def left_out(graded: Sequence[Graded], items: int, of: str) -> Iterator[str]:
    """Sentences on the items of a dataset that have no report with criteria, and on those that have no score.

    Args:
        graded: what `graded_items` gives.
        items: how many the dataset has.
        of: the figures that need a score.

    Example:
        >>> dataset, reports = example_run()
        >>> list(left_out(graded_items([None, *reports[1:]], dataset), len(dataset), "the mean score"))
        ['1 of 6 items have no report with criteria and are left out']
    """
    if len(graded) < items:
        yield f"{items - len(graded)} of {items} items have no report with criteria and are left out"
    unscored = sum(g.report.score is None for g in graded)
    if unscored:
        yield f"{unscored} of {items} items have no score and are left out of {of}"


def _of_run(run: GradedRun | Sequence[Report | None]) -> list[Graded]:
    """The items as the run has them."""
    results = () if isinstance(run, Sequence) else run.item_results
    items = [getattr(result, "item", None) for result in results]
    if None in items or not items:
        raise InputError("the reports do not say what items they are about; give the dataset that was graded")
    found = []
    for result, item in zip(results, items, strict=True):
        if item is not None and result.report.report is not None:
            criteria = tuple(_without_word(criterion_of(entry)) for entry in result.report.report)
            found.append(Graded(result.item_idx, item, criteria, result.report))
    return found


def _without_word(criterion: Criterion) -> Criterion:
    """The criterion itself of a report's entry, which may carry a verdict."""
    return Criterion(**{name: getattr(criterion, name) for name in Criterion.model_fields})


def judged_table(run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None) -> JudgedTable:
    """The run as arrays; its items share one rubric.

    Raises:
        InputError: as `graded_items`, or items have rubrics of their own that differ, or nothing was graded.

    Example:
        >>> dataset, reports = example_run()
        >>> table = judged_table(reports, dataset)
        >>> table.values[0], table.truth[0]
        (array([1., 0., 0.]), array([1., 1., 0.]))
    """
    graded = graded_items(run, dataset)
    if not graded:
        raise InputError("the run has no report with criteria; expected at least one graded item")
    criteria = tuple(graded[0].criteria)
    others = [g.index for g in graded if g.criteria != criteria]
    if others:
        raise InputError(
            f"items {_some(others)} have other criteria than item {graded[0].index}; "
            "figures by criterion need one rubric for all items"
        )
    return JudgedTable(
        criteria,
        tuple(g.index for g in graded),
        _array([entry.score_value for entry in g.report.report or ()] for g in graded),
        _array(truth_values(g) for g in graded),
        _array([vote_dissent(entry) for entry in g.report.report or ()] for g in graded),
        tuple(row for row, g in enumerate(graded) if g.item.ground_truth is not None),
    )


def truth_values(graded: Graded) -> list[float | None]:
    """What each label of an item is worth, in [0, 1]; None for abstentions and items without labels."""
    labels = graded.item.ground_truth
    if labels is None:
        return [None] * len(graded.criteria)
    return [cell(criterion, label).value for criterion, label in zip(graded.criteria, labels, strict=True)]


def vote_dissent(entry: CriterionReport | EnsembleCriterionReport) -> float | None:
    """The share of pairs of a panel's votes that differ; None with fewer than two votes that count.

    Example:
        >>> from autorubric.core.votes import JudgeVote
        >>> votes = [JudgeVote(judge_id=n, verdict=v, reason=None) for n, v in zip("abc", ("MET", "MET", "UNMET"))]
        >>> round(vote_dissent(EnsembleCriterionReport(
        ...     criterion=Criterion(requirement="Is brief"), final_verdict="MET", final_reason=None, votes=votes
        ... )), 3)
        0.667
    """
    if not isinstance(entry, EnsembleCriterionReport):
        return None
    words: list[object] = [v.verdict for v in entry.votes if not (v.superseded or v.is_error)]
    words += [v.selected_index for v in entry.multi_choice_votes if not (v.superseded or v.is_error)]
    pairs = math.comb(len(words), 2)
    if not pairs:
        return None
    return 1.0 - sum(math.comb(count, 2) for count in Counter(words).values()) / pairs


def example_run() -> tuple[RubricDataset, list[Report | None]]:
    """Six graded submissions of three criteria, four of them labelled, for examples and first steps.

    Example:
        >>> len(example_run()[0])
        6
    """
    from autorubric.core.rubric import Rubric

    rubric = Rubric(
        [
            Criterion(name="Causes", weight=30, requirement="Names two causes"),
            Criterion(name="Style", weight=10, requirement="Reads well"),
            Criterion(name="Errors", weight=-10, requirement="Has a wrong date"),
        ]
    )
    dataset = RubricDataset("Explain the Industrial Revolution", rubric)
    reports: list[Report | None] = []
    rows = (("100", "110"), ("110", "110"), ("010", "000"), ("001", "001"), ("110", None), ("000", None))
    for number, (judged, labels) in enumerate(rows):
        dataset.add_item(
            f"Essay {number}", f"essay {number}", None if labels is None else [_VERDICTS[x] for x in labels]
        )
        said = [_VERDICTS[x] for x in judged]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, said, strict=True)
        ]
        reports.append(EvaluationReport(score=rubric.compute_score(said), report=entries))
    return dataset, reports


_VERDICTS = {"0": "UNMET", "1": "MET"}


def _reports_by_item(
    run: GradedRun | Sequence[Report | None], dataset: RubricDataset
) -> Iterator[tuple[int | None, Report | None]]:
    if not isinstance(run, Sequence):
        places = Places(dataset)
        for result in each_once(run.item_results):
            yield places.find(result), result.report
        return
    if len(run) != len(dataset):
        raise InputError(f"there are {len(run)} reports for {len(dataset)} items; expected one each, or None")
    yield from enumerate(run)


def _array(rows: Iterable[Sequence[float | None]]) -> Array:
    return np.array([[math.nan if value is None else value for value in row] for row in rows], dtype=float)


def _some(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:5]))
    return f"{shown} and {len(indices) - 5} more" if len(indices) > 5 else shown
