"""A change to a criterion: its replacement, how the verdicts are combined, and its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.core.rubric import Rubric
from autorubric.metrics.table import ABSTAINED, FAILED

Kind: TypeAlias = Literal["original", "reword", "split", "anchor", "check"]
KINDS: tuple[Kind, ...] = ("reword", "split", "anchor", "check")
IMPROVED = "improved"
"""The key of a criterion's metadata that contains the provenance of its wording."""


@dataclass(frozen=True)
class Wording:
    """One version of a criterion.

    Attributes:
        name: unique in a run, such as `Cause/1.2`: the second candidate of the first round.
        place: the criterion's index in the rubric.
        requirements: the new text; two texts for a split.
        kind: the kind of change.
        check: the check that decides, for a criterion decided by a check.
        author: the model that wrote it, or the file of proposals.
        reason: the author's reason.
        parent: the version that it revises.
    """

    name: str
    place: int
    requirements: tuple[str, ...]
    kind: Kind = "original"
    check: Mapping[str, Any] | None = field(default=None, hash=False)
    author: str = ""
    reason: str = ""
    parent: str = ""

    def to_criteria(self, rubric: Rubric) -> list[Criterion]:
        """Return the criteria that replace the original in the rubric; weight, options, section and tags are kept.

        A split gives two criteria with half of the weight each.

        Example:
            >>> rubric = Rubric([Criterion(name="Cause", weight=4, requirement="Names causes.")])
            >>> two = Wording("Cause/1.1", 0, ("Names the heat.", "Names the wind."), "split")
            >>> [(one.name, one.weight) for one in two.to_criteria(rubric)]
            [('Cause (1)', 2.0), ('Cause (2)', 2.0)]
        """
        old = rubric[self.place]
        if self.kind == "original":
            return [old]
        check = None if self.check is None else dict(self.check)
        if len(self.requirements) == 1:
            return [old.model_copy(update={"requirement": self.requirements[0], "check": check})]
        name = name_criteria(list(rubric))[self.place]
        return [
            old.model_copy(
                update={
                    "requirement": text,
                    "check": None,
                    "weight": old.weight / len(self.requirements),
                    "name": f"{name} ({number})",
                    "id": None if old.id is None else f"{old.id}.{number}",
                }
            )
            for number, text in enumerate(self.requirements, start=1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {  # in the order of stored files
            "name": self.name,
            "place": self.place,
            "kind": self.kind,
            "requirements": list(self.requirements),
            "check": None if self.check is None else dict(self.check),
            "author": self.author,
            "reason": self.reason,
            "parent": self.parent,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Wording:
        """Build a wording from JSON values."""
        return cls(**{**record, "requirements": tuple(record["requirements"])})


def build_original(rubric: Rubric, place: int) -> Wording:
    """Return the version that is in the rubric."""
    old = rubric[place]
    return Wording(name_criteria(list(rubric))[place], place, (old.requirement,), check=old.check)


@dataclass(frozen=True)
class WordingOutcome:
    """The result of a judge on one item under one wording.

    Attributes:
        code: the category (see `measures.list_categories`), `ABSTAINED` or `FAILED`.
        votes: the code of each judge of a panel.
        reason: the explanation.
        value: the value of the verdict; None without one. 0.5 for a split with one half met.
        outage: whether the endpoint failed, so that the same call may succeed later.
    """

    code: int
    votes: tuple[int, ...] = ()
    reason: str = ""
    value: float | None = None
    outage: bool = False


Outcomes: TypeAlias = Mapping[int, WordingOutcome]
"""The result of a judge on each item, by index."""


def read_outcome(criterion: Criterion, judgments: Sequence[Judgment]) -> WordingOutcome:
    """Combine the judgments on a wording's criteria into one outcome.

    A split counts as met if both halves are; a split pitfall, if one of them is.

    Example:
        >>> said = [Judgment("j", verdict=CriterionVerdict(word)) for word in ("MET", "UNMET")]
        >>> read_outcome(Criterion(requirement="Names both"), said).code
        1
        >>> read_outcome(Criterion(requirement="Invents a source", weight=-2), said).code
        0
    """
    codes = [_encode(criterion, judgment) for judgment in judgments]
    each = [
        _combine_codes(criterion, [FAILED if vote is None else _encode(criterion, vote) for vote in votes])
        for votes in zip_longest(*(judgment.votes for judgment in judgments))
    ]
    code = _combine_codes(criterion, codes)
    reason = " / ".join(judgment.reason for judgment in judgments if judgment.reason)
    outage = any(
        judgment.failure is not None and judgment.failure.category == "infrastructure" for judgment in judgments
    )
    return WordingOutcome(code, tuple(each), reason, _compute_value(criterion, codes), outage)


def _encode(criterion: Criterion, judgment: Judgment) -> int:
    if judgment.failure is not None:
        return FAILED
    if judgment.option is not None:
        options = criterion.options or []
        # An option beyond the criterion's own is the "not applicable" option that is added for judges.
        applies = judgment.option < len(options) and not options[judgment.option].na
        return judgment.option if applies else ABSTAINED
    if judgment.verdict is None or judgment.verdict is CriterionVerdict.CANNOT_ASSESS:
        return ABSTAINED
    return 0 if judgment.verdict is CriterionVerdict.MET else 1


def _combine_codes(criterion: Criterion, codes: Sequence[int]) -> int:
    for lacking in (FAILED, ABSTAINED):
        if lacking in codes:
            return lacking
    if len(codes) == 1:
        return codes[0]
    met = [code == 0 for code in codes]
    return 0 if (any(met) if criterion.weight < 0 else all(met)) else 1


def _compute_value(criterion: Criterion, codes: Sequence[int]) -> float | None:
    if min(codes) < 0:
        return None
    if criterion.options is not None:
        return criterion.options[codes[0]].value
    return sum(code == 0 for code in codes) / len(codes)
