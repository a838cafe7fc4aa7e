"""Thresholds of the full profile: gates, filters, compiled checks."""

from typing import Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from autorubric.settings import Settings

GateName: TypeAlias = Literal["answerable", "licensed", "surface", "agreement", "separates", "redundant", "share"]
SurfaceKind = Literal["phrase", "heading", "count", "layout", "link"]


class SeparatesSettings(Settings):
    """Whether a criterion discriminates between responses, in the right direction.

    Attributes:
        merged: whether merged criteria are tested as well.
        least_responses: with fewer graded responses, nothing is decided.
        least_for_direction: with fewer, the direction is not decided, because three are in the wrong order by chance
            one time in three.
        least_separating: reject if the chance that the responses differ at all is below this.
        least_reversed: reject if the chance that better responses meet it less often is at least this. The default is
            below one half, because keeping such a criterion does more harm than losing one unrelated to quality.
    """

    merged: bool = False
    least_responses: int = Field(3, ge=2)
    least_for_direction: int = Field(4, ge=2)
    least_separating: float = Field(0.5, ge=0, le=1)
    least_reversed: float = Field(0.4, gt=0, le=1)


class SurfaceSettings(Settings):
    """The surface forms that a criterion may demand only if the query asks for them.

    Attributes:
        kinds: the forms that count.
    """

    kinds: tuple[SurfaceKind, ...] = get_args(SurfaceKind)


class AgreementSettings(Settings):
    """Whether judges agree on a criterion.

    Attributes:
        least_split: rewrite, then reject, if the chance that judges split on it is at least this.
    """

    least_split: float = Field(0.5, ge=0, le=1)


class RedundantSettings(Settings):
    """When two criteria count as one.

    Attributes:
        least_same: reject the one of lower weight if the chance that both make the same demand is at least this.
        prior_said_same: that chance before any verdict, if the relevance judges call them the same.
        prior_alike: that chance if their words are similar.
        prior_other: that chance for any two criteria of a rubric; with 0, equal verdicts alone are never enough.
        least_alike: the minimum similarity of words, from 0 to 1.
    """

    least_same: float = Field(0.5, ge=0, le=1)
    prior_said_same: float = Field(0.8, gt=0, lt=1)
    prior_alike: float = Field(0.5, gt=0, lt=1)
    prior_other: float = Field(0.0, ge=0, lt=1)
    least_alike: float = Field(0.6, ge=0, le=1)


class ShareSettings(Settings):
    """The maximum share of evolved criteria in a rubric.

    Attributes:
        most: the largest share of points of evolved criteria; None for no cap.
    """

    most: float | None = Field(None, ge=0, le=1)


class GateSettings(Settings):
    """The gates of a run.

    Attributes:
        order: the gates in the order in which they decide; a gate that is not named is off.
        licence_draws: the number of relevance judgments of a query that are requested and combined.
        judge_error: the prior error rate of a judge's verdict, before the disagreements in the pool are counted.
        least_error: the minimum error rate assumed for a vote of a judge or draw without labels. Votes that disagree
            less often than independent ones with that rate are taken to share errors, and count for less; 0 counts
            all votes as independent.
        least_sure: reject if the chance that the relevance judges are right to reject is at least this; below it, a
            majority against a criterion leaves it undecided.
        separates: see `SeparatesSettings`; the other gates have such settings too.
    """

    order: tuple[GateName, ...] = get_args(GateName)
    licence_draws: int = Field(5, ge=1, le=15)
    judge_error: float = Field(0.1, gt=0, lt=0.5)
    least_error: float = Field(0.08, ge=0, lt=0.5)
    least_sure: float = Field(0.95, ge=0.5, lt=1)
    separates: SeparatesSettings = SeparatesSettings()
    surface: SurfaceSettings = SurfaceSettings()
    agreement: AgreementSettings = AgreementSettings()
    redundant: RedundantSettings = RedundantSettings()
    share: ShareSettings = ShareSettings()

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: tuple[GateName, ...]) -> tuple[GateName, ...]:
        twice = sorted({gate for gate in order if order.count(gate) > 1})
        if twice:
            raise ValueError(f"names {', '.join(twice)} twice")
        return order


class Filters(Settings):
    """Limits of length and form; each drop is counted and kept with its reason.

    Attributes:
        response_least_characters: shorter responses are removed from the pool.
        response_most_characters: longer responses are removed too.
        response_most_repeats: a response that repeats one line more often is stuck in a loop.
        response_closed_fences: a response with a code fence that is never closed was cut off.
        criterion_least_characters: shorter criteria are dropped.
        criterion_most_characters: longer criteria are dropped too.
        criterion_plain_text: drop criteria that contain a code fence or are JSON.
    """

    response_least_characters: int = Field(1, ge=1)
    response_most_characters: int = Field(60_000, ge=1)
    response_most_repeats: int = Field(20, ge=1)
    response_closed_fences: bool = True
    criterion_least_characters: int = Field(4, ge=1)
    criterion_most_characters: int = Field(600, ge=1)
    criterion_plain_text: bool = True


class CompileSettings(Settings):
    """When a check replaces the judges for a criterion.

    Attributes:
        on: whether any check is proposed.
        min_decided: minimum number of responses decided by both the judges and the check.
        min_agreement: the share of these on which they must agree; 1 means all.
        both_verdicts: whether the judges must have found both a response that meets it and one that does not, because
            a check that never had to fail a response is untested.
    """

    on: bool = True
    min_decided: int = Field(4, ge=1)
    min_agreement: float = Field(1.0, gt=0, le=1)
    both_verdicts: bool = True
