"""Agreement over all points of one kind, for items whose rubrics are their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np

from autorubric.metrics.abstentions import Modes, coverage_of
from autorubric.metrics.arrays import defined
from autorubric.metrics.balanced_accuracy import balanced_accuracy
from autorubric.metrics.cohen_kappa import kappas
from autorubric.metrics.column import ABSTAINED, Column, CriterionType
from autorubric.metrics.confusion import confusion_counts
from autorubric.metrics.criterion_results import ConfusionMatrix
from autorubric.metrics.error_size import mae, rmse
from autorubric.metrics.gwet import gwets
from autorubric.metrics.mcc import mcc
from autorubric.metrics.pearson import pearson
from autorubric.metrics.precision_recall import precision_recall
from autorubric.metrics.results import PooledScaleMetrics
from autorubric.metrics.spearman import spearman
from autorubric.metrics.table import Points, Table


def pooled_by_scale(table: Table, points: Points, modes: Modes) -> list[PooledScaleMetrics]:
    """The figures of each kind of criterion that occurs.

    Args:
        table: all that was labelled.
        points: its pairs, abstentions settled.
        modes: how abstentions were settled.
    """
    kinds = np.array([column.kind for column in table.columns])
    found = []
    for kind in get_args(CriterionType):
        raw = table.points.where(kinds[table.points.column] == kind)
        if len(raw):
            found.append(_scale(kind, table, raw, points.where(kinds[points.column] == kind), modes))
    return found


def _scale(kind: CriterionType, table: Table, raw: Points, points: Points, modes: Modes) -> PooledScaleMetrics:
    same = points.truth == points.judged
    figures: dict[str, Any] = {"value_rmse": None, "value_mae": None, "value_spearman": None, "value_pearson": None}
    worth = _values(table, points)
    if worth is not None and len(points):
        judged, true = worth
        rank, line = spearman(judged, true), pearson(judged, true)
        figures = {
            "value_rmse": rmse(judged, true),
            "value_mae": mae(judged, true),
            "value_spearman": None if rank is None else rank[0],
            "value_pearson": None if line is None else line[0],
        }
    if kind == "binary":
        figures |= _binary(points, modes)
    return PooledScaleMetrics(
        scale_type=kind,
        n_points=len(points),
        exact_accuracy=float(same.mean()) if len(same) else None,
        n_abstain=int(((raw.truth == ABSTAINED) | (raw.judged == ABSTAINED)).sum()),
        coverage_stats=coverage_of(raw, len(points)),
        **figures,
    )


def _values(table: Table, points: Points) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The values of both sides; None where an abstention is a category, which has no value."""
    sizes = np.array([len(column.values) for column in table.columns], np.int64)
    if ((points.truth >= sizes[points.column]) | (points.judged >= sizes[points.column])).any():
        return None
    values = np.zeros((len(sizes), int(sizes.max(initial=1))))
    for place, column in enumerate(table.columns):
        values[place, : len(column.values)] = column.values
    return values[points.column, points.judged], values[points.column, points.truth]


def _binary(points: Points, modes: Modes) -> dict[str, Any]:
    labels = ["MET", "UNMET", *(["CANNOT_ASSESS"] if modes.cannot_assess == "as_category" else [])]
    counts = confusion_counts(points.truth, points.judged, len(labels))
    return {
        **precision_recall(counts)._asdict(),
        "kappa": defined(kappas(counts)),
        "phi": mcc(confusion_counts(points.truth > 0, points.judged > 0, 2)),
        "confusion_matrix": ConfusionMatrix(matrix=counts.tolist(), labels=labels),
        "gwet": defined(gwets(counts)),
        "balanced_accuracy": balanced_accuracy(counts),
    }


def as_pooled(table: Table, points: Points) -> tuple[Table, Points]:
    """The same points with one column for all binary criteria and one, right or wrong, for all others."""
    binary = np.array([column.kind == "binary" for column in table.columns], bool)[points.column]
    criterion = table.columns[0].criterion.model_copy(update={"options": None})
    columns = (Column.of(criterion, 0, "binary"), Column.of(criterion, 1, "multi-choice"))
    made = replace(
        points,
        column=np.where(binary, 0, 1),
        truth=np.where(binary, points.truth, 0),
        judged=np.where(binary, points.judged, (points.truth != points.judged).astype(np.int64)),
    )
    return replace(table, columns=columns), made
