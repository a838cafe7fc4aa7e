"""How a report looks: its criteria in a word, and as rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.display import clipped
from autorubric.core.verdict import CriterionVerdict
from autorubric.core.votes import JudgeVote, MultiChoiceJudgeVote, MultiChoiceVerdict

_MOST_NAMED = 6


def word_of(verdict: CriterionVerdict | None, choice: MultiChoiceVerdict | None) -> str | None:
    """The verdict, or the label of the chosen option.

    Example:
        >>> word_of(CriterionVerdict.MET, None)
        'MET'
    """
    if choice is not None:
        return choice.selected_label or "CANNOT_ASSESS"
    return None if verdict is None else verdict.value


def criteria_text(words: Sequence[str | None]) -> str:
    """How many criteria there are, and how many of each verdict; None is a failed judgment.

    Example:
        >>> criteria_text(["MET", None, "MET"])
        '<3 criteria: 2 MET, 1 failed>'
    """
    counts = Counter(clipped(word or "failed", 30) for word in words).most_common()
    shown = [f"{count} {word}" for word, count in counts[:_MOST_NAMED]]
    if len(counts) > _MOST_NAMED:
        shown.append(f"{sum(count for _, count in counts[_MOST_NAMED:])} others")
    noun = "criterion" if len(words) == 1 else "criteria"
    return f"<{len(words)} {noun}: {', '.join(shown)}>"


def votes_text(votes: Iterable[JudgeVote | MultiChoiceJudgeVote]) -> str | None:
    """Each judge with what it said; None where no judge was asked.

    Example:
        >>> votes_text([JudgeVote(judge_id="a", verdict="MET", reason=None)])
        'a: MET'
    """
    said = []
    for vote in votes:
        word = vote.selected_label if isinstance(vote, MultiChoiceJudgeVote) else word_of(vote.verdict, None)
        said.append(f"{vote.judge_id}: {'failed' if vote.error is not None else word or 'CANNOT_ASSESS'}")
    return "; ".join(said) or None


def judged_row(criterion: Criterion, number: int, **found: Any) -> dict[str, Any]:
    """The row of a criterion: what it is, then what was found."""
    return {
        "criterion": criterion.name or f"C{number}",
        "requirement": criterion.requirement,
        "weight": criterion.weight,
        **found,
    }
