"""Joins labels in files to the items of a dataset as their ground truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autorubric.core.criterion import name_criteria
from autorubric.core.rubric import Rubric
from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.ground_truth import MAJORITY, GroundTruthReader, choose_majority
from autorubric.dataset.label_rows import GivenLabel, ItemFinder, LabelRows
from autorubric.errors import InputError
from autorubric.rows import join_names, read_rows

_SINGLE_PAIRS = (
    "Labels of single pairs of a graded run belong in its label store, which weights those of pairs that it drew: "
    "`autorubric labels RUN --import FILE --annotator NAME`, then `autorubric agree RUN` (Python: import_labels, "
    "label_agreement)."
)


class PartialLabels(InputError):
    """Valid labels that cover only some criteria of some items."""


@dataclass(slots=True)
class LabelTable:
    """Files of labels: rows of id, criterion, label and perhaps annotator.

    Attributes:
        paths: the files, of any kind that holds rows.
        annotator: the annotator whose labels count; `majority` uses `choose_majority`; None requires agreement.
        columns: the columns named by the user, by role.
        notes: collects a sentence for each column that was guessed, and on items without labels.
    """

    paths: Sequence[Path]
    annotator: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def join_labels(self, dataset: RubricDataset) -> RubricDataset:
        """Return the dataset with these labels as ground truth; items without labels here become unlabelled.

        Raises:
            InputError: an id, criterion, label or annotator is unknown, a label is given twice, annotators disagree
                and none is chosen, or an item has labels for only some criteria; all problems are reported together.
        """
        problems: list[str] = []
        hints: list[str] = []
        join = _LabelJoin(dataset, self.annotator, problems, self.notes)
        for path in self.paths:
            rows = LabelRows(path, dataset, self.columns, self.notes, problems, hints)
            for given in rows.read_labels(read_rows(path, problems, what="Label file")):
                join.add(given)
        truths = join.collect_truths()
        if not problems and not join.parts and not truths:
            problems.append(f"{', '.join(map(str, self.paths))}: it has no labels")
        if problems:
            raise InputError(problems, "\n".join(hints))
        if join.parts:
            raise PartialLabels(join.parts, "\n".join([*hints, _SINGLE_PAIRS]))
        self.notes += hints
        items = [
            replace(item, ground_truth=truths.get(index), ground_truth_reasons=None)
            for index, item in enumerate(dataset.items)
        ]
        if len(truths) < len(items):
            without = len(items) - len(truths)
            self.notes.append(f"{without} of {len(items)} items have no labels in the file and count as unlabelled")
        return replace(dataset, items=items)


class _LabelJoin:
    """Collects the labels of a dataset's items."""

    def __init__(self, dataset: RubricDataset, annotator: str | None, problems: list[str], notes: list[str]) -> None:
        self._dataset, self._annotator, self._problems = dataset, annotator, problems
        self._finder = ItemFinder(dataset, notes)
        self._labels: dict[int, dict[int, dict[str, str]]] = {}
        self._first: dict[tuple[int, int, str], str] = {}
        self._annotators: dict[str, None] = {}
        self.parts: list[str] = []

    def add(self, given: GivenLabel) -> None:
        """Add a label, or what is wrong with it to the problems."""
        self._annotators[given.annotator] = None
        try:
            place, at = self._finder.find(given)
            criterion = self._dataset.get_item_rubric(place)[at]
            label = self._finder.read_verdict(criterion, given.verdict)
            GroundTruthReader(Rubric([criterion])).check(label)
        except InputError as error:
            self._problems += (f"{given.where}: {problem}" for problem in error.problems)
            return
        first = self._first.setdefault((place, at, given.annotator), given.where)
        if first != given.where:
            self._problems.append(f"{given.where}: this label was already given at {first}")
            return
        label = label.strip().upper() if criterion.options is None else label
        self._labels.setdefault(place, {}).setdefault(at, {})[given.annotator] = label

    def collect_truths(self) -> dict[int, Any]:
        """Return the labels of each labelled item in the order of its criteria."""
        if self._annotator not in (None, MAJORITY, *self._annotators):
            known = ", ".join(filter(None, self._annotators)) or "none; no column names annotators"
            self._problems.append(f"--annotator {self._annotator!r} is unknown; the annotators are {known}")
            return {}
        return {place: truth for place in self._labels if (truth := self._collect_truth(place)) is not None}

    def _collect_truth(self, place: int) -> list[str] | None:
        """Return the labels of an item; None if it has none, or after adding to the problems."""
        rubric = self._dataset.get_item_rubric(place).rubric
        names, given = name_criteria(rubric), self._labels[place]
        chosen = {at: self._choose_label(place, at, by) for at, by in given.items()}
        found = {at: label for at, label in chosen.items() if label is not None}
        is_one = self._annotator not in (None, MAJORITY)
        missing = [name for at, name in enumerate(names) if at not in (found if is_one else given)]
        if found and missing:
            own = self._dataset.items[place].id
            self.parts.append(f"item {own!r}: no label for {join_names(missing)}; label all criteria or none")
        return [found[at] for at in range(len(names))] if len(found) == len(names) else None

    def _choose_label(self, place: int, at: int, by_annotator: Mapping[str, str]) -> str | None:
        """Return the label that counts."""
        rubric = self._dataset.get_item_rubric(place).rubric
        if self._annotator not in (None, MAJORITY):
            return by_annotator.get(self._annotator or "")
        found = choose_majority(rubric[at], [*by_annotator.values()])
        if found is not None and (self._annotator == MAJORITY or len({*by_annotator.values()}) == 1):
            return found
        votes = ", ".join(f"{who or 'one'} {label}" for who, label in by_annotator.items())
        what = "annotators disagree; pass --annotator NAME or majority"
        if self._annotator == MAJORITY:
            what = "no label has a majority; pass --annotator NAME, or import the labels into a graded run, where "
            what += "ties stay open: autorubric labels RUN --import FILE"
        last = self._first[place, at, [*by_annotator][-1]]
        where = f"{last}: item {self._dataset.items[place].id!r}, criterion {name_criteria(rubric)[at]!r}"
        self._problems.append(f"{where} ({votes}): {what}")
        return None
