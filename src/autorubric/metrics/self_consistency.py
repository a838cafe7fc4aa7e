"""The agreement of a repeatedly asked judge with itself, collected item by item."""

import math
from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from statistics import variance

from autorubric.core.judgment import CriterionVerdict, JudgeVote, MultiChoiceJudgeVote
from autorubric.core.report import AnyCriterionReport, EnsembleCriterionReport
from autorubric.metrics.intervals import Interval

NO_JUDGE = frozenset({"check", "empty"})
"""Judge ids of verdicts without a model: those of checks, and of the rule for empty submissions."""


@dataclass(slots=True)
class SelfConsistency:
    """The repeats of one judge over its judgments (an item and a criterion) with at least two successful repeats.

    Attributes:
        judge_id: the judge.
        judgments: the number of judgments.
        repeats: the number of repeats in them.
        unanimous: the number of judgments in which all repeats agree.
    """

    judge_id: str
    judgments: int = 0
    repeats: int = 0
    unanimous: int = 0
    # For each item, the number of its judgments, and the sum of their shares of agreeing pairs of repeats.
    _items: list[tuple[int, float]] = field(default_factory=list)
    # The variance (n - 1) of each judgment with at least two repeats that do not abstain.
    _variances: list[float] = field(default_factory=list)

    @property
    def agreement(self) -> float | None:
        """The probability that two repeats of one judgment agree, in [0, 1]."""
        return math.fsum(agreed for _, agreed in self._items) / self.judgments if self.judgments else None

    @property
    def unanimous_share(self) -> float | None:
        """The share of judgments in which all repeats agree."""
        return self.unanimous / self.judgments if self.judgments else None

    @property
    def variance(self) -> float | None:
        """The mean over judgments of the variance of the verdict's or option's value."""
        return math.fsum(self._variances) / len(self._variances) if self._variances else None

    def compute_interval(self, confidence: float = 0.95) -> Interval | None:
        """Return the confidence interval of `agreement`, with items as clusters; None without judgments."""
        return clustered_interval(self._items, confidence)

    def add(self, votes: Iterable[JudgeVote | MultiChoiceJudgeVote]) -> None:
        """Add the judge's votes on one item."""
        count, agreed = 0, 0.0
        for vote in votes:
            cast = [each for each in vote.repeats if not each.is_error]
            if len(cast) < 2:
                continue
            words = Counter(each.verdict if isinstance(each, JudgeVote) else each.selected_index for each in cast)
            same = sum(math.comb(number, 2) for number in words.values()) / math.comb(len(cast), 2)
            count, agreed = count + 1, agreed + same
            self.repeats += len(cast)
            self.unanimous += len(words) == 1
            values = [value for each in cast if (value := _read_value(each)) is not None]
            self._variances += [variance(values)] if len(values) > 1 else []
        if count:
            self.judgments += count
            self._items.append((count, agreed))


def clustered_interval(items: Sequence[tuple[int, float]], confidence: float = 0.95) -> Interval | None:
    """Return the interval of a share, with items as clusters; see `autorubric.metrics.jackknife.share_interval`.

    Args:
        items: for each item, the number of observations and of agreeing ones.
        confidence: the confidence level.

    Example:
        >>> low, high, _ = clustered_interval([(2, 2.0), (2, 1.0), (2, 2.0), (2, 1.0)])
        >>> round(low, 3), round(high, 3)
        (0.276, 0.959)
    """
    import numpy as np

    from autorubric.metrics.jackknife import share_interval

    pairs, hits = np.array(sorted(items), float).reshape(-1, 2).T  # the same sums in any order
    return share_interval(hits, pairs, confidence)


def add_repeats(found: MutableMapping[str, SelfConsistency], entries: Iterable[AnyCriterionReport]) -> None:
    """Add the repeats in the report on one item, judge by judge; judges asked only once are left out.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> said = [JudgeVote(judge_id="a#1", verdict=word, reason=None) for word in ("MET", "MET", "UNMET")]
        >>> vote = JudgeVote(judge_id="a", verdict="MET", reason=None, repeats=said)
        >>> entry = EnsembleCriterionReport(
        ...     criterion=Criterion(requirement="Is brief"), final_verdict="MET", final_reason=None, votes=[vote]
        ... )
        >>> found = {}
        >>> add_repeats(found, [entry])
        >>> round(found["a"].agreement, 3), round(found["a"].variance, 3), found["a"].unanimous_share
        (0.333, 0.333, 0.0)
    """
    by_judge: dict[str, list[JudgeVote | MultiChoiceJudgeVote]] = {}
    for entry in entries:
        if isinstance(entry, EnsembleCriterionReport):
            votes: list[JudgeVote | MultiChoiceJudgeVote] = [*entry.votes, *entry.multi_choice_votes]
            for vote in votes:
                if vote.repeats:
                    by_judge.setdefault(vote.judge_id, []).append(vote)
    for judge, repeated in by_judge.items():
        found.setdefault(judge, SelfConsistency(judge)).add(repeated)


def _read_value(vote: JudgeVote | MultiChoiceJudgeVote) -> float | None:
    """Return the value of a vote, in [0, 1]; None for an abstention."""
    if isinstance(vote, MultiChoiceJudgeVote):
        return None if vote.na else vote.value
    decided = vote.verdict in (CriterionVerdict.MET, CriterionVerdict.UNMET)
    return float(vote.verdict is CriterionVerdict.MET) if decided else None
