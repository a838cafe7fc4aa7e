"""Labels chosen by `label_next` against the natural baseline: whole random items with our own corrected score.

Both spend the same number of labels on the same runs, and the intervals are those that users get.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.metrics.corrected import ScoreRange, correct_mean
from autorubric.metrics.intervals import Interval
from autorubric.metrics.label_choice import CellLabel, JudgedPairs, choose_pairs, score_from_labels
from benchmarks.corrected_coverage import MIXED, RARE, WEIGHTS, verdicts
from benchmarks.record import Record, less_error

Array = npt.NDArray[np.float64]

ITEMS = 1000
EQUAL = np.ones(5)
JUDGES = {"easy": np.array([0.02, 0.05, 0.08, 0.03, 0.01]), "hard": np.array([0.1, 0.25, 0.35, 0.2, 0.1])}
WEIGHTINGS = {"equal weights": EQUAL, "skewed weights": WEIGHTS}
REPETITIONS = 200


class Setting(NamedTuple):
    """The number of judges, their error rates, and the pass rate and weight of each criterion."""

    judges: int
    weights: Array = WEIGHTS
    rates: Array = MIXED
    errors: Array = JUDGES["hard"]


class Scene(NamedTuple):
    """A graded run with its truth, one value for each pair of item and criterion."""

    pairs: JudgedPairs
    truth: Array


def scene(items: int, setting: Setting, rng: np.random.Generator) -> Scene:
    """Verdicts of a panel whose judges err more on some cells than on others."""
    judges = setting.judges
    truth = verdicts(items, setting.rates, rng).astype(float)
    # A few cells are hard for all judges, most are easy: Beta(0.4, …) around the criterion's rate.
    hard = rng.beta(0.4, 0.4 / setting.errors - 0.4, truth.shape)
    votes = np.where(rng.random((judges, *truth.shape)) < hard, 1.0 - truth, truth)
    met = votes.sum(axis=0)
    values = (met > judges / 2).astype(float)
    of_votes = judges * (judges - 1) / 2
    dissent = met * (judges - met) / of_votes if judges > 1 else np.full(truth.shape, np.nan)
    rubric = [Criterion(weight=weight, requirement=f"r{n}") for n, weight in enumerate(setting.weights)]
    places = np.tile(np.arange(len(rubric)), items)
    pairs = JudgedPairs(
        items=tuple(range(items)),
        starts=np.zeros(items),
        rows=np.repeat(np.arange(items), len(rubric)),
        places=places,
        criteria=tuple(rubric * items),
        kinds=places,
        shares=np.tile(shares_of(setting.weights), items),
        values=values.ravel(),
        truth=np.full(truth.size, np.nan),
        dissent=dissent.ravel(),
        confidence=np.full(truth.size, np.nan),
        labelled=np.zeros(truth.size, bool),
    )
    return Scene(pairs, truth.ravel())


def chosen_interval(one: Scene, labels: int, seed: int) -> Interval:
    """The interval after two batches of `label_next`, the second of which knows the labels of the first."""
    found: list[CellLabel] = []
    for batch in range(2):
        size = labels // 2 if batch == 0 else labels - labels // 2
        for asked in choose_pairs(one.pairs, size, found.copy(), seed + batch):
            met = one.truth[5 * asked.item + asked.criterion] > 0
            word = CriterionVerdict.MET if met else CriterionVerdict.UNMET
            found.append(CellLabel(asked.item, asked.criterion, word, asked.probability, batch))
    interval = score_from_labels(one.pairs, found, 0.95).interval
    assert interval is not None
    return interval


def baseline_interval(one: Scene, labels: int) -> Interval:
    """The interval of the corrected score with as many labels on whole items; the first are a random part."""
    pairs, items = one.pairs, labels // 5
    scale = ScoreRange(*pairs.range, float(np.abs(pairs.shares).max()))
    judged, true = pairs.sums, pairs.sum_by_item(one.truth * pairs.shares)
    interval = correct_mean(true[:items], judged[:items], judged[items:], scale).ppi.interval
    assert interval is not None
    return interval


def shares_of(weights: Array) -> Array:
    """The share of each criterion in the score."""
    return np.asarray(weights / weights[weights > 0].sum())


class Measured(NamedTuple):
    """The mean width of the intervals and the share, in percent, that cover the mean score."""

    width: float
    covered: float
    widths: Array


def measure(setting: Setting, labels: int, repetitions: int) -> tuple[Measured, Measured]:
    """`label_next` and the baseline on the same runs."""
    rng = np.random.default_rng(30)
    expected = float(setting.rates @ shares_of(setting.weights))
    found: list[tuple[Interval, Interval]] = []
    for seed in range(repetitions):
        one = scene(ITEMS, setting, rng)
        found.append((chosen_interval(one, labels, 2 * seed), baseline_interval(one, labels)))
    return (
        Measured(*_summed([chosen for chosen, _ in found], expected)),
        Measured(*_summed([whole for _, whole in found], expected)),
    )


def _summed(intervals: list[Interval], expected: float) -> tuple[float, float, Array]:
    widths, held = zip(*((one.width, one.contains(expected)) for one in intervals), strict=True)
    return float(np.mean(widths)), 100 * float(np.mean(held)), np.array(widths)


def ratio_error(above: Array, below: Array) -> float:
    """The standard error of the ratio of two means over the same runs, by the delta method."""
    spread = above / below.mean() - below * above.mean() / below.mean() ** 2
    return float(spread.std(ddof=1) / len(spread) ** 0.5)


def run() -> Record:
    """Print widths and coverage; fails where `label_next` is wider than the baseline or covers less than 95 %.

    Both by more than three standard errors.
    """
    record = Record(
        f"{ITEMS:,} items, 5 criteria, two batches, {REPETITIONS} repetitions, standard error of a coverage 1.5; "
        "floor: as many labels on whole random items"
    )
    rows, covered, whole_covered = [], [], []
    for (weighted, weights), labels in itertools.product(WEIGHTINGS.items(), (150, 600)):
        row = [f"{weighted}, {labels} labels"]
        for judges, (kind, errors) in itertools.product((1, 3), JUDGES.items()):
            chosen, whole = measure(Setting(judges, weights, errors=errors), labels, REPETITIONS)
            share = chosen.width / whole.width
            where = f"{judges} {kind}, {weighted}, {labels} labels"
            most = 1.0 + 3.0 * ratio_error(chosen.widths, whole.widths)
            record.limit(f"{where}: width, times whole items", share, most=most)
            record.limit(f"{where}: % covered", chosen.covered, least=less_error(95, REPETITIONS))
            covered.append(chosen.covered)
            whole_covered.append(whole.covered)
            row.append(f"{share:.2f} ({chosen.covered:.1f} / {whole.covered:.1f})")
            print(where, row[-1], flush=True)
        rows.append(row)
    titles = [f"{'one' if judges == 1 else 'three'} {kind}" for judges, kind in itertools.product((1, 3), JUDGES)]
    record.table("widths", ["weights", *titles], rows)
    record.figure("covered", f"{min(covered):.1f} to {max(covered):.1f}")
    record.figure("covered_whole", f"{min(whole_covered):.1f} to {max(whole_covered):.1f}")
    rare = [
        measure(Setting(1, rates=RARE, errors=errors), labels, REPETITIONS)[0].covered
        for labels, errors in itertools.product((150, 600), JUDGES.values())
    ]
    record.limit("all rates 5 %: least % covered", min(rare), least=less_error(95, REPETITIONS))
    record.figure("covered_rare", f"{min(rare):.1f} to {max(rare):.1f}")
    return record


if __name__ == "__main__":
    run()
