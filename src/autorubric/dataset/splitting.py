"""Splits the items of a dataset, stratified by their labels."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


_ATTEMPTS = 10
_MOST_LOOKS = 50_000_000
"""Maximum labels that the search for swaps reads: about half a second, enough for a few thousand items."""

_EVERY_ITEM = object()
"""A label that every item has, so that its share is the size of the sample."""


def sample_balanced(labels: Sequence[Collection[Hashable]], size: int, rng: random.Random) -> list[int]:
    """Return the indices of exactly `size` items in which every label has its share as closely as counts allow.

    A label of two or more items occurs both among the chosen items and among the others if there is room.

    Source: Sechidis, Tsoumakas and Vlahavas, On the stratification of multi-label data, 2011: the rarest labels are
    dealt first. Then swaps improve the shares.

    Args:
        labels: the labels of each item.
        size: how many items to choose, at most all.
        rng: equal states give equal choices.

    Example:
        >>> labels = [["a"]] * 6 + [["b"]] * 2
        >>> chosen = sample_balanced(labels, 4, random.Random(0))
        >>> len(chosen), sum(index < 6 for index in chosen)
        (4, 3)
    """
    if not 0 < size < len(labels):
        return list(range(size))
    holders = Counter(label for own in labels for label in dict.fromkeys(own))
    # A label of a single item cannot be balanced.
    total = {_EVERY_ITEM: len(labels)} | {label: count for label, count in holders.items() if count > 1}
    items = [[_EVERY_ITEM, *(label for label in dict.fromkeys(own) if label in total)] for own in labels]
    swaps = _SwapSearch(items, total, size)
    best, least = list[int](), math.inf
    # Swaps can end in a local optimum without some label; another start may then be better.
    for _ in range(_ATTEMPTS):
        chosen, cost, left_out = swaps.improve(_deal_items(items, total, size, rng), rng)
        if cost < least:
            best, least = chosen, cost
        if not left_out or swaps.looks <= 0:
            break
    return sorted(best)


def _deal_items(
    items: Sequence[Sequence[Hashable]], total: Mapping[Hashable, int], size: int, rng: random.Random
) -> list[int]:
    """Make the first choice: items, rarest labels first, go to the side that lacks more of their labels."""
    share, chosen = size / len(items), list[int]()
    lack = {label: min(max(share * count, 1.0), count - 1.0) - share * count for label, count in total.items()}
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


class _SwapSearch:
    """Swaps chosen items for others while that reduces the cost.

    The cost of a label is the square of its deviation from its share. While one side lacks it, it costs more than a
    swap can save elsewhere. Costs are scaled to integers, so that equal seeds choose equally on every machine.
    """

    def __init__(self, items: Sequence[Sequence[Hashable]], total: Mapping[Hashable, int], size: int) -> None:
        import numpy as np

        place = {label: number for number, label in enumerate(total)}
        self.items = [np.array([place[label] for label in own]) for own in items]
        self.all = np.concatenate(self.items)
        self.starts = np.cumsum([0, *map(len, items[:-1])])
        self.held = np.array(list(total.values()))
        self.shares = self.held * size
        self.missing = 6 * len(items) ** 2 * max(map(len, items))
        self.looks = _MOST_LOOKS

    def improve(self, chosen: list[int], rng: random.Random) -> tuple[list[int], int, bool]:
        """Swap items; return the result, its cost, and whether a side lacks a label."""
        import numpy as np

        number = len(self.items)
        count = np.bincount(np.concatenate([self.items[index] for index in chosen]), minlength=len(self.held))
        is_chosen = np.zeros(number, bool)
        is_chosen[chosen] = True
        waiting = rng.sample(chosen, len(chosen))
        while waiting and self.looks > 0:
            mine = waiting.pop()
            own = self.items[mine]
            count[own] -= 1
            # The cost of each item in its place: the increase of the squares for one more of each of its labels.
            added = 2 * (count * number - self.shares) + number
            added += self.missing * ((count + 1 == self.held) * 1 - (count == 0))
            cost = np.add.reduceat(added[self.all], self.starts)
            cost[is_chosen] = cost[mine]
            self.looks -= len(self.all)
            other = int(cost.argmin())
            if cost[other] < cost[mine]:
                is_chosen[[mine, other]] = False, True
                own = self.items[other]
                now = np.flatnonzero(is_chosen).tolist()
                waiting = rng.sample(now, len(now))
            count[own] += 1
        squares = sum(int(gap) ** 2 for gap in count * number - self.shares)
        lacking = int(((count == 0) | (count == self.held)).sum())
        return np.flatnonzero(is_chosen).tolist(), squares + lacking * self.missing * number, lacking > 0


def split_indices(
    dataset: RubricDataset, n_train: int, *, stratify: bool, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Return the indices of the `n_train` items of one side and of the rest, both in random order.

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
    strata = [_list_strata(dataset, index) for index in range(len(dataset))]
    chosen = set(sample_balanced(strata, n_train, rng))
    return [i for i in everything if i in chosen], [i for i in everything if i not in chosen]


def _list_strata(dataset: RubricDataset, index: int) -> list[tuple[str | int, str]]:
    """Return a label for each criterion: its name (or position) and the verdict, case-folded and stripped."""
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
