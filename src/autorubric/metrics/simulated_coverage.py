"""The simulated coverage of intervals of agreement and of corrected scores, by resampling a run's items.

The labelled items are taken as a population whose values are known. Samples of the same size are drawn from it with
replacement (a pseudo-population bootstrap), and each interval is computed on each sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from autorubric.core.report import Report
from autorubric.dataset import RubricDataset
from autorubric.metrics.agreement_sums import SUMMED, Layout, pool_columns, sum_items
from autorubric.metrics.arrays import Floats, ratio
from autorubric.metrics.corrected import Estimand, build_estimands
from autorubric.metrics.intervals import Interval, wilson_interval
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.reading_runs import read_graded_table
from autorubric.metrics.results import CoverageSimulation, SimulatedCoverage
from autorubric.metrics.table import GradedRun, Table

METHOD = "pseudo-population bootstrap"
_RESAMPLES = 400
CORRECTIONS = {
    "labels_only": "labels alone",
    "ppi": "corrected (PPI)",
    "rogan_gladen": "Rogan-Gladen",
    "ppi_plus_plus": "PPI++",
}
"""The titles of the estimates that use labels, by their attributes of `Corrections`."""
_TITLES = {"mean_kappa": "mean kappa", "kappa": "kappa of all binary pairs", "rmse": "RMSE", "mae": "MAE"}


def simulate_coverage(labelled: LabelledRun, draws: Draws, resamples: int = _RESAMPLES) -> CoverageSimulation:
    """Simulate how often the intervals of agreement cover the true values in samples of the labelled items.

    Args:
        labelled: the labelled items of a run.
        draws: the level of the intervals, and the seed.
        resamples: the number of samples to draw.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> from types import SimpleNamespace as Run
        >>> dataset, reports = example_run()
        >>> results = [Run(item_idx=place, report=report, error=None) for place, report in enumerate(reports)]
        >>> from autorubric.metrics.labelled_run import read_labelled_run
        >>> labelled = read_labelled_run(Run(item_results=results), dataset)
        >>> found = simulate_coverage(labelled, Draws(100, seed=0), resamples=20)
        >>> found.items, found.resamples, found.intervals[0].name
        (4, 20, 'accuracy')
    """
    columns, points = labelled.table.columns, labelled.points
    if labelled.pooled:
        columns, points = pool_columns(columns, points)
    layout, sums = sum_items(columns, len(labelled.table.items), points, labelled.scores)
    sums, draws = sums[sums.any(axis=1)], draws._replace(finer=1)
    names = [] if labelled.pooled else [column.name for column in columns]
    rng = np.random.default_rng(draws.seed)
    found: dict[str, list[tuple[float, Interval | None]]] = {}
    truth = layout.summarize(sums.sum(axis=0))
    shares = ratio(*layout.count_hits(sums.sum(axis=0)))
    for _ in range(resamples):
        sample = sums[rng.integers(0, len(sums), len(sums))]
        for name, value, interval in _compute_intervals(layout, sample, names, (truth, shares), draws):
            found.setdefault(name, []).append((value, interval))
    made = [_measure_coverage(name, each) for name, each in found.items()]
    return CoverageSimulation(
        method=METHOD,
        items=len(sums),
        resamples=resamples,
        confidence=draws.confidence,
        intervals=[coverage for coverage in made if coverage is not None],
    )


def _compute_intervals(
    layout: Layout, sample: Floats, names: Sequence[str], truth: tuple[Floats, Floats], draws: Draws
) -> Iterator[tuple[str, float, Interval | None]]:
    """Yield the name, true value and interval of each statistic that is defined in a sample."""
    total = sample.sum(axis=0)
    values, found = layout.summarize(total), layout.compute_intervals(sample, draws)
    true = truth[0].copy()
    defined = ~np.isnan(values[len(SUMMED) :]) & ~np.isnan(true[len(SUMMED) :])
    # The true mean is over the criteria whose κ is defined in the sample.
    true[SUMMED.index("mean_kappa")] = true[len(SUMMED) :][defined].mean() if defined.any() else math.nan
    titles = [*(_TITLES.get(name, name) for name in SUMMED), *(f"kappa of {name}" for name in names)]
    for place, title in enumerate(titles):
        interval = found[place].interval
        if not np.isnan(true[place] + values[place]):
            yield title, float(true[place]), interval
    for name, hits, n, share in zip(names, *layout.count_hits(total), truth[1], strict=False):
        if n and not np.isnan(share):
            yield f"accuracy of {name}", float(share), wilson_interval(float(hits), float(n), draws.confidence)


def _measure_coverage(name: str, each: Sequence[tuple[float, Interval | None]]) -> SimulatedCoverage | None:
    """Count how often the intervals of one statistic covered its true value; None if no sample had an interval."""
    given = [(value, interval) for value, interval in each if interval is not None]
    if not given:
        return None
    above = float(np.mean([interval.low > value + 1e-9 for value, interval in given]))
    below = float(np.mean([interval.high < value - 1e-9 for value, interval in given]))
    return SimulatedCoverage(
        name=name,
        covered=1.0 - above - below,
        above=above,
        below=below,
        width=float(np.mean([interval.width for _, interval in given])),
        given=len(given) / len(each),
    )


def simulate_corrections(
    run: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    confidence: float = 0.95,
    seed: int | None = 0,
    resamples: int = _RESAMPLES,
) -> CoverageSimulation:
    """Simulate the coverage of each interval of `corrected_scores` at the run's numbers of items and labels.

    The labelled items are the population. A sample has as many items with and without labels as the run, drawn from
    the population with replacement; for those without, only the judge's verdicts count.

    Args:
        run: the graded run.
        dataset: the items, some with ground truth.
        confidence: the level of the intervals.
        seed: the seed of the draw.
        resamples: the number of samples to draw.

    Raises:
        InputError: see `corrected_scores`.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> found = simulate_corrections(reports, dataset, resamples=20)
        >>> found.items, [one.name for one in found.intervals][:2]
        (4, ['mean score, labels alone', 'mean score, corrected (PPI)'])
    """
    return simulate_table(read_graded_table(run, dataset), confidence, seed, resamples)


def simulate_table(
    table: Table, confidence: float = 0.95, seed: int | None = 0, resamples: int = _RESAMPLES
) -> CoverageSimulation:
    """Do the work of `simulate_corrections` for a run that has been read."""
    rng = np.random.default_rng(seed)
    every = list(build_estimands(table))
    made = [coverage for estimand in every for coverage in _simulate_estimand(estimand, confidence, rng, resamples)]
    return CoverageSimulation(
        method=METHOD, items=len(every[0].truth), resamples=resamples, confidence=confidence, intervals=made
    )


def _simulate_estimand(
    estimand: Estimand, confidence: float, rng: np.random.Generator, resamples: int
) -> Iterator[SimulatedCoverage]:
    """Yield the coverage of each method's interval for one mean; nothing without labels."""
    labels, rest = len(estimand.truth), len(estimand.rest)
    found: dict[str, list[tuple[float, Interval | None]]] = {}
    for _ in range(resamples if labels else 0):
        drawn = rng.integers(0, labels, labels + rest)
        sampled, others = drawn[:labels], estimand.seen[drawn[labels:]]
        parts = estimand.truth[sampled], estimand.seen[sampled], others
        every = estimand.seen[drawn], estimand.truth[sampled]
        corrections = Estimand(estimand.name, *parts, *every, estimand.scale).correct(confidence)
        for method in CORRECTIONS:
            estimate = getattr(corrections, method)
            found.setdefault(method, []).append((float(estimand.truth.mean()), estimate and estimate.interval))
    for method, each in found.items():
        covered = _measure_coverage(f"{estimand.name or 'mean score'}, {CORRECTIONS[method]}", each)
        if covered is not None:
            yield covered
