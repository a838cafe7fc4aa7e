"""How often intervals of corrected scores cover the true value, by simulation with known error rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.metrics.corrected import ScoreRange, correct_mean
from autorubric.metrics.corrected_rate import Corrections, correct_rate
from benchmarks.record import Record, less_error

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

METHODS = ("labels_only", "ppi", "rogan_gladen", "ppi_plus_plus")
JUDGES = {"good": (0.9, 0.95), "fair": (0.8, 0.8), "lenient": (0.95, 0.85), "strict": (0.7, 0.97)}
WEIGHTS = np.array([30.0, 30.0, 12.0, 8.0, -15.0])
MIXED = np.array([0.8, 0.5, 0.7, 0.3, 0.05])
RARE = np.full(5, 0.05)


class Coverage(NamedTuple):
    """The result of one method in one setting: coverage, width and number of its intervals."""

    covered: float
    width: float
    given: float


def measure(results: list[Corrections], truth: float) -> dict[str, Coverage]:
    table = {}
    for method in METHODS:
        estimates = [getattr(result, method) for result in results]
        intervals = [estimate.interval for estimate in estimates if estimate is not None and estimate.interval]
        if intervals:
            table[method] = Coverage(
                float(np.mean([interval.contains(truth) for interval in intervals])),
                float(np.mean([interval.width for interval in intervals])),
                len(intervals) / len(results),
            )
    return table


def simulate_rate(
    rate: float, judge: tuple[float, float], labels: int, rest: int, repetitions: int
) -> dict[str, Coverage]:
    """Coverage for one binary criterion of a known pass rate, sensitivity and specificity."""
    rng = np.random.default_rng(20)
    results = []
    for _ in range(repetitions):
        truth = rng.random(labels + rest) < rate
        judged = errs(truth, judge, rng)
        results.append(correct_rate(truth[:labels], judged[:labels], judged[labels:]))
    return measure(results, rate)


def simulate_stratified(
    by: str, rate: float, judge: tuple[float, float], labels: int, rest: int, repetitions: int
) -> dict[str, Coverage]:
    """Coverage where half of the labels are of items that are MET, or all of those if there are fewer.

    Args:
        by: `class` if MET is the label, `verdict` if it is what the judge says.
        rate: the share of items that are MET by their label.
        judge: its sensitivity and specificity.
        labels: how many items are labelled.
        rest: how many are not.
        repetitions: how many runs are simulated.
    """
    rng = np.random.default_rng(22)
    results = []
    for _ in range(repetitions):
        truth = rng.random(labels + rest) < rate
        judged = errs(truth, judge, rng)
        stratum = truth if by == "class" else judged
        met = np.flatnonzero(stratum)[: labels // 2]
        chosen = np.concatenate([met, np.flatnonzero(~stratum)[: labels - len(met)]])
        results.append(correct_rate(truth[chosen], judged[chosen], np.delete(judged, chosen)))
    return measure(results, rate)


def simulate_score(
    judge: tuple[float, float], labels: int, rest: int, repetitions: int, rates: Array = MIXED
) -> dict[str, Coverage]:
    """Coverage for the mean score of a rubric of five criteria, the last of them a pitfall."""
    rng = np.random.default_rng(21)
    scale = ScoreRange(one_error=float(np.abs(WEIGHTS).max() / WEIGHTS[WEIGHTS > 0].sum()))
    expected = float(np.mean(scores(verdicts(400_000, rates, rng))))
    results = []
    for _ in range(repetitions):
        truth = verdicts(labels + rest, rates, rng)
        judged = scores(errs(truth, judge, rng))
        results.append(correct_mean(scores(truth)[:labels], judged[:labels], judged[labels:], scale))
    return measure(results, expected)


def verdicts(items: int, rates: Array, rng: np.random.Generator) -> Bools:
    """Verdicts that hang together: a share of each item's criteria follows one draw of the item."""
    own = rng.random((items, len(WEIGHTS)))
    shared = np.where(rng.random(own.shape) < 0.4, rng.random((items, 1)), own)
    return np.asarray(shared < rates)


def errs(truth: Bools, judge: tuple[float, float], rng: np.random.Generator) -> Bools:
    sensitivity, specificity = judge
    return np.asarray(rng.random(truth.shape) < np.where(truth, sensitivity, 1.0 - specificity))


def scores(met: Bools) -> Array:
    return np.asarray(np.clip(met @ WEIGHTS / WEIGHTS[WEIGHTS > 0].sum(), 0.0, 1.0))


def settings() -> Iterator[tuple[str, str, dict[str, Coverage]]]:
    """What is estimated, the rest of the setting, and the coverage of each method."""
    for labels, rest in ((30, 300), (30, 2000), (100, 1000)):
        for name, judge in JUDGES.items():
            setting = judge, labels, rest, REPETITIONS
            size = f"{labels}/{rest}"
            for rate in (0.05, 0.2, 0.5):
                found = simulate_rate(rate, *setting)
                found["by_class"] = simulate_stratified("class", rate, *setting)["rogan_gladen"]
                found["by_verdict"] = simulate_stratified("verdict", rate, *setting)["ppi"]
                yield f"rate {rate:.0%}", f"{size} {name}", found
            yield "mean score", f"{size} {name}", simulate_score(*setting)
            yield "rare score", f"{size} {name}", simulate_score(*setting, RARE)


REPETITIONS = 2000
CLAIMED = ("ppi", "rogan_gladen", "by_class")
"""The methods that should cover the nominal 95 %; for the others the guide says that they can cover less.

Where half of the labels are of either class, the coverage oscillates, as the guide says.
"""
MOST_WIDTH = 1.25
"""A guard: the widest `ppi` may be, times labels alone. Strata by a bad judge cost some width."""
COLUMNS = {
    "labels_only": "labels only",
    "ppi": "`ppi`",
    "ppi_plus_plus": "`ppi_plus_plus`",
    "rogan_gladen": "`rogan_gladen`",
    "by_verdict": "`ppi` by verdict",
    "by_class": "`rogan_gladen` by class",
}


def run() -> Record:
    """Print coverage (%) and mean width of nominal 95 % intervals; labels alone are the floor."""
    record = Record(f"nominal 95 %; {REPETITIONS:,} repetitions a setting, standard error 0.5; floor: labels alone")
    found: dict[tuple[str, str], list[Coverage]] = {}
    for estimated, where, table in settings():
        for method, cell in table.items():
            if method in CLAIMED:
                least = less_error(95, round(cell.given * REPETITIONS))
                shown = f"{estimated}, {where}, {method}: % covered"
                record.limit(shown, 100 * cell.covered, least=least, known=method == "by_class")
            if where.startswith("30/300 "):
                found.setdefault((estimated, method), []).append(cell)
        width = table["ppi"].width / table["labels_only"].width
        record.limit(f"{estimated}, {where}: width of ppi, times labels alone", width, most=MOST_WIDTH)
        shown = "".join(f"{_shown([table[method]]) if method in table else 'none':>40}" for method in COLUMNS)
        print(f"corrected: {estimated:<10} {where:<18}{shown}", flush=True)
    rows = []
    for estimated in dict.fromkeys(name for name, _ in found):
        rows.append([estimated, *(_shown(found.get((estimated, method), [])) for method in COLUMNS)])
    record.table("coverage", ["estimate of", *COLUMNS.values()], rows)
    return record


def _shown(cells: list[Coverage]) -> str:
    """The lowest and highest coverage, width, and share of the repetitions that have an interval."""
    if not cells:
        return "none"
    covered, given = _range([100 * one.covered for one in cells], 1), [100 * one.given for one in cells]
    shown = f"{covered} (width {_range([one.width for one in cells], 2)})"
    return shown if min(given) > 99.5 else f"{shown}, given in {_range(given, 0)} %"


def _range(values: list[float], places: int) -> str:
    low, high = (f"{end:.{places}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} – {high}"


if __name__ == "__main__":
    run()
