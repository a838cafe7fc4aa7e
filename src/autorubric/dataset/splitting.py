"""Which items of a dataset go to which side of a split."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from autorubric.core.stratification import balanced_sample
from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


def split_indices(
    dataset: RubricDataset, n_train: int, *, stratify: bool, rng: random.Random
) -> tuple[list[int], list[int]]:
    """The indices of the `n_train` items of one side and of the rest, both in random order.

    Raises:
        InputError: `n_train` is out of range, or items lack the ground truth to stratify by.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> split_indices(RubricDataset("Explain"), 0, stratify=True, rng=random.Random(0))
        ([], [])
    """
    if n_train < 0:
        raise InputError(f"n_train must be non-negative, got {n_train}")
    if n_train > len(dataset):
        raise InputError(f"n_train ({n_train}) exceeds dataset size ({len(dataset)})")
    everything = list(range(len(dataset)))
    rng.shuffle(everything)
    if not stratify:
        return everything[:n_train], everything[n_train:]
    strata = [_strata(dataset, index) for index in range(len(dataset))]
    chosen = set(balanced_sample(strata, n_train, rng))
    return [i for i in everything if i in chosen], [i for i in everything if i not in chosen]


def _strata(dataset: RubricDataset, index: int) -> list[tuple[str | int, str]]:
    """A label for each criterion: its name (or position) and the verdict, whatever its case and spaces."""
    truth = dataset.items[index].ground_truth
    if truth is None:
        raise InputError(
            "Stratified split requires ground_truth on all items. Use stratify=False to split without it; "
            f"item {index} has none"
        )
    own = dataset.items[index].rubric
    keys: list[str | int] = list(range(len(truth)))
    if own is not None:
        keys = [criterion.name or position for position, criterion in enumerate(own)]
    elif dataset.rubric is not None:
        keys = [criterion.name or position for position, criterion in enumerate(dataset.rubric)]
    return [(key, str.__str__(verdict).strip().casefold()) for key, verdict in zip(keys, truth, strict=True)]
