"""The statistics of an evaluation, collected as items end; memory grows with the criteria, not the items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from autorubric.core.display import tell_apart
from autorubric.core.judgment import CriterionVerdict, JudgeVote, MultiChoiceJudgeVote
from autorubric.core.report import AnyCriterionReport, EnsembleCriterionReport, Report
from autorubric.core.usage import TokenUsage, aggregate_evaluation_usage
from autorubric.llm.failure_groups import NOT_ASKED, FailureGroups
from autorubric.metrics.intervals import Interval, mean_interval
from autorubric.metrics.self_consistency import NO_JUDGE, SelfConsistency, add_repeats, clustered_interval

if TYPE_CHECKING:
    from autorubric.llm.records.accounts import UsageTotals
    from autorubric.runs.result import ItemResult


def fold_query(prompt: str | None) -> str:
    r"""Return a prompt in the form used to compare queries; exports add and remove white space at its ends.

    Example:
        >>> fold_query("Why?\r\nHow? \n")
        'Why?\nHow?'
    """
    return (prompt or "").strip().replace("\r\n", "\n")


@dataclass(slots=True)
class Moments:
    """Count, mean and variance of numbers, from exact sums, so that their order does not matter.

    Attributes:
        clusters: the count and the sum of the numbers in each cluster; None if numbers have no clusters.

    Example:
        >>> moments = Moments()
        >>> for number in (1.0, 0.0, 1.0, 0.0):
        ...     moments.add(number)
        >>> moments.mean, moments.variance
        (0.5, 0.25)
    """

    count: int = 0
    least: float = math.inf
    most: float = -math.inf
    clusters: dict[Hashable, tuple[int, float]] | None = None
    _total: int = 0  # in units of 2^−_places
    _squares: int = 0  # in units of 2^−2·_places
    _places: int = 0

    def add(self, number: float, cluster: Hashable = None) -> None:
        """Add a number of a cluster."""
        self.count += 1
        if self.clusters is not None:
            count, total = self.clusters.get(cluster, (0, 0.0))
            self.clusters[cluster] = count + 1, total + number
        self.least, self.most = min(self.least, number), max(self.most, number)
        above, below = number.as_integer_ratio()  # a power of 2
        more = below.bit_length() - 1 - self._places
        if more > 0:
            self._total, self._squares = self._total << more, self._squares << 2 * more
            self._places += more
        above <<= max(-more, 0)
        self._total += above
        self._squares += above * above

    @property
    def mean(self) -> float:
        """The sum over the count, 0 without numbers."""
        return self._total / (self.count << self._places) if self.count else 0.0

    @property
    def variance(self) -> float:
        """The population variance (divided by the count)."""
        spread = self.count * self._squares - self._total * self._total
        return spread / (self.count * self.count << 2 * self._places) if self.count else 0.0

    @property
    def is_clustered(self) -> bool:
        """Whether there are several clusters, some of them with several numbers."""
        return 1 < len(self.clusters or ()) < self.count

    def compute_interval(self) -> Interval | None:
        """Return the 95% confidence interval of the mean; see `autorubric.metrics.intervals.mean_interval`.

        If all numbers are in [0, 1], that is taken as their scale. None for fewer than two numbers, and for equal
        numbers on any other scale.
        """
        ends = (0.0, 1.0) if self.least >= 0.0 and self.most <= 1.0 else None
        total, squares = self._total / (1 << self._places), self._squares / (1 << 2 * self._places)
        return mean_interval(self.count, total, squares, ends, clusters=[*(self.clusters or {}).values()])


@dataclass(slots=True)
class PanelAgreement:
    """How often two judges of a panel give the same verdict, without labels.

    Failures, abstentions and verdicts without a judge (checks, empty submissions) do not count. In a cascade, only
    judges that were asked together are compared.

    Attributes:
        criteria: the number of pairs of verdicts, and of equal pairs, by name and requirement of the criterion.
    """

    criteria: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _items: list[tuple[int, float]] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """The number of pairs of verdicts."""
        return sum(count for count, _ in self._items)

    @property
    def agreement(self) -> float | None:
        """The share of pairs with the same verdict or option; None without pairs."""
        return sum(same for _, same in self._items) / self.pairs if self.pairs else None

    @property
    def worst(self) -> tuple[str, float] | None:
        """The criterion on which judges agree least, and how often they do; None for fewer than two criteria."""
        shares = [same / count for count, same in self.criteria.values()]
        named = zip(tell_apart(self.criteria), shares, strict=True)
        return min(named, key=lambda pair: pair[::-1]) if len(shares) > 1 else None

    def compute_interval(self) -> Interval | None:
        """Return the 95% confidence interval of the agreement; see `clustered_interval`."""
        return clustered_interval(self._items)

    def add(self, criteria: Iterable[EnsembleCriterionReport]) -> None:
        """Add the votes on one item."""
        pairs = agreed = 0
        for number, entry in enumerate(criteria, start=1):
            if len(entry.votes) + len(entry.multi_choice_votes) < 2:
                continue
            count, same = _count_pairs(entry)
            if count:
                key = entry.criterion.name or f"C{number}", entry.criterion.requirement
                found = self.criteria.setdefault(key, [0, 0])
                found[0], found[1] = found[0] + count, found[1] + same
            pairs, agreed = pairs + count, agreed + same
        if pairs:
            self._items.append((pairs, agreed))


def _count_pairs(entry: EnsembleCriterionReport) -> tuple[int, int]:
    """Return the number of pairs of verdicts on one criterion, and of equal pairs."""
    words: dict[bool, Counter[object]] = {True: Counter(), False: Counter()}
    for vote in entry.votes:
        if not vote.is_error and vote.judge_id not in NO_JUDGE and vote.verdict is not CriterionVerdict.CANNOT_ASSESS:
            words[vote.superseded][vote.verdict] += 1
    for choice in entry.multi_choice_votes:
        if not choice.is_error and not choice.na:
            words[choice.superseded][choice.selected_index] += 1
    return (
        sum(math.comb(counts.total(), 2) for counts in words.values()),
        sum(math.comb(count, 2) for counts in words.values() for count in counts.values()),
    )


@dataclass(slots=True)
class CriterionSummary:
    """The verdicts on one criterion over all items.

    Attributes:
        name: its name, or its number if it has none.
        weight: its weight.
        values: the values of its scored verdicts, in [0, 1].
    """

    name: str
    weight: float
    values: Moments = field(default_factory=Moments)

    @property
    def influence(self) -> float:
        """|weight| times the variance of the verdicts' values; 0 if all items have the same verdict."""
        return abs(self.weight) * self.values.variance


@dataclass(slots=True)
class EvaluationSummary:
    """The statistics of a run.

    Attributes:
        total: items of the dataset.
        ended: items that were graded or failed.
        scores: the scores of the items that have one.
        failed: items without a report that counts.
        not_asked: failed items that were not judged because the run or its budget ended.
        judged: criteria with a verdict, abstentions included.
        judgments: criteria of all items with a report.
        expected: criteria of all items of the dataset, if known.
        failures: why judgments failed, grouped by cause.
        lost_votes: why votes failed on criteria that still have a verdict, by judge.
        flagged: items whose submission seems to address the judge.
        flags: the number of judgments by flag, such as `unsupported`.
        criteria: the statistics of each criterion.
        panel: how well several judges agree with each other.
        consistency: how well each judge that was asked repeatedly agrees with itself.
        totals: calls, tokens and cost by role and model, all sessions in the run directory together.
        negotiated: for each model, what its endpoint did not accept, if that may change replies.
        interrupted: whether the run was interrupted.
        refused: whether a wrong key, model name or address stopped it before anything was paid.
        advice: what to do about the refusal.
    """

    total: int
    ended: int = 0
    scores: Moments = field(default_factory=Moments)
    failed: int = 0
    not_asked: int = 0
    judged: int = 0
    judgments: int = 0
    expected: int = 0
    failures: FailureGroups = field(default_factory=FailureGroups)
    lost_votes: FailureGroups = field(default_factory=FailureGroups)
    flagged: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    criteria: dict[tuple[str | None, str], CriterionSummary] = field(default_factory=dict)
    panel: PanelAgreement = field(default_factory=PanelAgreement)
    consistency: dict[str, SelfConsistency] = field(default_factory=dict)
    totals: list[UsageTotals] = field(default_factory=list)
    negotiated: list[str] = field(default_factory=list)
    interrupted: bool = False
    refused: bool = False
    advice: str = ""

    @property
    def graded(self) -> int:
        """Items with a report that counts."""
        return self.ended - self.failed

    @property
    def coverage(self) -> float | None:
        """The share of criteria that have a verdict, in [0, 1]; items that were not started have none."""
        return self.judged / self.all_judgments if self.all_judgments else None

    @property
    def all_judgments(self) -> int:
        """Criteria of all items, started or not."""
        return max(self.judgments, self.expected)

    def count(self, result: ItemResult) -> None:
        """Count the result of one item, as far as the progress display needs."""
        self.ended += 1
        self.failed += result.error is not None
        self.not_asked += any(words in (result.error or "") for words in NOT_ASKED)

    def add(self, result: ItemResult) -> None:
        """Add the result of one item."""
        self.count(result)
        report = result.report
        self.flagged += bool(report.flags)
        if report.score is not None and result.error is None:
            self.scores.add(report.score, self.scores.clusters is not None and fold_query(result.item.prompt))
        if report.report is None:
            self.failures.add_text(result.error, result.name)
            return
        criteria: Sequence[AnyCriterionReport] = report.report
        add_repeats(self.consistency, criteria)
        self.panel.add(entry for entry in criteria if isinstance(entry, EnsembleCriterionReport))
        for number, criterion in enumerate(criteria, start=1):
            self._add_criterion(criterion, number)
            if criterion.error is not None:
                self.failures.add_text(criterion.error, result.name)
            elif isinstance(criterion, EnsembleCriterionReport):
                votes: Sequence[JudgeVote | MultiChoiceJudgeVote] = [*criterion.votes, *criterion.multi_choice_votes]
                for vote in votes:
                    if vote.is_error:
                        self.lost_votes.add_text(vote.error, result.name, vote.judge_id)

    def rank_by_influence(self, count: int) -> Sequence[CriterionSummary]:
        """Return the criteria with the most influence, in descending order, without those below half a percent."""
        least = 0.005 * math.fsum(criterion.influence for criterion in self.criteria.values())
        names = tell_apart((found.name, requirement) for (_, requirement), found in self.criteria.items())
        ranked = sorted(zip(names, self.criteria.values(), strict=True), key=lambda named: -named[1].influence)
        return [replace(found, name=name) for name, found in ranked[:count] if found.influence > least]

    def _add_criterion(self, found: AnyCriterionReport, number: int) -> None:
        self.judgments += 1
        if found.error is not None:
            return
        self.judged += 1
        self.flags.update(found.flags)
        criterion, value = found.criterion, found.score_value
        if value is None:
            return
        key = criterion.name, criterion.requirement
        if key not in self.criteria:
            self.criteria[key] = CriterionSummary(criterion.name or f"C{number}", criterion.weight)
        self.criteria[key].values.add(value)


@dataclass
class EvalTimingStats:
    """The durations of items.

    Attributes:
        total_duration_seconds: the duration of the run.
        mean_item_duration_seconds: the mean over items.
        min_item_duration_seconds: the fastest item.
        max_item_duration_seconds: the slowest item.
        p50_item_duration_seconds: half of the items took no longer.
        p95_item_duration_seconds: 95 of 100 items took no longer.
        items_per_second: items for which this run called a model, divided by its duration.

    Example:
        >>> EvalTimingStats(8.0, 2.0, 1.0, 3.0, 2.0, 3.0, items_per_second=0.5).p50_item_duration_seconds
        2.0
    """

    total_duration_seconds: float
    mean_item_duration_seconds: float
    min_item_duration_seconds: float
    max_item_duration_seconds: float
    p50_item_duration_seconds: float
    p95_item_duration_seconds: float
    items_per_second: float

    @classmethod
    def from_durations(
        cls, durations: list[float], total_duration: float, *, asked: int | None = None
    ) -> EvalTimingStats:
        """Return the statistics of a list of durations; all zero for an empty one.

        Args:
            durations: seconds of each item.
            total_duration: seconds of the run.
            asked: items for which the run called a model (the others were recorded); all by default.

        Example:
            >>> EvalTimingStats.from_durations([1.0, 3.0, 2.0], 4.0).p50_item_duration_seconds
            2.0
        """
        if not durations:
            return cls(total_duration, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        ordered, count = sorted(durations), len(durations)
        rate = (count if asked is None else asked) / total_duration if total_duration > 0 else 0.0
        return cls(
            total_duration,
            sum(ordered) / count,
            ordered[0],
            ordered[-1],
            ordered[count // 2],
            ordered[min(int(0.95 * count), count - 1)],
            rate,
        )

    def to_dict(self) -> dict[str, float]:
        """Return the statistics by name."""
        return asdict(self)


def sum_paid(totals: Iterable[UsageTotals], reports: Iterable[Report] = ()) -> tuple[TokenUsage | None, float | None]:
    """Tokens and dollars of all recorded calls; the dollars are None if a price is unknown.

    Without recorded calls (a custom grader), the sums over the reports.

    Example:
        >>> from autorubric.core.report import EvaluationReport
        >>> sum_paid([], [EvaluationReport(score=1.0, completion_cost=0.5)])
        (None, 0.5)
    """
    rows = list(totals)
    if not rows:
        return aggregate_evaluation_usage(reports)
    usage = sum((row.usage for row in rows[1:]), rows[0].usage)
    tokens = TokenUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cache_read_input_tokens=usage.cached_tokens,
    )
    unpriced = any(row.unpriced for row in rows)
    return tokens, None if unpriced else sum(row.cost for row in rows)
