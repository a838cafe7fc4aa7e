"""How many labels chosen by `label_next` give the interval that more labels drawn evenly give, by simulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion
from autorubric.metrics.interval import Interval
from autorubric.metrics.judged_table import JudgedTable
from autorubric.metrics.label_choice import doubt, inclusion_probabilities, item_mean, systematic_draw
from benchmarks.corrected_coverage import MIXED, WEIGHTS, verdicts

Array = npt.NDArray[np.float64]

ERROR_RATES = np.array([0.05, 0.15, 0.25, 0.1, 0.03])
EVEN_LABELS = 900


class Scene(NamedTuple):
    """A graded run with its truth."""

    table: JudgedTable
    truth: Array
    known: Array


def scene(items: int, judges: int, pilot: int, rng: np.random.Generator, weights: Array = WEIGHTS) -> Scene:
    """Verdicts of a panel whose judges err more on some cells than on others; the first items have labels."""
    truth = verdicts(items, MIXED, rng).astype(float)
    # A few cells are hard for all judges, most are easy: Beta(0.4, …) around the criterion's rate.
    hard = rng.beta(0.4, 0.4 / ERROR_RATES - 0.4, truth.shape)
    votes = np.where(rng.random((judges, *truth.shape)) < hard, 1.0 - truth, truth)
    met = votes.sum(axis=0)
    values = (met > judges / 2).astype(float)
    pairs = judges * (judges - 1) / 2
    dissent = met * (judges - met) / pairs if judges > 1 else np.full(truth.shape, np.nan)
    known = np.full(truth.shape, np.nan)
    known[:pilot] = truth[:pilot]
    criteria = tuple(Criterion(weight=weight, requirement=f"r{n}") for n, weight in enumerate(weights))
    unstated = np.full(truth.shape, np.nan)
    return Scene(JudgedTable(criteria, tuple(range(items)), values, known, dissent, unstated), truth, known)


def interval_of(scene: Scene, k: int, rng: np.random.Generator, *, chosen: bool) -> Interval:
    """The interval of the mean score after k labels, chosen or drawn evenly."""
    table, shares = scene.table, scene.table.shares
    free = np.isnan(scene.known)
    sizes = np.abs(shares) * np.sqrt(doubt(table, scene.known)) if chosen else np.ones(free.shape)
    chances = np.ones(free.shape)
    chances[free] = inclusion_probabilities(sizes[free], k)
    weights = (~free).astype(float)
    rows, columns = np.nonzero(free)
    drawn = systematic_draw(chances[free], rng)
    weights[rows[drawn], columns[drawn]] = 1.0 / chances[rows[drawn], columns[drawn]]
    errors = (scene.truth - table.values) * shares
    figures = (table.values * shares + errors * weights).sum(axis=1)
    labelled = int((weights > 0).any(axis=1).sum())
    steps = (np.abs(shares) * weights)[(weights > 0) & free]
    interval = item_mean(figures, labelled, float(np.sqrt(np.mean(steps**2)))).interval
    assert interval is not None
    return interval


def widths(judges: int, labels: int, *, chosen: bool, repetitions: int = 20, weights: Array = WEIGHTS) -> float:
    rng = np.random.default_rng(30)
    return float(
        np.mean(
            [
                interval_of(scene(3000, judges, 40, rng, weights), labels, rng, chosen=chosen).width
                for _ in range(repetitions)
            ]
        )
    )


def labels_needed(judges: int, weights: Array = WEIGHTS) -> float:
    """The chosen labels that reach the width of `EVEN_LABELS` even ones, as a share of these; by bisection."""
    goal = widths(judges, EVEN_LABELS, chosen=False, weights=weights)
    low, high = 0.05, 1.5
    for _ in range(7):
        middle = (low + high) / 2
        if widths(judges, round(middle * EVEN_LABELS), chosen=True, weights=weights) > goal:
            low = middle
        else:
            high = middle
    return high


def coverage(judges: int, labels: int, repetitions: int, *, chosen: bool) -> float:
    rng = np.random.default_rng(31)
    shares = scene(1, judges, 0, rng).table.shares
    expected = float(MIXED @ shares)
    found = [
        interval_of(scene(1000, judges, 0, rng), labels, rng, chosen=chosen).holds(expected)
        for _ in range(repetitions)
    ]
    return float(np.mean(found))


def run() -> None:
    """Print the share of labels needed, and how often the intervals hold the truth."""
    even = np.ones(5)
    for name, judges, weights in (
        ("three judges, weights 30 30 12 8 -15", 3, WEIGHTS),
        ("one judge, weights 30 30 12 8 -15", 1, WEIGHTS),
        ("three judges, equal weights", 3, even),
        ("one judge, equal weights", 1, even),
    ):
        share = labels_needed(judges, weights)
        print(f"labels: {name:<40} {share:4.0%} of the labels that an even draw needs (target 70 %)", flush=True)
    for labels in (60, 150, 600):
        held = coverage(3, labels, 2000, chosen=True)
        print(f"labels: {labels} chosen labels: intervals hold the true mean in {held:.1%} of 2,000 repetitions")


if __name__ == "__main__":
    run()
