"""What a panel says without each of its judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autorubric.metrics.agreement_statistics import measure
from autorubric.metrics.arrays import Floats, Ints
from autorubric.metrics.labelled_run import LabelledRun, Modes, settle
from autorubric.metrics.per_criterion import criterion_part
from autorubric.metrics.results import JudgeInfluence
from autorubric.metrics.table import ABSTAINED, FAILED, Table


def leave_out_judges(run: LabelledRun) -> list[JudgeInfluence]:
    """What the most frequent vote of the others agrees with, for each judge left out; empty for fewer than three."""
    table, modes = run.table, run.modes
    if len(table.judges) < 3:
        return []
    whole = _find_right(table, modes, np.arange(len(table.judges)))
    found = []
    for place, judge in enumerate(table.judges):
        others = np.delete(np.arange(len(table.judges)), place)
        without = _find_right(table, modes, others)
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


def _find_right(table: Table, modes: Modes, judges: Ints) -> Floats:
    """For each point 1 where the most frequent vote of some judges is the label, else 0; NaN where undecided."""
    # What is settled keeps the places of its points where the votes would be.
    places = np.arange(len(table.points))[None]
    panel = replace(table.points, judged=_most_frequent(table, table.points.votes[judges]), votes=places)
    pairs = settle(replace(table, points=panel), modes)
    found = np.full(len(table.points), np.nan)
    found[pairs.votes[0]] = pairs.truth == pairs.judged
    return found


def _most_frequent(table: Table, votes: Ints) -> Ints:
    """The most frequent category of each point, of equals the one that scores least; abstentions only if alone."""
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
    """Krippendorff's α among some judges, averaged over criteria."""
    alphas = []
    for column in table.columns:
        raw = table.points.where(table.points.column == column.index)
        part = criterion_part(column, raw.where(slice(0)), raw.votes[judges], modes)
        alpha = measure(part).get("krippendorff_alpha")
        alphas += [] if alpha is None else [alpha]
    return float(np.mean(alphas)) if alphas else None
