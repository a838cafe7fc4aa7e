"""Agreement from sums over items: statistics and intervals of a set of criteria.

Each item contributes the cells of every criterion's confusion matrix and the sums of its score differences. So one
array product gives the statistics of all items and of every sample that leaves one item out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from autorubric.metrics.agreement_statistics import Part, measure
from autorubric.metrics.arrays import Flags, Floats, nan_to_none, ratio
from autorubric.metrics.confusion import kappas
from autorubric.metrics.distribution import systematic_bias
from autorubric.metrics.intervals import Interval
from autorubric.metrics.jackknife import (
    Draws,
    IntervalResult,
    bounded_mean_intervals,
    kappa_interval,
    mean_kappa_interval,
    share_interval,
)
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.scores import ScorePairs
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.table import Column, Points

SCORE_SUMS = 4
"""Sums over score pairs: count, Σ difference, Σ difference², Σ |difference|."""
SUMMED = ("accuracy", "mean_kappa", "kappa", "rmse", "bias", "mae")
"""The first statistics of `Layout.summarize`: `kappa` is over all binary pairs. Those of the criteria follow."""

_POSTERIOR = "bayesian-bootstrap"
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Layout:
    """The position of each criterion's confusion matrix in a row of sums."""

    starts: tuple[int, ...]  # the first cell of each criterion, then the end of all cells
    sizes: tuple[int, ...]  # how many categories each criterion has
    weights: tuple[Floats, ...]  # of each criterion's κ
    binary: tuple[bool, ...]
    span: float = 1.0  # the largest possible error of a score

    def summarize(self, sums: Floats) -> Floats:
        """Compute accuracy, mean κ, binary κ, score RMSE, bias and MAE, then each criterion's κ, from sums (…, m).

        The mean κ is over the criteria whose κ is defined in these sums.
        """
        cells, (tables, pooled) = self.starts[-1], self.split_tables(sums)
        each = [kappas(t, w) for t, w in zip(tables, self.weights, strict=True)]
        stacked = np.stack(each, axis=-1)
        known = ~np.isnan(stacked)
        mean = ratio(np.where(known, stacked, 0.0).sum(axis=-1), known.sum(axis=-1))
        hits = sum(np.trace(table, axis1=-2, axis2=-1) for table in tables)
        n, shift, squares, sizes = (sums[..., cells + place] for place in range(4))
        # Differences of sums that should be 0 may be just below it.
        errors = np.sqrt(np.maximum(ratio(squares, n), 0.0)), ratio(shift, n), ratio(sizes, n)
        accuracy = ratio(hits, sums[..., :cells].sum(axis=-1))
        return np.stack([accuracy, mean, kappas(pooled), *errors, *each], axis=-1)

    def count_hits(self, total: Floats) -> tuple[Floats, Floats]:
        """Return the number of agreeing pairs and of all pairs for each criterion, from the sums over items."""
        tables, _ = self.split_tables(total)
        return np.array([np.trace(table) for table in tables]), np.array([table.sum() for table in tables])

    def split_tables(self, sums: Floats) -> tuple[list[Floats], Floats]:
        """Return the confusion matrix of each criterion, and that of all binary criteria, from sums (…, m)."""
        tables = [
            sums[..., start : start + size * size].reshape(*sums.shape[:-1], size, size)
            for start, size in zip(self.starts, self.sizes, strict=False)
        ]
        binary = [table for table, is_binary in zip(tables, self.binary, strict=True) if is_binary]
        return tables, sum(binary[1:], binary[0]) if binary else np.zeros((*sums.shape[:-1], 2, 2))

    def compute_intervals(self, sums: Floats, draws: Draws) -> list[IntervalResult]:
        """Return an interval for each statistic of `summarize`; `sums` has one row per item.

        The mean κ is over the criteria whose κ is defined in all items.
        """
        cells = self.starts[-1]
        paired, scored = sums[sums[:, :cells].any(axis=1)], sums[sums[:, cells] > 0]
        tables, pooled = self.split_tables(paired)
        hits = sum(np.trace(table, axis1=-2, axis2=-1) for table in tables)
        accuracy = share_interval(hits, paired[:, :cells].sum(axis=-1), draws.confidence)
        each = [kappa_interval(t, w, draws) for t, w in zip(tables, self.weights, strict=True)]
        known = [at for at, w in enumerate(self.weights) if not np.isnan(kappas(tables[at].sum(axis=0), w))]
        mean_kappa = IntervalResult(None, _POSTERIOR)
        if len(known) == 1:
            mean_kappa = each[known[0]]
        elif known:
            found = mean_kappa_interval([tables[at] for at in known], [self.weights[at] for at in known], draws)
            mean_kappa = IntervalResult(found, _POSTERIOR)
        micro = kappa_interval(pooled, np.eye(pooled.shape[-1]), draws)
        rmse = mae = bias = None
        if len(scored):
            shift, squares, sizes = (scored[:, cells + 1 : cells + 4] / scored[:, cells : cells + 1]).T
            most = max(self.span, float(sizes.max()))
            ends = np.array([[0.0, 0.0], [most**2, most]])
            square, mae = bounded_mean_intervals(np.column_stack([squares, sizes]), ends, draws)
            rmse = Interval(math.sqrt(square.low), math.sqrt(square.high), square.confidence)
            ci = systematic_bias(shift, np.zeros_like(shift), confidence=draws.confidence).ci
            bias = None if ci is None else Interval(ci.lower, ci.upper, ci.confidence)
        scores = IntervalResult(rmse, _POSTERIOR), IntervalResult(bias, "t"), IntervalResult(mae, _POSTERIOR)
        return [IntervalResult(accuracy, "wilson"), mean_kappa, micro, *scores, *each]


def sum_items(
    columns: Sequence[Column], rows: int, points: Points, scores: ScorePairs | None = None
) -> tuple[Layout, Floats]:
    """Return the layout of the sums, and the contribution of each of the first `rows` items, one row per item.

    A row has all cells, then `SCORE_SUMS`. Weights of points are rescaled to a mean of 1.
    """
    sizes = np.array([len(column.categories) for column in columns], np.int64)
    starts = np.cumsum([0, *sizes**2])
    cells = int(starts[-1])
    width = cells + SCORE_SUMS
    cell = starts[points.column] + points.truth * sizes[points.column] + points.judged
    weights = points.weights
    if weights is not None and len(weights):
        weights = None if np.ptp(weights) <= _ROUNDING * weights.max() else weights / weights.mean()
    counts = np.bincount(points.row * width + cell, weights, rows * width)
    sums = counts.astype(float).reshape(rows, width)
    if scores is not None:
        difference = scores.judged - scores.true
        ones = np.ones(len(difference))
        sums[scores.rows, cells:] = np.stack([ones, difference, difference**2, np.abs(difference)], axis=1)
    layout = Layout(
        tuple(starts.tolist()),
        tuple(sizes.tolist()),
        tuple(column.agreement for column in columns),
        tuple(column.kind == "binary" for column in columns),
        1.0 if scores is None else scores.span,
    )
    return layout, sums


class ColumnAgreement(NamedTuple):
    """The agreement over some of the criteria: statistics, and some of their intervals, by name."""

    values: dict[str, float | None]
    intervals: dict[str, ConfidenceInterval | None]


def measure_columns(run: LabelledRun, columns: Flags, draws: Draws | None) -> ColumnAgreement:
    """Return the agreement over the chosen columns; intervals by resampling items.

    Accuracy and the majority-class baseline are over all pairs, all other statistics over the binary ones.
    """
    points = run.points.select(columns[run.points.column])
    binary = points.select(run.table.is_binary[points.column])
    extra = ("CANNOT_ASSESS",) if run.table.modes.cannot_assess == "as_category" else ()
    values = measure(Part("binary", binary.truth, binary.judged, ("MET", "UNMET", *extra)))
    values["accuracy"] = float((points.truth == points.judged).mean()) if len(points) else None
    values["majority_baseline"] = compute_majority_baseline(run.table.columns, points, pooled=run.pooled)
    if not len(points):
        return ColumnAgreement(values | {"mean_kappa": None}, {})
    if run.pooled:
        chosen, points = pool_columns(run.table.columns, points)
    else:
        chosen = tuple(column for column, wanted in zip(run.table.columns, columns, strict=True) if wanted)
        points = replace(points, column=(np.cumsum(columns) - 1)[points.column])
    layout, sums = sum_items(chosen, len(run.table.items), points, run.scores)
    tables, _ = layout.split_tables(sums.sum(axis=0))
    each = np.array([kappas(table, column.agreement) for table, column in zip(tables, chosen, strict=True)])
    mean = ratio(np.nansum(each), np.count_nonzero(~np.isnan(each)))
    # A column that pools many criteria has no κ of its own.
    values["mean_kappa"] = None if run.pooled else nan_to_none(mean)
    if draws is None:
        return ColumnAgreement(values, {})
    names = [*SUMMED, *(column.name if run.pooled else str(column.index) for column in chosen)]
    found = zip(names, layout.compute_intervals(sums, draws), strict=True)
    intervals = {name: ConfidenceInterval.from_interval(*each) for name, each in found}
    return ColumnAgreement(values, intervals | ({"mean_kappa": None} if run.pooled else {}))


def pool_columns(columns: Sequence[Column], points: Points) -> tuple[tuple[Column, ...], Points]:
    """Pool the points into one column for all binary criteria and one (right or wrong) for all others."""
    binary = np.array([column.kind == "binary" for column in columns])[points.column]
    criterion = columns[0].criterion.model_copy(update={"options": None})
    met = next((column for column in columns if column.kind == "binary"), Column.from_criterion(criterion, 0))
    # Right and wrong options are not MET and UNMET, so the κ of all binary pairs leaves them out.
    wrong = replace(Column.from_criterion(criterion, 1, "multi-choice"), kind="nominal")
    pooled = replace(met, index=0, name="binary"), wrong
    made = replace(
        points,
        column=np.where(binary, 0, 1),
        truth=np.where(binary, points.truth, 0),
        judged=np.where(binary, points.judged, (points.truth != points.judged).astype(np.int64)),
    )
    return pooled, made


def compute_majority_baseline(columns: Sequence[Column], points: Points, *, pooled: bool = False) -> float | None:
    """Return the accuracy of always giving the most frequent label of each criterion; None without pairs.

    With `pooled`, criteria with the same categories share one baseline, because items with their own rubrics have too
    few labels per criterion.
    """
    if not len(points):
        return None
    places: dict[object, int] = {}
    keys = ((column.kind == "binary", column.labels) if pooled else column.index for column in columns)
    groups = np.array([places.setdefault(key, len(places)) for key in keys])
    width = int(points.truth.max()) + 1
    counts = np.bincount(groups[points.column] * width + points.truth, points.weights, len(places) * width)
    return float(counts.reshape(-1, width).max(axis=1).sum() / counts.sum())
