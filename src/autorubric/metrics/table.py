"""A graded run and its labels as columns of codes, from which every statistic is computed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.core.scoring import ScoreRule
from autorubric.errors import InputError, format_first
from autorubric.metrics.arrays import Flags, Floats, Ints
from autorubric.metrics.confusion import compute_agreement_weights
from autorubric.metrics.self_consistency import SelfConsistency

CriterionType: TypeAlias = Literal["binary", "ordinal", "nominal"]
CannotAssessMode: TypeAlias = Literal["exclude", "as_unmet", "as_category"]
NAMode: TypeAlias = Literal["exclude", "as_unmet", "as_category"]

ABSTAINED, FAILED, ABSENT = -1, -2, -3
"""Codes below 0 are not categories: an abstention, a failed judgment, and a judgment not requested (or no label)."""
VERDICT_CODES = {"MET": 0, "UNMET": 1, "CANNOT_ASSESS": ABSTAINED, None: FAILED}
"""Codes by verdict. A `CriterionVerdict` and its name are equal strings, so both can be looked up."""


def classify_criterion(criterion: Criterion) -> CriterionType:
    """Return whether a criterion is binary, or multi-choice with or without an order.

    Example:
        >>> classify_criterion(Criterion(requirement="Is brief"))
        'binary'
    """
    return "binary" if criterion.options is None else criterion.scale_type


def classify_criteria(criteria: Sequence[Criterion]) -> list[CriterionType]:
    """Return the kind of each criterion.

    Example:
        >>> classify_criteria([Criterion(requirement="Is brief")])
        ['binary']
    """
    return [classify_criterion(criterion) for criterion in criteria]


class Modes(NamedTuple):
    """How an abstention counts, on binary criteria (`cannot_assess`) and on criteria with options (`na`)."""

    cannot_assess: CannotAssessMode = "exclude"
    na: NAMode = "exclude"


def check_modes(cannot_assess: CannotAssessMode = "exclude", na: NAMode = "exclude") -> Modes:
    """Return the modes, validated.

    Raises:
        InputError: there is no such mode.
    """
    problems = [
        f"{name}={value!r} is not one of {', '.join(get_args(CannotAssessMode))}"
        for name, value in (("cannot_assess", cannot_assess), ("na_mode", na))
        if value not in get_args(CannotAssessMode)
    ]
    if problems:
        raise InputError(problems)
    return Modes(cannot_assess, na)


EXCLUDE = Modes()
"""Pairs with an abstention are left out."""


@dataclass(frozen=True)
class Column:
    """A criterion in a table of codes; a code is the place of a category in `categories`."""

    criterion: Criterion
    index: int  # its place among the columns
    name: str  # `C1`, `C2`, … where the criterion has none
    kind: CriterionType
    labels: tuple[str, ...]  # MET and UNMET, or the options without "not applicable"
    values: Floats  # of the labels
    categories: tuple[str, ...]  # the labels, then the abstention where it is a category; ordered options have none
    agreement: Floats  # how much each pair of categories counts as agreement: by distance where they have an order
    abstention: int  # the code that an abstention counts as; ABSTAINED if it is left out
    option_codes: tuple[int, ...]  # of each option; ABSTAINED for "not applicable"
    codes: Mapping[Any, int] = field(repr=False)  # by label
    key: Hashable = None  # what makes it the same in two runs; a criterion that a rubric has twice is two

    @classmethod
    def from_criterion(
        cls, criterion: Criterion, index: int, name: str | None = None, modes: Modes = EXCLUDE, key: Hashable = None
    ) -> Column:
        """Return the column of a criterion."""
        kind: CriterionType = "binary"
        options = criterion.options
        if options is None:
            labels: tuple[str, ...] = "MET", "UNMET"
            values, places, codes, worst = np.array([1.0, 0.0]), list[int](), VERDICT_CODES, VERDICT_CODES["UNMET"]
            mode, word = modes.cannot_assess, "CANNOT_ASSESS"
        else:
            kind, scored = criterion.scale_type, [place for place, option in enumerate(options) if not option.na]
            labels, values = tuple(options[n].label for n in scored), np.array([options[n].value for n in scored])
            places = [scored.index(n) if n in scored else ABSTAINED for n in range(len(options))]
            codes = {option.label: code for option, code in zip(options, places, strict=True)}
            worst, mode, word = places[criterion.worst_scored_option()[0]], modes.na, "NA"
        categories = (*labels, word) if mode == "as_category" and kind != "ordinal" else labels
        return cls(
            criterion,
            index,
            name or criterion.name or f"C{index + 1}",
            kind,
            labels,
            values,
            categories,
            compute_agreement_weights(values, "quadratic") if kind == "ordinal" else np.eye(len(categories)),
            worst if mode == "as_unmet" else len(labels) if categories != labels else ABSTAINED,
            tuple(places),
            codes,
            key,
        )

    def find_code(self, label: str) -> int:
        """Return the code of a label, ignoring case; raise a ValueError if the criterion has no such label."""
        if label in self.codes:
            return self.codes[label]
        if self.kind != "binary":
            return self.option_codes[self.criterion.find_option_by_label(label)]
        if label.strip().upper() not in self.codes:
            raise ValueError(f"{label!r} is not one of MET, UNMET, CANNOT_ASSESS")
        return self.codes[label.strip().upper()]

    def read_verdict(self, verdict: str | None) -> int:
        """Return the code of the run's verdict; refuse MET or UNMET for a criterion with options."""
        code = VERDICT_CODES[verdict]
        if code >= 0 and self.kind != "binary":
            word = getattr(verdict, "value", verdict)
            raise InputError(f"criterion {self.name!r} has options, but the run has the verdict {word} for it")
        return code

    def read_choice(self, choice: Mapping[str, Any]) -> int:
        """Return the code of the option that the run chose, by label: the dataset may order options differently."""
        index, label = choice.get("selected_index"), choice.get("selected_label")
        if choice.get("na"):
            return ABSTAINED
        if self.kind == "binary":
            raise InputError(f"criterion {self.name!r} is binary, but the run has the option {label!r} for it")
        if label is None:  # one past the end is the "not applicable" that judges add
            return ABSTAINED if index is None or index >= len(self.option_codes) else self.option_codes[index]
        try:
            return self.find_code(label)
        except ValueError as error:
            raise InputError(f"criterion {self.name!r} has no option {label!r}, which the run chose") from error


def build_value_table(columns: Sequence[Column], filler: float = np.nan) -> Floats:
    """Return the values of each column's categories (columns × most categories), padded with `filler`."""
    values = np.full((len(columns), max((len(column.values) for column in columns), default=1)), filler)
    for place, column in enumerate(columns):
        values[place, : len(column.values)] = column.values
    return values


def map_codes(codes: Ints, columns: Sequence[Column], column: Ints) -> Ints:
    """Return the codes with abstentions replaced by what they count as; `column` has the column of each code."""
    return np.where(codes == ABSTAINED, np.array([each.abstention for each in columns], np.int64)[column], codes)


class GradedRun(Protocol):
    """A graded run, such as `EvalResult`.

    Each result has `item_idx`, `report`, `error` and, where the run knows it, `item`; a mapping with these keys will
    do. A run may also have `grader_config`, which records how it scores.
    """

    @property
    def item_results(self) -> Iterable[Any]:
        """One result per item."""
        ...


@dataclass(frozen=True)
class Points:
    """Points: judged criteria of items, as parallel arrays."""

    row: Ints  # which item
    column: Ints  # which criterion
    truth: Ints  # the code of the label; ABSENT without one
    judged: Ints  # the code of the final verdict
    votes: Ints  # judges × points; ABSENT where a judge was not asked
    weights: Floats | None = None  # how many points each stands for; None where it is one

    def __len__(self) -> int:
        return len(self.row)

    def select(self, chosen: Flags | Ints | slice) -> Points:
        """Return the chosen points, by flag, place or range."""
        row, column, truth, judged = (codes[chosen] for codes in (self.row, self.column, self.truth, self.judged))
        weights = None if self.weights is None else self.weights[chosen]
        return Points(row, column, truth, judged, self.votes[:, chosen], weights)


_PER_ROW = ("items", "scores", "labelled", "failed", "reported")
_PER_POINT = ("means", "dissent", "confidence")


@dataclass(frozen=True)
class Table:
    """Graded items × criteria in long form, so that items may have their own rubrics."""

    columns: tuple[Column, ...]  # one that several rubrics share is one column
    points: Points  # by item, and within an item in the order of its rubric
    items: Ints  # each row's place in the dataset
    scores: Floats  # of each row; NaN for none
    labelled: Flags  # the rows with ground truth
    failed: Flags  # the rows on which no judgment counts
    reported: Flags  # the rows whose report has criteria
    # For each point: the mean of the options that a panel chose, which the score uses (NaN: the category's value);
    # the share of pairs of votes that differ (NaN with fewer than two); the judge's confidence (NaN if not stated).
    means: Floats
    dissent: Floats
    confidence: Floats
    judges: tuple[str, ...] = ()
    judge_scores: Floats = field(default_factory=lambda: np.empty((0, 0)))  # judges × rows; NaN for none
    escalated: bool = False  # whether some votes are superseded, so that judges may be absent
    rule: ScoreRule | None = None  # as the run recorded it
    size: int = 0  # how many items the dataset has
    extra: tuple[int, ...] = ()  # places in the run of items that the dataset does not have
    repeated: int = 0  # graded items whose text was graded before
    missing: int = 0  # items with labels that the run did not grade
    repeated_votes: tuple[str, ...] = ()  # sentences on judges that voted twice on a criterion of a labelled item
    consistency: tuple[SelfConsistency, ...] = ()  # of each judge that was asked repeatedly, over all results
    modes: Modes = EXCLUDE  # how abstentions count

    @property
    def weights(self) -> Floats:
        """The weight of each column's criterion."""
        return np.array([column.criterion.weight for column in self.columns], float)

    @property
    def is_binary(self) -> Flags:
        """A flag for each column: whether it is binary."""
        return np.array([column.kind == "binary" for column in self.columns], bool)

    @property
    def values(self) -> Floats:
        """The value of each point's verdict, in [0, 1]; NaN for abstentions and failures."""
        use_mean = (self.points.judged >= 0) & ~np.isnan(self.means)
        return np.where(use_mean, self.means, self.find_values(self.points.judged))

    @property
    def truth_values(self) -> Floats:
        """The value of each point's label, in [0, 1]; NaN for abstentions and points without one."""
        return self.find_values(self.points.truth)

    def find_values(self, codes: Ints) -> Floats:
        """Return the value of each code, in [0, 1]; NaN below 0."""
        return np.where(codes >= 0, build_value_table(self.columns)[self.points.column, np.maximum(codes, 0)], np.nan)

    @property
    def rubric_columns(self) -> list[Column]:
        """The columns of the first item, in the order of its rubric."""
        return [self.columns[place] for place in self.points.column[self.points.row == 0]]

    def select_rows(self, rows: Flags) -> Table:
        """Return the table of some of its rows, with the same columns."""
        chosen = rows[self.points.row]
        points = self.points.select(chosen)
        kept: dict[str, Any] = {name: getattr(self, name)[rows] for name in _PER_ROW}
        kept |= {name: getattr(self, name)[chosen] for name in _PER_POINT}
        renumbered = replace(points, row=(np.cumsum(rows) - 1)[points.row])
        return replace(self, points=renumbered, judge_scores=self.judge_scores[:, rows], **kept)

    def trim(self) -> Table:
        """Return the table without columns that have no point and judges that have no vote on a judged item."""
        points, used = self.points, np.unique(self.points.column)
        columns = tuple(replace(self.columns[place], index=number) for number, place in enumerate(used))
        kept = (points.votes[:, ~self.failed[points.row]] != ABSENT).any(axis=1)
        # The verdict of a single judge is the final one.
        single = np.maximum(points.judged, FAILED)
        votes = points.votes[kept] if kept.sum() > 1 else np.tile(single, (int(kept.sum()), 1))
        judges = tuple(judge for judge, wanted in zip(self.judges, kept, strict=True) if wanted)
        points = replace(points, column=np.searchsorted(used, points.column), votes=votes)
        return replace(self, columns=columns, points=points, judges=judges, judge_scores=self.judge_scores[kept])

    def find_other_rubrics(self) -> Ints:
        """Return the rows whose criteria, or their order, differ from the first row."""
        sizes = np.bincount(self.points.row, minlength=len(self.items))
        if (sizes != sizes[:1]).any():
            return np.flatnonzero(sizes != sizes[0])
        columns = self.points.column.reshape(len(self.items), -1)
        return np.flatnonzero((columns != columns[:1]).any(axis=1))

    def to_matrix(self, amounts: Floats) -> Floats:
        """Arrange one amount per point as rows × criteria; refuse items with different rubrics."""
        others = self.find_other_rubrics()
        if len(others):
            raise InputError(
                f"items {format_first(self.items[others].tolist())} have other criteria than item {self.items[0]}; "
                "statistics per criterion need one rubric for all items"
            )
        return amounts.reshape(len(self.items), -1)
