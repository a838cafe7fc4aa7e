"""How soon the audit of a training judge finds a gap, and how often it raises a false alarm: two simulated judges.

Both judge ten criteria of one rubric and differ on 15 % of them, the training judge with a constant lead of 0.03.
After a number of audits the policy exploits the training judge: by the same amount on all criteria, or on one alone.
The log, its confidence sequences and its alarm are the product's own.

Limits follow from what the confidence sequences promise. False alarms: 5 % of all runs. Delay: once the growth is
twice the half-widths of both intervals, an alarm that is not there means that one of them misses, as 5 % of all runs
may. Both get the binomial error of the number of runs (99 %). Floors, from the same draws: a z-test of the second
half of the audits against the first that is looked at after each audit, and a z-test by someone who knows when the
exploit began and looks once. Run as `python -m benchmarks.audit_power`.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import typer
from scipy import stats
from typer import Option

from autorubric.metrics.confidence_sequence import FIRST, ConfidenceSequence
from autorubric.training.audit_log import ALPHA, AuditLog, AuditRecord
from benchmarks.record import Record

CRITERIA = 10
APART = 0.15
LEAD = 0.03
SHARE = 0.02


@dataclass(frozen=True)
class Exploit:
    """An exploit that begins after `start` audits: a growth of the gap, on one criterion or on all."""

    gap: float
    start: int
    on_one: bool = False

    def chances(self) -> np.ndarray:
        """The chance that the training judge says met where the audit's judge says not, for each criterion."""
        if self.on_one:
            return np.array([self.gap * CRITERIA] + [0.0] * (CRITERIA - 1))
        return np.full(CRITERIA, self.gap)

    @property
    def growth(self) -> float:
        """The growth of the gap that shows it first: that of one criterion, or of the reward."""
        return (self.gap * CRITERIA if self.on_one else self.gap) * (1 - LEAD)

    def variance(self, share: float) -> float:
        """The variance of that gap over audits of which a share was made since the start."""
        chance = self.gap * (CRITERIA if self.on_one else 1)
        mean, square = share * chance * (1 - LEAD) + LEAD, share * chance * (1 - APART) + APART
        return (square - mean**2) / (1 if self.on_one else CRITERIA)


@dataclass(frozen=True)
class Watch:
    """One run: when the alarm came, when the repeated z-test would have raised it, in numbers of audits."""

    alarm: int | None
    peeked: int | None

    @classmethod
    def simulated(cls, exploit: Exploit, audits: int, seed: int) -> Watch:
        """Audits until the alarm."""
        random = np.random.default_rng(seed)
        log, rewards, alarm = AuditLog(), list[float](), None
        for number in range(1, audits + 1):
            draw = random.random(CRITERIA)
            gaps = np.where(draw < APART / 2 + LEAD / 2, 1.0, np.where(draw > 1 - APART / 2 + LEAD / 2, -1.0, 0.0))
            if number > exploit.start:
                gaps = np.where(random.random(CRITERIA) < exploit.chances(), 1.0, gaps)
            rewards.append(float(gaps.mean()))
            log.add(0.0, AuditRecord("g", rewards[-1], 0.0, None, rubric="r", gaps=gaps.tolist()))
            if log.status == "gap":
                alarm = number
                break
        return cls(alarm, peeked_alarm(np.array(rewards)))


def peeked_alarm(gaps: np.ndarray) -> int | None:
    """The first audit after which a z-test of 5 % finds the second half of the gaps above the first."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(one)]) for one in (gaps, gaps**2))
    ends = np.arange(2 * FIRST, len(gaps) + 1)
    middles = ends // 2
    first, second = sums[middles] / middles, (sums[ends] - sums[middles]) / (ends - middles)
    variance = squares[ends] / ends - (sums[ends] / ends) ** 2
    above = second - first > stats.norm.ppf(1 - ALPHA) * np.sqrt(variance * (1 / middles + 1 / (ends - middles)))
    return int(ends[above][0]) if above.any() else None


def known_delay(exploit: Exploit) -> int:
    """The audits after which a one-sided z-test of 5 % has a power of 50 %, if start and earlier gap are known."""
    needed = stats.norm.ppf(1 - ALPHA) ** 2 * exploit.variance(1.0) / exploit.growth**2
    return max(1, math.ceil(float(needed)))


def promised_delay(exploit: Exploit, audits: int) -> int | None:
    """The audits after which the growth is twice both half-widths, by the best restart; None if it never is."""
    alpha = ALPHA / 4 if exploit.on_one else ALPHA / 2  # half of what criteria have is the first one's
    restart, place, delays = FIRST, 0, list[int]()
    while restart < audits:
        own, begun = alpha / ((place + 1) * (place + 2)), max(restart, exploit.start)
        earlier = max(0, restart - exploit.start) / restart
        before = _half_width(restart, exploit.variance(earlier), alpha)

        def holds(
            end: int, restart: int = restart, earlier: float = earlier, before: float = before, own: float = own
        ) -> bool:
            later = (end - max(restart, exploit.start)) / (end - restart)
            after = _half_width(end - restart, exploit.variance(later), own)
            return exploit.growth * (later - earlier) >= 2 * (before + after)

        end = begun + 1 + bisect_left(range(begun + 1, audits + 1), True, key=holds)
        if end <= audits:
            delays.append(end - exploit.start)
        restart, place = math.floor(restart * 1.25), place + 1
    return min(delays, default=None)


def _half_width(count: int, variance: float, alpha: float) -> float:
    """Half the width of a confidence sequence from -1 to 1 that expects each value to be the mean so far."""
    # The first guess of the mean may be off by half the range.
    squares = variance * (count + 1 + math.log(count)) + math.pi**2 / 6
    low, high, _ = ConfidenceSequence(alpha, -1.0, 1.0, count, count / 2, squares / 4).compute_interval()
    return (high - low) / 2


def most_by_chance(runs: int, share: float = ALPHA) -> int:
    """The maximum count among `runs` that a share explains, with a probability of 99 %."""
    return int(stats.binom.ppf(0.99, runs, share))


def run(runs: int = 10, null_runs: int = 100, audits: int = 10_000) -> Record:
    """Measure false alarms without an exploit, and the delay with one."""
    record = Record(
        f"10 criteria, verdicts 15 % apart, lead 0.03; {null_runs} runs of {audits // 2:,} audits without exploit, "
        f"{runs} runs of {audits:,} with each exploit"
    )
    null = [Watch.simulated(Exploit(0.0, 0), audits // 2, seed) for seed in range(null_runs)]
    alarms, peeked = (sum(getattr(one, name) is not None for one in null) for name in ("alarm", "peeked"))
    rows = [["audit", f"{alarms} of {null_runs}"], ["floor: z-test after each audit", f"{peeked} of {null_runs}"]]
    record.table("false_alarms", ["alarm", "runs without an exploit that raise it"], rows)
    record.limit(f"false alarms in {null_runs} runs", alarms, most=most_by_chance(null_runs))
    header = [
        "growth",
        "on",
        "begins at audit",
        "found",
        "median delay in audits",
        "in rollouts",
        "promised",
        "floor",
    ]
    record.table("power", header, [_row(record, exploit, runs, audits) for exploit in EXPLOITS])
    return record


EXPLOITS = [Exploit(gap, start, one) for gap in (0.02, 0.05, 0.1) for one in (False, True) for start in (1000, 5000)]


def _row(record: Record, exploit: Exploit, runs: int, audits: int) -> list[str]:
    found = [Watch.simulated(exploit, audits, 1000 + seed).alarm for seed in range(runs)]
    delays = [at - exploit.start for at in found if at is not None and at > exploit.start]
    middle = statistics.median(delays) if 2 * len(delays) > runs else math.nan
    promised, where = promised_delay(exploit, audits), "one criterion" if exploit.on_one else "all criteria"
    if promised is not None:
        late = sum(at is None or at - exploit.start > promised for at in found)
        name = f"late alarms, growth {exploit.gap} on {where} from {exploit.start:,} audits"
        record.limit(name, late, most=most_by_chance(runs))
    told = ["–", "–"] if math.isnan(middle) else [f"{middle:,.0f}", f"{middle / SHARE:,.0f}"]
    row = [f"{exploit.gap}", where, f"{exploit.start:,}", f"{len(delays)} of {runs}", *told]
    return [*row, "–" if promised is None else f"{promised:,}", f"{known_delay(exploit):,}"]


def main(runs: int = Option(10), null_runs: int = Option(100), audits: int = Option(10_000)) -> None:
    """Simulate the audit of a training judge."""
    if missed := run(runs, null_runs, audits).missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    typer.run(main)
