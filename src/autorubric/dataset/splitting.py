"""Which items of a dataset go to which side of a split."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


# Beyond this many items a round of swaps looks at a random part of each side.
_MOST_CANDIDATES = 1_000
_MOST_PAIRS = 20_000


def balanced_sample(labels: Sequence[Collection[Hashable]], size: int, rng: random.Random) -> list[int]:
    """The indices of exactly `size` items in which every label has its share as closely as counts allow.

    A label of two or more items is found among the chosen and among the others, where they have room for it.

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
    # Swaps can end where no single one helps and yet a label is left out; then another start may do better.
    attempts = 20 if len(labels) <= _MOST_CANDIDATES else 3
    best: _Split | None = None
    for _ in range(attempts):
        split = _Split(labels, size)
        split.deal(rng)
        split.refine(rng)
        if best is None or split.cost() < best.cost():
            best = split
        if not best.left_out():
            break
    return [] if best is None else [index for index, chosen in enumerate(best.chosen) if chosen]


class _Split:
    """A division of the items into chosen and others, with the counts of labels among the chosen."""

    def __init__(self, labels: Sequence[Collection[Hashable]], size: int) -> None:
        # A label of one item lies wholly on one side, whichever: there is nothing to balance.
        holders = Counter(label for found in labels for label in dict.fromkeys(found))
        numbers = {label: number for number, label in enumerate(x for x, held in holders.items() if held > 1)}
        self.labels = [sorted({numbers[label] for label in found if label in numbers}) for found in labels]
        self.size = size
        self.share = size / len(labels)
        self.chosen = [False] * len(labels)
        found = Counter(number for own in self.labels for number in own)
        self.total = [found[number] for number in range(len(numbers))]
        self.count = [0] * len(numbers)
        # More than the largest sum of squared deviations that a swap can change.
        widest = max((len(own) for own in self.labels), default=0)
        self.missing_cost = 4.0 * (widest + 1) * (len(labels) + 1)

    def cost(self) -> float:
        """The sum of squared deviations, and the price of every label that is left out of a side."""
        return sum(self._cost(label, count) for label, count in enumerate(self.count))

    def left_out(self) -> bool:
        """Whether one side lacks a label of two or more items."""
        return any(count in (0, total) for count, total in zip(self.count, self.total, strict=True))

    def deal(self, rng: random.Random) -> None:
        """Give each item, in random order, to the side where its labels lag behind."""
        order = list(range(len(self.labels)))
        rng.shuffle(order)
        lead = [0.0] * len(self.count)
        share, room, taken_lead = self.share, self.size, 0.0
        for place, index in enumerate(order):
            own = self.labels[index]
            pull = sum(lead[label] for label in own) + taken_lead + (len(own) + 1) * (0.5 - share)
            left = len(order) - place
            take = room == left or (room > 0 and (pull < 0 or (pull == 0 and rng.random() < share)))
            step = 1.0 - share if take else -share
            taken_lead += step
            for label in own:
                lead[label] += step
            if take:
                room -= 1
                self._move(index, True)

    def refine(self, rng: random.Random) -> None:
        """Swap chosen items for others as long as that brings the counts nearer to their ideals."""
        inside = [index for index, chosen in enumerate(self.chosen) if chosen]
        outside = [index for index, chosen in enumerate(self.chosen) if not chosen]
        patience = 3
        for _ in range(200 + 20 * len(self.count)):
            swap = self._best_swap(self._candidates(inside, rng), self._candidates(outside, rng))
            if swap is None:
                patience -= 1
                if patience == 0 or max(len(inside), len(outside)) <= _MOST_CANDIDATES:
                    return
                continue
            leaving, joining = swap
            self._move(leaving, False)
            self._move(joining, True)
            inside[inside.index(leaving)] = joining
            outside[outside.index(joining)] = leaving

    def _candidates(self, side: list[int], rng: random.Random) -> list[int]:
        if len(side) <= _MOST_CANDIDATES:
            return side
        wanted = {label for label, count in enumerate(self.count) if count in (0, self.total[label])}
        urgent = [index for index in side if not wanted.isdisjoint(self.labels[index])] if wanted else []
        return urgent[:_MOST_CANDIDATES] or rng.sample(side, _MOST_CANDIDATES)

    def _best_swap(self, inside: list[int], outside: list[int]) -> tuple[int, int] | None:
        """The swap that lowers the cost most, or None; pairs that cannot beat the best are not looked at."""
        joins, leaves = (
            [self._cost(label, count + step) - self._cost(label, count) for label, count in enumerate(self.count)]
            for step in (1, -1)
        )
        # A label that both items carry stays as it is: what was counted for it is taken back.
        both = [up + down for up, down in zip(joins, leaves, strict=True)]
        ins = sorted((sum(leaves[label] for label in self.labels[index]), index) for index in inside)
        outs = sorted((sum(joins[label] for label in self.labels[index]), index) for index in outside)
        best, found, pairs = -1e-9, None, 0
        for leaving_cost, leaving in ins:
            own = set(self.labels[leaving])
            most_shared = sum(max(both[label], 0.0) for label in own)
            for joining_cost, joining in outs:
                if leaving_cost + joining_cost - most_shared >= best:
                    break
                pairs += 1
                shared = sum(both[label] for label in self.labels[joining] if label in own)
                if leaving_cost + joining_cost - shared < best:
                    best, found = leaving_cost + joining_cost - shared, (leaving, joining)
            if pairs > _MOST_PAIRS:
                break
        return found

    def _cost(self, label: int, count: int) -> float:
        total = self.total[label]
        deviation = count - total * self.share
        missing = count <= 0 or count >= total
        return deviation * deviation + (self.missing_cost if missing else 0.0)

    def _move(self, index: int, chosen: bool) -> None:
        self.chosen[index] = chosen
        for label in self.labels[index]:
            self.count[label] += 1 if chosen else -1


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
