"""Agreement over all points of one kind, for items whose rubrics are their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from autorubric.metrics.abstentions import Modes, coverage_of
from autorubric.metrics.arrays import Floats, Ints, defined
from autorubric.metrics.base_rate import base_rate
from autorubric.metrics.between_judges import krippendorff_alpha, rating_counts
from autorubric.metrics.column import ABSTAINED, Column, CriterionType
from autorubric.metrics.confusion import balanced_accuracy, confusion_counts, mcc, precision_recall
from autorubric.metrics.correlation import mae, pearson, rmse, spearman
from autorubric.metrics.criterion_results import ConfusionMatrix
from autorubric.metrics.kappa import gwets, kappas
from autorubric.metrics.results import PooledScaleMetrics
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
        base_rate=base_rate(table.columns, points, pooled=True),
        **_among_judges(kind, table.columns, raw, modes),
        **figures,
    )


def _among_judges(kind: CriterionType, columns: Sequence[Column], raw: Points, modes: Modes) -> dict[str, Any]:
    """Krippendorff's α over all points of a kind, and the number of judges."""
    own = [column for column in columns if column.kind == kind]
    votes = _settled_votes(columns, raw, modes.of(own[0]))
    votes = votes[(votes >= 0).any(axis=1)]
    if len(votes) < 2 or (kind == "nominal" and len({column.labels for column in own}) > 1):
        return {"n_judges": max(len(votes), 1)}
    if kind != "ordinal":
        alpha = krippendorff_alpha(rating_counts(votes, len(modes.labels(own[0]))))
    else:
        values, places = np.unique(_value_table(columns), return_inverse=True)
        codes = places.reshape(len(columns), -1)[raw.column, np.maximum(votes, 0)]
        alpha = krippendorff_alpha(rating_counts(np.where(votes >= 0, codes, -1), len(values)), "interval", values)
    return {"krippendorff_alpha": alpha, "n_judges": len(votes)}


def _settled_votes(columns: Sequence[Column], raw: Points, mode: str) -> Ints:
    """All votes on criteria of one kind with abstentions settled, as `settled_votes` settles those on one."""
    if mode == "exclude":
        return raw.votes
    instead = np.array([column.worst if mode == "as_unmet" else _extra(column) for column in columns], np.int64)
    return np.where(raw.votes == ABSTAINED, instead[raw.column], raw.votes)


def _extra(column: Column) -> int:
    return ABSTAINED if column.kind == "ordinal" else len(column.labels)


def _values(table: Table, points: Points) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The values of both sides; None where an abstention is a category, which has no value."""
    sizes = np.array([len(column.values) for column in table.columns], np.int64)
    if ((points.truth >= sizes[points.column]) | (points.judged >= sizes[points.column])).any():
        return None
    values = _value_table(table.columns)
    return values[points.column, points.judged], values[points.column, points.truth]


def _value_table(columns: Sequence[Column]) -> Floats:
    """The values of each column's categories, filled up with 0."""
    values = np.zeros((len(columns), max((len(column.values) for column in columns), default=1)))
    for place, column in enumerate(columns):
        values[place, : len(column.values)] = column.values
    return values


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
