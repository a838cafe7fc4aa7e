"""What can be set about the gates: their order, and the thresholds of each by name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

GateName: TypeAlias = Literal["answerable", "licensed", "surface", "agreement", "separates", "redundant", "share"]
SurfaceKind = Literal["phrase", "heading", "count", "layout"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SeparatesSettings(_Strict):
    """Whether a criterion tells responses apart, and in the right direction.

    Attributes:
        merged: whether merged criteria have to as well.
        least_responses: with fewer graded responses nothing is decided.
        least_for_direction: with fewer the direction is not; three in the wrong order are so by chance once in three.
        least_separating: reject where the chance that the responses differ at all is below this.
        least_reversed: reject where the chance that better responses meet it less is this or more. Less than one
            half, since to keep such a criterion does more harm than to lose one that has nothing to do with quality.
    """

    merged: bool = False
    least_responses: int = Field(3, ge=2)
    least_for_direction: int = Field(4, ge=2)
    least_separating: float = Field(0.5, ge=0, le=1)
    least_reversed: float = Field(0.4, gt=0, le=1)


class SurfaceSettings(_Strict):
    """Which surface forms a criterion may not demand unasked.

    Attributes:
        kinds: the forms that count.
    """

    kinds: tuple[SurfaceKind, ...] = get_args(SurfaceKind)


class AgreementSettings(_Strict):
    """Whether judges agree on a criterion.

    Attributes:
        least_split: rewrite, then reject, where the chance that judges split on it is this or more.
    """

    least_split: float = Field(0.5, ge=0, le=1)


class RedundantSettings(_Strict):
    """When two criteria are one.

    Attributes:
        least_same: reject the lesser of two where the chance that they demand the same is this or more.
        prior_said_same: that chance before any verdict, where the licence judges call them the same.
        prior_alike: likewise where their words are alike.
        prior_other: likewise for any two criteria of one rubric.
        least_alike: how alike words have to be, from 0 to 1.
    """

    least_same: float = Field(0.5, ge=0, le=1)
    prior_said_same: float = Field(0.8, gt=0, lt=1)
    prior_alike: float = Field(0.5, gt=0, lt=1)
    prior_other: float = Field(0.01, gt=0, lt=1)
    least_alike: float = Field(0.6, ge=0, le=1)


class ShareSettings(_Strict):
    """How much of a rubric evolution may hold.

    Attributes:
        most: the largest share of points of evolved criteria; None for no cap.
    """

    most: float | None = Field(None, ge=0, le=1)


class GateSettings(_Strict):
    """The gates of a run.

    Attributes:
        order: the gates in the order in which they look; one that is not named is off.
        licence_draws: how many licence judgments of a query are asked and put together.
        judge_error: how often one verdict of a judge is wrong, before the pool's own disagreements are seen.
        separates: see `SeparatesSettings`; the next ones likewise.
    """

    order: tuple[GateName, ...] = get_args(GateName)
    licence_draws: int = Field(5, ge=1, le=15)
    judge_error: float = Field(0.1, gt=0, lt=0.5)
    separates: SeparatesSettings = SeparatesSettings()
    surface: SurfaceSettings = SurfaceSettings()
    agreement: AgreementSettings = AgreementSettings()
    redundant: RedundantSettings = RedundantSettings()
    share: ShareSettings = ShareSettings()

    @field_validator("order")
    @classmethod
    def _each_once(cls, order: tuple[GateName, ...]) -> tuple[GateName, ...]:
        twice = sorted({gate for gate in order if order.count(gate) > 1})
        if twice:
            raise ValueError(f"names {', '.join(twice)} twice")
        return order
