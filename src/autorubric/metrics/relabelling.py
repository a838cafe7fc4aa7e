"""A graded dataset with the labels of another."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from autorubric.core.verdict import CriterionVerdict
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.joining import Places, not_graded, other_criteria, places_of


def relabelled(graded: RubricDataset, labels: RubricDataset) -> tuple[RubricDataset, list[str]]:
    """The graded items with the ground truth that another dataset has for them, and sentences on what did not fit.

    Items are found as `autorubric.metrics.joining.join` finds them, criteria by their text, whatever the order of
    either. A graded item that the labels do not have has no ground truth.

    Args:
        graded: what was graded.
        labels: the same items, or some of them, with ground truth.

    Raises:
        InputError: no item is in both, or labels are for other criteria.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.core.rubric import Rubric
        >>> rubric = Rubric([Criterion(requirement="Is brief")])
        >>> graded = RubricDataset("Explain.", rubric, [DataItem("A", ""), DataItem("B", "")])
        >>> made, notes = relabelled(graded, RubricDataset("Explain.", rubric, [DataItem("B", "", ["MET"])]))
        >>> [item.ground_truth for item in made]
        [None, [<CriterionVerdict.MET: 'MET'>]]
        >>> notes
        ['1 of 2 graded items are not in the dataset of labels and count as unlabelled']
    """
    places, items, found = Places(labels), list[DataItem](), set[int]()
    problems: list[str] = []
    for index, item in enumerate(graded.items):
        place = places.find(SimpleNamespace(item_idx=index, item=item))
        truth = None
        if place is not None:
            found.add(place)
            truth = _truth(index, graded, place, labels, problems)
        items.append(replace(item, ground_truth=truth, ground_truth_reasons=None))
    if not found:
        raise InputError(f"none of the {len(items)} graded items is in the dataset; {places.why_none(graded.items)}")
    if problems:
        raise InputError(problems)
    return replace(graded, items=items), _notes(graded, labels, found)


def _truth(
    index: int, graded: RubricDataset, place: int, labels: RubricDataset, problems: list[str]
) -> list[CriterionVerdict | str] | None:
    truth = labels.items[place].ground_truth
    if truth is None:
        return None
    theirs = labels.get_item_rubric(place)
    order = places_of(theirs.rubric, graded.get_item_rubric(index).rubric)
    if order is None:
        problems.append(other_criteria(place, labels.items[place], graded.get_item_rubric(index).rubric, theirs))
        return None
    return [truth[at] for at in order]


def _notes(graded: RubricDataset, labels: RubricDataset, found: set[int]) -> list[str]:
    left = sum(item.ground_truth is not None for place, item in enumerate(labels.items) if place not in found)
    without = len(graded) - len(found)
    counted = (
        (
            without,
            f"{without} of {len(graded)} graded items are not in the dataset of labels and count as unlabelled",
        ),
        (left, not_graded(left)),
    )
    return [sentence for count, sentence in counted if count]
