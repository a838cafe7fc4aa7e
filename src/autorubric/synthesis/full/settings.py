"""Everything that can be set about the full method."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.strict import Strict


class Filters(Strict):
    """What is abnormal in length or broken in form; each drop is counted and kept with its reason.

    Attributes:
        response_least_characters: shorter responses leave the pool.
        response_most_characters: longer ones do.
        response_most_repeats: a response that says one line of its text more often is stuck in a loop.
        response_closed_fences: a response with a code fence that is never closed was cut off.
        criterion_least_characters: shorter criteria are dropped.
        criterion_most_characters: longer ones are.
        criterion_plain_text: drop criteria that hold a code fence or are JSON themselves.
    """

    response_least_characters: int = Field(1, ge=1)
    response_most_characters: int = Field(60_000, ge=1)
    response_most_repeats: int = Field(20, ge=1)
    response_closed_fences: bool = True
    criterion_least_characters: int = Field(4, ge=1)
    criterion_most_characters: int = Field(600, ge=1)
    criterion_plain_text: bool = True


def _off(value: Any) -> Any:
    """A bare `off` is false in YAML."""
    return "off" if value is False else value


class Compiling(Strict):
    """When a check takes a criterion over from the judges.

    Attributes:
        on: whether any is proposed.
        min_decided: responses that both the judges and the check must have decided, at least.
        min_agreement: share of those on which they must agree; 1 is all of them.
        both_verdicts: whether the judges must have seen both verdicts.
    """

    on: bool = True
    min_decided: int = Field(4, ge=1)
    min_agreement: float = Field(1.0, gt=0, le=1)
    both_verdicts: bool = True


class FullSettings(Strict):
    """The settings of the full method.

    Attributes:
        pool: how many responses each query gets, from all response models in turn; `draws` on a role overrides
            it.
        grounding: what candidate rubrics are grounded in: each rubric model's `own` response (the paper), or
            one `reference` for all (the seed).
        pitfalls: `keep` them with their negative weights in `final_full` and the release, `drop` them there, or
            `off`: never ask for any. The `final` files hold no pitfall in any case.
        rounds: the most rounds of evolution, 0 to 4.
        judging: one call a judge and response for the whole `rubric`, or one for each `criterion`.
        merge_characters: the most that the candidate sets of one merge call may hold together; more are folded
            pairwise in an order drawn from the record's seed.
        seed: of that order.
        gates: which gates, in which order, with which thresholds; see `GateSettings`.
        filters: see `Filters`.
        compile: criteria that a check can decide become checks where it agrees with the judges; see `Compiling`.
    """

    pool: int = Field(6, ge=2, le=26)
    grounding: Literal["own", "reference"] = "own"
    pitfalls: Annotated[Literal["keep", "drop", "off"], BeforeValidator(_off)] = "drop"
    rounds: int = Field(1, ge=0, le=4)
    judging: Literal["rubric", "criterion"] = "rubric"
    merge_characters: int = Field(60_000, ge=1000)
    seed: int = 0
    gates: GateSettings = Field(default_factory=GateSettings)
    filters: Filters = Field(default_factory=Filters)
    compile: Compiling = Field(default_factory=Compiling)
