"""Aggregation of several judges' votes on one criterion into one verdict or option.

Callers must leave out failed votes and abstentions. Ties, and means between two options, are resolved to the lower
score: the lower value, or the higher one for a negative weight. Weights and values that differ only by rounding are
equal.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autorubric.core.criterion import (
    CANONICAL_NA_OPTION,
    AggregationStrategy,
    Criterion,
    CriterionOption,
    NominalAggregation,
    OrdinalAggregation,
)
from autorubric.core.judgment import CriterionVerdict
from autorubric.errors import ConfigError
from autorubric.files.keys import suggest_name

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


class VerdictVote(NamedTuple):
    """MET or UNMET, and its weight."""

    verdict: CriterionVerdict
    weight: float = 1.0


class OptionVote(NamedTuple):
    """An option that is scored: its index, its value, and the weight of the vote.

    `value` differs from the option's own if the vote is itself the mean of a panel.
    """

    option: int
    value: float
    weight: float = 1.0


class Choice(NamedTuple):
    """The option that results from several votes, and the value to score."""

    option: int
    value: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The rule for each kind of criterion; a criterion's own `aggregation` overrides it.

    Raises:
        ConfigError: a name is unknown.

    Example:
        >>> Rules(ordinal="median").choose(Criterion(requirement="Is brief"))
        'majority'
        >>> Rules(binary="majorty")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: unknown binary aggregation 'majorty'; did you mean 'majority'?
    """

    binary: AggregationStrategy = "majority"
    ordinal: OrdinalAggregation = "mean"
    nominal: NominalAggregation = "mode"

    def __post_init__(self) -> None:
        problems = []
        for kind, known in (("binary", BINARY), ("ordinal", ORDINAL), ("nominal", NOMINAL)):
            name = getattr(self, kind)
            if not isinstance(name, str) or name not in known:
                problems.append(f"unknown {kind} aggregation {name!r}; {suggest_name(str(name), known)}")
        if problems:
            raise ConfigError(problems)

    def choose(self, criterion: Criterion) -> str:
        """Return the name of the rule for a criterion."""
        if criterion.aggregation is not None:
            return criterion.aggregation
        if criterion.options is None:
            return self.binary
        return self.ordinal if criterion.scale_type == "ordinal" else self.nominal


def find_option(criterion: Criterion, index: int) -> CriterionOption:
    """Return the option at `index` of a criterion, which may have `CANONICAL_NA_OPTION` as an additional option.

    Raises:
        ValueError: the option does not exist.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> find_option(Criterion(requirement="Is it right?", options=options), 2).na
        True
    """
    options = criterion.options or []
    if 0 <= index < len(options):
        return options[index]
    if options and index == len(options) and criterion.na_option_index is None:
        return CANONICAL_NA_OPTION
    raise ValueError(f"option {index} is out of range; criterion {criterion.name!r} has {len(options)} options")


def _choose_heavier(votes: Sequence[VerdictVote], weight: float) -> CriterionVerdict:
    # fsum, because the sum must not depend on the order of the judges.
    met = math.fsum(vote.weight for vote in votes if vote.verdict is MET)
    unmet = math.fsum(vote.weight for vote in votes if vote.verdict is UNMET)
    if math.isclose(met, unmet):
        return UNMET if weight >= 0 else MET
    return MET if met > unmet else UNMET


def _summarize_values(
    summary: Callable[[Sequence[float]], float],
) -> Callable[[Sequence[OptionVote], Criterion], Choice]:
    """Return a rule that scores a summary of the votes' values and records the nearest option."""
    return lambda votes, criterion: _choose_nearest(summary([vote.value for vote in votes]), votes, criterion)


def _weighted_mean(votes: Sequence[OptionVote], criterion: Criterion) -> Choice:
    total = math.fsum(vote.weight for vote in votes)
    if total == 0:
        return ORDINAL["mean"](votes, criterion)
    return _choose_nearest(math.fsum(vote.weight * vote.value for vote in votes) / total, votes, criterion)


def _choose_nearest(value: float, votes: Sequence[OptionVote], criterion: Criterion) -> Choice:
    options = criterion.options or []
    away = {index: abs(option.value - value) for index, option in enumerate(options) if not option.na}
    least = min(away.values())
    near = [index for index, distance in away.items() if math.isclose(distance, least, abs_tol=1e-9)]
    worst = criterion.worst_option_among(near)
    # Among options with the same value, prefer one that was voted for.
    voted = {vote.option for vote in votes}
    alike = (index for index in near if index in voted and options[index].value == options[worst].value)
    return Choice(next(alike, worst), value)


def _mode(votes: Sequence[OptionVote], criterion: Criterion) -> Choice:
    return _weighted_mode([vote._replace(weight=1.0) for vote in votes], criterion)


def _weighted_mode(votes: Sequence[OptionVote], criterion: Criterion) -> Choice:
    weights = {
        option: math.fsum(vote.weight for vote in votes if vote.option == option)
        for option in {vote.option for vote in votes}
    }
    most = max(weights.values())
    option = criterion.worst_option_among(index for index, total in weights.items() if math.isclose(total, most))
    return Choice(option, find_option(criterion, option).value)


def _choose_unanimous(votes: Sequence[OptionVote], criterion: Criterion) -> Choice:
    if len({vote.option for vote in votes}) == 1:
        return _mode(votes, criterion)
    own = criterion.na_option_index
    not_applicable = len(criterion.options or ()) if own is None else own
    return Choice(not_applicable, find_option(criterion, not_applicable).value)


BINARY: Mapping[str, Callable[[Sequence[VerdictVote], float], CriterionVerdict]] = {
    "majority": lambda votes, weight: _choose_heavier([VerdictVote(vote.verdict) for vote in votes], weight),
    "weighted": _choose_heavier,
    "unanimous": lambda votes, weight: MET if all(vote.verdict is MET for vote in votes) else UNMET,
    "any": lambda votes, weight: MET if any(vote.verdict is MET for vote in votes) else UNMET,
}
ORDINAL: Mapping[str, Callable[[Sequence[OptionVote], Criterion], Choice]] = {
    "mean": _summarize_values(statistics.fmean),
    "median": _summarize_values(statistics.median),
    "weighted_mean": _weighted_mean,
    "mode": _mode,
    "min": _summarize_values(min),
    "max": _summarize_values(max),
}
NOMINAL: Mapping[str, Callable[[Sequence[OptionVote], Criterion], Choice]] = {
    "mode": _mode,
    "weighted_mode": _weighted_mode,
    "unanimous": _choose_unanimous,
}
"""The rules by name; votes have no abstentions, and the sign of a criterion's weight decides ties.

`majority` ignores the weights of votes; `unanimous` is MET if every vote is MET, `any` if at least one is. A
disagreement under nominal `unanimous` is "not applicable": the criterion's own option for it, or else the added one.
"""
