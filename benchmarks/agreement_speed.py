"""Agreement of a run with its labels: seconds and memory as items grow, and what a bootstrap takes.

Reports are built beforehand; entries that say the same are one object, so that the memory shown is what the metrics
take and not what the reports do.
"""

from __future__ import annotations

import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np

from autorubric import (
    Criterion,
    CriterionVerdict,
    DataItem,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    JudgeVote,
    Rubric,
    RubricDataset,
)
from autorubric.metrics import compute_metrics
from autorubric.metrics.compare import compare_judges

_WORDS = (CriterionVerdict.MET, CriterionVerdict.UNMET)


def graded(items: int, criteria: int, seed: int = 0) -> tuple[Any, RubricDataset]:
    """A run whose judge errs on one verdict in five, and its labels."""
    rng = np.random.default_rng(seed)
    rubric = Rubric([Criterion(name=f"C{n}", weight=n + 1, requirement=f"Has {n}") for n in range(criteria)])
    truth = np.random.default_rng(0).integers(0, 2, (items, criteria))
    said = np.where(rng.random((items, criteria)) < 0.2, 1 - truth, truth)
    entries = [
        [
            EnsembleCriterionReport(
                criterion=criterion,
                final_verdict=word,
                final_reason=None,
                votes=[JudgeVote(judge_id="default", verdict=word, reason=None)],
            )
            for word in _WORDS
        ]
        for criterion in rubric
    ]
    weights = np.arange(1, criteria + 1) / np.arange(1, criteria + 1).sum()
    scores = (1 - said) @ weights
    data = RubricDataset("Explain.", rubric)
    data.items = [DataItem(f"Text {n}.", "", [_WORDS[w] for w in row]) for n, row in enumerate(truth)]
    results = [
        SimpleNamespace(
            item_idx=n,
            item=data.items[n],
            error=None,
            report=EnsembleEvaluationReport.model_construct(
                score=float(scores[n]), report=[entries[c][w] for c, w in enumerate(row)], error=None, judge_scores={}
            ),
        )
        for n, row in enumerate(said)
    ]
    return SimpleNamespace(item_results=results), data


def run() -> None:
    for items in (1_000, 10_000, 100_000):
        made, data = graded(items, 10)
        started = time.perf_counter()
        compute_metrics(made, data)
        seconds = time.perf_counter() - started
        tracemalloc.start()
        compute_metrics(made, data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{items:>7,} items x 10 criteria, no bootstrap: {seconds:6.2f} s, {peak / 1e6:5.0f} MB at most")
    made, data = graded(1_000, 5)
    started = time.perf_counter()
    compute_metrics(made, data, bootstrap=True, n_bootstrap=1_000, seed=1)
    print(f"  1,000 items x 5 criteria, 1,000 replicates: {time.perf_counter() - started:6.2f} s")
    other, _ = graded(1_000, 5, seed=2)
    started = time.perf_counter()
    compare_judges(made, other, data, n_replicates=1_000, seed=1)
    print(f"  two judges on them, 1,000 replicates and exchanges: {time.perf_counter() - started:6.2f} s")
