"""How often the intervals of `autorubric agree` cover the true values, by simulation with known error rates.

Runs have five criteria whose verdicts and errors are correlated within an item; the scores have a pitfall. The floor
is the percentile bootstrap over items, on the same samples.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.metrics.agreement_sums import SUMMED, Layout
from autorubric.metrics.jackknife import Draws
from benchmarks.corrected_coverage import JUDGES, MIXED, RARE, WEIGHTS, verdicts
from benchmarks.record import Record, less_error

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ITEMS = (15, 30, 100)
REPETITIONS = 400
FLOOR_DRAWS = 200
SMALL = 30
"""There is no claim for fewer items."""
KNOWN = ("bias",)
"""Statistics that cover less than the nominal 95 % in some setting, as the guide says."""
TITLES = {
    "accuracy": "accuracy",
    "criterion kappa": "κ of one criterion",
    "kappa": "κ of all binary pairs",
    "mean_kappa": "mean κ",
    "bias": "bias",
    "mae": "MAE",
    "rmse": "RMSE",
}
NAMES = (*SUMMED, *["criterion kappa"] * len(WEIGHTS))
LEAST_GIVEN = 0.05
"""A coverage of a smaller share of the samples is omitted: too few have the interval."""
_CRITERIA = len(WEIGHTS)
LAYOUT = Layout(
    tuple(range(0, 4 * _CRITERIA + 1, 4)), (2,) * _CRITERIA, (np.eye(2),) * _CRITERIA, (True,) * _CRITERIA
)


class Setting(NamedTuple):
    """The setting of a simulation: pass rates, weights, sensitivity and specificity by criterion."""

    name: str
    rates: Array
    weights: Array
    sensitivity: Array
    specificity: Array


def _setting(name: str, rates: Array, judge: str) -> Setting:
    sensitivity, specificity = (np.full(_CRITERIA, value) for value in JUDGES[judge])
    return Setting(name, rates, WEIGHTS, sensitivity, specificity)


MODERATE = np.array([0.8, 0.5, 0.7, 0.3, 0.2])
SETTINGS = (
    _setting("mixed rates, good judge", MIXED, "good"),
    _setting("mixed rates, lenient judge", MIXED, "lenient"),
    _setting("no rare class, good judge", MODERATE, "good"),
    _setting("all rates 5 %, good judge", RARE, "good"),
    _setting("all rates 5 %, lenient judge", RARE, "lenient"),
    Setting(
        "a heavy pitfall, mostly missed",
        MIXED,
        np.array([30.0, 30.0, 12.0, 8.0, -60.0]),
        np.array([0.95, 0.95, 0.95, 0.95, 0.2]),
        np.array([0.95, 0.95, 0.95, 0.95, 0.995]),
    ),
)
"""In the last, one item in twenty meets the pitfall; missing it moves a score by up to 3/4 of the scale."""


class Row(NamedTuple):
    """One statistic in one setting: coverage, mean width and share of samples in percent; then those of the floor."""

    name: str
    covered: float
    width: float
    given: float
    floor_covered: float
    floor_width: float


def judged_items(items: int, setting: Setting, rng: np.random.Generator) -> Array:
    """What each item adds to the sums: confusion matrices and score differences; 30 % of the errors are shared."""
    truth = verdicts(items, setting.rates, rng)
    own = rng.random(truth.shape)
    luck = np.where(rng.random(truth.shape) < 0.3, rng.random((items, 1)), own)
    judged = truth ^ (luck < np.where(truth, 1.0 - setting.sensitivity, 1.0 - setting.specificity))
    cells = np.eye(4)[2 * ~truth + ~judged].reshape(items, -1)
    said, true = (_scores(met, setting.weights) for met in (judged, truth))
    apart = said - true
    return np.column_stack([cells, np.ones(items), apart, apart**2, np.abs(apart)])


def _scores(met: Bools, weights: Array) -> Array:
    return np.asarray(np.clip(met @ weights / weights[weights > 0].sum(), 0.0, 1.0))


def measure(items: int, setting: Setting, repetitions: int) -> Iterator[Row]:
    """The coverage of each statistic; criteria are pooled."""
    rng = np.random.default_rng(40)
    truth = LAYOUT.summarize(judged_items(400_000, setting, rng).sum(axis=0))
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(repetitions):
        made = judged_items(items, setting, rng)
        true = truth.copy()
        # The mean is over the criteria whose kappa is defined in the sample.
        defined = ~np.isnan(LAYOUT.summarize(made.sum(axis=0))[len(SUMMED) :])
        true[SUMMED.index("mean_kappa")] = truth[len(SUMMED) :][defined].mean() if defined.any() else math.nan
        floors = _percentiles(made, defined, rng)
        for name, value, (interval, _), floor in zip(
            NAMES, true, LAYOUT.compute_intervals(made, Draws(seed=seed)), floors, strict=True
        ):
            ends = (math.nan, math.nan) if interval is None else interval[:2]
            found.setdefault(name, []).append((float(value), *ends, *map(float, floor)))
    for name, rows in found.items():
        value, low, high, floor_low, floor_high = np.array(rows).T
        given, known = ~np.isnan(low), ~np.isnan(floor_low)
        ours = _coverage(value[given], low[given], high[given])
        yield Row(
            name, *ours, 100 * float(given.mean()), *_coverage(value[known], floor_low[known], floor_high[known])
        )


def _coverage(value: Array, low: Array, high: Array) -> tuple[float, float]:
    if not len(value):
        return math.nan, math.nan
    return 100 * float(np.mean((low <= value) & (value <= high))), float(np.mean(high - low))


def _percentiles(made: Array, defined: Bools, rng: np.random.Generator) -> Array:
    """The percentile bootstrap's interval of each statistic; NaN if a resample leaves it undefined."""
    counts = rng.multinomial(len(made), np.full(len(made), 1 / len(made)), FLOOR_DRAWS)
    drawn = LAYOUT.summarize(counts @ made)
    each = drawn[:, len(SUMMED) :]
    known = ~np.isnan(each) & defined
    drawn[:, SUMMED.index("mean_kappa")] = np.where(known, each, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.quantile(drawn, [0.025, 0.975], axis=0).T


def run() -> Record:
    """Print the coverage of nominal 95 % intervals; fail where one covers less than that, or less than the floor.

    Both count from 30 items up, and only a difference of more than three standard errors.
    """
    record = Record(
        f"nominal 95 %; {len(SETTINGS)} settings, five criteria, {REPETITIONS:,} repetitions each, "
        f"standard error 1.1; floor: the percentile bootstrap over items ({FLOOR_DRAWS} resamples), same samples"
    )
    cells: dict[tuple[str, int], list[Row]] = {}
    every = [(setting, items) for items, setting in itertools.product(ITEMS, SETTINGS)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(_rows, *zip(*every, strict=True)))
    for (setting, items), rows in zip(every, found, strict=True):
        for row in rows:
            where = f"{items} items, {setting.name}, {row.name}"
            print(
                f"{where:<60} {row.covered:5.1f} width {row.width:.3f} given {row.given:3.0f}; "
                f"floor {row.floor_covered:5.1f} width {row.floor_width:.3f}",
                flush=True,
            )
            cells.setdefault((row.name, items), []).append(row)
            if items >= SMALL and row.given >= 100 * LEAST_GIVEN:
                given = round(row.given / 100 * REPETITIONS)
                record.limit(where, row.covered, least=less_error(95, given), known=row.name in KNOWN)
                record.limit(f"{where}, than the floor", row.covered, least=less_error(row.floor_covered, given))
    sizes = [f"{items} items" for items in ITEMS]
    ours = [[TITLES[name], *(_range(cells[name, items], "covered") for items in ITEMS)] for name in TITLES]
    floor = [[TITLES[name], *(_range(cells[name, items], "floor_covered") for items in ITEMS)] for name in TITLES]
    record.table("coverage", ["metric", *sizes], ours)
    record.table("floor", ["metric", *sizes], floor)
    record.figure("known", "; ".join(record.known) or "none")
    widths = [row.width / row.floor_width for row in cells["rmse", 30]]
    record.figure("rmse_width_30", f"{min(widths):.2f} to {max(widths):.2f}")
    return record


def _rows(setting: Setting, items: int) -> list[Row]:
    return list(measure(items, setting, REPETITIONS))


def _range(rows: list[Row], field: str) -> str:
    """The lowest and the highest coverage of the settings in which enough samples have an interval."""
    found = [getattr(row, field) for row in rows if row.given >= 100 * LEAST_GIVEN]
    return f"{min(found):.1f} – {max(found):.1f}" if found else "none given"


if __name__ == "__main__":
    run()
