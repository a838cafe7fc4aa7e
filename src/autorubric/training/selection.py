"""Which answers to train on: rejection sampling by rubric score (RubricHub, RuFT).

A candidate's score is S / S_max: its points divided by the maximum of its rubric. The best one strictly above the
threshold is kept; if there is none, the query is dropped. A candidate with a failed judgment is never kept and never
counted as bad: if it could change a drop, the query is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.report import EnsembleEvaluationReport, EvaluationReport
from autorubric.core.scoring import totals
from autorubric.errors import InputError
from autorubric.training.candidates import ScoredCandidate

Status: TypeAlias = Literal["selected", "dropped", "undecided"]

_DIGITS = 9  # scores that differ by less are the same score: 0.6 of float sums is not above 0.6
_TOP = re.compile(r"top-(\d+)")


@dataclass(frozen=True, slots=True)
class Keep:
    """What is kept of a query's candidates.

    Attributes:
        threshold: scores have to be strictly above it, in [0, 1].
        most: the most answers kept; None for all that are above.
        pairs: keep one preference pair: the best answer, and a worse one.
        margin: how much better the best one of a pair has to be at least.

    Raises:
        InputError: a number is out of its range.

    Example:
        >>> Keep(threshold=1.5)
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
            problems.append(f"top-{self.most} keeps nothing; expected at least top-1")
        if problems:
            raise InputError(problems)


def parse_keep(name: str, threshold: float = 0.6, margin: float = 0.1) -> Keep:
    """The rule for what to keep, by name: `best`, `all`, `top-N` or `pairs`.

    Raises:
        InputError: another name, or a number out of its range.

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
    return Keep(threshold, most, name == "pairs", margin)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one query.

    Attributes:
        status: `selected`; `dropped`, because no candidate qualifies; `undecided`, because one that failed
            might.
        chosen: the kept candidates, best first.
        rejected: the worse answer of a preference pair.
        reason: why nothing was kept; empty where something was.
    """

    status: Status
    chosen: tuple[ScoredCandidate, ...] = ()
    rejected: ScoredCandidate | None = None
    reason: str = ""


def decide(candidates: Sequence[ScoredCandidate], keep: Keep) -> Decision:
    """The decision on the candidates of one query.

    Of equal scores the shorter answer goes first, then the earlier one; a text that occurs twice is kept once.
    A pair's worse answer is the text other than the best with the lowest score; of equal ones that nearest in length
    to the better answer, so that pairs teach no length, then the earlier one.

    Example:
        >>> from autorubric.training.candidates import CandidateAnswer
        >>> scores = [0.6, 0.9, 0.7]
        >>> scored = [ScoredCandidate(CandidateAnswer("q", f"Answer {n}", f"q-{n}"), s) for n, s in enumerate(scores)]
        >>> [one.candidate.sample_id for one in decide(scored, Keep(most=None)).chosen]
        ['q-1', 'q-2']
        >>> decide(scored[:1], Keep()).status
        'dropped'
    """
    judged = [one for one in candidates if one.score is not None]
    unjudged = len(candidates) - len(judged)
    ranked = _without_repeats(sorted(judged, key=lambda one: (-_score(one), len(one.candidate.answer))))
    above = [one for one in ranked if _score(one) > round(keep.threshold, _DIGITS)]
    if not above:
        return _nothing(f"no candidate is above {keep.threshold:g}", unjudged, len(candidates))
    if not keep.pairs:
        return Decision("selected", tuple(above[: keep.most]))
    best = above[0]
    worse = _worse_than(best, judged, keep.margin)
    if worse is None:
        return _nothing(f"no candidate is {keep.margin:g} below the best", unjudged, len(candidates))
    return Decision("selected", (best,), worse)


def compute_share(report: EvaluationReport | EnsembleEvaluationReport, config: CannotAssessConfig) -> float | None:
    """S / S_max of a report in [0, 1]; None if a judgment failed or nothing could be assessed.

    S is the sum of value · weight. S_max is the most that the same criteria allow: the positive weights, an
    option's highest value instead of 1, and nothing lost to pitfalls. A rubric of pitfalls alone has no S_max;
    its report's own score stands for it.

    Args:
        report: of one candidate.
        config: what an abstention does; a criterion that is left out is left out of both sums.

    Example:
        >>> from autorubric.core.report import CriterionReport
        >>> met = CriterionReport(weight=3, requirement="Names a cause", verdict="MET", reason=None)
        >>> unmet = CriterionReport(weight=2, requirement="Is brief", verdict="UNMET", reason=None)
        >>> compute_share(EvaluationReport(score=0.6, report=[met, unmet]), CannotAssessConfig())
        0.6
    """
    if not report.report or any(one.is_error for one in report.report):
        return None
    cells, best = [], 0.0
    for one in report.report:
        cells.append(one.cell)
        if one.score_value is not None or config.strategy is not CannotAssessStrategy.SKIP:
            best += _most(one.criterion)
    points, _, _, scored = totals(cells, config)
    if not scored:
        return None
    if best <= 0:
        return report.score
    return max(0.0, min(1.0, round(points / best, _DIGITS)))


def _most(criterion: Criterion) -> float:
    """The most points that a criterion can bring."""
    if criterion.options is None:
        return max(criterion.weight, 0.0)
    pick: Callable[[list[float]], float] = max if criterion.weight > 0 else min
    return criterion.weight * pick([option.value for option in criterion.options if not option.na])


def _score(one: ScoredCandidate) -> float:
    return round(one.score or 0.0, _DIGITS)


def _without_repeats(ranked: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    first: dict[str, ScoredCandidate] = {}
    for one in ranked:
        first.setdefault(one.candidate.answer, one)
    return list(first.values())


def _worse_than(best: ScoredCandidate, judged: Sequence[ScoredCandidate], margin: float) -> ScoredCandidate | None:
    top, length = _score(best), len(best.candidate.answer)
    others = [
        one for one in judged if one.candidate.answer.split() != best.candidate.answer.split() and _score(one) < top
    ]
    enough = [one for one in others if round(top - _score(one), _DIGITS) >= margin]
    return min(enough, key=lambda one: (_score(one), abs(len(one.candidate.answer) - length)), default=None)


def _nothing(reason: str, unjudged: int, total: int) -> Decision:
    if not unjudged:
        return Decision("dropped", reason=reason)
    judged = f"; {reason} of the others" if unjudged < total else ""
    return Decision("undecided", reason=f"{unjudged} of {total} candidates have no score{judged}")
