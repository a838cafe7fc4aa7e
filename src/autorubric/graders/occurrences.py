"""Tells apart equal questions about equal submissions, so that each is a request of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from hashlib import blake2b

from autorubric.core.criterion import Criterion
from autorubric.graders.case import Case


class Occurrences:
    """Numbers the questions of cases in the order in which the cases are given.

    A question is a criterion as judges are shown it, with everything else that is in its prompt: submission,
    thinking, query, reference and guidelines. Its first occurrence has number 0.

    Args:
        most: questions remembered; the one that was not met for the longest is forgotten first. None for all.

    Example:
        >>> brief, polite = (Criterion(requirement=words) for words in ("Is brief", "Is polite"))
        >>> met = Occurrences()
        >>> met.numbered(Case("Yes.", (brief,))).copies, met.numbered(Case("No.", (brief,))).copies
        ((0,), (0,))
        >>> met.numbered(Case("Yes.", (polite, brief))).copies
        (0, 1)
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._met: OrderedDict[Hashable, int] = OrderedDict()

    def numbered(self, case: Case) -> Case:
        """The case with the number of each of its questions; a criterion that it has twice is one question."""
        told = repr((case.submission, case.thinking, case.query, case.reference, case.guidelines))
        digest = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        questions = [(digest, _as_shown(criterion)) for criterion in case.criteria]
        numbers = {question: self._met.get(question, 0) for question in questions}
        for question, number in numbers.items():
            self._met[question] = number + 1
            self._met.move_to_end(question)
        while self._most is not None and len(self._met) > self._most:
            self._met.popitem(last=False)
        return replace(case, copies=tuple(numbers[question] for question in questions))


def _as_shown(criterion: Criterion) -> Hashable:
    """What judges are shown of a criterion."""
    labels = tuple(option.label for option in criterion.options or ())
    return criterion.requirement, criterion.weight < 0, labels
