"""Reports and ground truth as one table of codes, the form that everything is computed from."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.core.criterion_names import criterion_names
from autorubric.core.report import EnsembleCriterionReport
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.metrics.arrays import Flags, Floats, Ints
from autorubric.metrics.column import ABSENT, Column
from autorubric.metrics.joining import Joined, Pair
from autorubric.metrics.verdicts import entry_code, label_code, panel_mean, vote_code


@dataclass(frozen=True)
class Points:
    """Judged criteria, one a place in each array.

    Attributes:
        row: which item.
        column: which criterion.
        truth: the label's code.
        judged: the code of the word that counts.
        votes: judges × points; ABSENT where a judge was not asked.
    """

    row: Ints
    column: Ints
    truth: Ints
    judged: Ints
    votes: Ints

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: Flags | Ints) -> Points:
        """The points that are chosen, by flag or by place."""
        return Points(
            self.row[chosen],
            self.column[chosen],
            self.truth[chosen],
            self.judged[chosen],
            self.votes[:, chosen],
        )


@dataclass(frozen=True)
class Table:
    """Items × criteria, in the long form, so that items may have rubrics of their own.

    Attributes:
        columns: the criteria; one that several rubrics share is one column.
        points: one for each item and criterion, by item.
        items: each row's place in the dataset.
        tags: of each row's item.
        scores: each row's score; NaN for none.
        judges: their ids.
        judge_scores: judges × rows; NaN for none.
        escalated: whether some votes are superseded, so that judges may be absent.
        means: of each point, what the options of a panel come to on average, which is what its score counts; NaN
            where the value of the category counts. Empty for none.
        errored: of each column, labelled points of items that have no judgment at all; they are no points.
    """

    columns: tuple[Column, ...]
    points: Points
    items: Ints
    scores: Floats
    judges: tuple[str, ...] = ()
    judge_scores: Floats = field(default_factory=lambda: np.empty((0, 0)))
    escalated: bool = False
    means: Floats = field(default_factory=lambda: np.empty(0))
    errored: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def rows(self) -> int:
        """How many items."""
        return len(self.items)


def build_table(joined: Joined, dataset: RubricDataset) -> Table:
    """The table of paired reports and labels. The dataset's own rubric comes first, so its columns keep its order.

    Example:
        >>> build_table(Joined(), RubricDataset("Explain.")).rows
        0
    """
    columns = _Columns()
    if dataset.rubric is not None and any(pair.rubric is dataset.rubric for pair in joined.pairs):
        columns.of(dataset.rubric)
    judges = _judges(joined.pairs)
    rows: list[int] = []
    places: list[int] = []
    truth: list[int] = []
    judged: list[int] = []
    means: list[float] = []
    votes = _Votes(judges) if len(judges) > 1 else None
    for row, pair in enumerate(joined.pairs):
        found = columns.of(pair.rubric)
        rows += [row] * len(found)
        places += [column.index for column in found]
        truth += map(label_code, pair.item.ground_truth or (), found)
        judged += map(entry_code, pair.entries, found)
        means += [
            math.nan if column.kind == "binary" else panel_mean(entry)
            for entry, column in zip(pair.entries, found, strict=True)
        ]
        if votes is not None:
            votes.add(pair.entries, found)
    words = _codes(judged)
    # The word of a single judge is the word that counts.
    cast = np.tile(words, (len(judges), 1)) if votes is None else votes.table()
    points = Points(_codes(rows), _codes(places), _codes(truth), words, cast)
    failed = [column.index for rubric in joined.errored for column in columns.of(rubric)]
    return Table(
        columns.all(),
        points,
        np.array([pair.index for pair in joined.pairs], np.int64),
        _numbers([pair.report.score for pair in joined.pairs]),
        judges,
        _judge_scores(joined.pairs, judges),
        votes is not None and votes.superseded,
        np.array(means, float),
        np.bincount(_codes(failed), minlength=len(columns.all())),
    )


class _Columns:
    """The columns of all rubrics, each criterion once."""

    def __init__(self) -> None:
        self._by_rubric: dict[int, tuple[Column, ...]] = {}
        self._kept: list[Rubric] = []
        self._by_criterion: dict[Hashable, Column] = {}

    def of(self, rubric: Rubric) -> tuple[Column, ...]:
        found = self._by_rubric.get(id(rubric))
        if found is None:
            seen: Counter[Hashable] = Counter()
            names = criterion_names(rubric.rubric)
            found = tuple(self._column(name, criterion, seen) for name, criterion in zip(names, rubric, strict=True))
            self._by_rubric[id(rubric)] = found
            self._kept.append(rubric)  # an id is only one's own as long as its object lives
        return found

    def _column(self, name: str, criterion: Criterion, seen: Counter[Hashable]) -> Column:
        # One criterion twice in a rubric is two columns.
        same = signature(criterion)
        key = same, seen[same]
        seen[same] += 1
        if key not in self._by_criterion:
            name = name if criterion.name else self._free_name(name, criterion)
            self._by_criterion[key] = Column.of(criterion, len(self._by_criterion), name)
        return self._by_criterion[key]

    def _free_name(self, name: str, criterion: Criterion) -> str:
        """The name; where another column has it, with what the criterion requires."""
        if all(column.name != name for column in self._by_criterion.values()):
            return name
        return f"{name} ({textwrap.shorten(criterion.requirement, 40, placeholder=' …')})"

    def all(self) -> tuple[Column, ...]:
        return tuple(self._by_criterion.values())


def signature(criterion: Criterion) -> Hashable:
    """What makes a criterion the same one in two rubrics: all that verdicts and scores depend on.

    Example:
        >>> signature(Criterion(requirement="Is brief")) == signature(Criterion(requirement="Is brief", tags=["x"]))
        True
    """
    options = tuple((option.label, option.value, option.na) for option in criterion.options or ())
    return criterion.name, criterion.section, criterion.requirement, criterion.weight, criterion.scale_type, options


class _Votes:
    """The votes of several judges, point by point."""

    def __init__(self, judges: Sequence[str]) -> None:
        self._place = {judge: place for place, judge in enumerate(judges)}
        self._codes: list[list[int]] = [[] for _ in judges]
        self.superseded = False

    def add(self, entries: Sequence[object], columns: Sequence[Column]) -> None:
        for entry, column in zip(entries, columns, strict=True):
            for codes in self._codes:
                codes.append(ABSENT)
            if isinstance(entry, EnsembleCriterionReport):
                for vote in entry.votes or entry.multi_choice_votes:
                    self._codes[self._place[vote.judge_id]][-1] = vote_code(vote, column)
                    self.superseded |= vote.superseded

    def table(self) -> Ints:
        return np.array(self._codes, np.int64)


def _judges(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The ids of all judges that voted, in the order of first appearance."""
    seen: dict[str, None] = {}
    for pair in pairs:
        for entry in pair.entries:
            if isinstance(entry, EnsembleCriterionReport):
                for vote in entry.votes or entry.multi_choice_votes:
                    seen[vote.judge_id] = None
    return tuple(seen)


def _judge_scores(pairs: Sequence[Pair], judges: Sequence[str]) -> Floats:
    said = [getattr(pair.report, "judge_scores", None) or {} for pair in pairs]
    return np.array([_numbers([scores.get(judge) for scores in said]) for judge in judges]).reshape(
        len(judges), len(pairs)
    )


def _codes(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], float)
