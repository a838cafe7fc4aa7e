"""Reports and ground truth as pairs of item and criterion, where items may have rubrics of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion
from autorubric.core.criterion_names import criterion_names
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.judged_table import (
    Array,
    Graded,
    GradedRun,
    Report,
    graded_items,
    shares_of,
    truth_values,
    vote_dissent,
)

Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JudgedPairs:
    """A run as pairs, one item's after the other; NaN where nothing was said.

    Attributes:
        items: each item's place in the dataset.
        rows: of each pair, its item's place in `items`.
        places: its criterion's place in the item's rubric.
        criteria: its criterion.
        kinds: which pairs' errors tell of one another: those of one criterion; where items have rubrics of their own,
            those of all criteria and those of all pitfalls.
        shares: by how much of its item's score it counts.
        values: what the judge's word is worth, in [0, 1].
        truth: what the ground truth is worth.
        dissent: the share of pairs of votes that differ; NaN with fewer than two votes.
        confidence: of the judge, where it states one.
        labelled: whether its item has ground truth.
    """

    items: tuple[int, ...]
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

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, pair: int) -> str:
        """The name of a pair's criterion, its own in its rubric; `C1`, `C2`, … where it has none."""
        rubric = [self.criteria[other] for other in np.flatnonzero(self.rows == self.rows[pair])]
        return criterion_names(rubric)[int(self.places[pair])]

    def summed(self, amounts: Array) -> Array:
        """The sum of each item's amounts, one amount for each pair."""
        return np.bincount(self.rows, amounts, minlength=len(self.items)).astype(float)


def judged_pairs(run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None) -> JudgedPairs:
    """The run as pairs.

    Raises:
        InputError: as `graded_items`, or nothing was graded.

    Example:
        >>> from autorubric.metrics.judged_table import example_run
        >>> dataset, reports = example_run()
        >>> pairs = judged_pairs(reports, dataset)
        >>> len(pairs), pairs.name(1), pairs.shares[:3]
        (18, 'Style', array([ 0.75,  0.25, -0.25]))
    """
    graded = graded_items(run, dataset)
    if not graded:
        raise InputError("the run has no report with criteria; expected at least one graded item")
    entries = [entry for g in graded for entry in g.report.report or ()]
    criteria = tuple(criterion for g in graded for criterion in g.criteria)
    sizes = [len(g.criteria) for g in graded]
    places = np.concatenate([np.arange(size) for size in sizes])
    return JudgedPairs(
        items=tuple(g.index for g in graded),
        rows=np.repeat(np.arange(len(graded)), sizes),
        places=places,
        criteria=criteria,
        kinds=places if _one_rubric(graded) else np.array([int(criterion.weight < 0) for criterion in criteria]),
        shares=np.concatenate([shares_of(g.criteria) for g in graded]),
        values=_numbers(entry.score_value for entry in entries),
        truth=_numbers(value for g in graded for value in truth_values(g)),
        dissent=_numbers(map(vote_dissent, entries)),
        confidence=_numbers(entry.confidence for entry in entries),
        labelled=np.repeat([g.item.ground_truth is not None for g in graded], sizes),
    )


def _one_rubric(graded: list[Graded]) -> bool:
    return all(g.criteria == graded[0].criteria for g in graded)


def _numbers(values: Iterable[float | None]) -> Array:
    return np.array([math.nan if value is None else value for value in values], dtype=float)
