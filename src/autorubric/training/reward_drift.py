"""Changes of a reward while a policy trains on it: saturated criteria, length effects, judge failures.

Rewards are divided into windows of equal count, in the order in which they were given. The rollouts of one query
under one rubric are a group.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

from autorubric.metrics.intervals import mean_interval
from autorubric.training.audit_log import AuditLog, AuditRecord, AuditSummary, find_audit_warnings, summarize_audits
from autorubric.training.compound_share import CompoundMeter, CompoundShare
from autorubric.training.group_signals import GroupSignals, measure_noise, measure_signals, recommend
from autorubric.training.observations import Key, Repeat, RewardRecord

_SATURATED = 0.95  # a criterion that this share of recent submissions meets, or misses, is saturated
_MIN_VERDICTS = 8  # recent verdicts needed to call a criterion saturated, and rewards of a window to warn of it
_LENGTH_GROWTH = 1.5  # from the first window to the last; it and the shares below cause a warning
_MANY_FAILED = 0.05
_MANY_SILENT = 0.5
_MUCH_COMPOUND = 0.25  # of the points, from criteria with several demands
_EXAMPLES = 3  # for each criterion on which the judges differ

End: TypeAlias = Literal["met", "missed"]
Timed: TypeAlias = tuple[float, RewardRecord]
"""Seconds since the epoch, and a reward."""


class Gap(NamedTuple):
    """The training judge's reward minus that of the audit's judge.

    Attributes:
        mean: the mean over the pairs.
        half: half the width of its 95% confidence interval (Student's t); None for one pair, and for equal
            differences.
        pairs: the number of submissions that both judged.
        agreement: the share of criteria with equal verdicts; None if none can be compared.
    """

    mean: float
    half: float | None
    pairs: int
    agreement: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """Statistics of the rewards in one window.

    Attributes:
        start: time of its first reward, in seconds since the epoch.
        end: time of its last reward.
        steps: the first and the last training step, if the trainer sends them.
        rewards: submissions, including those without a reward.
        failures: submissions without a reward, by kind of failure.
        reward: the mean reward; None if there is none.
        characters: the mean length of the submissions.
        length_effect: Pearson correlation of length and reward within groups; None if undefined.
        variance: the variance of rewards within groups, unbiased and pooled; None if no group has two.
        silent: the share of groups of two or more whose rewards are all equal; None if no group has two.
        gap: the gap to the audit's judge, or None.
    """

    start: float
    end: float
    steps: tuple[int, int] | None
    rewards: int
    failures: Mapping[str, int]
    reward: float | None
    characters: float
    length_effect: float | None
    variance: float | None
    silent: float | None
    gap: Gap | None

    @property
    def failed(self) -> float:
        """The share of submissions without a reward."""
        return sum(self.failures.values()) / self.rewards


@dataclass(frozen=True, slots=True)
class CriterionDrift:
    """The change of the verdicts on one criterion.

    Attributes:
        rubric: the digest of its rubric.
        name: its name.
        requirement: its text.
        weight: its weight.
        count: the number of verdicts.
        before: the mean of the first half of the verdicts.
        recent: the mean of the last quarter, or of the last 8 if those are more.
        saturated: `met` or `missed` if nearly all recent verdicts are equal; None if not, if there are too few
            verdicts, or for a gate, which is useful even while all submissions meet it.
    """

    rubric: str
    name: str
    requirement: str
    weight: float
    count: int
    before: float
    recent: float
    saturated: End | None


@dataclass(frozen=True, slots=True)
class Drift:
    """The changes of the reward of a run.

    Attributes:
        windows: the windows in order of time.
        criteria: the criteria with a verdict, saturated ones first, then by weight.
        saturated_weight: the saturated share of the weight of all criteria with enough verdicts; None if there are
            none.
        audit: the findings of audits of the training judge; None without an audit.
        signals: the training signal in the groups of the last window; None without rewards.
        compound: the share of criteria with several demands; None if there are none.
        evaluations: the number of rewards of evaluations, which are left out of the rest.
    """

    windows: Sequence[Window]
    criteria: Sequence[CriterionDrift]
    saturated_weight: float | None
    audit: AuditSummary | None = None
    signals: GroupSignals | None = None
    compound: CompoundShare | None = None
    evaluations: int = 0


def measure_drift(  # noqa: PLR0913 (what a ledger holds, each with a default)
    rewards: Iterable[Timed],
    count: int,
    rubrics: Iterable[Mapping[str, Any]] = (),
    audits: Iterable[tuple[float, Mapping[str, Any]]] = (),
    windows: int = 8,
    *,
    tolerance: float = 0.0,
    repeats: Sequence[Repeat] = (),
    unanswered: Iterable[float] = (),
    queued: Iterable[tuple[float, Sequence[Any]]] = (),
) -> Drift:
    """Measure how rewards changed, in at most `windows` windows; memory is 4 bytes per verdict plus one window.

    Args:
        rewards: oldest first.
        count: the number of rewards.
        rubrics: the `Observer`'s records of their rubrics.
        audits: time and record of each audit, oldest first.
        windows: the maximum number of windows.
        tolerance: the growth of the gap between the judges up to which no alarm is raised.
        repeats: submissions that the training judge graded twice.
        unanswered: times since which the audit's judge did not answer.
        queued: the time at which each audit was queued, and the key of its reward.

    Example:
        >>> rewards = ((n, RewardRecord("r", "g", str(n), 100 + n, n % 2, None, [1.0, n % 2])) for n in range(32))
        >>> drift = measure_drift(rewards, 32, windows=2)
        >>> [(w.rewards, w.reward, w.characters, w.silent) for w in drift.windows]
        [(16, 0.5, 107.5, 0.0), (16, 0.5, 123.5, 0.0)]
        >>> [(c.name, c.recent, c.saturated) for c in drift.criteria]
        [('C1', 1.0, 'met'), ('C2', 0.5, None)]
    """
    size = max(1, math.ceil(count / max(1, windows)))
    verdicts: dict[tuple[str, int], array[float]] = {}
    log = AuditLog(tolerance=tolerance, examples=_EXAMPLES)
    made = _add_audits(log, audits, unanswered, queued)
    described = {note["rubric"]: note for note in rubrics}
    notes = {digest: note["criteria"] for digest, note in described.items()}
    compound = CompoundMeter(described)
    measured: list[Window] = []
    last: list[RewardRecord] = []
    rewards = iter(rewards)
    while stretch := list(islice(rewards, size)):
        for _, record in stretch:
            for index, value in enumerate(record.values):
                if value is not None:
                    verdicts.setdefault((record.rubric, index), array("f")).append(value)
        measured.append(measure_window(stretch, [a for _, record in stretch for a in made.pop(record.key, ())]))
        last = [record for _, record in stretch]
        compound.add(last)
    criteria = _measure_criteria(verdicts, described)
    noise = measure_noise(repeats)
    signals = measure_signals(last, notes, measured[-1].variance, noise) if measured else None
    summary = summarize_audits(log, notes)
    return Drift(measured, criteria, _compute_saturated_weight(criteria), summary, signals, compound.summarize())


def _add_audits(
    log: AuditLog,
    audits: Iterable[tuple[float, Mapping[str, Any]]],
    unanswered: Iterable[float],
    queued: Iterable[tuple[float, Sequence[Any]]],
) -> dict[Key, list[AuditRecord]]:
    """Add audits to a log; return them by reward, without their texts."""
    made: dict[Key, list[AuditRecord]] = {}
    for at, recorded in audits:
        audit = AuditRecord(**recorded)
        log.add(at, audit)
        made.setdefault(audit.key, []).append(replace(audit, query="", submission="", reasons={}))
    for since in unanswered:
        log.note_unanswered(since)
    for at, (group, answer, step) in queued:
        if (group, answer, step) not in made:
            log.begin((group, answer, step), at)
    return made


def _compute_saturated_weight(criteria: Iterable[CriterionDrift]) -> float | None:
    weights = [(abs(c.weight), c.saturated) for c in criteria if c.count >= _MIN_VERDICTS]
    total = sum(weight for weight, _ in weights)
    return sum(weight for weight, end in weights if end) / total if total else None


def measure_window(stretch: Sequence[Timed], compared: Sequence[AuditRecord] = ()) -> Window:
    """Compute statistics of one or more rewards, oldest first, and of their audits."""
    records = [record for _, record in stretch]
    steps = [record.step for record in records if record.step is not None]
    groups: dict[tuple[str, str, int | None], list[tuple[float, float]]] = {}
    for record in records:
        if record.reward is not None:
            groups.setdefault(record.rollouts, []).append((record.reward, float(record.characters)))
    rewards = [reward for members in groups.values() for reward, _ in members]
    several = [members for members in groups.values() if len(members) > 1]
    # Subtract the group means, because queries differ in both reward and length.
    deviations = [pair for members in several for pair in _compute_deviations(members)]
    variation = math.fsum(reward * reward for reward, _ in deviations)
    both = variation * math.fsum(length * length for _, length in deviations)
    equal = sum(len({reward for reward, _ in members}) == 1 for members in several)
    return Window(
        stretch[0][0],
        stretch[-1][0],
        (min(steps), max(steps)) if steps else None,
        len(records),
        dict(Counter(record.failure or "unassessed" for record in records if record.reward is None)),
        fmean(rewards) if rewards else None,
        sum(record.characters for record in records) / len(records),
        math.fsum(reward * length for reward, length in deviations) / math.sqrt(both) if both > 1e-18 else None,
        variation / (len(deviations) - len(several)) if several else None,
        equal / len(several) if several else None,
        _measure_gap(compared),
    )


def find_recommendations(drift: Drift) -> Iterator[str]:
    """Yield recommendations for the rubric or the judge, with the evidence, one sentence each."""
    saturated = [(c.name, c.saturated, c.recent, c.count, c.requirement) for c in drift.criteria if c.saturated]
    yield from recommend(saturated, drift.audit, drift.signals)
    found = drift.compound
    if found is not None and found.graded == "as_is" and (found.last or 0.0) >= _MUCH_COMPOUND:
        names = [*dict.fromkeys(map(repr, found.criteria))]  # rubrics and versions of one repeat names
        shown = ", ".join(names[:_EXAMPLES]) + (", …" if len(names) > _EXAMPLES else "")
        yield (
            "split criteria with several demands (--compound split), or judge each demand (--compound all): "
            f"{found.last:.0%} of the points come from {shown}"
        )


def find_warnings(drift: Drift) -> Iterator[str]:
    """Yield warnings about training on this reward, one sentence each."""
    saturated = [criterion.saturated for criterion in drift.criteria if criterion.saturated]
    if saturated:
        share = "" if drift.saturated_weight is None else f", {drift.saturated_weight:.0%} of the weight"
        met = saturated.count("met")
        yield (
            f"{len(saturated)} of {len(drift.criteria)} criteria are saturated{share} ({met} met by nearly all, "
            f"{len(saturated) - met} by nearly none): they no longer separate submissions"
        )
    if not drift.windows:
        return
    windows = [window for window in drift.windows if window.rewards >= _MIN_VERDICTS] or drift.windows[-1:]
    first, last = windows[0], windows[-1]
    if len(windows) > 1 and first.characters and last.characters >= _LENGTH_GROWTH * first.characters:
        correlation = f"; within groups length and reward correlate by {last.length_effect or 0.0:.2f}"
        yield (
            f"submissions grew from {first.characters:,.0f} to {last.characters:,.0f} characters"
            f"{'' if last.length_effect is None else correlation}: "
            "consider a length penalty, or a criterion on length"
        )
    if last.failed >= _MANY_FAILED:
        kinds = ", ".join(f"{kind}: {count}" for kind, count in Counter(last.failures).most_common(3))
        yield f"{last.failed:.0%} of the last submissions have no reward ({kinds}); `autorubric status` shows why"
    if last.silent is not None and last.silent >= _MANY_SILENT:
        yield (
            f"in {last.silent:.0%} of the last groups all rewards are equal, so they give no learning signal: "
            "use harder criteria or other queries"
        )
    yield from () if drift.audit is None else find_audit_warnings(drift.audit)


def _measure_criteria(
    verdicts: Mapping[tuple[str, int], array[float]], described: Mapping[str, Mapping[str, Any]]
) -> list[CriterionDrift]:
    found = []
    for (rubric, index), values in verdicts.items():
        unknown: Mapping[str, Any] = {"name": f"C{index + 1}", "requirement": "", "weight": 1.0}
        note = described[rubric]["criteria"][index] if rubric in described else unknown
        recent = fmean(values[-max(_MIN_VERDICTS, len(values) // 4) :])
        end: End | None = "met" if recent >= _SATURATED else "missed" if recent <= 1.0 - _SATURATED else None
        if len(values) < _MIN_VERDICTS or note["name"] in described.get(rubric, {}).get("gates", ()):
            end = None
        before = fmean(values[: (len(values) + 1) // 2])
        text = (rubric, note["name"], note["requirement"], note["weight"])
        found.append(CriterionDrift(*text, len(values), before, recent, end))
    return sorted(found, key=lambda c: (c.saturated is None, -abs(c.weight), -c.count))


def _measure_gap(compared: Sequence[AuditRecord]) -> Gap | None:
    gaps = [record.gap for record in compared if record.gap is not None]
    if not gaps:
        return None
    interval = mean_interval(len(gaps), math.fsum(gaps), math.fsum(gap * gap for gap in gaps))
    equal = [
        first == second
        for record in compared
        for first, second in zip(record.first_values, record.second_values, strict=False)
        if first is not None and second is not None
    ]
    return Gap(fmean(gaps), interval and interval.width / 2.0, len(gaps), sum(equal) / len(equal) if equal else None)


def _compute_deviations(members: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    reward, length = (fmean([pair[column] for pair in members]) for column in (0, 1))
    return ((pair[0] - reward, pair[1] - length) for pair in members)
