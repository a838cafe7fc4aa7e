"""The findings of audits: the gap between the two judges, its growth, and the time since which the audit is blind.

`drift` and the view show them as an `AuditSummary`.

A failed audit is never a gap; it is counted. The audit is blind from the first failure after the last success, or
from the start of a later audit whose answer is long overdue, whichever is earlier.
"""

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from autorubric.errors import pluralize
from autorubric.metrics.confidence_sequence import Growth, GrowthSequence
from autorubric.metrics.intervals import Interval
from autorubric.training.observations import Key

ALPHA = 0.05
"""Probability of any false alarm in a run of any length: half for the reward, half shared by all criteria."""

DROPPED = "dropped"
"""The failure kind of an audit that was dropped because the queue was full."""

_NOT_MADE = (DROPPED, "stopped")  # the judge was not asked, or the service ended first
PATIENCE = 60.0
"""Minimum seconds before an audit counts as unanswered."""

_TIMES = 10  # an audit also gets this multiple of the mean duration
_NOTABLE = 0.5  # the minimum gap on a criterion for an example

GapStatus: TypeAlias = Literal["ok", "gap"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An audit as the ledger keeps it.

    Attributes:
        group: the digest of query and rubric.
        first: the training judge's reward.
        second: the reference judge's reward; None if the audit failed.
        failure: the kind of failure, or None.
        first_values: the training judge's value of each criterion.
        second_values: the reference judge's value of each criterion; empty if the audit was dropped.
        rubric: the digest of the rubric.
        answer: the digest of the submission.
        step: the training step, if the trainer sends it.
        gaps: for each criterion, the training judge's value minus the reference judge's, from -1 to 1, with the
            opposite sign for a pitfall; None if either judge has no value.
        query: the beginning of the query.
        submission: the beginning of the submission.
        reasons: the reference judge's reasons on criteria whose values differ, by index.
    """

    group: str
    first: float | None
    second: float | None
    failure: str | None
    first_values: Sequence[float | None] = ()
    second_values: Sequence[float | None] = ()
    rubric: str = ""
    answer: str = ""
    step: int | None = None
    gaps: Sequence[float | None] = ()
    query: str = ""
    submission: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def gap(self) -> float | None:
        """The training judge's reward minus the reference judge's; None for a failed audit."""
        return None if self.first is None or self.second is None else self.first - self.second

    @property
    def key(self) -> Key:
        """The key of an audited reward: group and submission, and the step if the trainer sends steps."""
        return self.group, self.answer, self.step


@dataclass(frozen=True, slots=True)
class Example:
    """A submission that the training judge credits for a criterion and the reference judge does not."""

    query: str
    submission: str
    reason: str
    gap: float
    step: int | None


@dataclass
class AuditLog:
    """Aggregates audits, in the order in which they ended.

    The overall gap uses half of `ALPHA`; the criteria share the other half, of which the k-th audited criterion gets
    1 / (k (k + 1)). A gap beyond 1 (a signed reward may be below 0) counts as 1.

    Attributes:
        tolerance: the growth of the mean gap up to which no alarm is raised.
        examples: the maximum number of examples to keep for each criterion.

    Example:
        >>> log = AuditLog()
        >>> log.add(10.0, AuditRecord("g", 0.8, 0.6, None, gaps=(1.0, 0.0)))
        >>> log.add(20.0, AuditRecord("g", 0.8, None, "timeout"))
        >>> log.audits, dict(log.failures), log.blind_since, log.status
        (1, {'timeout': 1}, 20.0, 'ok')
        >>> log.add(30.0, AuditRecord("g", 0.8, 0.6, None))
        >>> log.begin(("g", "answer", 7), 40.0)
        >>> log.find_blind_since(99.0), log.find_blind_since(101.0)
        (None, 40.0)
    """

    tolerance: float = 0.0
    examples: int = 0
    audits: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    blind_since: float | None = None
    overall: GrowthSequence = field(init=False)
    criteria: dict[tuple[str, int], GrowthSequence] = field(default_factory=dict)
    _examples: dict[tuple[str, int], deque[Example]] = field(default_factory=dict)
    _exploited: bool = False
    _open: dict[Key, float] = field(default_factory=dict)
    _succeeded: float = -math.inf
    _seconds: float = 0.0
    _timed: int = 0

    def __post_init__(self) -> None:
        self.overall = GrowthSequence(ALPHA / 2, -1.0, 1.0, self.tolerance)

    @property
    def status(self) -> GapStatus:
        """`gap` once the gap has grown, overall or on a criterion."""
        return "gap" if self.overall.found or self._exploited else "ok"

    @property
    def unfinished(self) -> int:
        """The number of audits that began and have no result."""
        return len(self._open)

    @property
    def patience(self) -> float:
        """Seconds after which an unanswered audit counts as blind."""
        return max(PATIENCE, _TIMES * self._seconds / self._timed) if self._timed else PATIENCE

    def begin(self, key: Key, at: float) -> None:
        """Note the start of an audit."""
        self._open[key] = at

    def find_blind_since(self, now: float) -> float | None:
        """Return when the audit became blind, or None; an audit over a minute and 10 times the mean time counts."""
        waiting = min((at for at in self._open.values() if at > self._succeeded), default=now)
        if now - waiting <= self.patience:
            return self.blind_since
        return waiting if self.blind_since is None else min(waiting, self.blind_since)

    def note_unanswered(self, since: float) -> None:
        """Mark the audit as blind since the start of an unanswered audit, unless a later one has succeeded."""
        if since > self._succeeded:
            self.blind_since = since if self.blind_since is None else min(since, self.blind_since)

    def add(self, at: float, record: AuditRecord) -> None:
        """Add an audit that ended at `at`, in seconds since the epoch."""
        begun = self._open.pop(record.key, None)
        gap = record.gap
        if gap is None:
            self.failures[record.failure or "unassessed"] += 1
            if self.blind_since is None and record.failure not in _NOT_MADE:
                self.blind_since = at
            return
        self.blind_since, self._succeeded = None, at
        if begun is not None:
            self._seconds, self._timed = self._seconds + at - begun, self._timed + 1
        self.audits += 1
        self.overall.add(max(-1.0, min(1.0, gap)))
        for index, value in enumerate(record.gaps):
            if value is not None:
                self._add_criterion((record.rubric, index), value, record)

    def _add_criterion(self, key: tuple[str, int], gap: float, record: AuditRecord) -> None:
        sequence = self.criteria.get(key)
        if sequence is None:
            number = len(self.criteria) + 1
            alpha = ALPHA / 2 / (number * (number + 1))
            sequence = self.criteria[key] = GrowthSequence(alpha, -1.0, 1.0, self.tolerance)
        sequence.add(gap)
        self._exploited = self._exploited or sequence.found is not None
        if self.examples and gap >= _NOTABLE:
            reason = record.reasons.get(str(key[1]), "")
            found = Example(record.query, record.submission, reason, gap, record.step)
            self._examples.setdefault(key, deque(maxlen=self.examples)).append(found)

    def find_exploited(self, most: int) -> list[tuple[tuple[str, int], GrowthSequence]]:
        """Return at most `most` criteria: those with an alarm, then those with the most lenient training judge."""
        ranked = sorted(self.criteria.items(), key=_rank)
        return [entry for entry in ranked[:most] if entry[1].found or entry[1].whole.mean > 0]

    def find_examples(self, rubric: str, index: int) -> tuple[Example, ...]:
        """Return the last submissions that only the training judge credits for a criterion."""
        return tuple(self._examples.get((rubric, index), ()))


def _rank(entry: tuple[tuple[str, int], GrowthSequence]) -> tuple[bool, float]:
    gaps = entry[1]
    return gaps.found is None, -gaps.whole.mean * gaps.whole.count


_MOST_CRITERIA = 10


@dataclass(frozen=True, slots=True)
class CriterionGap:
    """The difference between the two judges on one criterion.

    Attributes:
        rubric: the digest of the rubric.
        name: the criterion's name.
        requirement: the criterion's text.
        weight: the criterion's weight.
        count: the number of audits in which both judges judged it.
        mean: the mean gap, from -1 to 1 (see `AuditRecord.gaps`).
        growth: later audits compared with earlier ones; None for fewer than 51 audits.
        alarm: the comparison that raised the alarm, or None.
        examples: the last submissions in which the training judge gave more.
    """

    rubric: str
    name: str
    requirement: str
    weight: float
    count: int
    mean: float
    growth: Growth | None
    alarm: Growth | None
    examples: Sequence[Example]


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """The results of the audits of a run. All intervals are simultaneously valid at all times of the run.

    Attributes:
        audits: the number of successful audits.
        failures: the number of other audits, by kind of failure.
        blind_since: when the audit became blind, in seconds since the epoch; None if it is not.
        gap: the mean gap, the training judge's reward minus the reference judge's; None without audits.
        interval: its confidence interval, or None.
        growth: the gap of later audits compared with that of earlier ones; None for fewer than 51 audits.
        alarm: the comparison that raised the alarm, or None.
        tolerance: growth that raises no alarm.
        status: `gap` once there is an alarm, overall or on a criterion.
        criteria: those with an alarm, then those where the training judge is the most generous.
        unfinished: the number of audits without a result: they are in progress, or the process ended before them.
    """

    audits: int
    failures: Mapping[str, int]
    blind_since: float | None
    gap: float | None
    interval: Interval | None
    growth: Growth | None
    alarm: Growth | None
    tolerance: float
    status: GapStatus
    criteria: Sequence[CriterionGap]
    unfinished: int = 0


def summarize_audits(log: AuditLog, rubrics: Mapping[str, Sequence[Mapping[str, Any]]]) -> AuditSummary | None:
    """Return the summary; None without audits. `rubrics` has the recorded criteria by the rubric's digest."""
    if not log.audits and not log.failures and not log.unfinished and log.blind_since is None:
        return None
    criteria = []
    for (rubric, index), gaps in log.find_exploited(_MOST_CRITERIA):
        unknown: Mapping[str, Any] = {"name": f"C{index + 1}", "requirement": "", "weight": 1.0}
        note = rubrics[rubric][index] if rubric in rubrics else unknown
        text, seen = (rubric, note["name"], note["requirement"], note["weight"]), gaps.whole
        found = (gaps.find_growth(), gaps.found, log.find_examples(rubric, index))
        criteria.append(CriterionGap(*text, seen.count, seen.mean, *found))
    whole = log.overall.whole
    return AuditSummary(
        log.audits,
        dict(log.failures),
        log.blind_since,
        whole.mean if whole.count else None,
        whole.compute_interval() if whole.count else None,
        log.overall.find_growth(),
        log.overall.found,
        log.tolerance,
        log.status,
        criteria,
        log.unfinished,
    )


def find_audit_warnings(found: AuditSummary) -> Iterator[str]:
    """Warnings about the audit, one sentence each."""
    if found.alarm is not None:
        yield (
            f"the training judge's lead over the audit's judge grew: {_describe_growth(found.alarm)}; "
            "the policy may exploit the training judge"
        )
    for gap in found.criteria:
        if gap.alarm is not None:
            yield (
                f"on criterion {gap.name!r}, the training judge's lead over the audit's judge grew: "
                f"{_describe_growth(gap.alarm)}; read the examples, then reword, split or drop it"
            )
    if found.blind_since is not None:
        since = datetime.fromtimestamp(found.blind_since, UTC).strftime("%Y-%m-%d %H:%M:%S")
        kinds = ", ".join(f"{kind} {count}" for kind, count in found.failures.items()) or "none"
        yield (
            f"the audit has been blind since {since} UTC: its judge has failed or not answered since, so the reward "
            f"is not monitored (failures of the whole run: {kinds})"
        )
    elif dropped := found.failures.get(DROPPED):
        yield f"{dropped:,} audits were dropped: the audit's judge is too slow for its share"


def _describe_growth(growth: Growth) -> str:
    return (
        f"{growth.baseline:+.3f} in the first {pluralize(growth.since, 'audit')}, {growth.recent:+.3f} in the next "
        f"{growth.count - growth.since:,} (growth at least {max(0.0, growth.interval.low):.3f})"
    )
