"""What to do about a criterion, by rules that only speak where an interval supports them.

In this order, the first that holds:

* drop: the pass rate lies beyond `saturated` with its whole interval, so that it tells no submissions apart (a
  guard against something rare may stay, outside the reward);
* relabel: the judges agree with each other (or there is one) but not with the labels, with the whole interval
  below `agreement`: either they share an error or the labels are wrong; look at those labels first;
* sharpen: the judges differ among themselves more often than `disagreement`, or the criterion goes against the
  rest of the rubric with its whole interval below 0: its words leave room;
* merge: its verdicts are those of another criterion, with the whole interval beyond `redundant`; said of the lighter;
* keep: none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from autorubric.metrics.intervals import Estimate

Advice: TypeAlias = Literal["drop", "relabel", "sharpen", "merge", "keep"]


@dataclass(frozen=True)
class Thresholds:
    """Where the advice draws its lines.

    Attributes:
        saturated: a pass rate above this, or below 1 minus this, tells too little.
        agreement: the least share of labels that a judge should meet.
        disagreement: the largest share of pairs of votes that should differ.
        redundant: the correlation beyond which two criteria say the same.
    """

    saturated: float = 0.95
    agreement: float = 0.8
    disagreement: float = 0.2
    redundant: float = 0.8


@dataclass(frozen=True)
class Signs:
    """What the advice on one criterion rests on; the fields are those of `CriterionWorth`.

    Attributes:
        pass_rate: the share of submissions that meet it.
        discrimination: its correlation with the rest of the rubric.
        redundancy: its correlation with its partner.
        same_verdicts: the share of submissions on which it and its partner say the same.
        partner: the name of the criterion most like it.
        lighter: whether it weighs less than its partner, and so is the one to merge.
        disagreement: the share of pairs of votes that differ.
        label_agreement: the share of labels that the judge meets.
    """

    pass_rate: Estimate
    discrimination: Estimate
    redundancy: Estimate
    same_verdicts: Estimate
    partner: str | None
    lighter: bool
    disagreement: float | None
    label_agreement: Estimate

    def saturated(self, thresholds: Thresholds) -> bool:
        """Whether the whole interval of the pass rate lies beyond the threshold."""
        interval = self.pass_rate.interval
        return interval is not None and (
            interval.low > thresholds.saturated or interval.high < 1.0 - thresholds.saturated
        )


def advise(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str]:
    """What to do about a criterion, and why in one sentence with the figures.

    Example:
        >>> from autorubric.metrics.intervals import Interval
        >>> met, unknown = Estimate(0.99, Interval(0.97, 1.0), 200), Estimate(None)
        >>> advise(Signs(met, unknown, unknown, unknown, None, False, None, unknown), Thresholds())
        ('drop', 'pass rate 0.99 [0.97, 1.00] over 200 submissions: it tells none apart')
    """
    for rule in (_saturated, _unlike_labels, _unclear, _against, _redundant):
        found = rule(signs, thresholds)
        if found is not None:
            return found
    return "keep", ""


def _saturated(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str] | None:
    if not signs.saturated(thresholds):
        return None
    return "drop", f"pass rate {_shown(signs.pass_rate)} over {signs.pass_rate.n} submissions: it tells none apart"


def _unlike_labels(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str] | None:
    interval = signs.label_agreement.interval
    united = signs.disagreement is None or signs.disagreement <= thresholds.disagreement
    if interval is None or interval.high >= thresholds.agreement or not united:
        return None
    return "relabel", f"agreement with {signs.label_agreement.n} labels is {_shown(signs.label_agreement)}"


def _unclear(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str] | None:
    if signs.disagreement is None or signs.disagreement <= thresholds.disagreement:
        return None
    return "sharpen", f"{signs.disagreement:.0%} of the pairs of votes differ"


def _against(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str] | None:
    interval = signs.discrimination.interval
    if interval is None or interval.high >= 0.0:
        return None
    return "sharpen", f"correlation with the other criteria is {_shown(signs.discrimination)}: it goes against them"


def _redundant(signs: Signs, thresholds: Thresholds) -> tuple[Advice, str] | None:
    interval = signs.redundancy.interval
    if interval is None or not signs.lighter:
        return None
    if interval.low <= thresholds.redundant and interval.high >= -thresholds.redundant:
        return None
    return "merge", f"correlation with {signs.partner!r} is {_shown(signs.redundancy)}"


def _shown(estimate: Estimate) -> str:
    if estimate.value is None or estimate.interval is None:
        return "undefined"
    return f"{estimate.value:.2f} [{estimate.interval.low:.2f}, {estimate.interval.high:.2f}]"
