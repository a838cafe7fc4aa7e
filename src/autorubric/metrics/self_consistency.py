"""How far judges that were asked repeatedly agree with themselves; needs no labels."""

from __future__ import annotations

from collections.abc import Iterable

from autorubric.core.self_consistency import SelfConsistency, add_repeats
from autorubric.metrics.joining import GradedItem
from autorubric.metrics.results import JudgeSelfConsistency
from autorubric.metrics.statistic_results import ConfidenceInterval


def self_consistency(items: Iterable[GradedItem], confidence: float = 0.95) -> list[JudgeSelfConsistency]:
    """The figures of each judge that was asked repeatedly, in the order in which they occur.

    Args:
        items: of a run.
        confidence: of the interval.

    Example:
        >>> self_consistency([])
        []
    """
    found: dict[str, SelfConsistency] = {}
    for item in items:
        add_repeats(found, item.report.report or ())
    return [_figures(judge, confidence) for judge in found.values()]


def _figures(judge: SelfConsistency, confidence: float) -> JudgeSelfConsistency:
    ends = judge.interval(confidence)
    return JudgeSelfConsistency(
        judge_id=judge.judge_id,
        n_judgments=judge.judgments,
        n_repeats=judge.repeats,
        agreement=judge.agreement,
        agreement_ci=None
        if ends is None
        else ConfidenceInterval(lower=ends[0], upper=ends[1], confidence=confidence, method="normal"),
        unanimous=judge.unanimous_share,
        variance=judge.variance,
    )
