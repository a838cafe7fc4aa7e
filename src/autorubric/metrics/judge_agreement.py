"""Agreement among judges, without labels: each pair of judges of a panel, or two runs on the same items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import Field

from autorubric.core.display import Displayed
from autorubric.core.scoring import ScoreRule
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.agreement_sums import measure_columns
from autorubric.metrics.arrays import Flags, Floats, Ints
from autorubric.metrics.confusion import count_ratings, krippendorff_alpha
from autorubric.metrics.jackknife import Draws, check_draws, share_interval
from autorubric.metrics.labelled_run import LabelledRun, resolve_abstentions
from autorubric.metrics.reading_runs import read_graded_table
from autorubric.metrics.scores import ScorePairs
from autorubric.metrics.self_consistency import NO_JUDGE
from autorubric.metrics.statistic_results import ConfidenceInterval, MetricModel
from autorubric.metrics.table import (
    ABSENT,
    CannotAssessMode,
    Column,
    GradedRun,
    NAMode,
    Table,
    check_modes,
    map_codes,
)

_MOST_CRITERIA = 200
"""Maximum number of criteria listed individually; more occur only if items have their own rubrics."""


class VoteAgreement(MetricModel):
    """How often two judges give the same verdict. Undefined values are None.

    Attributes:
        name: the name of the criterion or the judge.
        n: the number of compared pairs of verdicts, without failures, and without abstentions unless these count.
        n_items: the number of items with these pairs.
        agreement: the share of pairs with the same verdict or option.
        agreement_ci: with items as clusters; see `autorubric.metrics.jackknife.share_interval`.
        alpha: Krippendorff's α among the judges; for a criterion only.
    """

    name: str
    n: int
    n_items: int
    agreement: float | None
    agreement_ci: ConfidenceInterval | None = None
    alpha: float | None = None


class JudgePair(VoteAgreement):
    """The agreement of two judges; `name` is the first judge.

    Attributes:
        other: the second judge.
        mean_kappa: Cohen's κ, a mean over the criteria on which it is defined; weighted where options have an order.
        mean_kappa_ci: by a Bayesian bootstrap over items.
        kappa: Cohen's κ over all binary pairs.
        kappa_ci: the interval of `kappa`, from its posterior.
        gwet: Gwet's AC1 over all binary pairs.
        part: whether the two were compared only where a cascade asked both.
    """

    other: str
    mean_kappa: float | None = None
    mean_kappa_ci: ConfidenceInterval | None = None
    kappa: float | None = None
    kappa_ci: ConfidenceInterval | None = None
    gwet: float | None = None
    part: bool = False


class DisputedItem(MetricModel):
    """An item on which judges differ.

    Attributes:
        item: its place in the dataset, from 0.
        id: its id, if it has one.
        differing: the share of pairs of verdicts that differ.
        n: pairs of verdicts.
        criteria: names of the criteria on which judges differ.
    """

    item: int
    id: str | None
    differing: float
    n: int
    criteria: list[str]


class JudgeAgreement(Displayed, MetricModel):
    """Agreement among judges.

    Attributes:
        judges: the judges' ids, or the names of the two runs.
        n_items: items on which at least two of them gave a verdict.
        overall: the agreement over all pairs of judges and all criteria.
        criteria: each criterion, the least agreement first.
        each_judge: each judge compared with all others, the least agreement first.
        pairs: each pair of judges.
        disputed: the items on which judges differ most.
        warnings: remarks on what was left out.
    """

    judges: list[str]
    n_items: int
    overall: VoteAgreement
    criteria: list[VoteAgreement]
    each_judge: list[VoteAgreement]
    pairs: list[JudgePair]
    disputed: list[DisputedItem] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        for found in (self.overall, *self.criteria):
            ends = found.agreement_ci
            row = found.model_dump(exclude={"agreement_ci"})
            yield row | {"ci_lower": ends and ends.lower, "ci_upper": ends and ends.upper}


def measure_judge_agreement(  # noqa: PLR0913 (the arguments of compute_metrics)
    run: GradedRun,
    dataset: RubricDataset,
    against: GradedRun | None = None,
    *,
    names: tuple[str, str] = ("a", "b"),
    n_replicates: int = 1000,
    confidence_level: float = 0.95,
    seed: int | None = None,
    cannot_assess: CannotAssessMode = "exclude",
    na_mode: NAMode = "exclude",
    most_disputed: int = 10,
) -> JudgeAgreement:
    """Measure the agreement among the judges of a panel, or between the final verdicts of two runs, without labels.

    Verdicts of checks and of the rule for empty submissions are left out.

    Args:
        run: a run, with the votes of a panel if `against` is None.
        dataset: the graded dataset.
        against: another run on the same items.
        names: the names of the two runs.
        n_replicates: the number of draws from the posterior of κ.
        confidence_level: the level of the intervals.
        seed: for reproducible intervals.
        cannot_assess: see `compute_metrics`.
        na_mode: see `compute_metrics`.
        most_disputed: the maximum number of items to list.

    Raises:
        InputError: there are no two judges to compare, or the two runs have no item or criterion in common.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> from types import SimpleNamespace as Run
        >>> dataset, reports = example_run()
        >>> results = [Run(item_idx=place, report=report, error=None) for place, report in enumerate(reports)]
        >>> run = Run(item_results=results)
        >>> measure_judge_agreement(run, dataset, run, names=("run", "its copy")).overall.agreement
        1.0
    """
    modes = check_modes(cannot_assess, na_mode)
    draws = check_draws("n_replicates", n_replicates, confidence_level, seed)
    table, part = read_graded_table(run, dataset, modes), set[tuple[int, int]]()
    if against is None:
        table, part = _select_panel(table)
    else:
        table = _pair_runs(table, read_graded_table(against, dataset, modes), names)
    found = _measure(_Votes(table, draws), part, dataset, most_disputed)
    if not found.overall.n:
        raise InputError("no criterion has verdicts of two judges to compare: the others failed or abstained")
    return found


def _measure(votes: _Votes, part: set[tuple[int, int]], dataset: RubricDataset, most_disputed: int) -> JudgeAgreement:
    """Measure the agreement of the votes; `part` has the pairs of judges that were asked about different points."""
    table = votes.table
    full = [pair for pair in votes.pairs if pair not in part] or votes.pairs
    of_columns = table.columns if len(table.columns) <= _MOST_CRITERIA else ()
    overall = votes.compare("all", full)
    each = [votes.compare(judge, [pair for pair in full if n in pair]) for n, judge in enumerate(table.judges)]
    return JudgeAgreement(
        judges=list(table.judges),
        n_items=overall.n_items,
        overall=overall,
        criteria=sorted((votes.compare(column.name, full, column) for column in of_columns), key=_rank_agreement),
        each_judge=sorted(each, key=_rank_agreement),
        pairs=[votes.compare_two(pair, part=pair in part) for pair in votes.pairs],
        disputed=votes.find_disputed(full, dataset, most_disputed),
        warnings=list(_collect_warnings(table, votes, part)),
    )


def _select_panel(table: Table) -> tuple[Table, set[tuple[int, int]]]:
    """Return the table with its judges' votes, and the pairs of judges that a cascade asked about other points."""
    judged = [n for n, judge in enumerate(table.judges) if judge not in NO_JUDGE]
    if len(judged) < 2:
        raise InputError(
            "the run has one judge, and no labels: there is nothing to compare its verdicts with",
            "Give labels (--labels FILE or --dataset FILE), or another run with --against RUN.",
        )
    votes = table.points.votes[judged]
    made = replace(
        table,
        points=replace(table.points, votes=votes),
        judges=tuple(table.judges[n] for n in judged),
        judge_scores=table.judge_scores[judged],
    )
    asked = votes > ABSENT
    apart = {
        (one, two)
        for one, two in combinations(range(len(judged)), 2)
        if table.escalated and (asked[one] != asked[two]).any()
    }
    return made, apart


def _pair_runs(a: Table, b: Table, names: tuple[str, str]) -> Table:
    """Return the criteria that two runs have both judged, as a table whose judges are the runs."""
    places = {column.key: column.index for column in a.columns}
    moved = np.array([places.get(column.key, -1) for column in b.columns], np.int64)
    width = len(a.columns)
    keys = [a.items[a.points.row] * width + a.points.column]
    columns = moved[b.points.column]
    keys.append(np.where(columns >= 0, b.items[b.points.row] * width + columns, -1))
    _, first, second = np.intersect1d(keys[0], keys[1], return_indices=True)
    if not len(first):
        raise InputError("the two runs have no item and criterion in common")
    votes = np.stack([_read_judged_verdicts(a)[first], _read_judged_verdicts(b)[second]])
    points = replace(a.points.select(first), votes=votes)
    order = np.argsort(points.row, kind="stable")
    points = points.select(order)
    rows, row = np.unique(points.row, return_inverse=True)
    kept = np.zeros(len(a.items), bool)
    kept[rows] = True
    made = replace(a.select_rows(kept), points=replace(points, row=row.astype(np.int64)))
    return replace(made, judges=names, judge_scores=np.full((2, len(rows)), np.nan), escalated=False)


def _read_judged_verdicts(table: Table) -> Ints:
    """Return the final verdict of each point; ABSENT if no judge voted on it, or the item has no judgment."""
    verdicts = np.where(table.failed[table.points.row], ABSENT, table.points.judged)
    if not table.judges:
        return verdicts
    judges = np.array([judge not in NO_JUDGE for judge in table.judges])
    asked = (table.points.votes > ABSENT)[judges].any(axis=0)
    return np.where(asked, verdicts, ABSENT)


@dataclass
class _Votes:
    """The votes of judges, with abstentions resolved."""

    table: Table
    draws: Draws

    def __post_init__(self) -> None:
        points = self.table.points
        self.cast = map_codes(points.votes, self.table.columns, points.column)
        self.pairs = list(combinations(range(len(self.table.judges)), 2))

    def find_common(self, pair: tuple[int, int]) -> Flags:
        """Return the points on which both judges gave a verdict."""
        return np.asarray((self.cast[pair[0]] >= 0) & (self.cast[pair[1]] >= 0))

    def compare(self, name: str, pairs: Sequence[tuple[int, int]], column: Column | None = None) -> VoteAgreement:
        """Measure how often the given pairs of judges agree, on one criterion or on all, with items as clusters."""
        chosen = np.ones(len(self.table.points), bool)
        if column is not None:
            chosen = self.table.points.column == column.index
        same, count = self._count_agreements(pairs, chosen)
        used = count > 0
        total = float(count.sum())
        share = float(same.sum() / total) if total else None
        alpha = None
        if column is not None and total:
            level, values = ("ordinal", column.values) if column.kind == "ordinal" else ("nominal", None)
            ratings = count_ratings(self.cast[:, chosen], len(column.categories))
            alpha = krippendorff_alpha(ratings, level, values)  # type: ignore[arg-type]
        return VoteAgreement(
            name=name,
            n=int(total),
            n_items=int(used.sum()),
            agreement=share,
            agreement_ci=ConfidenceInterval.from_interval(
                share_interval(same[used], count[used], self.draws.confidence), "wilson"
            ),
            alpha=alpha,
        )

    def compare_two(self, pair: tuple[int, int], *, part: bool) -> JudgePair:
        """Compare two judges by those statistics of labelled pairs that are symmetric."""
        table = self.table
        one, two = (table.points.votes[place] for place in pair)
        asked = replace(table.points, truth=one, judged=two).select((one > ABSENT) & (two > ABSENT))
        own, nothing = replace(table, points=asked), np.empty(0)
        scores = ScorePairs(np.empty(0, np.int64), nothing, nothing, ScoreRule())
        run = LabelledRun(own, resolve_abstentions(own), scores, own.points.select(np.zeros(len(own.points), bool)))
        found = measure_columns(run, np.ones(len(table.columns), bool), self.draws)
        whole = self.compare(table.judges[pair[0]], [pair])
        return JudgePair(
            **whole.model_dump(exclude={"agreement_ci"}),
            agreement_ci=whole.agreement_ci,
            other=table.judges[pair[1]],
            mean_kappa=found.values.get("mean_kappa"),
            mean_kappa_ci=found.intervals.get("mean_kappa"),
            kappa=found.values.get("kappa"),
            kappa_ci=found.intervals.get("kappa"),
            gwet=found.values.get("gwet"),
            part=part,
        )

    def find_disputed(self, pairs: list[tuple[int, int]], dataset: RubricDataset, most: int) -> list[DisputedItem]:
        """Return the items with the largest shares of pairs that differ."""
        points = self.table.points
        same, count = self._count_agreements(pairs, np.ones(len(points), bool))
        share = np.divide(count - same, count, out=np.zeros(len(self.table.items)), where=count > 0)
        order = [row for row in np.argsort(-share, kind="stable")[:most] if share[row] > 0]
        differing = np.zeros(len(points), bool)
        for pair in pairs:
            differing |= self.find_common(pair) & (self.cast[pair[0]] != self.cast[pair[1]])
        return [
            DisputedItem(
                item=int(self.table.items[row]),
                id=dataset[int(self.table.items[row])].id,
                differing=float(share[row]),
                n=int(count[row]),
                criteria=[self.table.columns[c].name for c in points.column[differing & (points.row == row)]],
            )
            for row in order
        ]

    def _count_agreements(self, pairs: Sequence[tuple[int, int]], chosen: Flags) -> tuple[Floats, Floats]:
        """Return the number of equal pairs of verdicts of each item, and the number of all pairs."""
        same, count = np.zeros(len(self.table.items)), np.zeros(len(self.table.items))
        for pair in pairs:
            both = chosen & self.find_common(pair)
            rows = self.table.points.row[both]
            hits = self.cast[pair[0]][both] == self.cast[pair[1]][both]
            count += np.bincount(rows, minlength=len(self.table.items))
            same += np.bincount(rows, hits, minlength=len(self.table.items))
        return same, count


def _rank_agreement(found: VoteAgreement) -> float:
    """Return the sort key: the lowest agreement first, undefined ones last."""
    return 2.0 if found.agreement is None else found.agreement


def _collect_warnings(table: Table, votes: _Votes, part: set[tuple[int, int]]) -> Iterator[str]:
    """Yield notes on judgments left out, on cascades, and on criteria that are not listed."""
    points = table.points
    left = int((~np.any([votes.find_common(pair) for pair in votes.pairs], axis=0)).sum())
    if left:
        yield (
            f"{left} of {len(points)} judgments are left out: fewer than two judges gave a verdict (others failed, "
            "abstained or were not asked, or a check decided)"
        )
    if part:
        names = sorted({f"{table.judges[one]} and {table.judges[two]}" for one, two in part})
        yield f"compared only where the cascade asked both: {', '.join(names)}"
    if len(table.columns) > _MOST_CRITERIA:
        yield f"items have different rubrics: their {len(table.columns)} criteria are not listed one by one"
