"""The results of a selection: shares, lengths, and the best score by number of candidates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Any

from autorubric.core.submission import word_count
from autorubric.files import write_atomically
from autorubric.runs.items_file import parse_report, read_items
from autorubric.training.candidates import ScoredCandidate
from autorubric.training.queries import RubricQuery
from autorubric.training.selection import KeepRule, SelectionDecision, decide, round_score
from autorubric.training.trainer_files import Kept, write_training_files

_EVERY_K = 64


@dataclass(frozen=True, slots=True)
class BestOfK:
    """A point of the curve of the best score by number of candidates.

    Attributes:
        k: the number of candidates per query.
        score: the mean over queries of the expected best score.
        kept: the mean over queries of the probability that one candidate is above the threshold.
        queries: the number of queries in the curve, over which the means are computed.
    """

    k: int
    score: float
    kept: float
    queries: int


def compute_expected_best(scores: Sequence[float], k: int) -> float:
    """Return the mean of the best score over all subsets of k scores, an unbiased estimate for new samples of k.

    In ascending order, the i-th score (from 1) is the best of C(i − 1, k − 1) of the C(n, k) subsets. The shares are
    computed from the largest down, since the binomials of a thousand scores overflow a float.

    Example:
        >>> round(compute_expected_best([0.0, 0.5, 1.0], 2), 6)
        0.833333
    """
    share, mean = k / len(scores), 0.0
    for below, score in reversed(list(enumerate(sorted(scores)))):
        mean += share * score
        share *= (below - k + 1) / below if below else 0.0
    return mean


def compute_expected_kept(scores: Sequence[float], threshold: float, k: int) -> float:
    """Return the share of subsets of k scores with one strictly above the threshold: 1 − C(n − a, k) / C(n, k).

    Example:
        >>> compute_expected_kept([0.2, 0.7, 0.6], 0.6, 2)
        0.6666666666666667
    """
    below = sum(score <= threshold for score in scores)
    return 1.0 - comb(below, k) / comb(len(scores), k)


def compute_best_of_k(scores: Sequence[Sequence[float]], threshold: float) -> list[BestOfK]:
    """Return the best score by K (RubricHub, figure 9), up to the largest K that half of the queries reach.

    All points are over the queries that reach the largest K, so the score does not fall as K grows. The curve has
    every K up to 64, and above that the powers of two and the largest.

    Args:
        scores: the scores of the judged candidates of each query.
        threshold: a score must be strictly above it to be kept.

    Example:
        >>> [(point.k, point.score, point.queries) for point in compute_best_of_k([[0.0, 1.0], [0.5]], 0.6)]
        [(1, 0.5, 1), (2, 1.0, 1)]
    """
    curve = []
    sizes = sorted(filter(None, map(len, scores)))
    most = sizes[len(sizes) // 2] if sizes else 0
    enough = [own for own in scores if len(own) >= most]
    for k in (k for k in range(1, most + 1) if k <= _EVERY_K or k & (k - 1) == 0 or k == most):
        best = fmean(compute_expected_best(own, k) for own in enough)
        kept = fmean(compute_expected_kept(own, threshold, k) for own in enough)
        curve.append(BestOfK(k, best, kept, len(enough)))
    return curve


_TENTHS = 10


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """The distribution of the scores of candidates.

    Attributes:
        count: the number of candidates with a score.
        quartiles: minimum, lower quartile, median, upper quartile, maximum; linear interpolation.
        tenths: the number of candidates in [0, 0.1), [0.1, 0.2), … [0.9, 1].
    """

    count: int
    quartiles: tuple[float, float, float, float, float]
    tenths: tuple[int, ...]

    @classmethod
    def from_scores(cls, scores: Sequence[float]) -> ScoreSpread | None:
        """Return the distribution of scores in [0, 1]; None without scores."""
        if not scores:
            return None
        import numpy as np

        low, lower, median, upper, high = (float(cut) for cut in np.percentile(scores, (0, 25, 50, 75, 100)))
        tenths = [0] * _TENTHS
        for score in scores:
            # 0.3 * 10 is 3.0000000000000004 and 0.29999999999999999 * 10 is 3: round before truncating.
            tenths[min(int(round(score * _TENTHS, 6)), _TENTHS - 1)] += 1
        return cls(len(scores), (low, lower, median, upper, high), tuple(tenths))


@dataclass(frozen=True, slots=True)
class LowerThreshold:
    """The number of queries with a kept answer, and of kept answers, at another threshold."""

    threshold: float
    queries: int
    answers: int


def find_lower_thresholds(groups: Sequence[Sequence[ScoredCandidate]], keep: KeepRule) -> tuple[LowerThreshold, ...]:
    """Return the thresholds 0.9, 0.8, … 0 below the current one that would keep something, highest first."""
    found = []
    for tenth in reversed(range(_TENTHS)):
        threshold = tenth / _TENTHS
        if threshold >= keep.threshold:
            continue
        decisions = [decide(group, replace(keep, threshold=threshold)) for group in groups]
        queries = sum(decision.status == "selected" for decision in decisions)
        if queries:
            found.append(LowerThreshold(threshold, queries, sum(len(decision.chosen) for decision in decisions)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The number of queries of one domain, and how many of them are selected, dropped or undecided."""

    source: str
    queries: int
    selected: int
    dropped: int
    undecided: int

    @property
    def share(self) -> float | None:
        """The share of decided queries that are selected; None if none is decided."""
        decided = self.selected + self.dropped
        return self.selected / decided if decided else None


@dataclass(frozen=True, slots=True)
class Lengths:
    """The mean length in words of the kept answers, and of the other judged ones to the same queries.

    Each is a mean over queries of the mean of a query's answers.
    """

    chosen: float | None
    others: float | None


@dataclass(frozen=True, slots=True)
class SelectionSummary:
    """Statistics of a selection.

    Attributes:
        total: the decisions on all queries.
        by_source: the same by domain, in alphabetical order.
        answers: the number of kept answers.
        by_model: the number of kept answers by model, largest first; empty if the models are unknown.
        unjudged: the number of candidates without a score.
        lengths: of kept and other answers, over the queries that have both.
        curve: the best score by number of candidates.
        keep: the rule for what to keep.
        spread: the distribution of all scores; None without scores.
    """

    total: Acceptance
    by_source: tuple[Acceptance, ...]
    answers: int
    by_model: dict[str, int]
    unjudged: int
    lengths: Lengths
    curve: tuple[BestOfK, ...]
    keep: KeepRule
    spread: ScoreSpread | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as JSON values."""
        record = asdict(self)
        for row, found in zip((record["total"], *record["by_source"]), (self.total, *self.by_source), strict=True):
            row["share"] = found.share
        return record


def summarize(
    queries: Sequence[RubricQuery],
    scored: Sequence[Sequence[ScoredCandidate]],
    decisions: Sequence[SelectionDecision],
    keep: KeepRule,
) -> SelectionSummary:
    """Statistics of a selection."""
    sources: dict[str, list[SelectionDecision]] = {}
    for query, decision in zip(queries, decisions, strict=True):
        sources.setdefault(query.source, []).append(decision)
    models = Counter(one.candidate.model for found in decisions for one in found.chosen if one.candidate.model)
    judged = [[round_score(one) for one in own if one.score is not None] for own in scored]
    return SelectionSummary(
        total=_count_decisions("all", decisions),
        by_source=tuple(_count_decisions(name, sources[name]) for name in sorted(sources)),
        answers=sum(len(decision.chosen) for decision in decisions),
        by_model=dict(models.most_common()),
        unjudged=sum(one.score is None for own in scored for one in own),
        lengths=_measure_lengths(scored, decisions),
        curve=tuple(compute_best_of_k(judged, keep.threshold)),
        keep=keep,
        spread=ScoreSpread.from_scores([score for scores in judged for score in scores]),
    )


def _count_decisions(source: str, decisions: Iterable[SelectionDecision]) -> Acceptance:
    counts = Counter(decision.status for decision in decisions)
    return Acceptance(source, counts.total(), counts["selected"], counts["dropped"], counts["undecided"])


def _measure_lengths(scored: Sequence[Sequence[ScoredCandidate]], decisions: Sequence[SelectionDecision]) -> Lengths:
    """Return the mean lengths over the queries with both kinds of answers, so that both means are comparable."""
    chosen, others = [], []
    for own, decision in zip(scored, decisions, strict=True):
        kept = {one.candidate.answer for one in decision.chosen}
        rest = [one for one in own if one.score is not None and one.candidate.answer not in kept]
        if kept and rest:
            chosen.append(_compute_mean_words(decision.chosen))
            others.append(_compute_mean_words(rest))
    return Lengths(fmean(chosen) if chosen else None, fmean(others) if others else None)


def _compute_mean_words(found: Sequence[ScoredCandidate]) -> float:
    return fmean(word_count(scored.candidate.answer) for scored in found)


DECISIONS_FILE = "decisions.jsonl"
SUMMARY_FILE = "selection.json"


@dataclass(frozen=True, slots=True)
class Selected:
    """A selection that was written.

    Attributes:
        summary: the statistics.
        files: the files for trainers; none if nothing was kept.
        flagged: the number of kept answers whose reports are flagged.
        lower_thresholds: what lower thresholds would keep, if nothing was kept.
    """

    summary: SelectionSummary
    files: tuple[Path, ...]
    flagged: int
    lower_thresholds: tuple[LowerThreshold, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPool:
    """The queries and scored candidates to select from; `items` is the file of the reports."""

    queries: Sequence[RubricQuery]
    scored: Sequence[ScoredCandidate]
    items: Path


def write_selection(
    out: Path, pool: ScoredPool, keep: KeepRule, trainers: Sequence[str], *, skipped: Sequence[str] = ()
) -> Selected:
    """Decide on every query; write decisions, summary and, if an answer is kept, the files for trainers."""
    queries = pool.queries
    own: dict[str, list[ScoredCandidate]] = {query.id: [] for query in queries}
    for scored in pool.scored:
        own[scored.candidate.query].append(scored)
    groups = [own[query.id] for query in queries]
    decisions = [decide(group, keep) for group in groups]
    kept = _read_kept(pool.items, queries, decisions)
    summary = summarize(queries, groups, decisions, keep)
    files = write_training_files(out, kept, trainers, pairs=keep.pairs)
    write_atomically(out / DECISIONS_FILE, _render_decisions(queries, groups, decisions))
    record = {**summary.to_dict(), "skipped": list(skipped)}
    write_atomically(out / SUMMARY_FILE, [json.dumps(record, ensure_ascii=False, indent=2), "\n"])
    found = () if kept else find_lower_thresholds(groups, keep)
    return Selected(summary, tuple(files), sum(bool(kept.report.flags) for kept in kept), found)


def _read_kept(items: Path, queries: Sequence[RubricQuery], decisions: Sequence[SelectionDecision]) -> list[Kept]:
    """Read the kept answers with their reports; no other reports are kept in memory."""
    chosen = {scored.place for decision in decisions for scored in decision.chosen}
    records = read_items(items) if chosen else ()
    reports = {row["item_idx"]: parse_report(row["report"]) for row in records if row["item_idx"] in chosen}
    return [
        Kept(query, scored, reports[scored.place], decision.rejected)
        for query, decision in zip(queries, decisions, strict=True)
        for scored in decision.chosen
    ]


def _render_decisions(
    queries: Sequence[RubricQuery],
    groups: Sequence[Sequence[ScoredCandidate]],
    decisions: Sequence[SelectionDecision],
) -> Iterator[str]:
    for query, group, decision in zip(queries, groups, decisions, strict=True):
        record = {
            "id": query.id,
            "source": query.source,
            "status": decision.status,
            "reason": decision.reason,
            "chosen": [scored.candidate.sample_id for scored in decision.chosen],
            "rejected": decision.rejected and decision.rejected.candidate.sample_id,
            "candidates": [
                {
                    "sample_id": scored.candidate.sample_id,
                    "model": scored.candidate.model,
                    "score": scored.score,
                    "failure": scored.failure,
                }
                for scored in group
            ],
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"
