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
    """

    submission: str
    criteria: tuple[Criterion, ...]
    query: Query | None = None
    reference: str | None = None
    guidelines: str | None = None
    thinking: str | None = None
    item: str = ""
