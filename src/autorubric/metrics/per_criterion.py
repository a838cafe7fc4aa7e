"""The agreement on single criteria, and on all criteria of one kind if items have their own rubrics."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.metrics.agreement_statistics import Part, load_statistics, measure
from autorubric.metrics.agreement_sums import ColumnAgreement, measure_columns
from autorubric.metrics.arrays import Floats, Ints
from autorubric.metrics.confusion import precision_recall
from autorubric.metrics.correlation import compute_correlation, pearson, spearman
from autorubric.metrics.criterion_results import (
    ConfusionMatrix,
    CriterionMetrics,
    CriterionMetricsUnion,
    NominalCriterionMetrics,
    OptionMetrics,
    OrdinalCriterionMetrics,
)
from autorubric.metrics.intervals import wilson_interval
from autorubric.metrics.jackknife import Draws, kappa_interval
from autorubric.metrics.labelled_run import LabelledRun, measure_coverage
from autorubric.metrics.results import PooledScaleMetrics
from autorubric.metrics.statistic_results import ConfidenceInterval, KappaResult
from autorubric.metrics.table import ABSTAINED, Column, CriterionType, Points, build_value_table, map_codes


def build_part(column: Column, points: Points, votes: Ints) -> Part:
    """Return the pairs of one criterion, abstentions resolved, and its votes (judges × labelled points) as cast."""
    # An abstention that is a category has no value.
    has_values = max(points.truth.max(initial=0), points.judged.max(initial=0)) < len(column.values)
    none = np.empty(0)
    votes = np.where(votes == ABSTAINED, column.abstention, votes)
    return Part(
        column.kind,
        points.truth,
        points.judged,
        column.categories,
        column.agreement,
        np.unique(column.values, return_inverse=True)[1],
        column.values[points.truth] if has_values else none,
        column.values[points.judged] if has_values else none,
        votes[(votes >= 0).any(axis=1)],
        column.values if column.kind == "ordinal" else None,
    )


class PairAgreement(NamedTuple):
    """The agreement of two raters on one criterion, as `autorubric agree` computes it for the same pairs.

    Attributes:
        n: the number of pairs of verdicts, without abstentions.
        share: the share of pairs with the same verdict.
        interval: the 95% Wilson interval of the share.
        kappa: Cohen's κ, with quadratic weights for ordered options; None if there is only one category.
        kappa_interval: its 95% interval; None if it is undefined.
        abstained: the number of pairs in which one or both raters abstained.
        statistics: the registered statistics with a column in tables, by title; also of installed packages.
    """

    n: int
    share: float | None
    interval: tuple[float, float] | None
    kappa: float | None
    kappa_interval: tuple[float, float] | None
    abstained: int
    statistics: Mapping[str, float | None]


def measure_pairs(criterion: Criterion, counts: Sequence[tuple[str, str, int]]) -> PairAgreement:
    """Return the agreement of two raters on a criterion.

    Args:
        criterion: the criterion, with its options.
        counts: pairs of the raters' verdicts, and how often each occurs.

    Raises:
        InputError: a statistic of an installed package failed.

    Example:
        >>> counts = [("MET", "MET", 40), ("MET", "UNMET", 10), ("UNMET", "UNMET", 50)]
        >>> found = measure_pairs(Criterion(requirement="Is brief."), counts)
        >>> found.n, found.share, round(found.kappa, 3), found.statistics["baseline"]
        (100, 0.9, 0.8, 0.5)
    """
    column = Column.from_criterion(criterion, 0)
    places = [(column.codes.get(a, -1), column.codes.get(b, -1)) for a, b, _ in counts]
    codes, times = np.array(places, np.int64).reshape(-1, 2), np.array([n for _, _, n in counts], np.int64)
    decided = (codes >= 0).all(axis=1)
    codes, times, abstained = codes[decided], times[decided], int(times[~decided].sum())
    if not len(codes):
        return PairAgreement(0, None, None, None, None, abstained, {})
    truth, judged = np.repeat(codes, times, axis=0).T
    nowhere = np.zeros_like(truth)
    part = build_part(column, Points(nowhere, nowhere, truth, judged, nowhere[None, :0]), nowhere[None, :0])
    titles = {statistic.name: statistic.title for statistic in load_statistics() if statistic.title}
    found = measure(part, [statistic for statistic in load_statistics() if statistic.name in titles])
    size = len(column.categories)
    tables = np.eye(size * size)[codes @ [size, 1]].reshape(-1, size, size)
    around_share = wilson_interval(int(np.trace(part.counts)), len(truth))
    around_kappa, _ = kappa_interval(tables, column.agreement, Draws(seed=0), times.astype(float))
    return PairAgreement(
        len(truth),
        found["accuracy"],
        around_share and around_share[:2],
        found["kappa"],
        around_kappa and around_kappa[:2],
        abstained,
        {titles[name]: value for name, value in found.items()},
    )


def measure_criteria(
    run: LabelledRun, confidence: float, kappa_intervals: Mapping[str, ConfidenceInterval | None]
) -> list[CriterionMetricsUnion]:
    """Measure the agreement on each criterion; `kappa_intervals` are by the index of the column."""
    by_column = []
    for points in (run.table.points, run.points):
        ends = np.cumsum([0, *np.bincount(points.column, minlength=len(run.table.columns))])
        ordered = points.select(np.argsort(points.column, kind="stable"))
        by_column.append([ordered.select(slice(*each)) for each in pairwise(ends)])
    measured: list[CriterionMetricsUnion] = []
    for column, raw, points in zip(run.table.columns, *by_column, strict=True):
        part, n = build_part(column, points, raw.votes), len(points)
        values, counts = measure(part), part.counts
        wilson = wilson_interval(int(np.trace(counts)), n, confidence)
        fields: dict[str, Any] = {
            "name": column.name,
            "index": column.index,
            "n_samples": n,
            "kappa_ci": kappa_intervals.get(str(column.index)),
            "kappa_interpretation": KappaResult.interpret_kappa(values.get("kappa")),
            "is_degenerate": n > 0 and values.get("kappa") is None,
            "coverage_stats": measure_coverage(raw, n, run.lost.select(run.lost.column == column.index)),
            "weight": column.criterion.weight,
            "tags": column.criterion.tags,
            "accuracy_ci": ConfidenceInterval.from_interval(wilson, "wilson"),
            "n_judges": max(len(part.votes), 1),
            "confusion_matrix": ConfusionMatrix(matrix=counts.tolist(), labels=list(part.labels)),
        }
        if column.kind == "binary":
            supports = {"support_true": int(counts[0].sum()), "support_pred": int(counts[:, 0].sum())}
            measured.append(CriterionMetrics(**fields, **supports, **CriterionMetrics.to_fields(values)))
            continue
        fields |= {"n_options": len(column.labels), "per_option": _measure_options(counts, part.labels)}
        if column.kind == "nominal":
            measured.append(NominalCriterionMetrics(**fields, **NominalCriterionMetrics.to_fields(values)))
        else:
            series = part.judged_values, part.true_values
            fields |= {name: compute_correlation(*series, name, confidence) for name in ("spearman", "kendall")}
            measured.append(OrdinalCriterionMetrics(**fields, **OrdinalCriterionMetrics.to_fields(values)))
    return measured


def _measure_options(counts: Ints, labels: Sequence[str]) -> list[OptionMetrics]:
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


def measure_scales(run: LabelledRun, draws: Draws | None) -> list[PooledScaleMetrics]:
    """Measure the agreement on the pooled criteria of each kind, with intervals of accuracy and binary κ."""
    kinds = np.array([column.kind for column in run.table.columns])
    found = []
    for kind in get_args(CriterionType):
        raw = run.table.points.select(kinds[run.table.points.column] == kind)
        if len(raw):
            found.append(_measure_scale(kind, run, raw, measure_columns(run, kinds == kind, draws)))
    return found


def _measure_scale(kind: CriterionType, run: LabelledRun, raw: Points, whole: ColumnAgreement) -> PooledScaleMetrics:
    """Return the agreement over all points of one kind: `raw` as labelled and judged, `whole` with its intervals."""
    columns = run.table.columns
    points = run.points.select(np.array([column.kind == kind for column in columns])[run.points.column])
    votes, values = map_codes(raw.votes, columns, raw.column), None
    votes = votes[(votes >= 0).any(axis=1)]
    n_judges = max(len(votes), 1)
    own = [column for column in columns if column.kind == kind]
    alike = kind != "ordinal" and len({column.labels for column in own}) == 1
    if kind == "ordinal":
        values, places = np.unique(build_value_table(columns, 0.0), return_inverse=True)
        codes = places.reshape(len(columns), -1)[raw.column, np.maximum(votes, 0)]
        votes = np.where(votes >= 0, codes, -1)
    elif not alike:
        votes = votes[:0]  # votes on different options without an order are not comparable
    labels = own[0].categories if alike else ()
    series = _pair_values(columns, points)
    part = Part(kind, points.truth, points.judged, labels, None, None, *series, votes, values)
    measured = measure(part) | {name: whole.values[name] for name in ("accuracy", "majority_baseline")}
    rank, line = (f(*reversed(series)) if len(series[0]) else None for f in (spearman, pearson))
    matrix = ConfusionMatrix(matrix=part.counts.tolist(), labels=list(labels)) if kind == "binary" else None
    return PooledScaleMetrics(
        scale_type=kind,
        n_points=len(points),
        value_spearman=rank and rank[0],
        value_pearson=line and line[0],
        confusion_matrix=matrix,
        n_abstain=int(((raw.truth == ABSTAINED) | (raw.judged == ABSTAINED)).sum()),
        coverage_stats=measure_coverage(raw, len(points)),
        n_judges=n_judges,
        accuracy_ci=whole.intervals.get("accuracy"),
        kappa_ci=whole.intervals.get("kappa") if kind == "binary" else None,
        **PooledScaleMetrics.to_fields(measured),
    )


def _pair_values(columns: Sequence[Column], points: Points) -> tuple[Floats, Floats]:
    """Return the values of labels and verdicts; empty if abstentions are a category, because they have no value."""
    sizes = np.array([len(column.values) for column in columns], np.int64)[points.column]
    if ((points.truth >= sizes) | (points.judged >= sizes)).any():
        return np.empty(0), np.empty(0)
    values = build_value_table(columns)
    return values[points.column, points.truth], values[points.column, points.judged]
