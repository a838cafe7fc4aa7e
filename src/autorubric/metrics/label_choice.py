"""The choice of labels to collect next, and the mean score estimated from such labels.

A label of criterion j on item i replaces the judge's value by the true one, which moves the mean score by c_j·(truth
− judged), where c_j is the criterion's share of the score. Drawing pairs with probability π and weighting each error
by 1/π is unbiased for any π. The mean error within each criterion and verdict, as the labels show it, is subtracted
first (the generalized difference estimator, Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992,
section 6.4), so that only the rest varies: the variance Σ c²·Var(error)·(1/π − 1) is least for π proportional to
|c|·√(P·(1 − P)), P the probability of an error (Neyman 1934; for judged data: Zrnic and Candès, arXiv:2403.03208).
Errors of one item may be correlated. That adds variance between items, which no choice of pairs changes; so it
affects only the interval, whose unit is the item.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.report import Report
from autorubric.core.scoring import ScoreRule, build_cell
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.arrays import Flags, Floats, Ints
from autorubric.metrics.intervals import Estimate, Interval, check_confidence, normal_quantile
from autorubric.metrics.reading_runs import read_graded_table
from autorubric.metrics.scores import value_points
from autorubric.metrics.table import GradedRun, Table

_CLOSE = 1e-9
_UNIFORM_PART = 0.1
_LEAST_DOUBT, _MOST_DOUBT = 0.02, 0.9
_DOUBT_OF_ONE_JUDGE = 0.25


class LabelRequest(NamedTuple):
    """A pair of item and criterion to be labelled.

    Attributes:
        item: the item's place in the dataset.
        criterion: the criterion's place in the item's rubric.
        name: the criterion's name.
        probability: the probability that this pair was drawn; keep it with the label.
    """

    item: int
    criterion: int
    name: str
    probability: float


@dataclass(frozen=True)
class CellLabel:
    """A label that was collected for a `LabelRequest`.

    Attributes:
        item: as in the request.
        criterion: as in the request.
        verdict: the person's verdict, or an option's label.
        probability: as in the request; if only a random part of a batch was labelled, multiplied by the labelled
            share, because the other pairs would otherwise count as judged correctly.
        batch: the number of the `label_next` call that requested it, from 0.
    """

    item: int
    criterion: int
    verdict: CriterionVerdict | str
    probability: float
    batch: int = 0


@dataclass(frozen=True)
class JudgedPairs:
    """The scored items of a run as pairs of item and criterion, one item's after the other; NaN where unknown."""

    items: tuple[int, ...]  # each item's place in the dataset
    starts: Floats  # the score of each item with nothing met: 1 if its rubric has only pitfalls, else 0
    rows: Ints  # of each pair, its item's place in `items`
    places: Ints  # its criterion's place in the item's rubric
    criteria: tuple[Criterion, ...]
    kinds: Ints  # groups of similar errors: the criterion; with item-specific rubrics, criterion or pitfall
    shares: Floats  # its share of the item's score; 0 if the score leaves it out
    values: Floats  # of the verdict, in [0, 1]; an abstention counts by the run's rule
    truth: Floats  # the value of the label
    dissent: Floats  # the share of pairs of votes that differ; NaN with fewer than two votes
    confidence: Floats  # of the judge, where it states one
    labelled: Flags  # whether its item has ground truth
    normalize: bool = True  # whether scores are shares of the full marks, and clamped to [0, 1]

    def __len__(self) -> int:
        return len(self.rows)

    def find_name(self, pair: int) -> str:
        """Return the name of a pair's criterion; `C1`, `C2`, … in its rubric if it has none."""
        first, end = np.searchsorted(self.rows, [self.rows[pair], self.rows[pair] + 1])
        return name_criteria(self.criteria[first:end])[int(self.places[pair])]

    def find(self, places: Iterable[tuple[int, int]]) -> Ints:
        """Return the positions of pairs, given those of item and criterion; -1 for pairs that are not judged."""
        rows = {item: row for row, item in enumerate(self.items)}
        starts = np.searchsorted(self.rows, np.arange(len(self.items) + 1))
        found = []
        for item, place in places:
            row = rows.get(item, -1)
            at = int(starts[row]) + place
            found.append(at if row >= 0 and place >= 0 and at < starts[row + 1] else -1)
        return np.array(found, np.int64)

    @property
    def sums(self) -> Floats:
        """Each item's score as the sum over its criteria, before it is clamped to [0, 1]."""
        return self.starts + self.sum_by_item(np.nan_to_num(self.values) * self.shares)

    @property
    def clamped(self) -> int:
        """The number of items whose score differs from this sum because it is clamped."""
        outside = (self.sums < -_CLOSE) | (self.sums > 1.0 + _CLOSE)
        return int(outside.sum()) if self.normalize else 0

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest possible mean of these sums."""
        least, most = (self.starts + self.sum_by_item(bound(self.shares, 0.0)) for bound in (np.minimum, np.maximum))
        return float(least.mean()), float(most.mean())

    def sum_by_item(self, amounts: Floats) -> Floats:
        """Sum the amounts of pairs by item."""
        return np.bincount(self.rows, amounts, minlength=len(self.items)).astype(float)


def read_pairs(run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None) -> JudgedPairs:
    """Read the run as pairs, with its recorded rule. Items without a score (failed judgments) are left out."""
    return build_pairs(read_graded_table(run, dataset))


def build_pairs(table: Table, *, scored: bool = True) -> JudgedPairs:
    """Do the work of `read_pairs` for a run that has been read; without `scored`, include items without a score."""
    table = table.select_rows(~np.isnan(table.scores)) if scored else table
    if not len(table.items):
        raise InputError("no graded item has a score; expected at least one")
    rule = table.rule or ScoreRule()
    rows, column = table.points.row, table.points.column
    places = np.arange(len(rows)) - np.searchsorted(rows, rows)
    values = value_points(table, table.points.judged, rule, table.means)
    weights = np.where(np.isnan(values), 0.0, table.weights[column])
    marks = np.bincount(rows, np.maximum(weights, 0.0), len(table.items))
    units = np.where(marks > 0, marks, np.bincount(rows, np.abs(weights), len(table.items)))
    return JudgedPairs(
        items=tuple(table.items.tolist()),
        starts=np.where((marks > 0) | (units == 0) | (not rule.normalize), 0.0, 1.0),
        rows=rows,
        places=places,
        criteria=tuple(table.columns[place].criterion for place in column),
        kinds=(table.weights[column] < 0).astype(np.int64) if len(table.find_other_rubrics()) else places,
        shares=weights / np.where(units == 0, 1.0, units)[rows] if rule.normalize else weights,
        values=values,
        truth=table.truth_values,
        dissent=table.dissent,
        confidence=table.confidence,
        labelled=table.labelled[rows],
        normalize=rule.normalize,
    )


def label_next(
    run: GradedRun | Sequence[Report | None],
    k: int,
    dataset: RubricDataset | None = None,
    *,
    labels: Iterable[CellLabel] = (),
    seed: int = 0,
) -> list[LabelRequest]:
    """Draw k pairs of item and criterion, preferring those whose labels narrow the interval of the mean score most.

    Pairs are drawn, not ranked: taking the k most doubtful ones would bias the score. Pairs that have a label
    (ground truth of the item, or in `labels`) are left out and show how often the judge errs on each criterion
    and verdict.

    Args:
        run: a run, or one report (or None) for each item of the dataset.
        k: the number of labels to collect; if fewer are left, all of them.
        dataset: the graded dataset; None for the items stored in the run.
        labels: the labels collected after earlier calls.
        seed: the seed of the draw; use another one for each batch.

    Raises:
        InputError: `k` is below 1, the run does not fit the dataset, or everything is labelled.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> [(item, name, round(probability, 2)) for item, _, name, probability in label_next(reports, 3, dataset)]
        [(4, 'Causes', 0.83), (4, 'Style', 0.38), (5, 'Causes', 0.83)]
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k={k!r}; expected a whole number of labels, 1 or more")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed={seed!r}; expected a whole number, 0 or more")
    return choose_pairs(read_pairs(run, dataset), k, tuple(labels), seed)


def choose_pairs(pairs: JudgedPairs, k: int, labels: Sequence[CellLabel], seed: int) -> list[LabelRequest]:
    """Do the work of `label_next` for a run that has been read."""
    truth = apply_labels(pairs, labels)
    free = find_open_pairs(pairs, truth)
    if not len(free):
        raise InputError("every judged criterion has a label; nothing is left to label")
    return sorted(draw_pairs(pairs, free, size_labels(pairs, truth)[free], k, np.random.default_rng(seed)))


def draw_pairs(pairs: JudgedPairs, free: Ints, sizes: Floats, k: int, rng: np.random.Generator) -> list[LabelRequest]:
    """Draw about k of the free pairs by size; see `compute_inclusion_probabilities`."""
    chances = compute_inclusion_probabilities(sizes, k)
    drawn = draw_systematically(chances, rng)
    return [
        LabelRequest(pairs.items[pairs.rows[pair]], int(pairs.places[pair]), pairs.find_name(pair), float(chance))
        for pair, chance in zip(free[drawn], chances[drawn], strict=True)
    ]


def sampled_score(
    run: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    labels: Iterable[CellLabel],
    *,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the mean score from labels drawn by `label_next`: the judge's score plus its errors weighted by 1/π.

    Each batch gives an unbiased estimate, because earlier labels count as known and the rest is drawn again; the
    batches' estimates are averaged by size. The score is the weighted sum of an item's criteria by the run's rule,
    before a length penalty and before it is clamped to [0, 1]. The rule decides how the judge's abstentions count; an
    annotator's abstentions count as 0. Items without a score are left out.

    Raises:
        InputError: there are no labels, or one does not fit the run.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> asked = label_next(reports, 3, dataset)
        >>> labels = [CellLabel(r.item, r.criterion, "UNMET", r.probability) for r in asked]
        >>> 0.0 < sampled_score(reports, dataset, labels).value < 1.0
        True
    """
    check_confidence(confidence)
    return score_from_labels(read_pairs(run, dataset), tuple(labels), confidence)


def score_from_labels(pairs: JudgedPairs, labels: Sequence[CellLabel], confidence: float) -> Estimate:
    """Do the work of `sampled_score` for a run that has been read."""
    if not labels:
        raise InputError("no labels yet; collect those that `label_next` suggests")
    judged, truth = np.nan_to_num(pairs.values), np.nan_to_num(apply_labels(pairs, labels))
    at = pairs.find((label.item, label.criterion) for label in labels)
    drawn, chances = np.array([label.batch for label in labels]), np.array([label.probability for label in labels])
    batches, batch_of, sizes = np.unique(drawn, return_inverse=True, return_counts=True)
    known = ~np.isnan(pairs.truth) & ~np.isnan(pairs.values)
    estimates = []
    for batch in range(len(batches)):
        weights = known.astype(float)
        weights[at[batch_of == batch]] = 1.0 / chances[batch_of == batch]
        estimates.append(correct_sums(pairs, truth - judged, weights))
        known = known | (weights > 0)
    scores = np.average(np.array(estimates), axis=0, weights=sizes)
    step = float(np.sqrt(np.mean(np.square(pairs.shares[at] * (sizes / len(labels))[batch_of] / chances))))
    return estimate_item_mean(scores, len({label.item for label in labels}), step, pairs.range, confidence)


def correct_sums(pairs: JudgedPairs, errors: Floats, weights: Floats) -> Floats:
    """Return each item's score, corrected by its own labels and by the mean error of its criteria and verdicts.

    `errors` has label − verdict of each pair; `weights` the number of pairs that each label represents, or 0.
    """
    # Pairs are grouped by kind, verdict and agreement of the votes, because their errors are similar.
    groups = 4 * pairs.kinds + 2 * (pairs.values >= 0.5) + (np.nan_to_num(pairs.dissent) > 0)
    labelled = weights > 0
    of_labels = np.where(labelled, errors * weights, 0.0)
    # One additional label without an error keeps groups with few labels near the judge's verdicts.
    one = float(weights[labelled].mean()) if labelled.any() else 1.0
    # Computed from the other labels, so that no label affects what is subtracted from its own error.
    total, worth = (np.bincount(groups, amounts)[groups] for amounts in (of_labels, weights))
    mean = (total - of_labels) / (worth - weights + one)
    return pairs.sums + pairs.sum_by_item(pairs.shares * (mean + of_labels - mean * weights))


def size_labels(pairs: JudgedPairs, truth: Floats) -> Floats:
    """Return the sizes to draw by: the standard deviation that each pair's possible error adds to the score."""
    wrong = rate_doubt(pairs, truth)
    return np.asarray(np.abs(pairs.shares) * np.sqrt(wrong * (1.0 - wrong)))


def estimate_item_mean(
    items: Floats, labelled: int, step: float, ends: tuple[float, float] = (0.0, 1.0), confidence: float = 0.95
) -> Estimate:
    """Estimate the mean of corrected item scores; the interval accounts for the small number of labelled items.

    This is the normal interval, clipped to the range of means. Weights of 1/π spread estimates beyond that range, so
    Wilson's interval, which assumes a bounded spread, covers as little as 83% for rare criteria.
    """
    n, value = len(items), float(items.mean())
    if n < 2 or labelled < 3:
        return Estimate(value, n=n, reason=f"items with labels: {labelled}; an interval needs 3")
    squares = float(((items - value) ** 2).sum()) + step**2
    reach = normal_quantile(0.5 + confidence / 2.0) * math.sqrt(squares / (n - 1) / n)
    interval = Interval(value - reach, value + reach, confidence).clip(*ends)
    value = min(ends[1], max(ends[0], value))
    return Estimate(value, interval.widen(value), n)


def find_open_pairs(pairs: JudgedPairs, truth: Floats) -> Ints:
    """Return the pairs that can be labelled: judged, not labelled yet, and of an item without ground truth."""
    return np.flatnonzero(~np.isnan(pairs.values) & np.isnan(truth) & ~pairs.labelled)


def apply_labels(pairs: JudgedPairs, labels: Iterable[CellLabel]) -> Floats:
    """Return the pairs' truth with these labels filled in."""
    labels, truth, problems = list(labels), pairs.truth.copy(), []
    seen: set[tuple[int, int]] = set()
    for label, pair in zip(
        labels, pairs.find((label.item, label.criterion) for label in labels).tolist(), strict=True
    ):
        place = f"label of item {label.item}, criterion {label.criterion}"
        if (label.item, label.criterion) in seen:
            problems.append(f"{place}: this pair has a label already; expected one label per pair")
            continue
        seen.add((label.item, label.criterion))
        if pair < 0:
            problems.append(f"{place}: the run has no such pair")
        elif pairs.labelled[pair]:
            problems.append(f"{place}: the item has ground truth; expected labels of items without it")
        elif not 0.0 < label.probability <= 1.0:
            problems.append(f"{place}: probability={label.probability}; expected that of its request")
        else:
            try:
                value = build_cell(pairs.criteria[pair], label.verdict).value
            except ValueError as error:
                problems.append(f"{place}: {error}")
                continue
            truth[pair] = 0.0 if value is None else value
    if problems:
        raise InputError(problems)
    return truth


def rate_doubt(pairs: JudgedPairs, truth: Floats) -> Floats:
    """Estimate the probability that each judgment is wrong, in [0.02, 0.9].

    The estimate from the votes or the judge's confidence (0.25 for a single judge) is scaled, for each kind of pair
    and verdict, by the ratio of errors found to errors expected among the labels, each plus one, to limit the effect
    of few labels.
    """
    votes = np.where(np.isnan(pairs.dissent), np.nan, (pairs.dissent + 0.1) / 1.2)
    prior = np.where(np.isnan(votes), 1.0 - pairs.confidence, votes)
    prior = np.clip(np.where(np.isnan(prior), _DOUBT_OF_ONE_JUDGE, prior), _LEAST_DOUBT, _MOST_DOUBT)
    squared = np.nan_to_num((truth - pairs.values) ** 2)
    labelled = ~np.isnan(truth) & ~np.isnan(pairs.values)
    sides = 2 * pairs.kinds + (pairs.values >= 0.5)
    found, expected = (np.bincount(sides, amounts * labelled) + 1.0 for amounts in (squared, prior))
    scaled = np.where(np.isnan(pairs.values), prior, prior * (found / expected)[sides])
    return np.clip(scaled, _LEAST_DOUBT, _MOST_DOUBT)


def compute_inclusion_probabilities(sizes: npt.ArrayLike, k: int) -> Floats:
    """Return probabilities, at most 1 each, that sum to k: nine tenths proportional to size, one tenth uniform.

    The uniform tenth limits the weight of a label if the sizes are wrong.
    """
    given = np.asarray(sizes, dtype=float)
    count = len(given)
    if k >= count:
        return np.ones(count)
    total = given.sum()
    part = given / total if total > 0 else np.full(count, 1.0 / count)
    part = (1.0 - _UNIFORM_PART) * part + _UNIFORM_PART / count
    certain = np.zeros(count, dtype=bool)
    while True:
        chances = np.where(certain, 1.0, part * (k - certain.sum()) / part[~certain].sum())
        above = (chances >= 1.0) & ~certain
        if not above.any():
            return np.asarray(chances)
        certain |= above


def draw_systematically(chances: Floats, rng: np.random.Generator) -> list[int]:
    """Draw indices with exactly these probabilities, as many as they sum to, by systematic sampling in random order.

    Source: Madow, Annals of Mathematical Statistics 20 (1949).
    """
    order = rng.permutation(len(chances))
    ends = np.cumsum(chances[order])
    marks = np.arange(round(float(ends[-1]))) + rng.random()
    places = np.minimum(np.searchsorted(ends, marks, side="right"), len(order) - 1)
    return sorted({int(order[place]) for place in places})
