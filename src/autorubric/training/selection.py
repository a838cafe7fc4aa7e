"""Selection of answers to train on: rejection sampling by rubric score (RubricHub, RuFT).

A candidate's score is S / S_max: its points divided by the maximum of its rubric. The best candidate strictly above
the threshold is kept; if there is none, the query is dropped. A candidate with a failed judgment is never kept and
never counted as bad: a query that would be dropped is undecided if it has one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.report import Report
from autorubric.core.scoring import sum_cells
from autorubric.errors import InputError
from autorubric.training.candidates import ScoredCandidate

Status: TypeAlias = Literal["selected", "dropped", "undecided"]

_DIGITS = 9  # scores are rounded, so that 0.6 from float sums is not above 0.6
_TOP = re.compile(r"top-(\d+)")


@dataclass(frozen=True, slots=True)
class KeepRule:
    """The rule for which of a query's candidates are kept.

    Attributes:
        threshold: a score must be strictly above it, in [0, 1].
        most: maximum answers kept; None for all above the threshold.
        pairs: keep one preference pair: the best answer, and a worse one.
        margin: minimum score difference within a pair.

    Raises:
        InputError: a number is out of its range.

    Example:
        >>> KeepRule(threshold=1.5)
        Traceback (most recent call last):
        autorubric.errors.InputError: threshold 1.5 is outside [0, 1]
    """

    threshold: float = 0.6
    most: int | None = 1
    pairs: bool = False
    margin: float = 0.1

    def __post_init__(self) -> None:
        problems = [
            f"{name} {value!r} is outside [0, 1]"
            for name, value in (("threshold", self.threshold), ("margin", self.margin))
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1
        ]
        if self.most is not None and (isinstance(self.most, bool) or self.most < 1):
            problems.append(f"keep is top-{self.most}, which keeps nothing; expected at least top-1")
        if problems:
            raise InputError(problems)


def parse_keep(name: str, threshold: float = 0.6, margin: float = 0.1) -> KeepRule:
    """Return the rule for what to keep, by name: `best`, `all`, `top-N` or `pairs`.

    Raises:
        InputError: the name is unknown, or a number is out of its range.

    Example:
        >>> parse_keep("top-3").most
        3
        >>> parse_keep("some")
        Traceback (most recent call last):
        autorubric.errors.InputError: keep 'some' is not one of best, all, top-N, pairs
    """
    top = _TOP.fullmatch(name)
    if name not in ("best", "all", "pairs") and top is None:
        raise InputError(f"keep {name!r} is not one of best, all, top-N, pairs")
    most = int(top[1]) if top else None if name == "all" else 1
    return KeepRule(threshold, most, name == "pairs", margin)


@dataclass(frozen=True, slots=True)
class SelectionDecision:
    """The decision on one query.

    Attributes:
        status: `selected`; `dropped` if no candidate qualifies; `undecided` if a failed one might.
        chosen: the kept candidates, best first.
        rejected: the worse answer of a preference pair.
        reason: why nothing was kept; empty if something was.
    """

    status: Status
    chosen: tuple[ScoredCandidate, ...] = ()
    rejected: ScoredCandidate | None = None
    reason: str = ""


def decide(candidates: Sequence[ScoredCandidate], keep: KeepRule) -> SelectionDecision:
    """Decide on the candidates of one query.

    Among equal scores, the shorter answer comes first, then the earlier one; duplicate texts are kept once. The worse
    answer of a pair has the lowest score; among equal ones, it is the one nearest in length to the better answer, so
    that pairs do not teach length, then the earlier one.

    Example:
        >>> from autorubric.training.candidates import CandidateAnswer
        >>> scores = [0.6, 0.9, 0.7]
        >>> scored = [ScoredCandidate(CandidateAnswer("q", f"Answer {n}", f"q-{n}"), s) for n, s in enumerate(scores)]
        >>> [one.candidate.sample_id for one in decide(scored, KeepRule(most=None)).chosen]
        ['q-1', 'q-2']
        >>> decide(scored[:1], KeepRule()).status
        'dropped'
    """
    judged = [candidate for candidate in candidates if candidate.score is not None]
    unjudged = len(candidates) - len(judged)
    ranked = _remove_repeats(
        sorted(judged, key=lambda candidate: (-round_score(candidate), len(candidate.candidate.answer)))
    )
    above = [candidate for candidate in ranked if round_score(candidate) > round(keep.threshold, _DIGITS)]
    if not above:
        return _decide_on_none(f"no candidate is above {keep.threshold:g}", unjudged, len(candidates))
    if not keep.pairs:
        return SelectionDecision("selected", tuple(above[: keep.most]))
    best = above[0]
    worse = _find_worse(best, judged, keep.margin)
    if worse is None:
        return _decide_on_none(f"no candidate is {keep.margin:g} below the best", unjudged, len(candidates))
    return SelectionDecision("selected", (best,), worse)


def compute_share(report: Report, config: CannotAssessConfig) -> float | None:
    """Return S / S_max of a report, in [0, 1]; None if a judgment failed or nothing could be assessed.

    S is the sum of value · weight. S_max is the maximum for the same criteria: the positive weights, with the
    highest option value instead of 1, and no points lost to pitfalls. A rubric with only pitfalls has no S_max; the
    report's own score is returned. There is no score if the judge abstained on every positive weight.

    Args:
        report: the report on one candidate.
        config: how abstentions count; a criterion that is left out is left out of both sums.

    Example:
        >>> from autorubric.core.report import CriterionReport, EvaluationReport
        >>> met = CriterionReport(weight=3, requirement="Names a cause", verdict="MET", reason=None)
        >>> unmet = CriterionReport(weight=2, requirement="Is brief", verdict="UNMET", reason=None)
        >>> compute_share(EvaluationReport(score=0.6, report=[met, unmet]), CannotAssessConfig())
        0.6
    """
    if not report.report or any(entry.is_error for entry in report.report):
        return None
    cells, best = [], 0.0
    for entry in report.report:
        cells.append(entry.cell)
        if entry.score_value is not None or config.strategy is not CannotAssessStrategy.SKIP:
            best += _compute_maximum(entry.criterion)
    found = sum_cells(cells, config)
    if not found.is_defined:
        return None
    if best <= 0:
        return report.score
    return max(0.0, min(1.0, round(found.points / best, _DIGITS)))


def _compute_maximum(criterion: Criterion) -> float:
    """Return the maximum points of a criterion."""
    if criterion.options is None:
        return max(criterion.weight, 0.0)
    pick: Callable[[list[float]], float] = max if criterion.weight > 0 else min
    return criterion.weight * pick([option.value for option in criterion.options if not option.na])


def round_score(scored: ScoredCandidate) -> float:
    """Return the score as it is compared with the threshold; 0 if there is none."""
    return round(scored.score or 0.0, _DIGITS)


def _remove_repeats(ranked: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    first: dict[str, ScoredCandidate] = {}
    for candidate in ranked:
        first.setdefault(candidate.candidate.answer, candidate)
    return list(first.values())


def _find_worse(best: ScoredCandidate, judged: Sequence[ScoredCandidate], margin: float) -> ScoredCandidate | None:
    top, length = round_score(best), len(best.candidate.answer)
    others = [
        scored
        for scored in judged
        if scored.candidate.answer.split() != best.candidate.answer.split() and round_score(scored) < top
    ]
    enough = [candidate for candidate in others if round(top - round_score(candidate), _DIGITS) >= margin]
    return min(enough, key=lambda one: (round_score(one), abs(len(one.candidate.answer) - length)), default=None)


def _decide_on_none(reason: str, unjudged: int, total: int) -> SelectionDecision:
    if not unjudged:
        return SelectionDecision("dropped", reason=reason)
    judged = f"; {reason} of the others" if unjudged < total else ""
    return SelectionDecision("undecided", reason=f"{unjudged} of {total} candidates have no score{judged}")
