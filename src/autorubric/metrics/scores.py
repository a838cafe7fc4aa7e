"""Scores, and true scores: the scores that the run's scoring rule gives for the labels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.scoring import LengthPenalty, ScoreRule, score_abstention
from autorubric.errors import InputError, pluralize
from autorubric.metrics.arrays import Floats, Ints
from autorubric.metrics.correlation import compute_correlation, measure_errors
from autorubric.metrics.distribution import systematic_bias
from autorubric.metrics.table import ABSTAINED, FAILED, Table, build_value_table

_CLOSE = 1e-9
_PLACES = 12


def describe_rule(rule: ScoreRule) -> str:
    """Describe a rule: how abstentions count, and the unit of the scores."""
    config = rule.cannot_assess
    credit = f" {config.partial_credit:g}" if config.strategy is CannotAssessStrategy.PARTIAL else ""
    return f"{config.strategy.value}{credit}, {'normalized' if rule.normalize else 'bare sums'}"


def read_rule(settings: Any) -> ScoreRule | None:
    """Return the rule in a grader's settings; None if they have none.

    Raises:
        InputError: they are damaged.
    """
    if not isinstance(settings, Mapping) or "normalize" not in settings:
        return None
    parts: dict[str, Any] = {}
    for name, kind in (("cannot_assess", CannotAssessConfig), ("length_penalty", LengthPenalty)):
        if stated := settings.get(name):
            try:
                parts[name] = kind.model_validate(stated)
            except ValidationError:
                raise InputError(f"the manifest of the run is damaged: {name} is {stated!r:.60}") from None
    return ScoreRule(normalize=bool(settings["normalize"]), **parts)


class ScorePairs(NamedTuple):
    """The scores and true scores of the rows that have both."""

    rows: Ints  # which rows
    judged: Floats  # the run's scores
    true: Floats  # the scores by the labels
    rule: ScoreRule  # by which rule
    warnings: tuple[str, ...] = ()
    span: float = 1.0  # the largest possible error of a score

    def renumber(self, places: Ints) -> ScorePairs:
        """Return the pairs with new row numbers from `places`; rows with a negative number are left out."""
        kept = places[self.rows] >= 0
        return self._replace(rows=places[self.rows][kept], judged=self.judged[kept], true=self.true[kept])


def value_points(table: Table, codes: Ints, rule: ScoreRule, means: Floats | None = None) -> Floats:
    """Return the value of each point per unit of weight; NaN for points that the score leaves out."""
    abstentions = []
    for column in table.columns:
        weight = column.criterion.weight
        worst = float(column.values.max() if weight < 0 else column.values.min())
        abstentions.append(score_abstention(weight, worst, rule.cannot_assess))
    # The last place of a row is for abstentions, so that the code −1 selects it.
    last = np.array(abstentions, float)
    values = np.column_stack([build_value_table(table.columns), last]) if abstentions else np.empty((0, 1))
    value = np.where(codes >= ABSTAINED, values[table.points.column, codes], np.nan)
    return value if means is None else np.where((codes >= 0) & ~np.isnan(means), means, value)


def score_rows(table: Table, codes: Ints, rule: ScoreRule, means: Floats | None = None) -> Floats:
    """Return the score of every row by the rule of `autorubric.core.scoring`; NaN if nothing can be scored."""
    value = value_points(table, codes, rule, means)
    scored = ~np.isnan(value)
    row, value, weight = table.points.row[scored], value[scored], table.weights[table.points.column[scored]]
    points = np.bincount(row, value * weight, len(table.items))
    counted = np.bincount(row, minlength=len(table.items))
    positive = np.bincount(row, np.maximum(weight, 0.0), len(table.items))
    whole = np.bincount(table.points.row, np.maximum(table.weights[table.points.column], 0.0), len(table.items))
    defined = (counted > 0) & ((positive > 0) | (whole == 0))
    if not rule.normalize:
        return np.where(defined, points, np.nan)
    negative = np.bincount(row, np.maximum(-weight, 0.0), len(table.items))
    score = np.zeros(len(table.items))
    np.divide(points, positive, out=score, where=positive > 0)
    only_negative = (positive == 0) & (negative > 0)
    score[only_negative] = 1.0 + points[only_negative] / negative[only_negative]
    return np.where(defined, np.clip(score, 0.0, 1.0), np.nan)


def pair_scores(
    table: Table, scores: Floats, codes: Ints, means: Floats | None = None, penalties: Floats | None = None
) -> ScorePairs:
    """Pair the run's scores with the true scores by the run's own rule.

    The rule is the recorded one; without a record, it is the published default, unless only another rule gives every
    score. A true score leaves out criteria without a verdict, as the score does. A length penalty lowers the true
    score too: by the penalty of the text if that explains every score, else (with a custom length function) by as
    much as it lowered the score.
    """
    rule = table.rule or _guess_rule(table, scores, codes, means)
    plain = score_rows(table, codes, rule, means)
    unjudged = codes < ABSTAINED
    true = score_rows(table, np.where(unjudged, FAILED, table.points.truth), rule)
    warnings = []
    both = ~np.isnan(scores) & ~np.isnan(true)
    partly = int(both[np.unique(table.points.row[unjudged])].sum())
    if partly:
        warnings.append(
            f"criteria without a verdict are left out of {pluralize(partly, 'score')} and of the true scores"
        )
    apart = np.where(both, plain - scores, 0.0)
    apart[np.isnan(apart)] = 0.0
    off = int((np.abs(apart) > _CLOSE).sum())
    if penalties is not None:
        known = np.allclose(_apply_penalty(plain, penalties, rule)[both], scores[both], rtol=0.0, atol=_CLOSE)
        true = _apply_penalty(true, penalties if known else apart, rule)
        if off:
            changed = pluralize(off, "score")
            warnings.append(
                f"{changed} {'has' if off == 1 else 'have'} a length penalty; the true scores were lowered equally"
            )
        hidden = 0 if known or not rule.normalize else int((both & (scores == 0.0) & (true > 0.0)).sum())
        if hidden:
            warnings.append(f"{hidden} of the scores are 0, so their true scores may have a smaller length penalty")
    elif off:
        warnings.append(f"no known scoring rule gives {pluralize(off, 'score')} from the verdicts")
    rows = np.flatnonzero(both)
    return ScorePairs(
        rows, scores[rows], true[rows], rule, tuple(warnings), 1.0 if rule.normalize else _find_widest_span(table)
    )


def _find_widest_span(table: Table) -> float:
    """Return the largest possible difference between two scores of one item, as bare sums."""
    if not len(table.points):
        return 1.0
    sizes = np.abs(table.weights)[table.points.column]
    return float(np.bincount(table.points.row, sizes, len(table.items)).max())


def _apply_penalty(scores: Floats, penalties: Floats, rule: ScoreRule) -> Floats:
    """Subtract a penalty from scores; at least 0 if scores are normalized."""
    return np.maximum(scores - penalties, 0.0) if rule.normalize else scores - penalties


def _guess_rule(table: Table, scores: Floats, codes: Ints, means: Floats | None) -> ScoreRule:
    """Return the first rule that gives every score, else the default."""
    known = ~np.isnan(scores)
    for normalize, strategy in product((True, False), CannotAssessStrategy):
        rule = ScoreRule(CannotAssessConfig(strategy=strategy), normalize)
        if np.allclose(score_rows(table, codes, rule, means)[known], scores[known], rtol=0.0, atol=_CLOSE):
            return rule
    return ScoreRule()


def compare_scores(pairs: ScorePairs, confidence: float = 0.95) -> dict[str, Any]:
    """Return the result fields about scores, by name."""
    judged, true = pairs.judged, pairs.true
    # Sums in another order differ in their last digits; rounded, equal scores are ties.
    ranked = np.round(judged, _PLACES), np.round(true, _PLACES)
    errors = measure_errors(judged, true)
    return {
        "score_rmse": errors.rmse,
        "score_mae": errors.mae,
        "score_spearman": compute_correlation(*ranked, "spearman", confidence),
        "score_kendall": compute_correlation(*ranked, "kendall", confidence),
        "score_pearson": compute_correlation(judged, true, "pearson", confidence),
        "bias": systematic_bias(judged, true, confidence=confidence),
    }
