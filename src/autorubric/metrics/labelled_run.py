"""A run and its labels, joined and coded: what every figure is counted from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from autorubric.core.length_penalty import LengthPenalty, compute_length_penalty
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.abstentions import Modes, settled
from autorubric.metrics.arrays import Floats
from autorubric.metrics.joining import GradedItems, join
from autorubric.metrics.repeated_votes import refuse_repeated_votes
from autorubric.metrics.scores import ScorePairs, grader_settings, score_pairs
from autorubric.metrics.table import Points, Table, build_table

PerItemMetrics: TypeAlias = Literal["auto", "pooled", "per_criterion"]


@dataclass(frozen=True)
class LabelledRun:
    """A run and its labels, ready to be counted.

    Attributes:
        table: the labelled items.
        points: its pairs, abstentions settled.
        scores: the pairs of scores.
        modes: how abstentions were settled.
        warnings: what did not fit.
        pooled: whether criteria are taken together because items have rubrics of their own.
        settings: the grader's, as its run recorded them.
    """

    table: Table
    points: Points
    scores: ScorePairs
    modes: Modes
    warnings: tuple[str, ...] = ()
    pooled: bool = False
    settings: Mapping[str, Any] | None = None


def labelled_run(
    eval_result: GradedItems,
    dataset: RubricDataset,
    modes: Modes = Modes(),  # noqa: B008 (a value)
    per_item_metrics: PerItemMetrics = "auto",
) -> LabelledRun:
    """A run and its labels, joined and coded.

    Raises:
        InputError: see `compute_metrics`.
    """
    if per_item_metrics not in get_args(PerItemMetrics):
        raise InputError(f"per_item_metrics={per_item_metrics!r} is not one of {', '.join(get_args(PerItemMetrics))}")
    joined = join(eval_result, dataset)
    if not joined.pairs:
        raise InputError(["no graded item has both ground truth and a judgment", *joined.warnings])
    refuse_repeated_votes(joined.pairs)
    table = build_table(joined, dataset)
    points = settled(table, modes)
    if not len(points):
        raise InputError("no label and verdict are left to compare: one of each pair abstains or failed")
    settings = grader_settings(eval_result)
    differ = dataset.rubric is None and not _one_rubric(table)
    return LabelledRun(
        table,
        points,
        score_pairs(
            table, table.scores, table.points.judged, settings, table.means, _penalties(table, dataset, settings)
        ),
        modes,
        tuple(joined.warnings),
        per_item_metrics == "pooled" or (per_item_metrics == "auto" and differ),
        settings,
    )


def _penalties(table: Table, dataset: RubricDataset, settings: Mapping[str, Any] | None) -> Floats | None:
    """What the length of each row's submission takes, counted in words as the settings do not keep another length."""
    stated = (settings or {}).get("length_penalty")
    if not stated:
        return None
    penalty = LengthPenalty.model_validate(stated)
    return np.array([compute_length_penalty(dataset[int(item)].submission, penalty) for item in table.items])


def _one_rubric(table: Table) -> bool:
    """Whether every item has every criterion."""
    return bool((np.bincount(table.points.column, minlength=len(table.columns)) == table.rows).all())
