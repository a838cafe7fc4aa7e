"""What each item adds to the sums that agreement is a function of, and the statistics of such sums.

For every criterion the cells of its confusion matrix, then the sums of the score differences. Everything that is
bootstrapped or permuted is a function of these alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autorubric.metrics.abstentions import Modes
from autorubric.metrics.arrays import Floats, ratio
from autorubric.metrics.columns import Column
from autorubric.metrics.kappa import agreement_weights, kappas
from autorubric.metrics.scores import ScorePairs
from autorubric.metrics.table import Points, Table

SCORE_SUMS = 6
"""Score pairs: how many, Σ difference, Σ difference², Σ |difference|, Σ judged, Σ true."""
SUMMED = ("accuracy", "mean_kappa", "kappa", "rmse", "bias", "mae")
"""The first statistics of `summed_statistics`: `kappa` is over all binary pairs. Those of the criteria follow."""


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


@dataclass(frozen=True)
class Layout:
    """Where the sums of each criterion stand.

    Attributes:
        starts: the first place of each criterion's cells.
        sizes: how many categories it has.
        weights: of its κ.
        binary: which criteria are binary.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    weights: tuple[Floats, ...]
    binary: tuple[bool, ...]

    @classmethod
    def of(cls, table: Table, modes: Modes) -> Layout:
        """The layout of a table."""
        sizes = tuple(len(modes.labels(column)) for column in table.columns)
        starts = tuple(int(s) for s in np.cumsum([0, *(size * size for size in sizes)]))
        weights = tuple(kappa_weights(c, size) for c, size in zip(table.columns, sizes, strict=True))
        return cls(starts, sizes, weights, tuple(column.kind == "binary" for column in table.columns))

    @property
    def cells(self) -> int:
        """The number of cells of all criteria."""
        return self.starts[-1]

    def counts(self, sums: Floats, column: int) -> Floats:
        """The tables of counts of one criterion in sums (…, m)."""
        size = self.sizes[column]
        part = sums[..., self.starts[column] : self.starts[column + 1]]
        return part.reshape(*sums.shape[:-1], size, size)


def contributions(table: Table, points: Points, scores: ScorePairs, layout: Layout) -> Floats:
    """What each item adds: rows × (cells of all criteria + `SCORE_SUMS`)."""
    width = layout.cells + SCORE_SUMS
    sizes, starts = np.array(layout.sizes, np.int64), np.array(layout.starts, np.int64)
    cell = starts[points.column] + points.truth * sizes[points.column] + points.judged
    found = np.bincount(points.row * width + cell, minlength=table.rows * width).astype(float)
    found = found.reshape(table.rows, width)
    difference = scores.judged - scores.true
    found[scores.rows, layout.cells :] = np.column_stack(
        [np.ones(len(difference)), difference, difference**2, np.abs(difference), scores.judged, scores.true]
    )
    return found


def summed_statistics(sums: Floats, layout: Layout) -> Floats:
    """Accuracy, mean κ, binary κ, score RMSE, bias and MAE, then the κ of every criterion, of sums (…, m).

    The mean κ is over the criteria whose κ is defined in these sums.
    """
    tables = [layout.counts(sums, column) for column in range(len(layout.sizes))]
    hits = sum((np.trace(t, axis1=-2, axis2=-1) for t in tables), np.zeros(sums.shape[:-1]))
    total = sums[..., : layout.cells].sum(axis=-1)
    each = [kappas(t, w) for t, w in zip(tables, layout.weights, strict=True)]
    stacked = np.stack(each, axis=-1)
    known = ~np.isnan(stacked)
    mean = ratio(np.where(known, stacked, 0.0).sum(axis=-1), known.sum(axis=-1))
    pooled = [t for t, is_binary in zip(tables, layout.binary, strict=True) if is_binary]
    micro = kappas(sum(pooled[1:], pooled[0])) if pooled else np.full(sums.shape[:-1], np.nan)
    n, shift, squares, sizes = (sums[..., layout.cells + place] for place in range(4))
    return np.stack(
        [ratio(hits, total), mean, micro, np.sqrt(ratio(squares, n)), ratio(shift, n), ratio(sizes, n), *each],
        axis=-1,
    )
