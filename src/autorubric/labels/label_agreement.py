"""Statistics from the labels of a store on the judge, two runs and scores, weighted by the draw of the pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize
from autorubric.labels.annotators import Annotators, compare_annotators
from autorubric.labels.event import PairFinder
from autorubric.labels.label_store import History
from autorubric.labels.weights import WeightedLabels, weight_labels
from autorubric.metrics.agreement_sums import SUMMED, Layout, compute_majority_baseline, pool_columns, sum_items
from autorubric.metrics.arrays import Floats, Ints, nan_to_none
from autorubric.metrics.compare import JudgeComparison, build_comparison, compute_differences
from autorubric.metrics.corrected import CorrectedScores
from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.intervals import Estimate, normal_quantile
from autorubric.metrics.jackknife import Draws, check_draws
from autorubric.metrics.label_choice import JudgedPairs, build_pairs, correct_sums, estimate_item_mean
from autorubric.metrics.reading_runs import read_graded_table
from autorubric.metrics.table import ABSTAINED, EXCLUDE, Column, GradedRun, Modes, Points, Table, map_codes

_CLOSE = 1e-9
_FEW = 5
"""Number of labels below which a projection starts from the worst case."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of the judge with some labels.

    Attributes:
        name: the name of the criterion or of the source of labels.
        n: the number of pairs of label and verdict.
        items: the number of items with such a pair.
        accuracy: the share of pairs that agree.
        kappa: Cohen's κ, quadratic for ordered options; for several criteria, κ over all binary pairs.
        baseline: the accuracy of always giving the most frequent label of each criterion.
        mean_kappa: over several criteria, the mean of their κ.
    """

    name: str
    n: int
    items: int
    accuracy: Estimate
    kappa: Estimate
    baseline: float | None
    mean_kappa: Estimate


@dataclass(frozen=True)
class LabelAgreement:
    """Agreement of a run with the labels of its store.

    Attributes:
        judge: the judge compared with the labels that count: adjudications, else `choose_majority`.
        criteria: the same for each criterion, or for each kind of criterion if items have their own rubrics.
        by_annotator: the judge compared with each annotator's labels.
        by_judge: each judge of a panel compared with the labels that count.
        adjudicated: the judge compared with the adjudications alone; None without any.
        annotators: the agreement of the annotators with each other.
        mean_score: the mean score estimated from the labels; None if the labels were not drawn from all pairs.
        weighted: whether labels are weighted by the probabilities of their draw.
        notes: remarks on what was left out.
        apart: the number of items whose score differs from the sum over their criteria, because it is clamped to [0,
            1] or has a length penalty; `mean_score` is the mean of these sums.
    """

    judge: Agreement
    criteria: tuple[Agreement, ...]
    by_annotator: tuple[Agreement, ...]
    by_judge: tuple[Agreement, ...]
    adjudicated: Agreement | None
    annotators: Annotators
    mean_score: Estimate | None
    weighted: bool
    notes: tuple[str, ...] = ()
    apart: int = 0


def label_agreement(
    run: GradedRun,
    dataset: RubricDataset,
    history: History,
    modes: Modes = EXCLUDE,
    draws: Draws = Draws(seed=0),  # noqa: B008 (a value)
    annotator: str | None = None,
) -> LabelAgreement:
    """Return the agreement of a run with the labels of its store.

    Labels of drawn pairs are weighted by the probabilities of the draw; see `autorubric.labels.weights`.

    Args:
        run: the graded run.
        dataset: the graded dataset.
        history: the events of the store.
        modes: how abstentions count.
        draws: how intervals are drawn.
        annotator: the annotator whose labels count; None for all, with adjudications.

    Raises:
        InputError: no label fits a judged pair, the annotator is unknown, or the labels cannot be weighted.
    """
    known = history.annotators()
    measure = JudgedRun(run, dataset, modes, draws, drawn=bool(history.draws))
    finder = PairFinder(dataset)
    chosen = weight_labels(history, finder, measure.pairs, annotator)
    if not chosen.labels:
        raise InputError(["no judged pair of the run has a label that counts", *chosen.notes])
    judge = measure.measure_all(annotator or "labels", chosen)
    each = [measure.measure_all(name, weight_labels(history, finder, measure.pairs, name)) for name in known]
    decided = {pair: word for pair, word in chosen.labels.items() if history.decision(pair.key) is not None}
    only = WeightedLabels(decided, np.ones(len(decided)), False)
    left = f"{len(chosen.labels) - judge.n} of {pluralize(len(chosen.labels), 'labelled pair')} left out: "
    left += "the judgment failed, or the judge or the label abstains (not applicable)"
    return LabelAgreement(
        judge,
        measure.measure_criteria(chosen),
        tuple(each),
        measure.measure_judges(chosen),
        measure.measure_all("adjudicated", only) if decided and annotator is None else None,
        compare_annotators(history, dataset, finder),
        measure.estimate_mean_score(chosen) if chosen.drawn and not chosen.partial else None,
        chosen.drawn,
        (*chosen.notes, *[left] * (judge.n < len(chosen.labels))),
        measure.apart,
    )


def projected_half_width(found: Agreement, more: int, confidence: float = 0.95) -> float:
    """Return the half-width of the accuracy's interval after more labels of the same kind.

    It shrinks with the square root of the number of labels. With fewer than five labels, or no interval, it is that
    of an accuracy of 0.5.

    Example:
        >>> from autorubric.metrics.intervals import Interval
        >>> none = Estimate(None)
        >>> found = Agreement("labels", 60, 60, Estimate(0.8, Interval(0.7, 0.9)), none, 0.5, none)
        >>> round(projected_half_width(found, 0), 3), round(projected_half_width(found, 180), 3)
        (0.1, 0.05)
    """
    if more < 0:
        raise InputError(f"more={more}; expected a number of labels, 0 or more")
    total = found.n + more
    interval = found.accuracy.interval
    if interval is None or found.n < _FEW:
        return 0.5 * normal_quantile(0.5 + confidence / 2.0) / math.sqrt(max(total, 1))
    return interval.width / 2.0 * math.sqrt(found.n / total)


class JudgedRun:
    """The judged pairs of a run, ready to be compared with labels."""

    def __init__(
        self, run: GradedRun, dataset: RubricDataset, modes: Modes, draws: Draws, *, drawn: bool = True
    ) -> None:
        table = read_graded_table(run, dataset, modes)
        # Pairs are drawn from items with a score; labels that were not drawn also count on other items, as in
        # `agree`.
        chosen = ~np.isnan(table.scores) if drawn else ~table.failed
        # These have the same rows, and so the same points in the same order, as the pairs.
        self._table: Table = table.select_rows(chosen)
        self.pairs: JudgedPairs = build_pairs(self._table, scored=drawn)
        self._draws = draws
        self.apart = int((np.abs(self._table.scores - self.pairs.sums) > _CLOSE).sum())
        self.columns = table.columns
        sizes = np.bincount(self._table.points.column, minlength=len(table.columns))
        self.pooled = dataset.rubric is None and bool((sizes != len(self._table.items)).any())

    @property
    def scores(self) -> Floats:
        """The scores of the items, as the run has them."""
        return self._table.scores

    def measure_all(self, name: str, labels: WeightedLabels) -> Agreement:
        """Return the agreement over all criteria."""
        return self._measure_points(name, self._select_decided(labels))

    def measure_judges(self, labels: WeightedLabels) -> tuple[Agreement, ...]:
        """Measure the agreement of each judge of a panel over all criteria; empty for a single judge."""
        judges = enumerate(self._table.judges if len(self._table.judges) > 1 else ())
        return tuple(self._measure_points(name, self._select_decided(labels, place)) for place, name in judges)

    def measure_criteria(self, labels: WeightedLabels) -> tuple[Agreement, ...]:
        """Return the agreement on each criterion that has a label."""
        points = self._select_decided(labels)
        columns, placed = self.group_criteria(points)
        return tuple(
            self._measure_points(columns[place].name, points.select(placed.column == place), int(place))
            for place in np.unique(placed.column)
        )

    def estimate_mean_score(self, labels: WeightedLabels) -> Estimate:
        """Estimate the mean score: the judge's score plus its errors, weighted like the labels."""
        pairs, at = self.pairs, self.find_places(labels)
        errors, amounts = self._compute_errors(labels)
        scores = correct_sums(pairs, errors, amounts)
        step = float(np.sqrt(np.mean(np.square(pairs.shares[at] * amounts[at]))))
        items = len(np.unique(pairs.rows[at]))
        return estimate_item_mean(scores, items, step, pairs.range, self._draws.confidence)

    def estimate_means(self, labels: WeightedLabels) -> dict[str, tuple[Estimate, Estimate, int]]:
        """Estimate each criterion's mean: by the judge, corrected for its errors, and the number of labels.

        Pairs without a verdict, or on which judge or label abstains, are left out. Empty if items have their own
        rubrics.
        """
        if self.pooled:
            return {}
        errors, amounts = self._compute_errors(labels)
        columns, values, at = self._table.points.column, self.pairs.values, self.find_places(labels)
        has_label = np.zeros(len(values), bool)
        has_label[at[self.encode_pairs(labels).truth >= 0]] = True
        found = {}
        for place, column in enumerate(self.columns):
            own = (columns == place) & ~np.isnan(values) & (self._table.points.judged >= 0)
            if not own.any():
                continue
            labelled, ends = own & has_label, (float(column.values.min()), float(column.values.max()))
            raw = estimate_item_mean(values[own], int(own.sum()), 0.0, ends, self._draws.confidence)
            right = Estimate(None, reason="none of its labels counts")
            if n := int(labelled.sum()):
                step = float(np.sqrt(np.mean(np.square(amounts[labelled]))))
                corrected = (values + np.where(has_label, errors * amounts, 0.0))[own]
                right = estimate_item_mean(corrected, n, step, ends, self._draws.confidence)
            found[column.name] = raw, right, n
        return found

    def _compute_errors(self, labels: WeightedLabels) -> tuple[Floats, Floats]:
        """Return label − verdict for each pair, 0 without a label, and the weight of each label."""
        pairs, at = self.pairs, self.find_places(labels)
        amounts, truth = np.zeros(len(pairs)), np.full(len(pairs), np.nan)
        columns = self._table.points.column[at]
        for place, column, word, weight in zip(at, columns, labels.labels.values(), labels.weights, strict=True):
            code = _encode_label(self.columns[column], word)
            truth[place] = 0.0 if code == ABSTAINED else self.columns[column].values[code]
            amounts[place] = weight
        return np.nan_to_num(truth - np.nan_to_num(pairs.values)), amounts

    def find_places(self, labels: WeightedLabels) -> Ints:
        """Return the place of each labelled pair among the pairs of the run; -1 where it is not judged."""
        return self.pairs.find((pair.index, pair.place) for pair in labels.labels)

    def encode_pairs(self, labels: WeightedLabels, judge: int | None = None) -> Points:
        """Return the weighted pairs of label and verdict, abstentions resolved; rows are places in the dataset.

        The verdicts are those of the panel, or of one of its judges.
        """
        at, points, columns = self.find_places(labels), self._table.points, self.columns
        column = points.column[at]
        words = zip(column, labels.labels.values(), strict=True)
        truth = np.array([_encode_label(columns[place], word) for place, word in words], np.int64)
        judged = points.judged[at] if judge is None else points.votes[judge, at]
        truth, judged = (map_codes(codes, columns, column) for codes in (truth, judged))
        items = np.array([pair.index for pair in labels.labels], np.int64)
        return Points(items, column, truth, judged, points.votes[:, at], labels.weights)

    def group_criteria(self, points: Points) -> tuple[Sequence[Column], Points]:
        """Return the criteria of some pairs; one for all of a kind where items have their own rubrics."""
        return pool_columns(self.columns, points) if self.pooled else (self.columns, points)

    def compute_sums(self, points: Points) -> tuple[Layout, Floats]:
        """Return the layout of the sums, and the contribution of each item with one of the pairs."""
        columns, points = self.group_criteria(points)
        items, row = np.unique(points.row, return_inverse=True)
        return sum_items(columns, len(items), replace(points, row=row))

    def _select_decided(self, labels: WeightedLabels, judge: int | None = None) -> Points:
        """Return the codes of pairs on which neither judge nor label abstains."""
        points = self.encode_pairs(labels, judge)
        return points.select((points.truth >= 0) & (points.judged >= 0))

    def _measure_points(self, name: str, points: Points, place: int | None = None) -> Agreement:
        """Return the agreement on some pairs; those of one criterion, or of one kind, have its `place`."""
        if not len(points):
            none = Estimate(None, reason="no pair of label and verdict")
            return Agreement(name, 0, 0, none, none, None, none)
        layout, sums = self.compute_sums(points)
        chosen = [SUMMED.index("accuracy"), SUMMED.index("kappa"), SUMMED.index("mean_kappa")]
        if place is not None:
            chosen[1] = len(SUMMED) + place
        figures = layout.summarize(sums.sum(axis=0))[chosen]
        every = layout.compute_intervals(sums, self._draws)
        accuracy, kappa, mean = (
            Estimate(nan_to_none(np.asarray(figure)), every[at].interval, len(points))
            for figure, at in zip(figures, chosen, strict=True)
        )
        if place is not None or self.pooled:
            mean = Estimate(None)
        baseline = compute_majority_baseline(self.columns, points, pooled=self.pooled)
        return Agreement(name, len(points), len(sums), accuracy, kappa, baseline, mean)


def _encode_label(column: Column, word: str) -> int:
    """Return the code of a label of the store."""
    return column.labels.index(word) if word in column.labels else ABSTAINED


_SINGLE = "labels of single pairs, drawn with unequal probabilities, have none without the judge's verdicts"


def compare_by_labels(
    runs: tuple[GradedRun, GradedRun],
    dataset: RubricDataset,
    history: History,
    modes: Modes,
    draws: Draws,
    annotator: str | None = None,
) -> JudgeComparison:
    """Compare two runs' agreement with the labels of a store, weighted by the probabilities of the draw.

    Args:
        runs: the run whose pairs were drawn, and another on the same items.
        dataset: the graded dataset.
        history: the events of the store.
        modes: how abstentions count.
        draws: how intervals and p-values are drawn.
        annotator: the annotator whose labels count; None for all, with adjudications.

    Raises:
        InputError: the labels cannot be weighted, or no labelled pair has a verdict of both runs.
    """
    first, second = (JudgedRun(run, dataset, modes, draws) for run in runs)
    chosen = weight_labels(history, PairFinder(dataset), first.pairs, annotator)
    common = chosen.select(second.find_places(chosen) >= 0)
    points, other = first.encode_pairs(common), second.encode_pairs(common)
    if [(column.name, column.labels) for column in first.columns] != [(c.name, c.labels) for c in second.columns]:
        raise InputError("the two runs have different criteria; expected runs on the same items and rubrics")
    both = (points.truth >= 0) & (points.judged >= 0) & (other.judged >= 0)
    if not both.any():
        raise InputError("the two runs have no labelled pair in common that both judged")
    notes = [*chosen.notes, "scores are not compared, since labels of single pairs do not give the score of an item"]
    if left := len(chosen.labels) - int(both.sum()):
        notes.append(f"{pluralize(left, 'labelled pair')} left out: one of the runs has no verdict on it")
    if chosen.drawn:
        notes.append("labels are weighted by the probabilities of the draw")
    first.pooled = second.pooled = first.pooled or second.pooled
    (layout, a), (_, b) = (
        run.compute_sums(points.select(both)) for run, points in ((first, points), (second, other))
    )
    columns, placed = first.group_criteria(points.select(both))
    names = [] if first.pooled else [column.name for column in columns]
    sizes = np.bincount(placed.column, minlength=len(columns))
    made = compute_differences(layout, (a, b), (names, sizes, 0), draws)
    return build_comparison(made, len(a), draws, notes)


def correct_by_labels(
    run: GradedRun, dataset: RubricDataset, history: History, confidence: float = 0.95, annotator: str | None = None
) -> CorrectedScores:
    """Correct the mean score and each criterion's mean by the weighted errors of the judge on drawn labels.

    Args:
        run: the graded run.
        dataset: the graded dataset.
        history: the events of the store.
        confidence: the level of the intervals.
        annotator: the annotator whose labels count; None for all, with adjudications.

    Raises:
        InputError: the labels cannot be weighted, or none counts.
    """
    measure = JudgedRun(run, dataset, Modes(), check_draws("replicates", 2, confidence, 0))
    chosen = weight_labels(history, PairFinder(dataset), measure.pairs, annotator)
    if not chosen.labels:
        raise InputError(["no judged pair of the run has a label that counts", *chosen.notes])
    pairs, none = measure.pairs, Estimate(None, reason=_SINGLE)
    items = len(pairs.items)
    raw = estimate_item_mean(pairs.sums, items, 0.0, pairs.range, confidence)
    part = Estimate(None, reason="the labels were drawn from a part of the pairs")
    labelled = len(np.unique(pairs.rows[measure.find_places(chosen)]))
    corrected = part if chosen.partial else measure.estimate_mean_score(chosen)
    score = Corrections(raw, none, corrected, None, labelled, items - labelled, none)
    criteria = {
        name: Corrections(judged, none, right, None, n, judged.n - n, none)
        for name, (judged, right, n) in measure.estimate_means(chosen).items()
    }
    notes = [*chosen.notes, "labels are weighted by the probabilities of the draw"]
    if measure.apart:
        notes.append(
            f"the scores of {pluralize(measure.apart, 'item')} are clamped or have a length penalty, and "
            "labels of single pairs correct scores before both; the mean score of the run is "
            f"{measure.scores.mean():.3f}"
        )
    return CorrectedScores(score, criteria, tuple(notes), weighted=True, apart=measure.apart)
