"""Measures for comparing wordings (agreement, Gwet's AC1, score error, panel agreement), and fitting of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.errors import InputError
from autorubric.improvement.acceptance import Pairs, pool, share
from autorubric.metrics.arrays import Floats, Ints, ratio
from autorubric.metrics.table import ABSTAINED, FAILED

if TYPE_CHECKING:
    from autorubric.improvement.changed_wording import Outcomes
    from autorubric.improvement.labelled import LabelledRubric

Measure: TypeAlias = Literal["agreement", "ac1", "score_error"]

NO_LABEL = ABSTAINED
"""The code of an item without a label, or with an abstention, which never agrees with a verdict."""


def list_categories(criterion: Criterion) -> list[str]:
    """Return the verdicts or option labels of a criterion, in the order of their codes.

    Example:
        >>> list_categories(Criterion(requirement="Is brief"))
        ['MET', 'UNMET']
    """
    return ["MET", "UNMET"] if criterion.options is None else [option.label for option in criterion.options]


def list_values(criterion: Criterion) -> Floats:
    """Return the value of each category; NaN for an option that does not apply."""
    if criterion.options is None:
        return np.array([1.0, 0.0])
    return np.array([np.nan if option.na else option.value for option in criterion.options])


def compute_likeness(criterion: Criterion) -> Floats:
    """Return the agreement of each pair of categories: 1 − |difference of values| if ordered, else 0 or 1."""
    worth = list_values(criterion)
    if criterion.options is None or criterion.scale_type == "nominal":
        return np.eye(len(worth))
    alike: Floats = 1.0 - np.abs(worth[:, None] - worth[None, :])
    return np.where(np.isnan(alike), 0.0, alike)


def sum_agreement(truth: Ints, judged: Ints, alike: Floats) -> Floats:
    """Return each item's contribution: its number of labels, and the agreement with them (0 without a verdict).

    Example:
        >>> sum_agreement(np.array([0, 1, 1, -1]), np.array([0, 0, FAILED, 0]), np.eye(2)).tolist()
        [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """
    known, answered = truth >= 0, judged >= 0
    both = known & answered
    found = np.zeros((len(truth), 2))
    found[:, 0] = known
    found[both, 1] = alike[truth[both], judged[both]]
    return found


def sum_ac1(truth: Ints, judged: Ints, size: int) -> Floats:
    """Return each item's contribution: labels, exact agreements, verdicts, then the count of each category."""
    known = truth >= 0
    answered = known & (judged >= 0)
    found = np.zeros((len(truth), 3 + size))
    found[:, 0], found[:, 1], found[:, 2] = known, answered & (truth == judged), answered
    rows = np.arange(len(truth))
    np.add.at(found, (rows[known], 3 + truth[known]), 1.0)
    np.add.at(found, (rows[answered], 3 + judged[answered]), 1.0)
    return found


def ac1(sums: Floats) -> Floats:
    """Gwet's AC1 of the sums of `sum_ac1`; a pair without a verdict is a disagreement.

    Source: Gwet 2008: (p_a − p_e) / (1 − p_e), p_e = Σ π(1 − π) / (q − 1), π the mean of both marginals.

    Example:
        >>> truth, judged = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
        >>> round(float(ac1(sum_ac1(truth, judged, 2).sum(axis=0))), 4)
        0.5294
    """
    size = sums.shape[-1] - 3
    observed = ratio(sums[..., 1], sums[..., 0])
    shares = ratio(sums[..., 3:], (sums[..., 0] + sums[..., 2])[..., None])
    expected = (shares * (1.0 - shares)).sum(axis=-1) / (size - 1)
    return ratio(observed - expected, 1.0 - expected)


def compute_scores(verdict_values: Floats, weights: Floats) -> Floats:
    """Return the score of each item in [0, 1]; NaN if it has none, by the rule of `autorubric.core.scoring`.

    Args:
        verdict_values: items × criteria; NaN where a criterion does not count.
        weights: of the criteria.

    Example:
        >>> compute_scores(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([3.0, 1.0])).tolist()
        [0.75, 1.0]
    """
    counts = ~np.isnan(verdict_values)
    points = np.where(counts, verdict_values, 0.0) @ weights
    positive = counts.astype(float) @ np.maximum(weights, 0.0)
    negative = counts.astype(float) @ np.minimum(weights, 0.0)
    # A rubric of pitfalls alone starts at 1 and loses the share of its penalties.
    alone = np.nan if (weights > 0).any() else 1.0 - ratio(points, negative)
    scores = np.where(positive > 0, ratio(points, positive), alone)
    return np.asarray(np.clip(scores, 0.0, 1.0))


def sum_closeness(scores: Floats, target: Floats) -> Floats:
    """Return each item's contribution: its number of targets, and minus its score error (1 without a score)."""
    known = ~np.isnan(target)
    error = np.where(np.isnan(scores), 1.0, np.abs(scores - target))
    return np.stack([known.astype(float), np.where(known, -error, 0.0)], axis=-1)


def sum_panel_agreement(votes: Sequence[Sequence[int]], alike: Floats) -> Floats:
    """Return each item's contribution: 1, and its pairwise agreement of judges; a missing verdict agrees with none.

    Example:
        >>> sum_panel_agreement([[0, 0, 1], [1, 1, FAILED]], np.eye(2)).round(3).tolist()
        [[1.0, 0.333], [1.0, 0.333]]
    """
    return np.array([[1.0, _average_pair_agreement(cast, alike)] for cast in votes]).reshape(-1, 2)


def _average_pair_agreement(cast: Sequence[int], alike: Floats) -> float:
    pairs = [(one, other) for place, one in enumerate(cast) for other in cast[place + 1 :]]
    agreed = sum(float(alike[one, other]) for one, other in pairs if one >= 0 and other >= 0)
    return agreed / len(pairs) if pairs else 0.0


_STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_PARTS = 5
_SWEEPS = 500


def fit_weights(verdict_values: Floats, target: Floats, weights: Floats, groups: Ints, seed: int = 0) -> Floats:
    """Fit weights so that scores are close to the target.

    Ridge regression towards the old weights under the constraint that no weight changes its sign, by coordinate
    descent; its strength is the one with the least error in cross-validation over groups, and keeping the old weights
    competes with it. The positive weights keep their sum, so that scores stay in [0, 1].

    Args:
        verdict_values: items × criteria; NaN where the verdict is missing.
        target: the score of each item in [0, 1]; NaN where unknown.
        weights: the old weights.
        groups: the group of each item.
        seed: the seed of the folds.

    Raises:
        InputError: no weight is positive.
    """
    scale = float(np.maximum(weights, 0.0).sum())
    if scale <= 0:
        raise InputError("weights: no criterion has a positive weight, so there is nothing to fit")
    known = ~np.isnan(target) & ~np.isnan(verdict_values).all(axis=1)
    signs = np.where(weights < 0, -1.0, 1.0)
    values = verdict_values[known]
    middle = np.nan_to_num(np.nanmean(np.where(np.isnan(values), np.nan, values), axis=0)) if len(values) else 0.0
    features = np.where(np.isnan(values), middle, values) * signs
    start = np.abs(weights) / scale
    strength = _choose_strength(features, target[known], start, groups[known], seed)
    if strength is None:
        return weights.copy()
    fitted = _fit_by_descent(features, target[known], start, strength) * signs
    total = float(np.maximum(fitted, 0.0).sum())
    return (
        weights.copy()
        if total <= 0
        else np.array([float(f"{value:.4g}") + 0.0 for value in fitted * (scale / total)])
    )


def _choose_strength(features: Floats, target: Floats, start: Floats, groups: Ints, seed: int) -> float | None:
    names = np.unique(groups)
    if len(names) < 2 * _PARTS:
        return None
    cut_part = dict(zip(np.random.default_rng(seed).permutation(names).tolist(), np.arange(len(names)), strict=True))
    parts = np.array([cut_part[group] % _PARTS for group in groups.tolist()])
    errors: dict[float | None, float] = {None: float(np.abs(target - features @ start).sum())}
    for strength in _STRENGTHS:
        errors[strength] = sum(
            _compute_held_out_error(features, target, start, strength, parts == part) for part in range(_PARTS)
        )
    return min(errors, key=lambda one: (errors[one], one is not None))


def _compute_held_out_error(features: Floats, target: Floats, start: Floats, strength: float, out: Ints) -> float:
    fitted = _fit_by_descent(features[~out], target[~out], start, strength)
    return float(np.abs(target[out] - features[out] @ fitted).sum())


def _fit_by_descent(features: Floats, target: Floats, start: Floats, strength: float) -> Floats:
    """Return the u ≥ 0 that minimizes mean (target − features·u)² + strength · |u − start|²."""
    count = max(len(target), 1)
    gram, slope = features.T @ features / count, features.T @ target / count
    found = start.copy()
    for _ in range(_SWEEPS):
        before = found.copy()
        for place in range(len(found)):
            rest = slope[place] - gram[place] @ found + gram[place, place] * found[place]
            found[place] = max((rest + strength * start[place]) / (gram[place, place] + strength), 0.0)
        if float(np.abs(found - before).max(initial=0.0)) < 1e-12:
            break
    return found


@dataclass(frozen=True)
class Comparator:
    """Compares wordings of the criteria of a labelled rubric.

    Attributes:
        labelled: the labels.
        measure: the measure; without labels, it is the agreement of the panel.
        base: items × criteria: the value of each verdict under the original rubric; NaN if there is none. Only
            the score error needs it.
    """

    labelled: LabelledRubric
    measure: Measure = "agreement"
    base: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def compare_wordings(self, place: int, old: Outcomes, new: Outcomes, items: Sequence[int]) -> Pairs:
        """Pair old and new on the items on which the judge did not fail with the old wording.

        A failure with the new wording counts as a wrong verdict. A failure with the old wording must not help the new
        one, so that item is left out. An abstention counts as a wrong verdict of either.
        """
        usable = [item for item in items if item in old and item in new and old[item].code != FAILED]
        rows = np.array(usable, dtype=np.int64)
        first, second = (self._sum_items(place, outcomes, rows) for outcomes in (old, new))
        statistic = ac1 if self.measure == "ac1" and self.labelled.has_labels else share
        return Pairs.from_items(first, second, self.labelled.groups[rows], statistic)

    def _sum_items(self, place: int, outcomes: Outcomes, rows: Ints) -> Floats:
        criterion = self.labelled.rubric[place]
        truth = self.labelled.truth[rows, place]
        judged = np.array([outcomes[int(item)].code for item in rows], dtype=np.int64)
        if not self.labelled.has_labels:
            return sum_panel_agreement([outcomes[int(item)].votes for item in rows], compute_likeness(criterion))
        if self.measure == "ac1":
            return sum_ac1(truth, judged, len(list_categories(criterion)))
        if self.measure == "agreement":
            return sum_agreement(truth, judged, compute_likeness(criterion))
        worth = list_values(criterion)
        worst = np.where(truth >= 0, np.where(worth[np.maximum(truth, 0)] >= 0.5, 0.0, 1.0), np.nan)
        given = [outcomes[int(item)].value for item in rows]
        table = self.base[rows].copy()
        table[:, place] = [worst[row] if value is None else value for row, value in enumerate(given)]
        return sum_closeness(compute_scores(table, self.labelled.weights), self.labelled.target[rows])

    def compare_weights(self, weights: Floats, items: Sequence[int]) -> Pairs:
        """Compare the original weights and new ones by the error of the score, on the items with a verdict."""
        rows = np.array([item for item in items if not np.isnan(self.base[item]).all()], dtype=np.int64)
        target = self.labelled.target[rows]
        first, second = (
            sum_closeness(compute_scores(self.base[rows], own), target) for own in (self.labelled.weights, weights)
        )
        return Pairs.from_items(first, second, self.labelled.groups[rows], share)


@dataclass(frozen=True)
class NestedResult:
    """The result of a nested split: in each fold, the winner of the other folds is compared with the original.

    Attributes:
        pairs: the pairs of all folds together.
        winner: the best candidate on all items.
        is_stable: whether it also won in most folds.
    """

    pairs: Pairs
    winner: str
    is_stable: bool


def cross_fit(
    comparing: Comparator, place: int, old: Outcomes, tried: Mapping[str, Outcomes], folds: Sequence[Sequence[int]]
) -> NestedResult | None:
    """Choose on all folds but one and test on that one, in turn; None if no candidate wins.

    Args:
        comparing: how wordings are compared.
        place: the place of the criterion.
        old: the outcomes of the original.
        tried: the outcomes of each candidate.
        folds: disjoint parts of the items; no group is in two.
    """
    everything = [item for fold in folds for item in fold]
    parts, winners = [], list[str]()
    for fold in folds:
        left_out = set(fold)
        winner = find_best(comparing, place, old, tried, [item for item in everything if item not in left_out])
        winners.append(winner)
        parts.append(comparing.compare_wordings(place, old, tried[winner] if winner else old, fold))
    overall = find_best(comparing, place, old, tried, everything)
    if not overall or not any(winners):
        return None
    is_stable = 2 * winners.count(overall) > len(folds)
    return NestedResult(pool([part for part in parts if len(part)]), overall, is_stable)


def find_best(
    comparing: Comparator, place: int, old: Outcomes, tried: Mapping[str, Outcomes], items: Sequence[int]
) -> str:
    """Return the candidate with the largest gain above 0 on these items, of equals the first; empty if none."""
    gains = {name: comparing.compare_wordings(place, old, new, items).difference for name, new in tried.items()}
    ranked = sorted((name for name in gains if gains[name] > 0), key=lambda name: -gains[name])
    return ranked[0] if ranked else ""
