"""Which items of a dataset are equal, so that each can be asked about by requests of its own."""

from __future__ import annotations

from collections import Counter

from autorubric.dataset import RubricDataset
from autorubric.graders.case import Case
from autorubric.graders.occurrences import Occurrences


def copies_in(dataset: RubricDataset) -> dict[int, tuple[int, ...]]:
    """`Case.copies` of the items whose submission, prompt, reference and guidelines another item has as well.

    The numbers follow the order of the dataset. Where items are added, removed or moved, only equal items exchange
    their replies, and no other item's requests change.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.core.rubric import Rubric
        >>> dataset = RubricDataset("Agree?", Rubric([Criterion(requirement="Is brief")]))
        >>> for text in ("Yes.", "No.", "Yes."):
        ...     dataset.add_item(text, "")
        >>> copies_in(dataset)
        {0: (0,), 2: (1,)}
    """
    keys = [hash(_told(dataset, index)) for index in range(len(dataset))]
    count, met, found = Counter(keys), Occurrences(), {}
    for index, key in enumerate(keys):
        if count[key] > 1:
            submission, query, reference, guidelines = _told(dataset, index)
            criteria = tuple(dataset.get_item_rubric(index))
            found[index] = met.numbered(Case(submission, criteria, query, reference, guidelines)).copies
    return found


def _told(dataset: RubricDataset, index: int) -> tuple[str, str, str | None, str | None]:
    """What judges are told of an item, apart from its criteria."""
    prompt, reference = dataset.get_item_prompt(index), dataset.get_item_reference_submission(index)
    return dataset[index].submission, prompt, reference, dataset.get_item_rubric(index).guidelines
