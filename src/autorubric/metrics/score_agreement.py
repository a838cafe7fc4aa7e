"""How the scores of a run, and the verdicts on each criterion, relate to human scores of whole submissions."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from autorubric.core.display import Displayed
from autorubric.dataset import RubricDataset
from autorubric.dataset.human_scores import read_human_scores
from autorubric.dataset.item import PREFERENCE_PAIR
from autorubric.errors import pluralize
from autorubric.metrics.arrays import Floats, Ints, ratio
from autorubric.metrics.correlation import compute_correlation, count_orders
from autorubric.metrics.jackknife import share_interval
from autorubric.metrics.reading_runs import describe_left_out, read_graded_table
from autorubric.metrics.statistic_results import ConfidenceInterval, CorrelationResult, MetricModel
from autorubric.metrics.table import GradedRun

_PLACES = 12
_LEAST = 3
"""The minimum number of items for a correlation."""


class ScoreRelation(MetricModel):
    """The relation of one series of values to the human scores.

    Attributes:
        name: `score`, or the name of a criterion.
        spearman: rank correlation over all items.
        kendall: τ-b over all items.
        pearson: correlation of the values.
        pairwise_accuracy: the share of pairs of submissions to one query (or of one preference pair) with different
            human scores that the values order as people do; equal values count one half.
        pairwise_ci: its interval, with queries as the unit; None if all pairs belong to one query.
        n_pairs: the number of these pairs.
        n_ties: the number of these pairs with equal values.
        n_queries: the number of queries with such pairs.
    """

    name: str
    spearman: CorrelationResult
    kendall: CorrelationResult
    pearson: CorrelationResult
    pairwise_accuracy: float | None
    pairwise_ci: ConfidenceInterval | None
    n_pairs: int
    n_ties: int
    n_queries: int


class HumanScoreAgreement(Displayed, MetricModel):
    """The relation of a run to human scores.

    Attributes:
        score: the key of the human scores.
        n_items: items with a human score and a score of the run.
        overall: the relation of the score.
        criteria: the relation of each criterion's value: 1 for MET, 0 for UNMET, or the value of the chosen option.
        confidence: the level of the intervals.
        warnings: remarks on what is left out, and on missing intervals.
    """

    score: str
    n_items: int
    overall: ScoreRelation
    criteria: list[ScoreRelation]
    confidence: float
    warnings: list[str]

    def _build_rows(self) -> Iterator[Mapping[str, Any]]:
        for part in (self.overall, *self.criteria):
            values = {found.method: found.coefficient for found in (part.spearman, part.kendall, part.pearson)}
            row = part.model_dump(exclude={"spearman", "kendall", "pearson", "pairwise_ci"})
            yield row | values | {"n": part.spearman.n_samples}


def compare_with_human_scores(
    run: GradedRun, dataset: RubricDataset, key: str, confidence: float = 0.95
) -> HumanScoreAgreement:
    """Compare a run with the human scores in the metadata of its items.

    Args:
        run: the run.
        dataset: its items.
        key: the metadata key of the human scores; on any scale, higher is better.
        confidence: the level of the intervals.

    Raises:
        InputError: a human score is not a number, or no item has one.
    """
    table = read_graded_table(run, dataset)
    human = np.array(read_human_scores(dataset, key))[table.items]
    groups: dict[tuple[str, str], int] = {}
    keys = [(dataset.get_item_prompt(n), str(dataset[n].metadata.get(PREFERENCE_PAIR))) for n in table.items.tolist()]
    query = np.array([groups.setdefault(key, len(groups)) for key in keys], np.int64)
    overall = _measure_relation("score", table.scores, human, query, confidence)
    order = np.argsort(table.points.column, kind="stable")
    ends = np.cumsum(np.bincount(table.points.column, minlength=len(table.columns)))
    every, criteria, few = table.values, list[ScoreRelation](), 0
    for column, places in zip(table.columns, np.split(order, ends[:-1]), strict=True):
        rows, values = table.points.row[places], every[places]
        if np.count_nonzero(~np.isnan(values + human[rows])) < _LEAST:
            few += 1
        else:
            criteria.append(_measure_relation(column.name, values, human[rows], query[rows], confidence))
    missing, lost = int(np.isnan(human).sum()), len(dataset) - len(table.items)
    notes = (
        (missing, f"{pluralize(missing, 'graded item')} without {key!r} left out"),
        (few, f"{pluralize(few, 'criterion')} with fewer than {_LEAST} verdicts on scored items left out"),
        (overall.n_queries == 1, "no interval for the pairwise accuracy: all pairs belong to one query"),
        (
            overall.spearman.ci is not None and overall.spearman.ci.upper < 0,
            f"items with a higher {key!r} have lower scores; if its lowest value is the best, negate it",
        ),
        (not overall.n_pairs, "no pairs: no query has two submissions with different human scores"),
    )
    left_out = describe_left_out(table, "the correlations") if lost or np.isnan(table.scores).any() else ()
    return HumanScoreAgreement(
        score=key,
        n_items=overall.spearman.n_samples,
        overall=overall,
        criteria=criteria,
        confidence=confidence,
        warnings=[*left_out, *(sentence for applies, sentence in notes if applies)],
    )


def _measure_relation(name: str, values: Floats, human: Floats, query: Ints, confidence: float) -> ScoreRelation:
    both = ~np.isnan(values) & ~np.isnan(human)
    # Sums in another order differ in their last digits, so scores are rounded to keep ties.
    own, true, query = np.round(values[both], _PLACES), human[both], query[both]
    counts = count_orders(own, true, query)
    compared = counts.pairs - counts.tied_y
    pairs = compared[compared > 0].astype(float)
    alike, opposite = (number[compared > 0] for number in (counts.concordant, counts.discordant))
    ties = pairs - alike - opposite
    hits = alike + ties / 2.0
    interval = share_interval(hits, pairs, confidence) if len(pairs) > 1 else None
    [accuracy] = ratio(hits.sum(keepdims=True), pairs.sum(keepdims=True)).tolist()
    return ScoreRelation(
        name=name,
        spearman=compute_correlation(own, true, "spearman", confidence),
        kendall=compute_correlation(own, true, "kendall", confidence),
        pearson=compute_correlation(own, true, "pearson", confidence),
        pairwise_accuracy=None if np.isnan(accuracy) else accuracy,
        pairwise_ci=ConfidenceInterval.from_interval(interval, "wilson"),
        n_pairs=int(pairs.sum()),
        n_ties=int(ties.sum()),
        n_queries=len(pairs),
    )
