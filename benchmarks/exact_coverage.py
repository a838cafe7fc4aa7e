"""How often intervals of corrected rates cover the true value, summed over the possible tables of 30 labels.

Nothing is sampled: quantiles represent the judge's verdicts on the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from autorubric.metrics.corrected_rate import post_stratified_interval, rogan_gladen
from autorubric.metrics.intervals import Interval, LabelledCells, wilson_interval
from benchmarks.corrected_coverage import JUDGES
from benchmarks.record import Record

LABELS = 30
RATES = (0.05, 0.2, 0.5)
UNLIKELY = 5e-5
"""Tables less likely than this are left out, and the rest weighted up."""
QUANTILES = 9

Judge = tuple[float, float]
Method = Callable[[LabelledCells, int, int], Interval | None]


class Share(NamedTuple):
    """How often, in percent of the cases with an interval, it held the rate, lay above it and lay below it.

    `given` is the percentage of cases with an interval.
    """

    held: float
    above: float
    below: float
    given: float


def ppi(cells: LabelledCells, rest_met: int, rest: int) -> Interval:
    return post_stratified_interval(cells, rest_met, rest)


def rogan(cells: LabelledCells, rest_met: int, rest: int) -> Interval | None:
    return rogan_gladen(cells, rest_met, rest).interval


def at_random(rate: float, judge: Judge, labels: int = LABELS) -> Iterator[tuple[LabelledCells, float]]:
    """Each table of labels drawn at random, with its probability."""
    from scipy import stats

    sensitivity, specificity = judge
    chances = [rate * sensitivity, (1 - rate) * (1 - specificity), rate * (1 - sensitivity), (1 - rate) * specificity]
    met = range(labels + 1)
    tables = [(i, n - i, j, labels - n - j) for n in met for i in range(n + 1) for j in range(labels + 1 - n)]
    for table, chance in zip(tables, stats.multinomial.pmf(tables, labels, chances), strict=True):
        if chance > UNLIKELY:
            yield LabelledCells(*table), float(chance)


def verdicts_of_the_rest(rate: float, judge: Judge, rest: int, quantiles: int) -> list[int]:
    """How often the judge says MET of the rest: quantiles of equal probability."""
    from scipy import stats

    sensitivity, specificity = judge
    middles = (np.arange(quantiles) + 0.5) / quantiles
    said = rate * sensitivity + (1 - rate) * (1 - specificity)
    return [int(k) for k in stats.binom.ppf(middles, rest, said)]


def covered(
    method: Method,
    tables: Iterable[tuple[LabelledCells, float]],
    rate: float,
    judge: Judge,
    rest: int,
    quantiles: int = QUANTILES,
) -> Share:
    """The share of a method's intervals that cover the rate."""
    total = above = below = every = 0.0
    counts = verdicts_of_the_rest(rate, judge, rest, quantiles)
    for (cells, chance), rest_met in itertools.product(tables, counts):
        interval = method(cells, rest_met, rest)
        every += chance
        if interval is not None:
            total += chance
            above += chance * (interval.low > rate)
            below += chance * (interval.high < rate)
    held = 1 - (above + below) / total
    return Share(100 * held, 100 * above / total, 100 * below / total, 100 * total / every)


def labels_alone(rate: float, labels: int) -> float:
    """How often, in percent, Wilson's interval of that many labels covers the rate."""
    from scipy import stats

    intervals = [wilson_interval(met, labels) for met in range(labels + 1)]
    held = [met for met, interval in enumerate(intervals) if interval is not None and interval.contains(rate)]
    return 100 * float(stats.binom.pmf(held, labels, rate).sum())


CLAIMED, LEAST = 95.0, 94.0
"""What `ppi` must cover on average over the settings, in percent; and a guard for each of them.

The coverage of intervals of counts oscillates around the nominal one, so the mean is the claim (Brown, Cai and
DasGupta, Statistical Science 16 (2001)). One percent below is where Wilson's interval of the same labels lies.
"""


def run() -> Record:
    """Print the shares, in percent, of 95 % intervals that cover the rate; fails where `ppi` covers too little."""
    record = Record(f"nominal 95 %; {LABELS} labels, enumerated; 300 and 2,000 items without; floor: labels alone")
    found: dict[tuple[str, float], list[float]] = {}
    for rest, rate, (name, judge) in itertools.product((300, 2000), RATES, JUDGES.items()):
        shares = {
            "`ppi`": covered(ppi, at_random(rate, judge), rate, judge, rest),
            "`rogan_gladen`": covered(rogan, at_random(rate, judge), rate, judge, rest),
        }
        record.limit(f"{rest} items, rate {rate}, {name} judge: ppi", shares["`ppi`"].held, least=LEAST)
        shown = "".join(f"{s.held:9.1f} ({s.above:.1f}, {s.below:.1f})" for s in shares.values())
        print(f"exact: {LABELS:4}/{rest:<5} rate {rate:<5} {name:8}{shown}", flush=True)
        for method, share in shares.items():
            found.setdefault((method, rate), []).append(share.held)
    every = [held for rate in RATES for held in found["`ppi`", rate]]
    mean = float(np.mean(every))
    record.figure("ppi_mean", f"{mean:.1f}")
    record.figure("ppi_range", f"{min(every):.1f} to {max(every):.1f}")
    record.limit("ppi, mean of all settings", mean, least=CLAIMED)
    rows = [
        [method, *(f"{min(found[method, rate]):.1f} – {max(found[method, rate]):.1f}" for rate in RATES)]
        for method in ("`ppi`", "`rogan_gladen`")
    ]
    floor = [
        [f"{labels} labels alone", *(f"{labels_alone(rate, labels):.1f}" for rate in RATES)] for labels in (30, 100)
    ]
    record.table("coverage", ["estimate", *(f"rate {rate:.0%}" for rate in RATES)], [*floor, *rows])
    return record


if __name__ == "__main__":
    run()
