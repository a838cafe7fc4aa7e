"""What a reader must know of the metrics of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from autorubric.metrics.agreement_sums import SUMMED
from autorubric.metrics.criterion_results import CriterionMetricsUnion
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.table import FAILED

_NAMED = {"kappa": "micro_kappa", "bias": "the mean bias", "rmse": "score_rmse", "mae": "score_mae"}


def notes_on(run: LabelledRun, each: list[CriterionMetricsUnion]) -> list[str]:
    """What a reader must know of the numbers."""
    sentences = list(run.scores.warnings)
    failed = int((run.table.points.judged == FAILED).sum())
    if failed:
        sentences.append(f"{failed} of {len(run.table.points)} labelled judgments failed and are left out")
    without = run.table.rows - len(run.scores.rows)
    if without:
        sentences.append(f"{without} of {run.table.rows} items have no score or no true score")
    values = len(np.unique(run.scores.true))
    if 0 < values <= 2:
        plural = "s" if values > 1 else ""
        sentences.append(f"the true scores take {values} distinct value{plural}; correlations say little")
    one_class = [criterion.name for criterion in each if criterion.kappa is None and criterion.n_samples]
    if one_class:
        sentences.append(f"kappa is undefined where all labels and verdicts are one category: {', '.join(one_class)}")
    empty = [criterion.name for criterion in each if not criterion.n_samples]
    if empty:
        sentences.append(f"no pair of label and verdict: {', '.join(empty)}")
    return sentences


def name_missing(values: Mapping[str, float | None], intervals: Mapping[str, object]) -> Iterator[str]:
    """Sentences on the statistics that have no interval although one was computed and they are defined.

    Example:
        >>> list(name_missing({"kappa": 1.0}, {"accuracy": None, "kappa": None, "mean_kappa": (0.1, 0.5)}))
        ['no interval for micro_kappa: the items do not vary, or without one of them it is undefined']
    """
    missing = [name for name in SUMMED[1:] if intervals.get(name, 0) is None and values.get(name) is not None]
    if missing:
        named = ", ".join(_NAMED.get(name, name) for name in missing)
        yield f"no interval for {named}: the items do not vary, or without one of them it is undefined"
