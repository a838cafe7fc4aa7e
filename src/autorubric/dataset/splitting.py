"""Which items of a dataset go to which side of a split."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


_ATTEMPTS = 10
_PASSES = 20
_MOST_PAIRS = 5_000
"""Pairs of items that one pass of swaps looks at, drawn at random where there are more."""

_EVERY_ITEM = object()
"""A label of all items: its share is the size of the sample."""


def balanced_sample(labels: Sequence[Collection[Hashable]], size: int, rng: random.Random) -> list[int]:
    """The indices of exactly `size` items in which every label has its share as closely as counts allow.

    A label of two or more items is found among the chosen and among the others, where they have room for it.

    Source: Sechidis, Tsoumakas and Vlahavas, On the stratification of multi-label data, 2011: the rarest labels are
    dealt first. Swaps then come nearer to the shares.

    Args:
        labels: the labels of each item.
        size: how many items to choose, at most all.
        rng: the source of chance; equal states give equal choices.

    Example:
        >>> labels = [["a"]] * 6 + [["b"]] * 2
        >>> chosen = balanced_sample(labels, 4, random.Random(0))
        >>> len(chosen), sum(index < 6 for index in chosen)
        (4, 3)
    """
    if not 0 < size < len(labels):
        return list(range(size))
    holders = Counter(label for own in labels for label in dict.fromkeys(own))
    # A label of one item lies wholly on one side, whichever: there is nothing to balance.
    total = {_EVERY_ITEM: len(labels)} | {label: held for label, held in holders.items() if held > 1}
    items = [[_EVERY_ITEM, *(label for label in dict.fromkeys(own) if label in total)] for own in labels]
    missing = 6.0 * len(items) * max(map(len, items))  # more than the squares that a swap can change

    def cost(label: Hashable, count: int) -> float:
        """The square of the deviation, and the price of a side without the label."""
        deviation = count - total[label] * size / len(items)
        return deviation * deviation + (0.0 if 0 < count < total[label] else missing)

    best, least = list[int](), math.inf
    # Swaps can end where no single one helps and yet a label is left out; then another start may do better.
    for _ in range(_ATTEMPTS):
        chosen, count = _swapped(items, _dealt(items, total, size, rng), cost, rng)
        whole = sum(cost(label, count[label]) for label in total)
        if whole < least:
            best, least = chosen, whole
        if all(0 < count[label] < held for label, held in total.items()):
            break
    return sorted(best)


def _dealt(
    items: Sequence[Sequence[Hashable]], total: Mapping[Hashable, int], size: int, rng: random.Random
) -> list[int]:
    """Items given, label by label from the rarest on, to the side that lacks the larger shares of their labels."""
    share, chosen = size / len(items), list[int]()
    lack = {label: min(max(share * held, 1.0), held - 1.0) - share * held for label, held in total.items()}
    order = rng.sample(range(len(items)), len(items))
    rarest = [min(own, key=lambda label: total[label]) for own in items]
    rank = {label: place for place, label in enumerate(dict.fromkeys(rarest[index] for index in order))}
    order.sort(key=lambda index: (total[rarest[index]], rank[rarest[index]]))
    for place, index in enumerate(order):
        room, left = size - len(chosen), len(order) - place
        take = room == left or (room > 0 and sum(lack[label] / total[label] for label in items[index]) > 0)
        if take:
            chosen.append(index)
        for label in items[index]:
            lack[label] -= take - share
    return chosen


def _swapped(
    items: Sequence[Sequence[Hashable]],
    chosen: list[int],
    cost: Callable[[Hashable, int], float],
    rng: random.Random,
) -> tuple[list[int], Counter[Hashable]]:
    """Chosen items swapped for others as long as that costs less; with the counts of their labels."""
    others = sorted({*range(len(items))} - {*chosen})
    count = Counter(label for index in chosen for label in items[index])
    for _ in range(_PASSES):
        before, pairs = chosen.copy(), len(chosen) * len(others)
        for pair in rng.sample(range(pairs), min(pairs, _MOST_PAIRS)):
            mine, other = divmod(pair, len(others))
            change = Counter(items[others[other]])
            change.subtract(items[chosen[mine]])
            steps = [(label, step) for label, step in change.items() if step]
            if sum(cost(label, count[label] + step) - cost(label, count[label]) for label, step in steps) < -1e-9:
                chosen[mine], others[other] = others[other], chosen[mine]
                count.update(change)
        if chosen == before:
            break
    return chosen, count


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
