"""What is graded: one submission under one rubric, with everything a judge may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autorubric.core.criterion import Criterion

Query: TypeAlias = str | Sequence[Mapping[str, str]]
"""What a submission answers: a text, or the turns of a conversation as `{role, content}`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One submission and its rubric.

    Attributes:
        submission: the text that is graded.
        criteria: the rubric's criteria, in order.
        query: what the submission answers: a text, or a conversation whose next turn it is.
        reference: an exemplary submission.
        guidelines: advice that holds for every criterion.
        thinking: the submission's own thinking section, where it has one.
        item: the id of the dataset row, for the ledger.
        copies: for each criterion, how many earlier cases put the same question about the same submission; empty
            where none did, or where equal cases share their replies.
    """

    submission: str
    criteria: tuple[Criterion, ...]
    query: Query | None = None
    reference: str | None = None
    guidelines: str | None = None
    thinking: str | None = None
    item: str = ""
    copies: tuple[int, ...] = ()

    def copy_of(self, wanted: Sequence[int]) -> int:
        """Which copy of its question a request about the wanted criteria is, from 0.

        The least of the criteria's numbers: each later case that puts all of these questions has a greater one.

        Example:
            >>> Case("Yes.", (), copies=(2, 1, 2)).copy_of([0, 1]), Case("Yes.", ()).copy_of([0])
            (1, 0)
        """
        return min(self.copies[index] for index in wanted) if self.copies and wanted else 0
