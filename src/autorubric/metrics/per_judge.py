"""The agreement of each judge's own votes with the labels, and what the panel is without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autorubric.errors import InputError
from autorubric.metrics.abstentions import Modes, coverage_of, settled, settled_votes
from autorubric.metrics.arrays import Floats, Ints, defined
from autorubric.metrics.base_rate import base_rate
from autorubric.metrics.between_judges import between_judges
from autorubric.metrics.bootstrap import Bootstrap
from autorubric.metrics.column import ABSENT, ABSTAINED, FAILED
from autorubric.metrics.confusion import confusion_counts, mcc, precision_recall
from autorubric.metrics.criterion_agreement import kappa_weights
from autorubric.metrics.criterion_results import ConfusionMatrix
from autorubric.metrics.kappa import gwets, kappas
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.results import JudgeInfluence, JudgeMetrics
from autorubric.metrics.scores import score_agreement, score_pairs
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.subsets import part_figures
from autorubric.metrics.table import Points, Table


def per_judge_metrics(
    run: LabelledRun, confidence: float, drawing: Bootstrap | None = None
) -> dict[str, JudgeMetrics]:
    """The figures of each judge, by its id.

    Args:
        run: a run and its labels.
        confidence: of the intervals of scores.
        drawing: how intervals of agreement are drawn, by resampling items; None for none.

    Raises:
        InputError: a judge has votes on a criterion for some items and not for others, and no cascade says why.
    """
    table, modes = run.table, run.modes
    _refuse_gaps(table)
    found = {}
    for place, judge in enumerate(table.judges):
        votes = table.points.votes[place]
        own = replace(table, points=replace(table.points, judged=votes))
        asked = table.points.where(votes > ABSENT)
        pairs = settled(own, modes)
        scores = score_pairs(table, table.judge_scores[place], votes, run.settings)
        whole = len(asked) == len(table.points)
        found[judge] = JudgeMetrics(
            judge_id=judge,
            **_criterion_figures(own, pairs, modes, pooled=run.pooled),
            **score_agreement(scores, confidence),
            confusion_matrix=_confusion(own),
            coverage="full" if whole or not table.escalated else "escalated",
            n_pairs=len(pairs),
            coverage_stats=coverage_of(replace(asked, judged=asked.votes[place]), len(pairs)),
            **_intervals(replace(run, table=own, points=pairs, scores=scores), drawing),
        )
    return found


def _intervals(own: LabelledRun, drawing: Bootstrap | None) -> dict[str, ConfidenceInterval | None]:
    """Of a judge's accuracy and kappas, as of those of the whole run."""
    part = part_figures(own, np.ones(len(own.table.columns), bool), drawing)
    return {"accuracy_ci": part.accuracy_ci, "kappa_ci": part.mean_kappa_ci, "micro_kappa_ci": part.micro_kappa_ci}


def without_each_judge(run: LabelledRun) -> list[JudgeInfluence]:
    """What the most frequent vote of the others agrees with, for each judge left out; empty for fewer than three."""
    table, modes = run.table, run.modes
    if len(table.judges) < 3:
        return []
    whole = _right(table, modes, np.arange(len(table.judges)))
    found = []
    for place, judge in enumerate(table.judges):
        others = np.delete(np.arange(len(table.judges)), place)
        without = _right(table, modes, others)
        compared, both = without[~np.isnan(without)], (without - whole)[~np.isnan(without - whole)]
        found.append(
            JudgeInfluence(
                judge_id=judge,
                accuracy_without=float(compared.mean()) if len(compared) else None,
                accuracy_change=float(both.mean()) if len(both) else None,
                alpha_without=None if run.pooled else _mean_alpha(table, modes, others),
                n_pairs=len(compared),
                n_both=len(both),
            )
        )
    return found


def _right(table: Table, modes: Modes, judges: Ints) -> Floats:
    """Of each point 1 where the most frequent vote of some judges is the label, else 0; NaN where none is decided."""
    # What is settled keeps the places of its points where the votes would be.
    places = np.arange(len(table.points))[None]
    panel = replace(table.points, judged=most_frequent(table, table.points.votes[judges]), votes=places)
    pairs = settled(replace(table, points=panel), modes)
    found = np.full(len(table.points), np.nan)
    found[pairs.votes[0]] = pairs.truth == pairs.judged
    return found


def most_frequent(table: Table, votes: Ints) -> Ints:
    """The most frequent category of each point; of equals the one that scores least.

    Abstentions count where there is nothing else; a point without a vote is FAILED.
    """
    best = np.full(votes.shape[1], FAILED, np.int64)
    best[(votes == ABSTAINED).any(axis=0)] = ABSTAINED
    most = np.zeros(votes.shape[1], np.int64)
    for column in table.columns:
        here = np.flatnonzero(table.points.column == column.index)
        cost = column.values if column.criterion.weight >= 0 else -column.values
        # From the worst category up, so that another has to have more votes to replace it.
        for code in np.argsort(cost, kind="stable"):
            count = (votes[:, here] == code).sum(axis=0)
            more = here[count > most[here]]
            best[more] = code
            most[here] = np.maximum(most[here], count)
    return best


def _mean_alpha(table: Table, modes: Modes, judges: Ints) -> float | None:
    alphas = []
    for column in table.columns:
        votes = table.points.votes[judges][:, table.points.column == column.index]
        alpha = between_judges(
            settled_votes(votes, column, modes), column, len(modes.labels(column))
        ).krippendorff_alpha
        if alpha is not None:
            alphas.append(alpha)
    return float(np.mean(alphas)) if alphas else None


def _criterion_figures(table: Table, pairs: Points, modes: Modes, *, pooled: bool) -> dict[str, Any]:
    binary = np.array([column.kind == "binary" for column in table.columns], bool)
    flat = pairs.where(binary[pairs.column])
    size = 3 if modes.cannot_assess == "as_category" else 2
    counts = confusion_counts(flat.truth, flat.judged, size)
    precision, recall, f1 = precision_recall(counts)
    each = [] if pooled else [_kappa(table, pairs, modes, place) for place in range(len(table.columns))]
    known = [kappa for kappa in each if kappa is not None]
    return {
        "criterion_accuracy": float((pairs.truth == pairs.judged).mean()) if len(pairs) else None,
        "criterion_precision": precision,
        "criterion_recall": recall,
        "criterion_f1": f1,
        "mean_kappa": float(np.mean(known)) if known else None,
        "phi": mcc(confusion_counts(flat.truth > 0, flat.judged > 0, 2)),
        "micro_kappa": defined(kappas(counts)),
        "gwet": defined(gwets(counts)),
        "base_rate": base_rate(table.columns, pairs, pooled=pooled),
    }


def _kappa(table: Table, pairs: Points, modes: Modes, place: int) -> float | None:
    column, own = table.columns[place], pairs.where(pairs.column == place)
    size = len(modes.labels(column))
    return defined(kappas(confusion_counts(own.truth, own.judged, size), kappa_weights(column, size)))


def _confusion(table: Table) -> ConfusionMatrix | None:
    """Binary votes and labels before abstentions are settled."""
    binary = np.array([column.kind == "binary" for column in table.columns], bool)
    points = table.points
    chosen = points.where(binary[points.column] & (points.judged > FAILED))
    if not len(chosen):
        return None
    truth, judged = (np.where(codes == ABSTAINED, 2, codes) for codes in (chosen.truth, chosen.judged))
    counts = confusion_counts(truth, judged, 3)
    return ConfusionMatrix(matrix=counts.tolist(), labels=["MET", "UNMET", "CANNOT_ASSESS"])


def _refuse_gaps(table: Table) -> None:
    if table.escalated:
        return
    problems = []
    for judge, votes in zip(table.judges, table.points.votes, strict=True):
        asked = np.bincount(table.points.column[votes > ABSENT], minlength=len(table.columns))
        every = np.bincount(table.points.column, minlength=len(table.columns))
        part = np.flatnonzero((asked > 0) & (asked < every))
        if len(part):
            column = int(part[0])
            problems.append(
                f"judge {judge!r} voted on {table.columns[column].name!r} for {asked[column]} of {every[column]} "
                "items; figures per judge need the same judges on every item"
            )
    if problems:
        raise InputError(problems)
