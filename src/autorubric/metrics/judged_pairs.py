"""Scores and ground truth as pairs of item and criterion, where items may have rubrics of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion
from autorubric.core.criterion_names import criterion_names
from autorubric.core.report_scoring import worst_value
from autorubric.core.scoring import abstention_value
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.judged_table import (
    Array,
    Graded,
    GradedRun,
    Report,
    graded_items,
    truth_values,
    vote_dissent,
)
from autorubric.metrics.scores import ScoreRule, grader_settings, recorded_rule
from autorubric.metrics.verdicts import Entry

Integers: TypeAlias = npt.NDArray[np.int64]

_CLOSE = 1e-9


@dataclass(frozen=True)
class JudgedPairs:
    """The scored items of a run as pairs, one item's after the other; NaN where nothing was said.

    Attributes:
        items: each item's place in the dataset.
        starts: what each item scores with nothing met: 1 where its rubric has pitfalls alone, else 0.
        rows: of each pair, its item's place in `items`.
        places: its criterion's place in the item's rubric.
        criteria: its criterion.
        kinds: which pairs' errors tell of one another: those of one criterion; where items have rubrics of their own,
            those of all criteria and those of all pitfalls.
        shares: by how much of its item's score it counts; 0 where it was left out of the score.
        values: what the judge's word is worth, in [0, 1]; of an abstention what it counts by the run's rule.
        truth: what the ground truth is worth.
        dissent: the share of pairs of votes that differ; NaN with fewer than two votes.
        confidence: of the judge, where it states one.
        labelled: whether its item has ground truth.
        normalize: whether scores are shares of the full marks, and clamped to [0, 1].
    """

    items: tuple[int, ...]
    starts: Array
    rows: Integers
    places: Integers
    criteria: tuple[Criterion, ...]
    kinds: Integers
    shares: Array
    values: Array
    truth: Array
    dissent: Array
    confidence: Array
    labelled: npt.NDArray[np.bool_]
    normalize: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, pair: int) -> str:
        """The name of a pair's criterion, its own in its rubric; `C1`, `C2`, … where it has none."""
        first, end = np.searchsorted(self.rows, [self.rows[pair], self.rows[pair] + 1])
        return criterion_names(self.criteria[first:end])[int(self.places[pair])]

    @property
    def sums(self) -> Array:
        """Each item's score as its criteria add up, before it is clamped to [0, 1]."""
        return self.starts + self.summed(np.nan_to_num(self.values) * self.shares)

    @property
    def clamped(self) -> int:
        """How many items' scores are not these sums, as they are clamped."""
        outside = (self.sums < -_CLOSE) | (self.sums > 1.0 + _CLOSE)
        return int(outside.sum()) if self.normalize else 0

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest mean of such sums."""
        ends = (self.starts + self.summed(bound(self.shares, 0.0)) for bound in (np.minimum, np.maximum))
        least, most = (float(end.mean()) for end in ends)
        return least, most

    def summed(self, amounts: Array) -> Array:
        """The sum of each item's amounts, one amount for each pair."""
        return np.bincount(self.rows, amounts, minlength=len(self.items)).astype(float)


def judged_pairs(run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None) -> JudgedPairs:
    """The run as pairs, by the rule that it recorded. Items without a score (failed judgments, say) are left out.

    Raises:
        InputError: as `graded_items`, or no item has a score.

    Example:
        >>> from autorubric.metrics.judged_table import example_run
        >>> dataset, reports = example_run()
        >>> pairs = judged_pairs(reports, dataset)
        >>> len(pairs), pairs.name(1), pairs.shares[:3]
        (18, 'Style', array([ 0.75,  0.25, -0.25]))
    """
    rule = recorded_rule(grader_settings(run)) or ScoreRule()
    graded = [g for g in graded_items(run, dataset) if g.report.score is not None and g.criteria]
    if not graded:
        raise InputError("no graded item has a score; expected at least one")
    entries = [entry for g in graded for entry in g.report.report or ()]
    criteria = tuple(criterion for g in graded for criterion in g.criteria)
    sizes = [len(g.criteria) for g in graded]
    places, rows = np.concatenate([np.arange(size) for size in sizes]), np.repeat(np.arange(len(graded)), sizes)
    values = _numbers(_counted(entry, one, rule) for entry, one in zip(entries, criteria, strict=True))
    weights = np.where(np.isnan(values), 0.0, np.array([criterion.weight for criterion in criteria]))
    marks = np.bincount(rows, np.maximum(weights, 0.0))
    units = np.where(marks > 0, marks, np.bincount(rows, np.abs(weights)))
    return JudgedPairs(
        items=tuple(g.index for g in graded),
        starts=np.where((marks > 0) | (units == 0) | (not rule.normalize), 0.0, 1.0),
        rows=rows,
        places=places,
        criteria=criteria,
        kinds=places if _one_rubric(graded) else np.array([int(criterion.weight < 0) for criterion in criteria]),
        shares=weights / np.where(units == 0, 1.0, units)[rows] if rule.normalize else weights,
        values=values,
        truth=_numbers(value for g in graded for value in truth_values(g)),
        dissent=_numbers(map(vote_dissent, entries)),
        confidence=_numbers(entry.confidence for entry in entries),
        labelled=np.repeat([g.item.ground_truth is not None for g in graded], sizes),
        normalize=rule.normalize,
    )


def _counted(entry: Entry, criterion: Criterion, rule: ScoreRule) -> float | None:
    """What the word that counts adds to the score, for each point of weight."""
    if not entry.is_na:
        return entry.score_value
    return abstention_value(criterion.weight, worst_value(criterion), rule.cannot_assess)


def _one_rubric(graded: list[Graded]) -> bool:
    return all(g.criteria == graded[0].criteria for g in graded)


def _numbers(values: Iterable[float | None]) -> Array:
    return np.array([math.nan if value is None else value for value in values], dtype=float)
