"""Finds the items and criteria of a run in a dataset, and copies labels between datasets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError, pluralize


@dataclass
class ItemIndex:
    """Finds the items of a run in a dataset.

    An item matches the one at the same place if the text is the same, else the one with the same id or text. So
    labels may come in another order, or for only some of the items.
    """

    items: Sequence[DataItem]
    _by_id: dict[str, int] | None = field(default=None, init=False)
    _by_text: dict[str, int] = field(default_factory=dict, init=False)

    def find(self, index: int, item: DataItem | None) -> int | None:
        """Return the place of the run's item `index`; `index` itself if the run does not store its items."""
        inside = 0 <= index < len(self.items)
        if item is None or not item.submission:
            return index if inside else None
        if inside and (self.items[index] is item or self.items[index].submission == item.submission):
            return index
        if self._by_id is None:
            self._by_id = {known.id: place for place, known in enumerate(self.items) if known.id is not None}
            # A text that occurs more than once does not identify an item.
            repeated = {known.submission: place for place, known in enumerate(self.items)}
            first = {known.submission: place for place, known in reversed(list(enumerate(self.items)))}
            self._by_text = {text: place for text, place in first.items() if repeated[text] == place}
        place = self._by_id.get(item.id) if item.id is not None else None
        if place is not None and self.items[place].submission == item.submission:
            return place
        return self._by_text.get(item.submission)

    def explain_no_match(self, graded: Iterable[DataItem | None]) -> str:
        """Explain why none of the graded items was found."""
        known = [item for item in graded if item is not None]
        if not self.items or not known:
            return f"it has {pluralize(len(self.items), 'item')}"
        if {item.submission for item in known if item.submission} & {item.submission for item in self.items}:
            return "its items with the same submissions occur more than once and have no id that distinguishes them"
        same_ids = {item.id for item in known} & {item.id for item in self.items} - {None}
        return f"its items have {'the same ids, but ' if same_ids else ''}other submissions"


def match_criteria(
    texts: Sequence[tuple[str | None, str]], criteria: Sequence[Criterion]
) -> list[int] | range | None:
    """Find the place of each criterion in a report, by requirement or name; None if the report has other criteria."""
    if len(texts) != len(criteria):
        return None
    pairs = list(zip(texts, criteria, strict=True))
    if all(requirement == c.requirement for (_, requirement), c in pairs) or all(
        name is not None and name == c.name for (name, _), c in pairs
    ):
        return range(len(texts))
    places = {requirement: place for place, (_, requirement) in enumerate(texts)}
    ordered = [places[criterion.requirement] for criterion in criteria if criterion.requirement in places]
    return ordered if len(set(ordered)) == len(criteria) else None


def describe_mismatch(index: int, item: DataItem, texts: Sequence[tuple[str | None, str]], rubric: Rubric) -> str:
    """Describe how a report's criteria differ from those of its item's rubric."""
    if len(texts) != len(rubric):
        detail = f"the report has {pluralize(len(texts), 'criterion')}, its rubric {len(rubric)}"
    else:
        known = {criterion.requirement for criterion in rubric}
        other = next((name or requirement for name, requirement in texts if requirement not in known), None)
        detail = (
            "several criteria have the same requirement, so they cannot be distinguished"
            if other is None
            else f"the report judges {other!r}, which its rubric in the dataset does not have"
        )
    return f"item {item.id or index}: {detail}"


def describe_ungraded(labelled: int) -> str:
    """Return a note on items with ground truth that the run did not grade."""
    return f"{pluralize(labelled, 'item')} with ground truth {'was' if labelled == 1 else 'were'} not graded"


def relabel(graded: RubricDataset, labels: RubricDataset) -> tuple[RubricDataset, list[str]]:
    """Return the graded items with the ground truth of another dataset, and notes on what did not match.

    Items are matched by `ItemIndex`, criteria by their text, in any order. A graded item that is not in `labels` gets
    no ground truth.

    Args:
        graded: what was graded.
        labels: the same items, or some of them, with ground truth.

    Raises:
        InputError: no item is in both, or labels are for other criteria.

    Example:
        >>> rubric = Rubric([Criterion(requirement="Is brief")])
        >>> graded = RubricDataset("Explain.", rubric, [DataItem("A", ""), DataItem("B", "")])
        >>> made, notes = relabel(graded, RubricDataset("Explain.", rubric, [DataItem("B", "", ["MET"])]))
        >>> [item.ground_truth for item in made]
        [None, [<CriterionVerdict.MET: 'MET'>]]
        >>> notes
        ['1 of 2 graded items are not in the dataset of labels and count as unlabelled']
    """
    places, items, found = ItemIndex(labels.items), list[DataItem](), set[int]()
    problems: list[str] = []
    for index, item in enumerate(graded.items):
        place = places.find(index, item)
        truth = None
        if place is not None:
            found.add(place)
            truth = _reorder_labels(graded.get_item_rubric(index), place, labels, problems)
        items.append(replace(item, ground_truth=truth, ground_truth_reasons=None))
    if not found:
        why = places.explain_no_match(graded.items)
        raise InputError(f"none of the {len(items)} graded items is in the dataset; {why}")
    if problems:
        raise InputError(problems)
    notes = []
    if without := len(items) - len(found):
        notes.append(
            f"{without} of {len(items)} graded items are not in the dataset of labels and count as unlabelled"
        )
    left = sum(item.ground_truth is not None for place, item in enumerate(labels.items) if place not in found)
    if left:
        notes.append(describe_ungraded(left))
    return replace(graded, items=items), notes


def _reorder_labels(
    rubric: Rubric, place: int, labels: RubricDataset, problems: list[str]
) -> list[CriterionVerdict | str] | None:
    """Return the labels of an item in the order of the rubric that it was graded by."""
    truth, theirs = labels.items[place].ground_truth, labels.get_item_rubric(place)
    if truth is None:
        return None
    order = match_criteria([(c.name, c.requirement) for c in theirs], rubric.rubric)
    if order is None:
        texts = [(c.name, c.requirement) for c in rubric]
        problems.append(describe_mismatch(place, labels.items[place], texts, theirs))
        return None
    return [truth[at] for at in order]
