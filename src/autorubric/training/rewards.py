"""Rewards computed from reports: one number for a trainer.

With the weight w and the value b of each criterion (MET is 1, UNMET is 0, an option has its own value):

* `clipped`, the default: the score that `grade` gives the same verdicts (`core/scoring.py`), the sum of w · b over
  the sum of the positive weights, clipped to [0, 1];
* `positive`: sum of w · b over sum of w, both over the criteria of positive weight (RubricHub, RuRL);
* `signed`: `clipped` without clipping (HealthBench); may be below 0.

A failed judgment has no b. A reward that depends on one is missing, and the rule's policy decides what the trainer
gets: never 0, unless the caller sets 0 as the neutral value.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, TypeAlias, get_args

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.report import AnyCriterionReport, Report
from autorubric.core.rubric import Rubric
from autorubric.core.scoring import explain_no_score, score, sum_cells
from autorubric.errors import AutorubricError, ConfigError, InputError
from autorubric.files.json_values import is_finite
from autorubric.files.strict_json import encode_json
from autorubric.training.compound_share import compute_criteria_share


@dataclass(frozen=True, slots=True)
class SoftOverlong:
    """A penalty that grows linearly over the last tokens before the limit (DAPO, equation 13).

    Up to `max_length - buffer` tokens cost nothing; then the penalty grows to `factor` at `max_length`, and stays
    there for longer responses. The defaults are RubricHub's values.

    Attributes:
        max_length: the maximum tokens of a response.
        buffer: the number of tokens before `max_length` over which the penalty grows.
        factor: the penalty at `max_length`.

    Raises:
        ConfigError: a length is not a positive whole number, the buffer is longer than the limit, or the factor
            is not a finite number of 0 or more.

    Example:
        >>> SoftOverlong().penalty(4096), SoftOverlong().penalty(6144), SoftOverlong().penalty(9000)
        (0.0, 0.25, 0.5)
    """

    max_length: int = 8192
    buffer: int = 4096
    factor: float = 0.5

    def __post_init__(self) -> None:
        problems = []
        for name in ("max_length", "buffer"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                problems.append(f"overlong {name}={value!r}; expected a whole number of at least 1")
        if not problems and self.buffer > self.max_length:
            problems.append(f"overlong buffer={self.buffer} is longer than max_length={self.max_length}")
        factor = self.factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < math.inf:
            problems.append(f"overlong factor={factor!r}; expected a finite number of at least 0")
        if problems:
            raise ConfigError(problems)

    def penalty(self, length: int) -> float:
        """Return the penalty for a response of `length` tokens, from 0 to `factor`."""
        excess = length - (self.max_length - self.buffer)
        return self.factor * min(max(excess, 0), self.buffer) / self.buffer


Formula: TypeAlias = Literal["clipped", "positive", "signed"]
FailurePolicy: TypeAlias = Literal["raise", "none", "nan", "neutral"]
DropoutBy: TypeAlias = Literal["group", "step"]

GATE_TAG = "gate"
"""A criterion with this tag is a gate under every rule."""


class RewardFailed(AutorubricError):
    """The reward is missing because a judgment failed, and the policy is `raise`."""


class RewardGap(AutorubricError):
    """Training should stop: an audit with `on_gap="stop"` found that the judge's lead over a reference judge grew."""


@dataclass(frozen=True, slots=True)
class RewardRule:
    """The rule that turns a report into a reward.

    Attributes:
        formula: `clipped` (the score of `grade`), `positive` (RubricHub) or `signed` (HealthBench).
        on_failure: what a trainer gets if a judgment failed: `raise` an error, `none`, `nan`, or `neutral`.
        neutral: the value for the policy `neutral`; there is no default.
        cannot_assess: how abstentions count: a config or its strategy, `skip`, `zero`, `partial` or `fail`.
        gates: names (as rewards show them) or ids of criteria that must be met, else the reward is 0 (a pitfall
            must not be met). A criterion tagged `gate` is always a gate.
        overlong: the penalty for long responses; needs their length in tokens.
        dropout: the share of criteria, gates aside, to drop for each group of rollouts; from 0 to below 1.
        dropout_by: `group` draws for each query and step, `step` once for all queries of a step.
        dropout_seed: random seed of the draw.

    Raises:
        ConfigError: a name is unknown, `neutral` and its policy are not given together, or `dropout` is out of
            range.

    Example:
        >>> RewardRule(on_failure="neutral")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: on_failure='neutral' needs the neutral value: give neutral=...
    """

    formula: Formula = "clipped"
    on_failure: FailurePolicy = "none"
    neutral: float | None = None
    cannot_assess: CannotAssessConfig | str = field(default_factory=CannotAssessConfig)
    gates: tuple[str, ...] = ()
    overlong: SoftOverlong | None = None
    dropout: float = 0.0
    dropout_by: DropoutBy = "group"
    dropout_seed: int = 0

    def __post_init__(self) -> None:
        problems = []
        choices = {"formula": Formula, "on_failure": FailurePolicy, "dropout_by": DropoutBy}
        for name, known in ((name, get_args(literal)) for name, literal in choices.items()):
            if getattr(self, name) not in known:
                problems.append(f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}")
        for name, fits, expected in (
            ("gates", not isinstance(self.gates, str), "a tuple of criterion names"),
            ("overlong", isinstance(self.overlong, SoftOverlong | None), "SoftOverlong(...) or None"),
            ("dropout", is_finite(self.dropout) and 0 <= self.dropout < 1, "a share from 0 to below 1, such as 0.3"),
        ):
            if not fits:
                problems.append(f"{name}={getattr(self, name)!r}; expected {expected}")
        if self.on_failure == "neutral" and self.neutral is None:
            problems.append("on_failure='neutral' needs the neutral value: give neutral=...")
        elif self.neutral is not None:
            problems += self._find_neutral_problems(self.neutral)
        if problems:
            raise ConfigError(problems)
        object.__setattr__(self, "cannot_assess", CannotAssessConfig.of(self.cannot_assess))

    def _find_neutral_problems(self, neutral: float) -> list[str]:
        if self.on_failure != "neutral":
            return [f"neutral={neutral!r} is given, but on_failure={self.on_failure!r}"]
        if not is_finite(neutral):
            return [f"neutral={neutral!r}; expected a finite number"]
        return []

    def check(self, criteria: Iterable[Criterion]) -> None:
        """Raise an error for a rubric that cannot give a reward, before anything is spent."""
        known = list(criteria)
        names = {name for criterion in known for name in (criterion.name, criterion.id)} | {*name_criteria(known)}
        problems = [f"gate {gate!r} is not a criterion of the rubric" for gate in self.gates if gate not in names]
        if self.formula != "clipped" and not any(criterion.weight > 0 for criterion in known):
            divisor = f"no criterion has a positive weight, which the formula {self.formula!r} divides by"
            problems.append(f"{divisor}; use 'clipped'")
        elif not any(criterion.weight for criterion in known):
            problems.append("every criterion has weight 0, so no score can be computed")
        if problems:
            raise InputError(problems)


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of one submission.

    Attributes:
        value: the reward; None if there is none.
        criteria: the value of each criterion in [0, 1], by its name; None if it was not judged or not assessed.
        failure: why there is no reward; None if there is one.
        closed: the gates that were not met.
        penalty: the length penalty, already subtracted from the value.
        coverage: the share of judged criteria whose judgment did not fail, in [0, 1].
        dropped: the criteria that were left out (see `RewardRule.dropout`).
        status: `gap` once an audit has found that the judge's lead over a reference judge grew.
        stop: whether training should stop for that reason.
        version: the version of the rubric, if it evolves.
        compound: the share of the points, given or taken, that comes from criteria with several demands; None
            without points.

    Example:
        >>> Reward(0.5, {"Short": 1.0, "Kind": 0.0}).value
        0.5
    """

    value: float | None
    criteria: Mapping[str, float | None]
    failure: str | None = None
    closed: tuple[str, ...] = ()
    penalty: float = 0.0
    coverage: float | None = None
    dropped: tuple[str, ...] = ()
    status: Literal["ok", "gap"] = "ok"
    stop: bool = False
    version: int | None = None
    compound: float | None = None


DEFAULT_RULE = RewardRule()


def compute_reward(report: Report, rule: RewardRule = DEFAULT_RULE, *, length: int | None = None) -> Reward:
    """Compute the reward of a report.

    A gate that was judged and not met makes the reward 0, whatever else failed. If the judgment of a gate failed, or
    the judge abstained and abstentions are skipped, the reward is missing and the policy applies.

    Args:
        report: the report on one submission; its own score and length penalty are not used.
        rule: how the report becomes a reward.
        length: the response's length in tokens, needed by an overlong penalty.

    Raises:
        RewardFailed: the reward is missing, and the policy is `raise`.
        InputError: the rule has an overlong penalty, and no length is given.

    Example:
        >>> from autorubric.core.report import CriterionReport, EvaluationReport
        >>> met = CriterionReport(name="Cause", weight=3, requirement="Names a cause", verdict="MET", reason=None)
        >>> unmet = CriterionReport(name="Brief", weight=1, requirement="Is brief", verdict="UNMET", reason=None)
        >>> reward = compute_reward(EvaluationReport(score=0.75, report=[met, unmet]))
        >>> reward.value, dict(reward.criteria)
        (0.75, {'Cause': 1.0, 'Brief': 0.0})
        >>> failed = CriterionReport(requirement="Is kind", reason=None, error="timeout: no answer in 60 s")
        >>> compute_reward(EvaluationReport(score=None, report=[met, failed])).value is None
        True
    """
    return apply_policy(_to_reward(report, rule, length), rule)


def refuse_gap(rewards: Iterable[Reward]) -> None:
    """Raise a `RewardGap` if training should stop, for trainers that end on an exception.

    Example:
        >>> refuse_gap([Reward(0.5, {}), Reward(0.7, {}, status="gap")])
        >>> refuse_gap([Reward(0.7, {}, status="gap", stop=True)])
        Traceback (most recent call last):
        autorubric.training.rewards.RewardGap: the audit found that the judge's lead over ...
    """
    if any(reward.stop for reward in rewards):
        raise RewardGap(
            "the audit found that the judge's lead over a reference judge has grown, and on_gap is stop; "
            "`autorubric drift RUN` shows where. To train on, set on_gap to warn (--on-gap warn)"
        )


def apply_policy(reward: Reward, rule: RewardRule) -> Reward:
    """Return the reward; for a missing one, set the value by the rule's failure policy, or raise an error."""
    if reward.failure is None:
        return reward
    if rule.on_failure == "raise":
        raise RewardFailed(f"no reward: {reward.failure}")
    return replace(reward, value=math.nan if rule.on_failure == "nan" else rule.neutral)


def _to_reward(report: Report, rule: RewardRule, length: int | None) -> Reward:
    """Return the reward before the policy; its value is None if it depends on a failed judgment."""
    judged: Sequence[AnyCriterionReport] = report.report or ()
    names = name_criteria([entry.criterion for entry in judged])
    criteria = {name: entry.score_value for name, entry in zip(names, judged, strict=True)}
    gates = [_check_gate(entry, name, rule) for name, entry in zip(names, judged, strict=True)]
    closed = tuple(name for name, open_ in zip(names, gates, strict=True) if open_ is False)
    value = 0.0 if closed else _compute_value(judged, gates, rule)
    coverage = sum(not entry.is_error for entry in judged) / len(judged) if judged else None
    compound = compute_criteria_share([entry.criterion for entry in judged], [entry.score_value for entry in judged])
    if value is None:
        failure = _describe_failure(report, judged, names, gates)
        return Reward(None, criteria, failure, coverage=coverage, compound=compound)
    penalty = 0.0
    if rule.overlong is not None:
        if length is None:
            raise InputError("the rule has an overlong penalty; give the response's length in tokens")
        penalty = rule.overlong.penalty(length)
    return Reward(value - penalty, criteria, None, closed, penalty, coverage, compound=compound)


def is_gate(criterion: Criterion, name: str, rule: RewardRule) -> bool:
    """Return whether a criterion, named `name` in rewards, is a gate."""
    return GATE_TAG in criterion.tags or bool({name, criterion.name, criterion.id} & set(rule.gates))


def _check_gate(judged: AnyCriterionReport, name: str, rule: RewardRule) -> bool | None:
    """Return whether a gate is open; None if unknown, True for a criterion that is not a gate."""
    criterion = judged.criterion
    if not is_gate(criterion, name, rule):
        return True
    if judged.is_error:
        return None
    if judged.score_value is None:
        return None if CannotAssessConfig.of(rule.cannot_assess).strategy is CannotAssessStrategy.SKIP else False
    return judged.score_value == (0.0 if criterion.weight < 0 else 1.0)


def _compute_value(
    judged: Sequence[AnyCriterionReport], gates: Sequence[bool | None], rule: RewardRule
) -> float | None:
    if None in gates:
        return None
    counted = [entry for entry in judged if rule.formula != "positive" or entry.criterion.weight > 0]
    if any(entry.is_error for entry in counted):
        return None
    cells, abstentions = [entry.cell for entry in counted], CannotAssessConfig.of(rule.cannot_assess)
    if rule.formula == "clipped":
        return score(cells, abstentions)
    found = sum_cells(cells, abstentions)
    return found.points / found.positive if found.positive > 0 else None


def _describe_failure(
    report: Report, judged: Sequence[AnyCriterionReport], names: Sequence[str], gates: Sequence[bool | None]
) -> str:
    errors = [(name, entry.error) for name, entry in zip(names, judged, strict=True) if entry.error is not None]
    if errors:
        name, error = errors[0]
        more = f" (and {len(errors) - 1} more of {len(judged)} criteria)" if len(errors) > 1 else ""
        reason = re.sub(r"\binfrastructure: (?:budget: (?=budget of ))?", "", error)  # the reason after it suffices
        return f"criterion {name!r}: {reason}{more}"
    if None in gates:
        return f"the gate {names[gates.index(None)]!r} could not be assessed"
    if judged:
        return explain_no_score(entry.criterion.weight for entry in judged)
    return report.error or "the report has no criteria"


@dataclass(frozen=True, slots=True)
class KeptCriteria:
    """The criteria that a submission is graded on.

    Attributes:
        rubric: only the kept criteria, with their names in the whole rubric.
        names: the names of all criteria.
        kept: the indices of the kept ones.
    """

    rubric: Rubric
    names: Sequence[str]
    kept: Sequence[int]

    def restore(self, reward: Reward) -> Reward:
        """Return the reward with a value for each criterion of the whole rubric; None for dropped ones."""
        if len(self.kept) == len(self.names):
            return reward
        found = dict(zip(self.kept, reward.criteria.values(), strict=False))
        return replace(
            reward,
            criteria={name: found.get(index) for index, name in enumerate(self.names)},
            dropped=tuple(name for index, name in enumerate(self.names) if index not in set(self.kept)),
        )


def keep_criteria(rubric: Rubric, rule: RewardRule, group: str, step: int | None = None) -> KeptCriteria:
    """Choose the subset of criteria that a group of rollouts is graded on ("Rubric Dropout", arXiv 2608.11669).

    Gates are always kept, and at least one criterion of positive weight if the rubric has one. Of the others, the
    share `rule.dropout` is dropped, rounded to whole criteria. The subset depends only on the rule's seed, the step
    and, unless `rule.dropout_by` is `step`, the group: a resumed run draws the same.

    Args:
        rubric: the whole rubric.
        rule: its dropout settings apply.
        group: an id shared by all rollouts of one query, such as the digest of query and rubric.
        step: the training step; without one, a group keeps its subset for the whole run.

    Example:
        >>> rubric = Rubric.from_dict([{"name": name, "requirement": f"Names {name}"} for name in "abcd"])
        >>> rule = RewardRule(dropout=0.5)
        >>> [[one.name for one in keep_criteria(rubric, rule, "tides", step).rubric] for step in (1, 1, 2)]
        [['b', 'c'], ['b', 'c'], ['a', 'c']]
    """
    names, criteria = name_criteria(list(rubric)), list(rubric)
    free = [index for index, criterion in enumerate(criteria) if not is_gate(criterion, names[index], rule)]
    key = [rule.dropout_seed, step] if rule.dropout_by == "step" else [rule.dropout_seed, step, group]
    ranked = sorted(free, key=lambda index: (_rank(key, criteria[index]), index))
    dropped = set(ranked[: round(rule.dropout * len(free))])
    positive = [index for index, criterion in enumerate(criteria) if criterion.weight > 0]
    if positive and dropped.issuperset(positive):
        dropped.remove(max(positive, key=ranked.index))
    elif len(dropped) == len(criteria):
        dropped.remove(ranked[-1])
    if not dropped:
        return KeptCriteria(rubric, names, range(len(names)))
    kept = [index for index in range(len(criteria)) if index not in dropped]
    named = [
        criterion if criterion.name == names[index] else criterion.model_copy(update={"name": names[index]})
        for index, criterion in enumerate(criteria)
        if index not in dropped
    ]
    return KeptCriteria(Rubric(named, guidelines=rubric.guidelines, metadata=rubric.metadata), names, kept)


def _rank(key: Sequence[int | str | None], criterion: Criterion) -> bytes:
    return blake2b(encode_json([*key, criterion.requirement]), digest_size=8).digest()
