"""Agreement over a part of the criteria: those of a tag, or of a kind."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from autorubric.metrics.arrays import Flags, defined
from autorubric.metrics.base_rate import base_rate
from autorubric.metrics.bootstrap import Bootstrap, bootstrap_intervals
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.pooled import as_pooled
from autorubric.metrics.results import TagMetrics
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.sums import FIGURES, Layout, contributions, figures
from autorubric.metrics.table import Points, Table

_ACCURACY, _MEAN_KAPPA, _MICRO_KAPPA = (FIGURES.index(name) for name in ("accuracy", "mean_kappa", "micro_kappa"))


class PartFigures(NamedTuple):
    """Agreement over a part of the criteria.

    Attributes:
        accuracy: the share of pairs of one category.
        mean_kappa: the mean κ of its criteria.
        micro_kappa: κ over all its binary pairs.
        accuracy_ci: None where none was drawn.
        mean_kappa_ci: likewise.
        micro_kappa_ci: likewise.
        base_rate: the accuracy of guessing the commonest label.
    """

    accuracy: float | None
    mean_kappa: float | None
    micro_kappa: float | None
    accuracy_ci: ConfidenceInterval | None = None
    mean_kappa_ci: ConfidenceInterval | None = None
    micro_kappa_ci: ConfidenceInterval | None = None
    base_rate: float | None = None


def part_figures(found: LabelledRun, columns: Flags, drawing: Bootstrap | None) -> PartFigures:
    """The figures over the chosen columns; intervals by resampling items, as for the whole.

    Args:
        found: a run and its labels.
        columns: which columns of the table count.
        drawing: how intervals are drawn; None for none.
    """
    points = found.points.where(columns[found.points.column])
    guessed = base_rate(found.table.columns, points, pooled=found.pooled)
    table, points = as_pooled(found.table, points) if found.pooled else _restricted(found.table, points, columns)
    layout = Layout.of(table, found.modes)
    sums = contributions(table, points, found.scores, layout)
    values = figures(sums.sum(axis=0), layout)
    accuracy, mean, micro = (defined(values[place]) for place in (_ACCURACY, _MEAN_KAPPA, _MICRO_KAPPA))
    # Columns that stand for many criteria at once have no κ of their own.
    part = PartFigures(accuracy, None if found.pooled else mean, micro, base_rate=guessed)
    if drawing is None or not len(points):
        return part
    drawn = bootstrap_intervals(sums, lambda total: figures(total, layout), drawing)
    ends = [ConfidenceInterval.of(drawn[place], drawing.method) for place in (_ACCURACY, _MEAN_KAPPA, _MICRO_KAPPA)]
    return part._replace(accuracy_ci=ends[0], mean_kappa_ci=None if found.pooled else ends[1], micro_kappa_ci=ends[2])


def _restricted(table: Table, points: Points, columns: Flags) -> tuple[Table, Points]:
    """The table of the chosen columns alone."""
    chosen = tuple(column for column, wanted in zip(table.columns, columns, strict=True) if wanted)
    places = np.cumsum(columns) - 1
    return replace(table, columns=chosen), replace(points, column=places[points.column])


def by_tag(found: LabelledRun, drawing: Bootstrap | None) -> list[TagMetrics]:
    """The figures of each tag that a criterion has, by name of the tag."""
    columns = found.table.columns
    made = []
    for tag in sorted({tag for column in columns for tag in column.criterion.tags or ()}):
        tagged = np.array([tag in (column.criterion.tags or ()) for column in columns], bool)
        part = part_figures(found, tagged, drawing)
        made.append(
            TagMetrics(
                tag=tag,
                n_criteria=int(tagged.sum()),
                n_samples=int(tagged[found.points.column].sum()),
                accuracy=part.accuracy,
                accuracy_ci=part.accuracy_ci,
                mean_kappa=part.mean_kappa,
                mean_kappa_ci=part.mean_kappa_ci,
                micro_kappa=part.micro_kappa,
                micro_kappa_ci=part.micro_kappa_ci,
                base_rate=part.base_rate,
            )
        )
    return made
