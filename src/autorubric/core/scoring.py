"""The rule by which verdicts become a score; all scores use it.

A verdict is a cell: the weight of its criterion and its value in [0, 1] (MET is 1, UNMET is 0, an option its
value), or None if the judge abstained. With the sum of value · weight over the scored cells:

* some weight is positive: sum / positive weights, clamped to [0, 1];
* all weights are negative: 1 + sum / |negative weights|, clamped, so that no penalty is full marks;
* all weights are zero: 0.0;
* no cell is scored, or none of the positive weights is: None, which is not a zero.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy, CriterionVerdict
from autorubric.core.known_keys import PlainModel
from autorubric.core.submission import ToGradeInput, normalize_to_grade_input, word_count
from autorubric.errors import InputError


class Cell(NamedTuple):
    """The contribution of one verdict to a score.

    Attributes:
        weight: of the criterion.
        value: in [0, 1], or None for an abstention.
        worst: the value that costs most, for the FAIL strategy.
        failed: whether the judgment failed, so that no strategy gives it a value.
    """

    weight: float
    value: float | None
    worst: float = 0.0
    failed: bool = False


class WeightTotals(NamedTuple):
    """Sums over the cells.

    Attributes:
        points: value · weight of the scored cells.
        positive: their positive weights.
        negative: their negative weights, without the sign.
        scored: the number of scored cells.
        is_defined: whether there is a score: pitfalls alone give none if the rubric has positive weights.
    """

    points: float
    positive: float
    negative: float
    scored: int
    is_defined: bool


_SKIP = CannotAssessConfig()


def build_cell(criterion: Criterion, verdict: CriterionVerdict | str) -> Cell:
    """Return the cell of one verdict: MET, UNMET, the label of an option, or CANNOT_ASSESS.

    Raises:
        ValueError: the verdict is none of these, or no option has this label.

    Example:
        >>> build_cell(Criterion(weight=-4, requirement="Invents a source"), "MET")
        Cell(weight=-4.0, value=1.0, worst=1.0, failed=False)
    """
    weight = criterion.weight
    if criterion.options is not None:
        labels = [option.label for option in criterion.options]
        if verdict == CriterionVerdict.CANNOT_ASSESS and verdict not in labels:
            return Cell(weight, None, criterion.worst_scored_option()[1].value)
        option = criterion.options[criterion.find_option_by_label(verdict)]
        if option.na:
            return Cell(weight, None, criterion.worst_scored_option()[1].value)
        return Cell(weight, option.value)
    worst = 1.0 if weight < 0 else 0.0
    verdict = CriterionVerdict(verdict)
    if verdict is CriterionVerdict.CANNOT_ASSESS:
        return Cell(weight, None, worst)
    return Cell(weight, 1.0 if verdict is CriterionVerdict.MET else 0.0, worst)


def sum_cells(cells: Iterable[Cell], config: CannotAssessConfig = _SKIP) -> WeightTotals:
    """Return the sums of the cells, with abstentions scored as `config` says.

    Example:
        >>> sum_cells([Cell(10.0, 1.0), Cell(5.0, 0.5), Cell(-2.0, 0.0), Cell(3.0, None)])
        WeightTotals(points=12.5, positive=15.0, negative=2.0, scored=3, is_defined=True)
    """
    points = positive = negative = left_out = 0.0
    scored = 0
    for weight, value, worst, failed in cells:
        counted = value
        if value is None and not failed:
            counted = score_abstention(weight, worst, config)
        if counted is None:
            left_out += max(weight, 0.0)
            continue
        points += counted * weight
        scored += 1
        if weight > 0:
            positive += weight
        else:
            negative -= weight
    is_defined = scored > 0 and (positive > 0 or left_out == 0)
    return WeightTotals(points, positive, negative, scored, is_defined)


def score(cells: Iterable[Cell], config: CannotAssessConfig = _SKIP, *, normalize: bool = True) -> float | None:
    """Return the score of the cells in [0, 1], or None if they have none.

    Args:
        cells: one for each criterion.
        config: how an abstention counts.
        normalize: False for the bare sum of value · weight.

    Example:
        >>> score([Cell(10.0, 1.0), Cell(5.0, 0.0)]), score([Cell(-2.0, 0.0)]), score([Cell(1.0, None)])
        (0.6666666666666666, 1.0, None)
    """
    found = sum_cells(cells, config)
    if not found.is_defined:
        return None
    if not normalize:
        return found.points
    if found.positive > 0:
        return max(0.0, min(1.0, found.points / found.positive))
    return max(0.0, min(1.0, 1.0 + found.points / found.negative)) if found.negative > 0 else 0.0


def explain_no_score(weights: Iterable[float]) -> str:
    """Return why criteria with these weights have no score although no judgment failed.

    Example:
        >>> explain_no_score([3.0, -5.0])
        'no criterion with a positive weight could be assessed'
    """
    kind = "with a positive weight " if any(weight > 0 for weight in weights) else ""
    return f"no criterion {kind}could be assessed"


def score_abstention(weight: float, worst: float, config: CannotAssessConfig) -> float | None:
    """Return the value that an abstention counts as; None if it is left out.

    Example:
        >>> from autorubric.core.judgment import CannotAssessStrategy
        >>> score_abstention(-4.0, 1.0, CannotAssessConfig(strategy=CannotAssessStrategy.FAIL))
        1.0
    """
    strategy = config.strategy
    if strategy is CannotAssessStrategy.SKIP:
        return None
    if strategy is CannotAssessStrategy.PARTIAL:
        return config.partial_credit if weight > 0 else 0.0
    return worst if strategy is CannotAssessStrategy.FAIL else 0.0


CountFn: TypeAlias = Callable[[str], int]
PenaltyType: TypeAlias = Literal["ALL", "OUTPUT_ONLY", "THINKING_ONLY"]


class LengthPenalty(PlainModel):
    """The penalty for long submissions.

    Attributes:
        free_budget: no penalty up to this length.
        max_cap: from this length on `penalty_at_cap` is lost; at least `free_budget`.
        penalty_at_cap: maximum number of points lost, in the unit of the score.
        exponent: how the loss grows in between; above 1 it is mild at first.
        count_fn: the length of a text; words by default.
        penalty_type: which parts of the submission count.

    Example:
        >>> LengthPenalty(free_budget=8000, max_cap=6000)
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for LengthPenalty
          max_cap=6000 is below free_budget=8000; expected at least as much ...
    """

    model_config = ConfigDict(frozen=True)

    free_budget: int = Field(default=6000, ge=0)
    max_cap: int = Field(default=8000, ge=0)
    penalty_at_cap: float = Field(default=0.5, ge=0.0, allow_inf_nan=False)
    exponent: float = Field(default=1.6, gt=0.0, allow_inf_nan=False)
    count_fn: CountFn | None = None
    penalty_type: PenaltyType = "ALL"

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max_cap < self.free_budget:
            message = f"max_cap={self.max_cap} is below free_budget={self.free_budget}; expected at least as much"
            raise PydanticCustomError("value_error", "{message}", {"message": message})
        return self


class ScoreRule(NamedTuple):
    """How a run turns verdicts into scores.

    Attributes:
        cannot_assess: what an abstention counts as.
        normalize: scores in [0, 1]; False for bare sums.
        length_penalty: what a score loses for a long text, before a user's own length; None for nothing.
    """

    cannot_assess: CannotAssessConfig = CannotAssessConfig()
    normalize: bool = True
    length_penalty: LengthPenalty | None = None


def compute_length_penalty(text: ToGradeInput, config: LengthPenalty) -> float:
    """Return the points a submission loses for its length, from 0 to `penalty_at_cap`.

    Between budget and cap: penalty_at_cap · ((length − free_budget) / (max_cap − free_budget)) ** exponent. The
    parts that count are measured separately, so joining them adds nothing.

    Raises:
        InputError: the submission is of the wrong shape, or `count_fn` returns something that is not a length.

    Example:
        >>> penalty = LengthPenalty(free_budget=2, max_cap=6, exponent=1.0, count_fn=len)
        >>> [compute_length_penalty("x" * length, penalty) for length in (2, 4, 9)]
        [0.0, 0.25, 0.5]
    """
    parts = normalize_to_grade_input(text)
    counted = {
        "ALL": (parts["thinking"], parts["output"]),
        "OUTPUT_ONLY": (parts["output"],),
        "THINKING_ONLY": (parts["thinking"],),
    }[config.penalty_type]
    return compute_lost_points(sum(measure_length(part, config.count_fn) for part in counted if part), config)


def compute_lost_points(length: float, config: LengthPenalty) -> float:
    """Return the points that a submission of this length loses."""
    if length <= config.free_budget:
        return 0.0
    if length >= config.max_cap:
        return config.penalty_at_cap
    excess = (length - config.free_budget) / (config.max_cap - config.free_budget)
    return float(config.penalty_at_cap * excess**config.exponent)


def measure_length(text: str, count: CountFn | None) -> float:
    """Return the length of a text, in words or by `count`.

    Raises:
        InputError: `count` returns something that is not a length.
    """
    length = (count or word_count)(text)
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 <= length < math.inf:
        raise InputError(f"count_fn returned {length!r} for a text; expected a number of at least 0")
    return length
