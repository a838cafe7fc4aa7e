"""Reports and the items that they are about, brought together; whatever does not fit is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.core.counted import counted
from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.verdicts import Entry, Report, criterion_of


class GradedItem(Protocol):
    """One item's report: what `ItemResult` of an evaluation has."""

    @property
    def item_idx(self) -> int:
        """The item's place in the dataset, from 0."""
        ...

    @property
    def report(self) -> Report:
        """What the grader said."""
        ...

    @property
    def error(self) -> str | None:
        """Why the report does not count; None where it does."""
        ...


class GradedItems(Protocol):
    """The reports of a run: what `EvalResult` has."""

    @property
    def item_results(self) -> Iterable[Any]:
        """One `GradedItem` an item."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """An item with ground truth and its report.

    Attributes:
        index: the item's place in the dataset.
        item: the item.
        rubric: what it is judged by.
        report: what the grader said.
        entries: the report's criteria in the rubric's order.
    """

    index: int
    item: DataItem
    rubric: Rubric
    report: Report
    entries: Sequence[Entry]


@dataclass
class Joined:
    """The pairs of a run and a dataset, and what could not be paired.

    Attributes:
        pairs: in the order of the run.
        errored: the rubrics of items that have labels, but no judged criterion.
        unlabelled: graded items without labels.
        extra: graded items that the dataset does not have.
        repeated: graded items whose text was graded before.
        missing: items with labels that the run did not grade.
        warnings: sentences on all of these.
    """

    pairs: list[Pair] = field(default_factory=list)
    errored: list[Rubric] = field(default_factory=list)
    unlabelled: int = 0
    extra: int = 0
    repeated: int = 0
    missing: int = 0
    warnings: list[str] = field(default_factory=list)


def join(results: GradedItems, dataset: RubricDataset) -> Joined:
    """The pairs of graded items and labelled items.

    An item is the one at the same place of the dataset, if its text is the same; else the one with the same id or
    the same text, so that labels may come in another order or for a part of the items only.

    Raises:
        InputError: no item fits, an item is in the run twice, or reports are about other criteria than the labels.

    Example:
        >>> from types import SimpleNamespace
        >>> join(SimpleNamespace(item_results=[]), RubricDataset("Explain.")).pairs
        []
    """
    found = Joined()
    places = Places(dataset)
    problems: list[str] = []
    graded: set[int] = set()
    for result in each_once(results.item_results):
        index = places.find(result)
        if index is None or index in graded:
            found.extra += index is None
            found.repeated += index is not None
            continue
        graded.add(index)
        pair = _pair(index, result, dataset, found, problems)
        if pair is not None:
            found.pairs.append(pair)
    total = found.extra + len(graded)
    if total and not graded:
        items = [getattr(result, "item", None) for result in results.item_results]
        raise InputError(f"none of the {total} graded items is in the dataset; {places.why_none(items)}")
    if problems:
        raise InputError(problems)
    found.missing = sum(item.ground_truth is not None for i, item in enumerate(dataset.items) if i not in graded)
    _warn(found)
    return found


def _pair(index: int, result: GradedItem, dataset: RubricDataset, found: Joined, problems: list[str]) -> Pair | None:
    item, rubric = dataset.items[index], dataset.get_item_rubric(index)
    if item.ground_truth is None:
        found.unlabelled += 1
        return None
    entries = result.report.report
    failed = sum(entry.error is not None for entry in entries or ())
    error = result.error or result.report.error
    # A report that a failed criterion left without a score still has the verdicts on the others.
    if not entries or failed == len(entries) or (error is not None and not failed):
        found.errored.append(rubric)
        return None
    ordered = in_rubric_order(entries, rubric)
    if ordered is None:
        problems.append(other_criteria(index, item, [criterion_of(entry) for entry in entries], rubric))
        return None
    return Pair(index, item, rubric, result.report, ordered)


def in_rubric_order(entries: Sequence[Entry], rubric: Rubric) -> Sequence[Entry] | None:
    """The entries of a report in the order of a rubric; None where they are about other criteria.

    A criterion is the same where its requirement or its name is.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> in_rubric_order([], Rubric([Criterion(requirement="Is brief")])) is None
        True
    """
    order = places_of([criterion_of(entry) for entry in entries], rubric.rubric)
    if isinstance(order, range):
        return entries
    return None if order is None else [entries[place] for place in order]


def places_of(said: Sequence[Criterion], criteria: Sequence[Criterion]) -> list[int] | range | None:
    """For each criterion its place in another order of the same ones: a range where the order is the same.

    None where the others are not the same ones.

    Example:
        >>> brief, polite = Criterion(requirement="Is brief"), Criterion(requirement="Is polite")
        >>> places_of([brief, polite], [polite, brief])
        [1, 0]
    """
    if len(said) != len(criteria):
        return None
    if all(a is b or a.requirement == b.requirement for a, b in zip(said, criteria, strict=True)) or all(
        a.name is not None and a.name == b.name for a, b in zip(said, criteria, strict=True)
    ):
        return range(len(said))
    places = {criterion.requirement: place for place, criterion in enumerate(said)}
    ordered = [places[criterion.requirement] for criterion in criteria if criterion.requirement in places]
    return ordered if len(set(ordered)) == len(criteria) else None


def other_criteria(index: int, item: DataItem, said: Sequence[Criterion], rubric: Rubric) -> str:
    """A sentence on a report whose criteria are not those of its item's rubric."""
    if len(said) != len(rubric):
        detail = f"the report has {len(said)} criteria, its rubric {len(rubric)}"
    else:
        known = {criterion.requirement for criterion in rubric}
        other = next((c.name or c.requirement for c in said if c.requirement not in known), None)
        detail = (
            "criteria of one requirement cannot be told apart"
            if other is None
            else f"the report judges {other!r}, which its rubric in the dataset does not have"
        )
    return f"item {item.id or index}: {detail}"


def each_once(results: Iterable[Any]) -> Iterator[Any]:
    """The results of a run.

    Raises:
        InputError: two are of one item.
    """
    seen: set[int] = set()
    for result in results:
        if result.item_idx in seen:
            raise InputError(f"item {result.item_idx} is in the run more than once; expected one result an item")
        seen.add(result.item_idx)
        yield result


class Places:
    """Where a dataset has the item of a result: see `join`."""

    def __init__(self, dataset: RubricDataset) -> None:
        self.items = dataset.items
        self._by_id: dict[str, int] | None = None
        self._by_text: dict[str, int] = {}

    def find(self, result: Any) -> int | None:
        """The place of the item of a result (whatever has `item_idx`, and the `item` if it is known)."""
        index: int = result.item_idx
        item: DataItem | None = getattr(result, "item", None)
        inside = 0 <= index < len(self.items)
        if item is None or not item.submission:
            return index if inside else None
        if inside and (self.items[index] is item or self.items[index].submission == item.submission):
            return index
        if self._by_id is None:
            self._by_id = {known.id: place for place, known in enumerate(self.items) if known.id is not None}
            # The first of several equal texts would be a guess.
            repeated = {known.submission: place for place, known in enumerate(self.items)}
            first = {known.submission: place for place, known in reversed(list(enumerate(self.items)))}
            self._by_text = {text: place for text, place in first.items() if repeated[text] == place}
        place = self._by_id.get(item.id) if item.id is not None else None
        if place is not None and self.items[place].submission == item.submission:
            return place
        return self._by_text.get(item.submission)

    def why_none(self, graded: Iterable[DataItem | None]) -> str:
        """Why none of the graded items, None where a run does not know its items, was found."""
        known = [item for item in graded if item is not None]
        if not self.items or not known:
            return f"it has {counted(len(self.items), 'item')}"
        if {item.submission for item in known if item.submission} & {item.submission for item in self.items}:
            return "its items with the same submissions occur more than once and have no id that tells them apart"
        same_ids = {item.id for item in known} & {item.id for item in self.items} - {None}
        return f"its items have {'the same ids, but ' if same_ids else ''}other submissions"


def _warn(found: Joined) -> None:
    graded = len(found.pairs) + len(found.errored) + found.unlabelled + found.extra + found.repeated
    for count, sentence in (
        (found.extra, "of {graded} graded items are not in the dataset and are left out"),
        (found.repeated, "of {graded} graded items have the text of one before them and are left out"),
        (found.unlabelled, "of {graded} graded items have no ground truth and are left out"),
    ):
        if count:
            found.warnings.append(f"{count} {sentence.format(graded=graded)}")
    if found.missing:
        found.warnings.append(not_graded(found.missing))
    if found.errored:
        found.warnings.append(
            f"left out: {counted(len(found.errored), 'item')} without a judgment (every one failed)"
        )


def not_graded(labelled: int) -> str:
    """A sentence on items with ground truth that a run does not have.

    Example:
        >>> not_graded(1), not_graded(2)
        ('1 item with ground truth was not graded', '2 items with ground truth were not graded')
    """
    return f"{counted(labelled, 'item')} with ground truth {'was' if labelled == 1 else 'were'} not graded"
