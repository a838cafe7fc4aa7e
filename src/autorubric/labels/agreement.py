"""Agreement of the judge with the labels of a store: weighted, per criterion, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.labels.annotators import Annotators, annotators_of
from autorubric.labels.drawing import positions
from autorubric.labels.event import PairFinder
from autorubric.labels.store import History
from autorubric.labels.weights import Weighted, weighted_labels
from autorubric.metrics.agreement_sums import SCORE_SUMS, SUMMED, Layout, kappa_weights
from autorubric.metrics.arrays import Flags, Floats, Ints, defined, ratio
from autorubric.metrics.intervals import Estimate, Interval, normal_quantile, wilson_interval
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.label_choice import JudgedPairs, corrected_sums, item_mean, read_pairs
from autorubric.metrics.labelled_run import Modes
from autorubric.metrics.reading_runs import graded_table
from autorubric.metrics.table import ABSTAINED, Column, GradedRun, Table

_FEW = 5
"""Labels below which a projection starts from the worst case."""


@dataclass(frozen=True)
class Agreement:
    """How far the judge agrees with some labels.

    Attributes:
        name: of the criterion, or whose labels they are.
        n: pairs of label and verdict.
        items: items with such a pair.
        accuracy: the share of pairs that agree.
        kappa: Cohen's κ, quadratic for ordered options; over several criteria that of all binary pairs.
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
        judge: the judge against the labels that count: adjudications, else the majority, else the first label.
        criteria: the same for each criterion; one for all of a kind where items have rubrics of their own.
        by_annotator: the judge against each annotator's labels.
        by_judge: each judge of a panel against the labels that count.
        adjudicated: the judge against the adjudications alone; None without any.
        annotators: the annotators against one another.
        mean_score: the mean score that the labels give; None where the labels were not drawn from all pairs.
        weighted: whether labels are weighted by the probabilities of their draw.
        notes: what a reader must know.
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


def label_agreement(
    run: GradedRun,
    dataset: RubricDataset,
    history: History,
    modes: Modes = Modes(),  # noqa: B008 (a value)
    draws: Draws = Draws(seed=0, named="replicates"),  # noqa: B008 (a value)
    annotator: str | None = None,
) -> LabelAgreement:
    """The agreement of a run with the labels of its store.

    Labels of drawn pairs are weighted by the probabilities of the draw; see `autorubric.labels.weights`.

    Args:
        run: the graded run.
        dataset: what was graded.
        history: the events of the store.
        modes: how abstentions count.
        draws: how intervals are drawn.
        annotator: whose labels count; None for all, with adjudications.

    Raises:
        InputError: no label fits a judged pair, the annotator is unknown, or the labels cannot be weighted.
    """
    known = history.annotators()
    measure = Measure(run, dataset, modes, draws)
    finder = PairFinder(dataset)
    chosen = weighted_labels(history, finder, measure.pairs, annotator)
    if not chosen.labels:
        raise InputError(["no judged pair of the run has a label that counts", *chosen.notes])
    judge = measure.of(annotator or "labels", chosen)
    each = [measure.of(name, weighted_labels(history, finder, measure.pairs, name)) for name in known]
    decided = {pair: word for pair, word in chosen.labels.items() if history.decision(pair.key) is not None}
    only = Weighted(decided, np.ones(len(decided)), False)
    return LabelAgreement(
        judge,
        measure.criteria(chosen),
        tuple(each),
        measure.judges(chosen),
        measure.of("adjudicated", only) if decided and annotator is None else None,
        annotators_of(history, dataset, finder),
        measure.mean_score(chosen) if chosen.drawn and not chosen.partial else None,
        chosen.drawn,
        chosen.notes,
    )


def projected_half_width(found: Agreement, more: int, confidence: float = 0.95) -> float:
    """The half-width of the accuracy's interval after more labels of the same kind.

    It shrinks with the square root of the number of labels. With fewer than five labels, or no interval, it is that
    of an accuracy of 0.5.

    Example:
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


class Measure:
    """The judged pairs of a run, ready to be compared with labels."""

    def __init__(self, run: GradedRun, dataset: RubricDataset, modes: Modes, draws: Draws) -> None:
        self.pairs: JudgedPairs = read_pairs(run, dataset)
        table = graded_table(run, dataset)
        # The same rows, and so the same points in the same order, as those of the pairs.
        self._table: Table = table.only(~np.isnan(table.scores))
        self._modes, self._draws = modes, draws
        sizes = np.bincount(self._table.points.column, minlength=len(table.columns))
        self.pooled = dataset.rubric is None and bool((sizes != self._table.rows).any())

    def of(self, name: str, labels: Weighted) -> Agreement:
        """The agreement over all criteria."""
        return self._measured(name, self._coded(labels), None)

    def judges(self, labels: Weighted) -> tuple[Agreement, ...]:
        """The agreement of each judge of a panel over all criteria; none where one judge alone judged."""
        names = self._table.judges
        return tuple(
            self._measured(name, self._coded(labels, place), None)
            for place, name in enumerate(names)
            if len(names) > 1
        )

    def criteria(self, labels: Weighted) -> tuple[Agreement, ...]:
        """The agreement on each criterion that has a label."""
        coded = self._coded(labels)
        return tuple(
            self._measured(coded.names[place], coded.only(coded.column == place), place)
            for place in range(len(coded.names))
            if (coded.column == place).any()
        )

    def mean_score(self, labels: Weighted) -> Estimate:
        """The mean score: the judge's, plus its errors weighted as the labels are."""
        pairs, at = self.pairs, self.at(labels)
        errors, amounts = self._errors(labels)
        scores = corrected_sums(pairs, errors, amounts)
        step = float(np.sqrt(np.mean(np.square(pairs.shares[at] * amounts[at]))))
        items = len(np.unique(pairs.rows[at]))
        return item_mean(scores, items, step, pairs.range, self._draws.confidence)

    def means(self, labels: Weighted) -> dict[str, tuple[Estimate, Estimate, int]]:
        """The mean of each criterion: the judge's, that plus its weighted errors, and how many labels it has.

        Pairs without a verdict, or on which judge or label abstains, have no part in it. Criteria that share a name
        are distinguished by weight and requirement. Empty where all items have rubrics of their own.
        """
        if self.pooled:
            return {}
        errors, amounts = self._errors(labels)
        columns, values, at = self._table.points.column, self.pairs.values, self.at(labels)
        has_label = np.zeros(len(values), bool)
        has_label[at[self.codes(labels).truth >= 0]] = True
        found = {}
        names = Counter(column.name for column in self._table.columns)
        for place, column in enumerate(self._table.columns):
            name, one = column.name, column.criterion
            name = name if names[name] == 1 else f"{name} (weight {one.weight:g}: {one.requirement})"
            own = (columns == place) & ~np.isnan(values) & (self._table.points.judged >= 0)
            labelled, ends = own & has_label, (float(column.values.min()), float(column.values.max()))
            n, step = (
                int(labelled.sum()),
                float(np.sqrt(np.mean(np.square(amounts[labelled])))) if labelled.any() else 0.0,
            )
            raw = item_mean(values[own], int(own.sum()), 0.0, ends, self._draws.confidence) if own.any() else None
            if raw is None:
                continue
            right = (
                item_mean(
                    (values + np.where(has_label, errors * amounts, 0.0))[own],
                    n,
                    step,
                    ends,
                    self._draws.confidence,
                )
                if n
                else Estimate(None, reason="no label of it counts")
            )
            found[name] = raw, right, n
        return found

    def _errors(self, labels: Weighted) -> tuple[Floats, Floats]:
        """By how much each pair's label is above its verdict, 0 without a label; and what the label counts for."""
        pairs, at = self.pairs, self.at(labels)
        amounts, truth = np.zeros(len(pairs)), np.full(len(pairs), np.nan)
        columns = self._table.points.column[at]
        for place, column, word, weight in zip(at, columns, labels.labels.values(), labels.weights, strict=True):
            code = _code(self._table.columns[column], word)
            truth[place] = 0.0 if code == ABSTAINED else self._table.columns[column].values[code]
            amounts[place] = weight
        return np.nan_to_num(truth - np.nan_to_num(pairs.values)), amounts

    def at(self, labels: Weighted) -> Ints:
        """The place of each labelled pair among the pairs of the run; -1 where it is not judged."""
        return positions(self.pairs, [(pair.index, pair.place) for pair in labels.labels])

    def codes(self, labels: Weighted, judge: int | None = None) -> Coded:
        """Labels and verdicts as codes, abstentions settled; the verdicts of the panel, or of one of its judges."""
        at, points = self.at(labels), self._table.points
        columns = self._table.columns
        column = points.column[at]
        judged = points.judged[at] if judge is None else points.votes[judge, at]
        truth = np.array(
            [_code(columns[c], word) for c, word in zip(column, labels.labels.values(), strict=True)], np.int64
        )
        truth, judged = (self._modes.settle(codes, columns, column) for codes in (truth, judged))
        sizes = tuple(len(self._modes.labels(one)) for one in columns)
        binary = tuple(one.kind == "binary" for one in columns)
        items = np.array([pair.index for pair in labels.labels], np.int64)
        return Coded(items, column, truth, judged, labels.weights, columns, sizes, binary)

    def _coded(self, labels: Weighted, judge: int | None = None) -> Coded:
        """The codes of pairs that both have a verdict on, pooled where items have rubrics of their own."""
        coded = self.codes(labels, judge)
        coded = coded.only((coded.truth >= 0) & (coded.judged >= 0))
        return coded.pooled() if self.pooled else coded

    def _measured(self, name: str, coded: Coded, place: int | None) -> Agreement:
        if not len(coded.row):
            none = Estimate(None, reason="no pair of label and verdict")
            return Agreement(name, 0, 0, none, none, None, none)
        layout, sums = coded.layout(), coded.sums()
        chosen = [SUMMED.index("accuracy"), SUMMED.index("kappa"), SUMMED.index("mean_kappa")]
        if place is not None:
            chosen[1] = len(SUMMED) + place
        figures = layout.summarize(sums.sum(axis=0))[chosen]
        every = layout.intervals(sums, self._draws)
        drawn = [every[at].interval for at in chosen]
        if drawn[0] is None:
            drawn[0] = self._wilson(float(figures[0]), sums)
        n, items = len(coded.row), len(sums)
        accuracy, kappa, mean = (
            Estimate(defined(np.asarray(figure)), interval, n)
            for figure, interval in zip(figures, drawn, strict=True)
        )
        if place is not None or self.pooled:
            mean = Estimate(None)
        return Agreement(name, n, items, accuracy, kappa, coded.baseline(), mean)

    def _wilson(self, share: float, sums: Floats) -> Interval | None:
        """Wilson's interval with the items that the weights are worth (Kish 1965) for n."""
        weights = sums.sum(axis=1)
        worth = float(weights.sum() ** 2 / (weights**2).sum())
        return wilson_interval(share * worth, worth, self._draws.confidence)


@dataclass(frozen=True)
class Coded:
    """Pairs of label and verdict as codes.

    Attributes:
        row: of each pair, its item.
        column: its criterion.
        truth: the code of its label.
        judged: the code of its verdict.
        weight: how many pairs it stands for.
        columns: the criteria.
        sizes: how many categories each criterion has.
        binary: which criteria are binary.
    """

    row: Ints
    column: Ints
    truth: Ints
    judged: Ints
    weight: Floats
    columns: tuple[Column, ...]
    sizes: tuple[int, ...]
    binary: tuple[bool, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the criteria are called."""
        return tuple(column.name for column in self.columns) or ("binary", "multi-choice")

    def only(self, chosen: Flags) -> Coded:
        """Some of the pairs."""
        kept = {name: getattr(self, name)[chosen] for name in ("row", "column", "truth", "judged", "weight")}
        return replace(self, **kept)

    def pooled(self) -> Coded:
        """The pairs with one column for all binary criteria and one, right or wrong, for all others."""
        is_binary = np.array(self.binary, bool)[self.column]
        wrong = (self.truth != self.judged).astype(np.int64)
        most = max((size for size, flag in zip(self.sizes, self.binary, strict=True) if flag), default=2)
        return replace(
            self,
            column=np.where(is_binary, 0, 1),
            truth=np.where(is_binary, self.truth, 0),
            judged=np.where(is_binary, self.judged, wrong),
            columns=(),
            sizes=(most, 2),
            binary=(True, False),
        )

    def layout(self) -> Layout:
        """Where the sums of each criterion are."""
        starts = tuple(int(start) for start in np.cumsum([0, *(size * size for size in self.sizes)]))
        weights = tuple(map(kappa_weights, self.columns, self.sizes)) or tuple(np.eye(size) for size in self.sizes)
        return Layout(starts, self.sizes, weights, self.binary)

    def sums(self) -> Floats:
        """What each item adds to the cells of the confusion matrices, by weight."""
        items, row = np.unique(self.row, return_inverse=True)
        starts = np.cumsum([0, *(size * size for size in self.sizes)])
        width = int(starts[-1]) + SCORE_SUMS
        cell = starts[self.column] + self.truth * np.array(self.sizes)[self.column] + self.judged
        return np.bincount(row * width + cell, self.weight, len(items) * width).reshape(-1, width).astype(float)

    def baseline(self) -> float | None:
        """The weighted share of the most frequent label of each criterion."""
        width = max(self.sizes)
        table = np.bincount(self.column * width + self.truth, self.weight, len(self.sizes) * width)
        return defined(ratio(table.reshape(-1, width).max(axis=1).sum(), self.weight.sum()))


def _code(column: Column, word: str) -> int:
    """The code of a label of the store."""
    return column.labels.index(word) if word in column.labels else ABSTAINED
