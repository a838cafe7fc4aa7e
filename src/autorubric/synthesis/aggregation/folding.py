"""In which order sets are merged that do not fit one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from autorubric.synthesis.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Fold:
    """A balanced tree of merges.

    Attributes:
        order: which set stands in which slot: slot `i` holds set `order[i]`.
        merges: pairs of slots; the result of merge `k` of `n` sets is slot `n + k`. They depend on `n` alone, so
            that a plan can name them before a record is known; only `order` is the record's own.
    """

    order: tuple[int, ...]
    merges: tuple[tuple[int, int], ...]

    @property
    def rounds(self) -> int:
        """How many merges stand between a set and the result, at most."""
        return max(len(self.order) - 1, 0).bit_length()


def fold_order(n: int, seed: int | str) -> Fold:
    """How `n` sets are merged two at a time, in the fewest rounds and an order that is drawn.

    Args:
        n: the number of sets, at least 1.
        seed: the record's own, so that order effects do not all point the same way.

    Example:
        >>> fold = fold_order(5, "q1")
        >>> fold.merges, fold.rounds, sorted(fold.order)
        (((0, 1), (2, 3), (4, 5), (6, 7)), 3, [0, 1, 2, 3, 4])
    """
    if n < 1:
        raise ValueError(f"a fold needs at least one set, got {n}")
    order = list(range(n))
    Random(f"fold|{seed}").shuffle(order)
    merges: list[tuple[int, int]] = []
    level = list(range(n))
    while len(level) > 1:
        # The odd one goes first next time: it would else be merged once where others were merged thrice.
        odd = [level.pop()] if len(level) % 2 else []
        merged = []
        for left, right in zip(level[::2], level[1::2], strict=True):
            merged.append(n + len(merges))
            merges.append((left, right))
        level = [*odd, *merged]
    return Fold(tuple(order), tuple(merges))


def fits(sets: Sequence[Sequence[Candidate]], most_characters: int) -> bool:
    """Whether all sets fit one merge request of so many characters of criteria.

    Example:
        >>> fits([[Candidate("a1", "Dose", "Names the dose.", 5)]], 100)
        True
    """
    return sum(_length(criterion) for one in sets for criterion in one) <= most_characters


_FRAME = 60  # characters of keys, quotes and weight around a criterion as JSON


def _length(criterion: Candidate) -> int:
    return len(criterion.id) + len(criterion.title) + len(criterion.description) + _FRAME
