"""The agreement of verdicts and labels on one criterion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autorubric.metrics.abstentions import Modes, coverage_of, settled_votes
from autorubric.metrics.arrays import Floats, Ints, defined
from autorubric.metrics.between_judges import BetweenJudges, between_judges
from autorubric.metrics.column import Column
from autorubric.metrics.confusion import (
    accuracies,
    accuracy,
    balanced_accuracy,
    confusion_counts,
    mcc,
    precision_recall,
)
from autorubric.metrics.correlation import correlation, mae, rmse
from autorubric.metrics.criterion_results import (
    ConfusionMatrix,
    CriterionMetrics,
    CriterionMetricsUnion,
    NominalCriterionMetrics,
    OptionMetrics,
    OrdinalCriterionMetrics,
)
from autorubric.metrics.intervals import wilson_interval
from autorubric.metrics.kappa import agreement_weights, gwets, kappas
from autorubric.metrics.statistic_results import ConfidenceInterval, kappa_word
from autorubric.metrics.table import Points


def kappa_weights(column: Column, categories: int) -> Floats:
    """How much each pair of a criterion's categories counts as agreement: quadratic by value where they are ordered.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> kappa_weights(Column.of(Criterion(requirement="Is brief"), 0), 2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    if column.kind == "ordinal" and categories == len(column.values):
        return agreement_weights(column.values, "quadratic")
    return np.eye(categories)


def criterion_agreement(
    column: Column, points: Points, raw: Points, modes: Modes, confidence: float = 0.95, errored: int = 0
) -> CriterionMetricsUnion:
    """The figures of one criterion.

    Args:
        column: the criterion.
        points: its pairs, abstentions settled.
        raw: all that was labelled of it.
        modes: how abstentions were settled.
        confidence: of the interval.
        errored: how many more were labelled, of items that have no judgment at all.
    """
    labels = modes.labels(column)
    counts = confusion_counts(points.truth, points.judged, len(labels))
    judges = between_judges(settled_votes(raw.votes, column, modes), column, len(labels))
    common = _common(column, points, counts, confidence) | _among(judges)
    common["coverage_stats"] = coverage_of(raw, len(points), errored)
    table = ConfusionMatrix(matrix=counts.tolist(), labels=list(labels))
    exact, kappa = accuracy(counts), defined(kappas(counts, kappa_weights(column, len(labels))))
    common["kappa_interpretation"] = kappa_word(kappa)
    if column.kind == "binary":
        return CriterionMetrics(
            **common,
            **precision_recall(counts)._asdict(),
            accuracy=exact,
            kappa=kappa,
            support_true=int(counts[0].sum()),
            support_pred=int(counts[:, 0].sum()),
            confusion_matrix=table,
            fpr=table.fpr,
            fnr=table.fnr,
            phi=mcc(_one_against_rest(counts)),
        )
    common |= {"n_options": len(column.labels), "exact_accuracy": exact, "per_option": per_option(counts, labels)}
    if column.kind == "nominal":
        return NominalCriterionMetrics(**common, kappa=kappa, confusion_matrix=table)
    judged, true = column.values[points.judged], column.values[points.truth]
    return OrdinalCriterionMetrics(
        **common,
        weighted_kappa=kappa,
        adjacent_accuracy=defined(accuracies(counts, column.ranks, within=1)),
        spearman=correlation(judged, true, "spearman", confidence),
        kendall=correlation(judged, true, "kendall", confidence),
        rmse=rmse(judged, true),
        mae=mae(judged, true),
        confusion_matrix=table,
    )


def per_option(counts: Ints, labels: Sequence[str]) -> list[OptionMetrics]:
    """Precision, recall and F1 of each category against the rest.

    Example:
        >>> per_option(np.array([[1, 0], [1, 0]]), ["No", "Yes"])[0].precision
        0.5
    """
    return [
        OptionMetrics(
            label=label,
            index=index,
            **precision_recall(counts, index)._asdict(),
            support_true=int(counts[index].sum()),
            support_pred=int(counts[:, index].sum()),
        )
        for index, label in enumerate(labels)
    ]


def _common(column: Column, points: Points, counts: Ints, confidence: float) -> dict[str, Any]:
    n = len(points)
    true, given = counts.sum(axis=1), counts.sum(axis=0)
    hits = int(np.trace(counts))
    return {
        "name": column.name,
        "index": column.index,
        "n_samples": n,
        "is_degenerate": int((true > 0).sum()) < 2 or int((given > 0).sum()) < 2,
        "weight": column.criterion.weight,
        "tags": column.criterion.tags,
        "base_rate": float(true.max() / n) if n else None,
        "gwet": defined(gwets(counts, kappa_weights(column, len(counts)))),
        "balanced_accuracy": balanced_accuracy(counts),
        "mcc": mcc(counts),
        "accuracy_ci": ConfidenceInterval.of(wilson_interval(hits, n, confidence), "wilson"),
    }


def _among(judges: BetweenJudges) -> dict[str, Any]:
    return {
        "krippendorff_alpha": judges.krippendorff_alpha,
        "fleiss_kappa": judges.fleiss_kappa,
        "judge_gwet": judges.gwet,
        "icc": judges.icc,
        "n_judges": judges.n_judges,
    }


def _one_against_rest(counts: Ints) -> Ints:
    """The counts with all categories but the first as one."""
    hits, true, given = counts[0, 0], counts[0].sum(), counts[:, 0].sum()
    return np.array([[hits, true - hits], [given - hits, counts.sum() - true - given + hits]])
