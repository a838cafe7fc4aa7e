"""What one judge (or check) found for one criterion: a verdict, an option, or why there is neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from autorubric.core.usage import TokenUsage
from autorubric.core.verdict import CriterionVerdict

MistakeCategory: TypeAlias = Literal["infrastructure", "parse", "check", "unknown"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why there is no verdict. Never a verdict itself, and never a zero.

    Attributes:
        category: `infrastructure` (the call failed), `parse` (the reply held no verdict), `check` (the check
            cannot be applied to this submission), `unknown`.
        message: one sentence for a person.
        evidence: what the model said, where it said anything.
    """

    category: MistakeCategory
    message: str
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.category}: {self.message}"


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that a judge cites: its words, and where the submission has them (character offsets).

    `start` and `end` are None where the submission does not hold the passage.
    """

    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One judge on one criterion. Exactly one of `verdict`, `option` and `mistake` is set.

    Attributes:
        judge_id: who judged.
        verdict: MET, UNMET or CANNOT_ASSESS, on a binary criterion.
        option: the index of the chosen option in the criterion as it was judged, on a multi-choice one.
        value: of several judges' options taken together (a mean, say), before the nearest option was taken.
        mistake: why there is neither.
        reason: the judge's explanation, given before the verdict.
        reasoning: the model's thinking, where the endpoint sends it.
        weight: how much this judge counts in a panel.
        confidence: in [0, 1], where the judge states one.
        probabilities: of the verdicts or option labels, where the judge states them.
        quotes: the passages cited, in evidence mode.
        shuffle_order: for shown options, the original index at each shown place.
        superseded: a stronger judge was asked after this one, and its word counts.
        flags: what a reader of the report should know about this judgment, such as `unsupported`.
        usage: tokens of the reply this rests on; where one reply judged several criteria, on the first alone.
        cost: dollars of that reply, or None where it has no known price.
        repeats: what the judge said each time, where it was asked repeatedly; usage and cost are their sums.
    """

    judge_id: str
    verdict: CriterionVerdict | None = None
    option: int | None = None
    value: float | None = None
    mistake: Mistake | None = None
    reason: str | None = None
    reasoning: str | None = None
    weight: float = 1.0
    confidence: float | None = None
    probabilities: dict[str, float] | None = None
    quotes: tuple[Quote, ...] = ()
    shuffle_order: tuple[int, ...] | None = None
    superseded: bool = False
    flags: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    cost: float | None = None
    repeats: tuple[Judgment, ...] = ()

    def __post_init__(self) -> None:
        given = (self.verdict is not None) + (self.option is not None) + (self.mistake is not None)
        if given != 1:
            raise ValueError("a judgment holds exactly one of verdict, option and mistake")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge, simple or made of others, says on one criterion, and the opinions it rests on.

    Attributes:
        judgment: the word that counts.
        votes: the opinions of the judges inside, in their order; empty for a simple judge.
    """

    judgment: Judgment
    votes: tuple[Opinion, ...] = ()

    def leaves(self) -> tuple[Judgment, ...]:
        """The judgments of all simple judges inside, in order."""
        if not self.votes:
            return (self.judgment,)
        return tuple(leaf for vote in self.votes for leaf in vote.leaves())
