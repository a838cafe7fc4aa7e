"""How often `improve` accepts a wording that is not better: a simulated writer and a simulated judge.

The writer brings one better wording and nine that are as good as the original, ten more of these in a second round,
or ten that are no better at all. The judge errs at a known rate, independently on every item. Splits, search and
acceptance are the product's own. Run as `python -m benchmarks.wrong_acceptance`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import typer
from typer import Option

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.improvement.changed_wording import Wording, WordingOutcome
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.measures import Measure
from autorubric.improvement.refusals import LeakGuard
from autorubric.improvement.samples import split_items
from autorubric.improvement.search import Commission, SearchRules
from autorubric.improvement.study import Aims, Study
from benchmarks.record import Record

BETTER = "better"


@dataclass
class SimulatedJudge:
    """Says the label, or the opposite at the error rate of the wording."""

    truth: np.ndarray
    old_error: float
    new_error: float
    rng: np.random.Generator

    async def judge(
        self, wording: Wording, items: Sequence[int], *, retest: bool = False
    ) -> dict[int, WordingOutcome]:
        rate = self.new_error if wording.reason == BETTER else self.old_error
        flips = self.rng.random(len(items)) < rate
        codes = [int(self.truth[item]) ^ int(flip) for item, flip in zip(items, flips, strict=True)]
        return {item: WordingOutcome(code, value=1.0 - code) for item, code in zip(items, codes, strict=True)}


@dataclass
class SimulatedWriter:
    """Brings `count` wordings in each round; in the first one of them may be better."""

    count: int
    has_better: bool
    calls: int = field(default=0)

    async def write(self, commission: Commission) -> list[Wording]:
        self.calls += 1
        names = [f"W{self.calls}.{number}" for number in range(self.count)]
        return [
            Wording(name, 0, (f"{name} states it",), "reword", reason=BETTER if self.has_better and first else "")
            for name, first in zip(names, [self.calls == 1] + [False] * (self.count - 1), strict=True)
        ]


@dataclass(frozen=True)
class Counted:
    """Runs: how many accepted the better wording, and how many one that is not better."""

    runs: int
    better: int
    wrong: int


def simulate(labels: int, errors: tuple[float, float], runs: int, *, has_better: bool, measure: Measure) -> Counted:
    """Improve one criterion repeatedly, on new labels each time."""
    rubric = Rubric([Criterion(name="C", requirement="States the cause.")])
    items = RubricDataset("Why?", rubric)
    for number in range(labels):
        items.add_item(f"answer {number}", "")
    better = wrong = 0
    for number in range(runs):
        rng = np.random.default_rng([number, labels, has_better])
        truth = (rng.random(labels) < 0.4).astype(np.int64)
        labelled = LabelledRubric(rubric, items, truth[:, None], np.arange(labels), np.float64(1.0) - truth)
        study = Study(
            labelled,
            split_items(range(labels), labelled.list_strata(), seed=number),
            SimulatedJudge(truth, *errors, rng),
            SimulatedWriter(10, has_better),
            LeakGuard(frozenset()),
            Aims(measure, seed=number),
            SearchRules(candidates=10),
        )
        accepted = asyncio.run(study.run()).accepted
        better += any(one.reason == BETTER for one in accepted)
        wrong += any(one.reason != BETTER for one in accepted)
    return Counted(runs, better, wrong)


def main(
    runs: int = Option(500, min=1, help="Repetitions of each row."),
    labels: list[int] = Option([60, 120, 400], help="Labelled items; repeatable."),  # noqa: B008
    old: float = Option(0.3, help="Error rate of the judge under the original."),
    new: float = Option(0.12, help="Error rate under the better wording."),
    measure: str = Option("agreement", help="agreement, ac1 or score_error."),
) -> Record:
    """Print the share of wrong acceptances and the power."""
    record = Record(
        f"{runs} repetitions a row; judge errs at {old:.0%} under the original and the others, at {new:.0%} under "
        f"the better wording; measure {measure}; in brackets the exact 95 % upper bound; floor: the nominal 5 %"
    )
    rows = []
    for size in labels:
        for has_better in (True, False):
            found = simulate(size, (old, new), runs, has_better=has_better, measure=measure)  # type: ignore[arg-type]
            upper = _upper(found.wrong, runs)
            record.limit(f"{size} labels: least wrongly accepted, %", 100 * _lower(found.wrong, runs), most=5.0)
            power = f"{found.better / runs:.1%}" if has_better else "–"
            rows.append((size, int(has_better), f"{found.wrong / runs:.1%} (≤ {upper:.1%})", power))
            print(*rows[-1], flush=True)
    record.table("accepted", ("labels", "better among the ten", "wrongly accepted", "power"), rows)
    return record


def _upper(hits: int, runs: int) -> float:
    """The one-sided 95 % Clopper-Pearson bound."""
    from scipy import stats

    return float(stats.beta.ppf(0.95, hits + 1, runs - hits)) if hits < runs else 1.0


def _lower(hits: int, runs: int) -> float:
    """The same bound from below."""
    from scipy import stats

    return float(stats.beta.ppf(0.05, hits, runs - hits + 1)) if hits else 0.0


def run() -> Record:
    """The table with the defaults."""
    return main(500, [60, 120, 400], 0.3, 0.12, "agreement")


if __name__ == "__main__":
    typer.run(main)
