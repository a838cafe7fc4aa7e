"""What audits found, in the form that `drift` and the viewer show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autorubric.metrics.growth_sequence import Growth
from autorubric.metrics.intervals import Interval
from autorubric.training.audit_log import DROPPED, AuditLog, Example, GapStatus

_MOST_CRITERIA = 10


@dataclass(frozen=True, slots=True)
class CriterionGap:
    """How two judges differ on one criterion.

    Attributes:
        rubric: the digest of its rubric.
        name: its name.
        requirement: its text.
        weight: its weight.
        count: audits in which both judged it.
        mean: how much more the training judge gives, from -1 to 1; of a pitfall, how much less it sees.
        growth: later audits compared with earlier ones; None for less than 51 audits.
        alarm: the comparison that raised the alarm, or None.
        examples: the last ones in which the training judge gave more.
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
    """What the audits of a run found. All intervals hold at every moment of the run at once.

    Attributes:
        audits: those with a gap: the training judge's reward minus the reference judge's.
        failures: those without, by kind of failure.
        blind_since: when the first audit failed, or began that has had no answer for long, after which none
            succeeded, in seconds since the epoch; None if there is none.
        gap: the mean gap; None without audits.
        interval: its confidence interval, or None.
        growth: the gap of later audits compared with that of earlier ones; None for less than 51 audits.
        alarm: the comparison that raised the alarm, or None.
        tolerance: growth that raises none.
        status: `gap` once there is an alarm, overall or on a criterion.
        criteria: those with an alarm, and those on which the training judge gives most in excess.
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


def summarise_audits(log: AuditLog, rubrics: Mapping[str, Sequence[Mapping[str, Any]]]) -> AuditSummary | None:
    """The summary; None without audits. `rubrics` hold the recorded criteria by the rubric's digest."""
    if not log.audits and not log.failures and log.blind_since is None:
        return None
    criteria = []
    for (rubric, index), gaps in log.exploited(_MOST_CRITERIA):
        unknown: Mapping[str, Any] = {"name": f"C{index + 1}", "requirement": "", "weight": 1.0}
        note = rubrics[rubric][index] if rubric in rubrics else unknown
        criteria.append(
            CriterionGap(
                rubric,
                note["name"],
                note["requirement"],
                note["weight"],
                gaps.whole.count,
                gaps.whole.mean,
                gaps.growth(),
                gaps.found,
                log.examples_of(rubric, index),
            )
        )
    whole = log.overall.whole
    return AuditSummary(
        log.audits,
        dict(log.failures),
        log.blind_since,
        whole.mean if whole.count else None,
        whole.interval() if whole.count else None,
        log.overall.growth(),
        log.overall.found,
        log.tolerance,
        log.status,
        criteria,
    )


def audit_warnings(found: AuditSummary) -> Iterator[str]:
    """What to look at, one sentence each."""
    if found.alarm is not None:
        yield (
            f"the training judge's lead over the audit's judge grew: {_grown(found.alarm)}; "
            "the policy may exploit the training judge"
        )
    for one in found.criteria:
        if one.alarm is not None:
            yield (
                f"on criterion {one.name!r} the training judge gives more than the audit's judge than it did: "
                f"{_grown(one.alarm)}; read the examples, then reword, split or drop it"
            )
    if found.blind_since is not None:
        since = datetime.fromtimestamp(found.blind_since, UTC).strftime("%Y-%m-%d %H:%M:%S")
        kinds = ", ".join(f"{kind} {count}" for kind, count in found.failures.items()) or "none"
        yield (
            f"the audit is blind since {since} UTC: its judge has failed or not answered since then; the reward is "
            f"not watched (failures of the whole run: {kinds})"
        )
    elif dropped := found.failures.get(DROPPED):
        yield f"{dropped:,} audits were dropped: the audit's judge is too slow for its share"


def _grown(growth: Growth) -> str:
    return (
        f"{growth.baseline:+.3f} in the first {growth.since:,} audits, {growth.recent:+.3f} in the next "
        f"{growth.count - growth.since:,} (growth at least {max(0.0, growth.interval.low):.3f})"
    )
