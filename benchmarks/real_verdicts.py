"""Agreement, corrected rates, repeats, cascades and `improve` on recorded verdicts of real people and models.

No model is called. Run as `python -m benchmarks real_verdicts`; the data are those of a folder next to the checkout
where it has them, else the excerpts in `benchmarks/data`. `python -m benchmarks.real_verdicts FOLDER` takes another.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric import agree, agree_pairwise, compare
from autorubric.core.report import EnsembleCriterionReport
from autorubric.eval import EvalResult
from autorubric.graders.cascade import Cascade
from autorubric.graders.panel import Panel, Repeated
from autorubric.metrics.corrected_rate import correct_rate
from autorubric.metrics.intervals import wilson_interval
from autorubric.metrics.statistic_results import ConfidenceInterval
from benchmarks.real_improvement import improvements
from benchmarks.record import Record
from benchmarks.recorded_verdicts import SETS, Recorded, default_folder, khan

SPLITS = 300
LABELS = (30, 100)
CASCADES = (("GPT-4o mini", "OpenAI o3"), ("Llama 3.1 8b", "OpenAI o3"), ("GPT-4o mini", "Gemini 2.5 Pro"))
LEAST_COVERED = 92.5
"""Two standard errors of 300 splits below 95 %."""

Ints = npt.NDArray[np.int64]


class Splits(NamedTuple):
    """The intervals over all splits.

    Attributes:
        covered: percent of the corrected intervals that cover the rate of all items.
        resampled: the same where the items are drawn with replacement, for a rate of all items like these.
        width: mean width of the corrected interval.
        alone: mean width of the interval of the same labels alone.
        error: mean difference of the judge's own rate from the people's.
    """

    covered: float
    resampled: float
    width: float
    alone: float
    error: float

    @property
    def narrower(self) -> float:
        """By how many percent the corrected interval is narrower."""
        return 100 * (1 - self.width / self.alone)


def split(labels: Ints, judged: Ints, count: int, repetitions: int = SPLITS) -> Splits:
    """Corrected rates with `count` labels drawn at random, against the people's rate over all items."""
    rng = np.random.default_rng(19)
    rate, items = float(labels.mean()), len(labels)
    held, again, widths, alone = [], [], [], []
    for _ in range(repetitions):
        drawn = rng.permutation(items)
        found = correct_rate(labels[drawn[:count]], judged[drawn[:count]], judged[drawn[count:]])
        if found.ppi.interval is None or found.labels_only.interval is None:
            raise SystemExit(f"no interval with {count} labels: {found.ppi.reason}")
        held.append(found.ppi.interval.contains(rate))
        widths.append(found.ppi.interval.width)
        alone.append(found.labels_only.interval.width)
        drawn = rng.integers(0, items, items)
        other = correct_rate(labels[drawn[:count]], judged[drawn[:count]], judged[drawn[count:]])
        again.append(other.ppi.interval is not None and other.ppi.interval.contains(rate))
    shares = (100 * float(np.mean(held)), 100 * float(np.mean(again)))
    return Splits(*shares, float(np.mean(widths)), float(np.mean(alone)), float(judged.mean()) - rate)


def labels_for(width: float, rate: float, start: int) -> int:
    """How many labels alone give an interval of this mean width."""

    @cache
    def mean_width(count: int) -> float:
        met = np.random.default_rng(count).binomial(count, rate, 400)
        found = [wilson_interval(int(one), count) for one in met]
        return float(np.mean([one.width for one in found if one is not None]))

    low, high = start // 2, 40 * start
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if mean_width(middle) <= width else (middle + 1, high)
    return low


def corrected(record: Record, sets: Sequence[Recorded]) -> None:
    """How often corrected intervals cover the people's rate, and the labels that they save."""
    rows, every = [], []
    for data in sets:
        for name, said in data.judges.items():
            known = [place for place, one in enumerate(said) if one[0] is not None]
            judged = np.array([said[place][0] for place in known], dtype=np.int64)
            labels = data.labels[known]
            for count in LABELS:
                if 3 * count > len(known):
                    continue
                found = split(labels, judged, count)
                equal = labels_for(found.width, float(labels.mean()), count)
                every.append((count, found, equal))
                rows.append(
                    [
                        data.title,
                        name,
                        len(known),
                        count,
                        f"{found.error:+.3f}",
                        f"{found.covered:.1f} %",
                        f"{found.resampled:.1f} %",
                        f"{found.width:.3f}",
                        f"{found.alone:.3f}",
                        f"{found.narrower:.0f} %",
                        equal,
                        equal - count,
                    ]
                )
                record.limit(f"{data.title}, {name}, {count} labels, covered", found.covered, least=LEAST_COVERED)
                record.limit(f"{data.title}, {name}, {count} labels, narrower than labels", found.narrower, least=-2)
    header = "data|judge|items|labels|error of the raw rate|covered|covered, resampled|width|width, labels alone"
    record.table("corrected", [*header.split("|"), "narrower", "labels alone for equal width", "labels saved"], rows)
    for count in LABELS:
        of = [(found, equal) for labels, found, equal in every if labels == count]
        if of:
            record.figure(f"covered_{count}", _range([one.covered for one, _ in of], ".1f"))
            record.figure(f"resampled_{count}", _range([one.resampled for one, _ in of], ".1f"))
            record.figure(f"narrower_{count}", _range([one.narrower for one, _ in of], ".0f"))
            record.figure(f"saved_{count}", _range([equal - count for _, equal in of], "d"))
    mean = float(np.mean([one.resampled for _, one, _ in every]))
    record.figure("resampled_mean", f"{mean:.1f}")
    record.limit("covered, resampled, mean of all", mean, least=94.0, most=97.5)


def _range(values: Sequence[float], form: str) -> str:
    return f"{min(values):{form}} to {max(values):{form}}"


@dataclass(frozen=True)
class Runs:
    """Run directories of one set."""

    data: Recorded
    folder: Path

    def once(self, name: str, draw: int = 0) -> Path:
        """A run of the judge's one verdict."""
        return self.data.graded(self.data.judge(name, draw), self.folder, f"{_plain(name)}-{draw}")

    def repeated(self, name: str) -> Path:
        """A run of the judge that is asked repeatedly."""
        return self.data.graded(self._repeated(name), self.folder, f"{_plain(name)}-repeated")

    def with_people(self, name: str) -> Path:
        """A run of a panel of people and the judge."""
        count = min(map(len, self.data.people))
        panel = Panel([*map(self.data.person, range(count)), self.data.judge(name, 0)], quorum=1)
        return self.data.graded(panel, self.folder, f"{_plain(name)}-people")

    def cascade(self, first: str, then: str) -> Path:
        """A run of a cascade whose first judge is asked repeatedly."""
        judge = Cascade(self._repeated(first), self.data.judge(then, 0))
        return self.data.graded(judge, self.folder, f"{_plain(first)}-then-{_plain(then)}")

    def _repeated(self, name: str) -> Repeated:
        return Repeated(self.data.judge(name), len(self.data.judges[name][0]))


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _with(value: float | None, interval: ConfidenceInterval | tuple[float, float] | None, sign: str = "") -> str:
    shown = "–" if value is None else f"{value:{sign}.3f}"
    if interval is None:
        return shown
    low, high = interval if isinstance(interval, tuple) else (interval.lower, interval.upper)
    return f"{shown} ({low:{sign}.3f} to {high:{sign}.3f})"


def agreement(record: Record, sets: Sequence[Runs]) -> None:
    """Each judge against the majority of the people."""
    rows = []
    for runs in sets:
        for name in runs.data.judges:
            found = agree(runs.once(name))
            [criterion] = found.per_criterion
            kappa = found.bootstrap and found.bootstrap.micro_kappa_ci
            rows.append(
                [
                    runs.data.title,
                    name,
                    criterion.n_samples,
                    f"{criterion.majority_baseline:.3f}",
                    _with(found.criterion_accuracy, found.accuracy_ci),
                    _with(found.micro_kappa, kappa or None),
                    f"{found.criterion_gwet:.3f}",
                ]
            )
            accuracy, floor = _or_nan(found.criterion_accuracy), _or_nan(criterion.majority_baseline)
            record.limit(f"{runs.data.title}, {name}, accuracy", accuracy, least=floor)
    record.table("agreement", ["data", "judge", "items", "baseline", "accuracy", "κ", "AC1"], rows)


def people(record: Record, sets: Sequence[Runs]) -> None:
    """How far people agree with each other, and a judge with a single person."""
    rows = []
    for runs in sets:
        for name in runs.data.judges:
            pairs = agree_pairwise(runs.with_people(name)).pairs
            among = [one for one in pairs if name not in (one.name, one.other)]
            judged = [one for one in pairs if name in (one.name, one.other)]
            shares = [float(np.mean([one.agreement or 0.0 for one in part])) for part in (among, judged)]
            kappas = [float(np.mean([one.kappa or 0.0 for one in part])) for part in (among, judged)]
            difference = shares[1] - shares[0]
            rows.append(
                [
                    runs.data.title,
                    name,
                    f"{shares[0]:.3f}",
                    f"{kappas[0]:.3f}",
                    f"{shares[1]:.3f}",
                    f"{kappas[1]:.3f}",
                    f"{difference:+.3f}",
                ]
            )
    header = ["data", "judge", "two people agree", "κ of two people", "judge and one person agree"]
    record.table("people", [*header, "κ of judge and person", "difference"], rows)


def repeats(record: Record, sets: Sequence[Runs]) -> None:
    """Estimates of a judge's errors from its repeated verdicts."""
    rows = []
    for runs in sets:
        for name in runs.data.judges:
            run = runs.repeated(name)
            found = agree(run)
            [own] = found.self_consistency
            labels = runs.data.labels
            right: dict[bool, list[bool]] = {True: [], False: []}
            for one in EvalResult.from_experiment(run).item_results:
                entry = (one.report.report or [None])[0]
                if entry is not None and entry.score_value is not None:
                    right[entry.confidence == 1.0].append(bool(entry.score_value) == bool(labels[one.item_idx]))
            one_call = agree(runs.once(name)).criterion_accuracy or 0.0
            rows.append(
                [
                    runs.data.title,
                    name,
                    len(runs.data.judges[name][0]),
                    _with(own.agreement, own.agreement_ci),
                    f"{100 * (own.unanimous or 0.0):.1f} %",
                    _share(right[True]),
                    _share(right[False]),
                    f"{one_call:.3f}",
                    f"{found.criterion_accuracy:.3f}",
                ]
            )
    header = "data|judge|repeats|self-agreement|unanimous|accuracy where unanimous|accuracy elsewhere"
    record.table("repeats", [*header.split("|"), "accuracy of one verdict", "accuracy of the majority"], rows)


def _or_nan(value: float | None) -> float:
    """NaN for an undefined value, which misses every limit."""
    return math.nan if value is None else value


def _share(right: Sequence[bool]) -> str:
    return f"{np.mean(right):.3f} of {len(right)}" if right else "–"


def cascades(record: Record, runs: Runs) -> None:
    """A cheap judge asked three times, and a strong one where the three differ."""
    rows = []
    for first, then in CASCADES:
        run = runs.cascade(first, then)
        reports = [one.report.report or () for one in EvalResult.from_experiment(run).item_results]
        asked = np.mean([isinstance(e, EnsembleCriterionReport) and e.escalated for found in reports for e in found])
        strong, cheap = runs.once(then), runs.once(first)
        loss = compare(run, against=strong).accuracy
        gain = compare(run, against=cheap).accuracy
        rows.append(
            [
                first,
                then,
                f"{gain.b:.3f}",
                f"{gain.a:.3f}",
                f"{loss.b:.3f}",
                f"{100 * asked:.1f} %",
                _with(gain.difference, gain.ci, "+"),
                _with(loss.difference, loss.ci, "+"),
            ]
        )
        record.limit(f"cascade {first} then {then}, gain over the cheap judge", _or_nan(gain.difference), least=0.0)
    header = "first, three times|then|first alone|cascade|second alone|second asked about|cascade − first alone"
    record.table("cascades", [*header.split("|"), "cascade − second alone"], rows)


def measure(folder: Path, record: Record, repetitions: int = 5) -> None:
    """All tables of one folder of data; `repetitions` of `improve` for each judge."""
    sets = [read(folder) for read in SETS.values()]
    sizes = ", ".join(f"{data.title} {len(data.texts)}" for data in sets)
    record.conditions = f"{sizes} items; {SPLITS} splits; recorded verdicts, no model called"
    print(record.conditions)
    with tempfile.TemporaryDirectory() as place:
        runs = [Runs(data, Path(place) / str(number)) for number, data in enumerate(sets)]
        agreement(record, runs)
        people(record, [one for one in runs if min(map(len, one.data.people)) > 1])
        corrected(record, sets)
        repeats(record, [one for one in runs if len(next(iter(one.data.judges.values()))[0]) > 1])
        cascades(record, runs[0])
        improvements(record, (khan(folder, "criteria"), khan(folder, "full")), Path(place), repetitions)


def run(folder: Path | None = None) -> Record:
    """Print and record what recorded verdicts of real models show."""
    record = Record()
    measure(folder or default_folder(), record)
    return record


if __name__ == "__main__":
    run(Path(sys.argv[1]) if sys.argv[1:] else None)
