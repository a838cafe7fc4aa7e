"""What a judge or a person says about one criterion, and what becomes of "cannot say"."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict, Field


class CriterionVerdict(str, Enum):  # noqa: UP042 (published base classes)
    """The verdict on a binary criterion.

    Example:
        >>> CriterionVerdict("MET") is CriterionVerdict.MET
        True
    """

    MET = "MET"
    UNMET = "UNMET"
    CANNOT_ASSESS = "CANNOT_ASSESS"


class CannotAssessStrategy(str, Enum):  # noqa: UP042 (published base classes)
    """What an abstention (CANNOT_ASSESS, or an option that is not applicable) does to the score.

    SKIP leaves the criterion out; ZERO gives it nothing; PARTIAL gives positive criteria a part of their
    weight; FAIL takes the worst case, which for a negative weight is the whole penalty.
    """

    SKIP = "skip"
    ZERO = "zero"
    PARTIAL = "partial"
    FAIL = "fail"


class CannotAssessConfig(BaseModel):
    """How to score abstentions.

    Attributes:
        strategy: what an abstention does.
        partial_credit: the part of the weight that PARTIAL gives, in [0, 1].

    Example:
        >>> CannotAssessConfig(strategy="partial").partial_credit
        0.5
    """

    model_config = ConfigDict(frozen=True)

    strategy: CannotAssessStrategy = CannotAssessStrategy.SKIP
    partial_credit: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)
