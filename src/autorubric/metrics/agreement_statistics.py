"""The agreement statistics: built-in ones, in the order of tables, and those of installed packages.

A statistic maps the labelled pairs of a part of a run to a number. It is computed for the whole run and for each
criterion, judge and tag, and appears in tables, JSON and exports. A package adds one with an entry point in the group
`autorubric.statistics` that names a `Statistic`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from pydantic import Field

from autorubric.errors import InputError
from autorubric.metrics import confusion
from autorubric.metrics.arrays import Floats, Ints, ratio
from autorubric.metrics.correlation import measure_errors
from autorubric.metrics.statistic_results import MetricModel
from autorubric.metrics.table import CriterionType
from autorubric.plugins import find_plugins, load_plugin

_GROUP = "statistics"
_BINARY: tuple[CriterionType, ...] = ("binary",)
_ORDINAL: tuple[CriterionType, ...] = ("ordinal",)
Input: TypeAlias = Literal["counts", "values", "votes"]


@dataclass(frozen=True)
class Part:
    """The labelled pairs of a part of a run: those of one criterion, or of all criteria of one kind.

    Attributes:
        kind: the kind of the criteria; the run, judges and tags are measured on binary criteria.
        truth: the category of each label, as an index into `labels`.
        judged: the category of each verdict, likewise.
        labels: the categories; empty if criteria with different options are pooled, which have no `counts`.
        weights: how much each pair of categories counts as agreement, in [0, 1].
        ranks: the rank of each category by value.
        true_values: the value of each label, in [0, 1]; empty if abstentions, which have no value, are a category.
        judged_values: the value of each verdict, likewise.
        votes: an array of judges × points, including points without a usable label; negative for a missing vote.
            Empty if a single judge is measured.
        vote_values: the value of each category of `votes`; None if categories have no order.

    Example:
        >>> Part("binary", np.array([0, 0, 1]), np.array([0, 1, 1]), ("MET", "UNMET")).counts.tolist()
        [[1, 1], [0, 1]]
    """

    kind: CriterionType
    truth: Ints
    judged: Ints
    labels: tuple[str, ...] = ()
    weights: Floats | None = None
    ranks: Ints | None = None
    true_values: Floats = field(default_factory=lambda: np.empty(0))
    judged_values: Floats = field(default_factory=lambda: np.empty(0))
    votes: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))
    vote_values: Floats | None = None

    @cached_property
    def counts(self) -> Ints:
        """The confusion matrix: rows are labels, columns verdicts, in the order of `labels`."""
        return confusion.count_pairs(self.truth, self.judged, len(self.labels))

    @cached_property
    def ratings(self) -> Ints:
        """How many judges put each item (row) into each category (column)."""
        return confusion.count_ratings(self.votes, len(self.labels if self.vote_values is None else self.vote_values))


@dataclass(frozen=True)
class Statistic:
    """An agreement statistic.

    Attributes:
        name: its key in JSON and exports.
        compute: its value for a part of a run; None if it is undefined.
        needs: the required input: `counts` (the confusion matrix), `values` of labels and verdicts, or `votes` of
            several judges. Parts without that input do not have the statistic.
        title: the heading of its column in the tables of `autorubric agree`; None for no column.
        kinds: the kinds of criteria that it is defined for.

    Example:
        >>> errors = Statistic("errors", lambda part: float((part.truth != part.judged).sum()), title="errors")
        >>> errors.compute(Part("binary", np.array([0, 1]), np.array([0, 0])))
        1.0
    """

    name: str
    compute: Callable[[Part], float | None]
    needs: Input = "counts"
    title: str | None = None
    kinds: tuple[CriterionType, ...] = get_args(CriterionType)


def _compute_alpha(part: Part) -> float | None:
    """Krippendorff's α among the judges.

    Nominal for unordered options, ordinal for one ordered criterion, interval for pooled ordered criteria.
    """
    ordered: Literal["interval", "ordinal"] = "ordinal" if part.labels else "interval"
    return confusion.krippendorff_alpha(
        part.ratings, "nominal" if part.vote_values is None else ordered, part.vote_values
    )


def _compute_icc(part: Part) -> float | None:
    """ICC(2,1) of the judges' values; None for unordered options and for pooled criteria."""
    if part.vote_values is None or not part.labels:
        return None
    return confusion.icc(np.where(part.votes >= 0, part.vote_values[np.maximum(part.votes, 0)], np.nan).T)


STATISTICS = (
    Statistic("kappa", lambda part: float(confusion.kappas(part.counts, part.weights)), title="kappa"),
    Statistic(
        "gwet", lambda p: confusion.gwet_ac(sum(np.eye(len(p.labels))[[p.truth, p.judged]]), p.weights), title="AC"
    ),
    Statistic("accuracy", lambda part: confusion.accuracy(part.counts), title="accuracy"),
    Statistic("majority_baseline", lambda p: p.counts.sum(axis=1).max() / len(p.truth), title="baseline"),
    Statistic("balanced_accuracy", lambda part: confusion.balanced_accuracy(part.counts)),
    Statistic("mcc", lambda part: confusion.mcc(part.counts)),
    Statistic("precision", lambda part: confusion.precision_recall(part.counts).precision, kinds=_BINARY),
    Statistic("recall", lambda part: confusion.precision_recall(part.counts).recall, kinds=_BINARY),
    Statistic("f1", lambda part: confusion.precision_recall(part.counts).f1, kinds=_BINARY),
    Statistic("fpr", lambda part: float(ratio(part.counts[1:, 0].sum(), part.counts[1:].sum())), kinds=_BINARY),
    Statistic("fnr", lambda part: float(ratio(part.counts[0, 1:].sum(), part.counts[0].sum())), kinds=_BINARY),
    # For MET against all other categories together.
    Statistic(
        "phi", lambda p: confusion.mcc(np.add.reduceat(np.add.reduceat(p.counts, [0, 1]), [0, 1], 1)), kinds=_BINARY
    ),
    Statistic(
        "adjacent_accuracy", lambda part: confusion.accuracy(part.counts, part.ranks, within=1), kinds=_ORDINAL
    ),
    Statistic("rmse", lambda part: measure_errors(part.judged_values, part.true_values).rmse, "values"),
    Statistic("mae", lambda part: measure_errors(part.judged_values, part.true_values).mae, "values"),
    Statistic("krippendorff_alpha", _compute_alpha, "votes"),
    Statistic("fleiss_kappa", lambda part: confusion.fleiss_kappa(part.ratings, len(part.votes)), "votes"),
    Statistic(
        "judge_gwet", lambda p: confusion.gwet_ac(p.ratings, None if p.vote_values is None else p.weights), "votes"
    ),
    Statistic("icc", _compute_icc, "votes", kinds=_ORDINAL),
)


@lru_cache(maxsize=1)
def load_statistics() -> tuple[Statistic, ...]:
    """Return all statistics: the built-in ones, then those of installed packages, by name."""
    found = {statistic.name: statistic for statistic in STATISTICS}
    problems = []
    for name in find_plugins(_GROUP):
        made = load_plugin(_GROUP, name)
        if not isinstance(made, Statistic):
            problems.append(
                f"statistic {name!r} is a {type(made).__name__}; expected an autorubric.metrics.Statistic"
            )
        elif found.setdefault(made.name, made) is not made:
            problems.append(f"statistic {name!r}: another statistic has the name {made.name!r}; rename it")
    if problems:
        raise InputError(problems, f"Correct or uninstall the package that registers it in autorubric.{_GROUP}.")
    return tuple(found.values())


def measure(part: Part, chosen: Iterable[Statistic] | None = None) -> dict[str, float | None]:
    """Compute the `chosen` statistics (by default all) that are defined for a part of a run, by name.

    A value is None if the statistic is undefined for these pairs.
    """
    values: dict[str, float | None] = {}
    has = {
        "counts": bool(part.labels) and len(part.truth) > 0,
        "values": len(part.true_values) > 0,
        "votes": len(part.votes) > 1,
    }
    for statistic in load_statistics() if chosen is None else chosen:
        if part.kind in statistic.kinds and has[statistic.needs]:
            try:
                value = statistic.compute(part)
                number = None if value is None else float(value)
            except Exception as error:
                raise InputError(f"statistic {statistic.name!r} failed: {type(error).__name__}: {error}") from error
            values[statistic.name] = None if number is None or np.isnan(number) else number
    return values


_STATISTIC_BY_FIELD = {
    "criterion_accuracy": "accuracy",
    "exact_accuracy": "accuracy",
    "criterion_precision": "precision",
    "criterion_recall": "recall",
    "criterion_f1": "f1",
    "micro_kappa": "kappa",
    "weighted_kappa": "kappa",
    "criterion_gwet": "gwet",
    "criterion_balanced_accuracy": "balanced_accuracy",
    "criterion_phi": "phi",
    "value_rmse": "rmse",
    "value_mae": "mae",
}
"""Published fields whose name differs from that of their statistic."""


class MeasuredModel(MetricModel):
    """Statistics of a part of a run; those without their own field are in `statistics`.

    Attributes:
        statistics: values by name, including statistics of installed packages.
    """

    statistics: dict[str, float | None] = Field(default_factory=dict)

    @classmethod
    def to_fields(cls, values: Mapping[str, float | None]) -> dict[str, Any]:
        """Return the values of the fields; None for a statistic that was not measured."""
        by_field = {name: _STATISTIC_BY_FIELD.get(name, name) for name in cls.model_fields}
        known = {statistic.name for statistic in load_statistics()}
        fields: dict[str, Any] = {field: values.get(name) for field, name in by_field.items() if name in known}
        return fields | {"statistics": {k: v for k, v in values.items() if k in known - set(by_field.values())}}

    def find(self, statistic: str) -> float | None:
        """Return the value of a statistic by its name in the registry; None if it is undefined."""
        for name in type(self).model_fields:
            if _STATISTIC_BY_FIELD.get(name, name) == statistic:
                found: float | None = getattr(self, name)
                return found
        return self.statistics.get(statistic)
