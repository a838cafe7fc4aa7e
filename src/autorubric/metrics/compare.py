"""Comparison of two judges on the same labelled items."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from autorubric.core.display import Displayed
from autorubric.core.scoring import ScoreRule
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize, problems_at
from autorubric.metrics.agreement_sums import SUMMED, Layout, pool_columns, sum_items
from autorubric.metrics.arrays import Flags, Floats, Ints, nan_to_none, ratio
from autorubric.metrics.intervals import adjust_p_values
from autorubric.metrics.jackknife import Draws, Scale, Summary, check_draws, jackknife_intervals
from autorubric.metrics.labelled_run import LabelledRun, read_labelled_run, resolve_abstentions
from autorubric.metrics.metrics_text import show
from autorubric.metrics.scores import describe_rule, pair_scores
from autorubric.metrics.statistic_results import ConfidenceInterval, MetricModel
from autorubric.metrics.table import CannotAssessMode, Column, GradedRun, Modes, NAMode, Points, check_modes

_ROUNDING = 1e-12


class Difference(MetricModel):
    """A statistic of two judges on the same items. Undefined values are None.

    Attributes:
        name: the name of the statistic or the criterion.
        a: the first judge's value.
        b: the second judge's value.
        difference: a − b.
        ci: its interval (Student's t of the jackknife over items).
        p_value: two-sided, by exchanging the two judges item by item.
        p_holm: the p-value adjusted for all criteria (Holm); None for statistics of the whole run.
        n: the number of pairs of verdicts or scores; for a mean κ those of its criteria, for a binary κ binary ones.
    """

    name: str
    a: float | None
    b: float | None
    difference: float | None
    ci: ConfidenceInterval | None = None
    p_value: float | None = None
    p_holm: float | None = None
    n: int = 0


class JudgeComparison(Displayed, MetricModel):
    """Two judges against the same labels.

    Attributes:
        accuracy: share of pairs that agree.
        mean_kappa: mean κ over the criteria whose κ is defined for both; None where criteria are pooled.
        micro_kappa: κ over all binary pairs.
        score_error: mean absolute error of the score. Error and bias are undefined for different scoring rules.
        score_bias: mean of score − true score, so that the difference is that of the mean scores.
        per_criterion: the κ of each criterion, with Holm's p-values.
        n_items: items that both judged.
        n_replicates: replicates of the permutation test.
        warnings: remarks on `run a` and `run b`.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, compare, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": text, "ground_truth": ["MET"]} for text in ("Yes", "No", "That depends on it")]
        >>> run = grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> compare(run, against=run).accuracy.difference
        0.0
    """

    accuracy: Difference
    mean_kappa: Difference
    micro_kappa: Difference
    score_error: Difference
    score_bias: Difference
    per_criterion: list[Difference] = Field(default_factory=list)
    n_items: int
    n_replicates: int
    warnings: list[str] = Field(default_factory=list)

    def summary(self) -> str:
        """Return the differences as text, and which judge agrees more, if the interval shows it."""
        return "\n".join(_render_lines(self))

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        whole = (self.accuracy, self.mean_kappa, self.micro_kappa, self.score_error, self.score_bias)
        for found in (*whole, *self.per_criterion):
            row = found.model_dump(exclude={"ci"})
            yield row | {"ci_lower": found.ci and found.ci.lower, "ci_upper": found.ci and found.ci.upper}


def compare_judges(  # noqa: PLR0913 (the arguments of compute_metrics)
    a: GradedRun,
    b: GradedRun,
    dataset: RubricDataset,
    *,
    n_replicates: int = 1000,
    confidence_level: float = 0.95,
    seed: int | None = None,
    cannot_assess: CannotAssessMode = "exclude",
    na_mode: NAMode = "exclude",
) -> JudgeComparison:
    """Compare two runs in their agreement with the labels, over the pairs that both judged.

    Intervals leave out one item at a time (jackknife). P-values exchange the two judges item by item, which keeps
    the correlation within an item; the smallest possible one is 1 / (n_replicates + 1).

    Args:
        a: a run.
        b: another run on the same items.
        dataset: the items with their ground truth.
        n_replicates: replicates of the permutation test.
        confidence_level: the level of the intervals.
        seed: for reproducible results.
        cannot_assess: see `compute_metrics`.
        na_mode: see `compute_metrics`.

    Raises:
        InputError: the runs have no labelled pair in common; or see `compute_metrics`.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> dataset = RubricDataset("Answer.", rubric)
        >>> for text in ("Yes", "No", "That depends on it"):
        ...     dataset.add_item(text, "", ["MET"])
        >>> run = grade(dataset, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> compare_judges(run, run, dataset).n_items
        3
    """
    draws = check_draws("n_replicates", n_replicates, confidence_level, seed)
    modes = check_modes(cannot_assess, na_mode)
    first, second, two_rules = _use_one_rule(_read("a", a, dataset, modes), _read("b", b, dataset, modes))
    first, second, left_out = _align(first, second)
    notes = [
        f"run {name}: {warning}"
        for name, run in (("a", first), ("b", second))
        for warning in (*run.warnings, *run.scores.warnings)
    ]
    notes += [note for note in (left_out, two_rules) if note]
    columns, items = first.table.columns, len(first.table.items)
    layout, a_sums = sum_items(columns, items, first.points, first.scores)
    _, b_sums = sum_items(columns, items, second.points, second.scores)
    criteria = [] if first.pooled else [column.name for column in columns]
    sizes = np.bincount(first.points.column, minlength=len(columns))
    made = compute_differences(layout, (a_sums, b_sums), (criteria, sizes, len(first.scores.rows)), draws)
    return build_comparison(made, items, draws, notes)


def build_comparison(made: list[Difference], items: int, draws: Draws, notes: Sequence[str]) -> JudgeComparison:
    """Build the comparison from the differences in `SUMMED`, then criteria; adjust the criteria's p-values (Holm)."""
    named = {found.name: found for found in made[: len(SUMMED)]}
    adjusted = adjust_p_values([found.p_value for found in made[len(SUMMED) :]])
    each = [found.model_copy(update={"p_holm": p}) for found, p in zip(made[len(SUMMED) :], adjusted, strict=True)]
    return JudgeComparison(
        accuracy=named["accuracy"],
        mean_kappa=named["mean_kappa"],
        micro_kappa=named["kappa"],
        score_error=named["mae"],
        score_bias=named["bias"],
        per_criterion=each,
        n_items=items,
        n_replicates=draws.replicates,
        warnings=list(notes),
    )


def _read(name: str, run: GradedRun, dataset: RubricDataset, modes: Modes) -> LabelledRun:
    """Read a labelled run; errors name the run."""
    with problems_at(f"run {name}: "):
        return read_labelled_run(run, dataset, modes)


def _use_one_rule(a: LabelledRun, b: LabelledRun) -> tuple[LabelledRun, LabelledRun, str | None]:
    """Return both runs scored by the same rule; if there is none, without scores and with the reason.

    A run without a recorded rule takes that of the other, if that gives its scores too.
    """
    names = describe_rule(a.scores.rule), describe_rule(b.scores.rule)
    if names[0] == names[1]:
        return a, b, None
    if (other := _score_by(a, b.scores.rule)) is not None:
        return other, b, None
    if (other := _score_by(b, a.scores.rule)) is not None:
        return a, other, None
    why = f"scores are not compared, because the runs use different scoring rules: a: {names[0]}; b: {names[1]}"
    bare = [replace(run, scores=run.scores.renumber(np.full(len(run.table.items), -1))) for run in (a, b)]
    return bare[0], bare[1], why


def _score_by(run: LabelledRun, rule: ScoreRule) -> LabelledRun | None:
    """Return the run scored by another rule; None if it recorded its own, or the other gives other scores."""
    if run.table.rule is not None:
        return None
    table = replace(run.table, rule=rule)
    scores = pair_scores(table, table.scores, table.points.judged, table.means)
    return None if scores.warnings else replace(run, scores=scores)


def compute_differences(
    layout: Layout, sums: tuple[Floats, Floats], named: tuple[Sequence[str], Ints, int], draws: Draws
) -> list[Difference]:
    """Compute the differences of two judges on the same items: in each of `SUMMED`, then in each criterion's κ.

    Args:
        layout: where the sums of each criterion are.
        sums: the contribution of each item, by judge.
        named: the criteria (none if pooled), the number of pairs of each, and the number of scores.
        draws: how intervals and p-values are drawn.
    """
    criteria, sizes, scored = named
    width = sums[0].shape[1]
    totals = [total.sum(axis=0) for total in sums]
    # Fixed before drawing, because replicates in which other κ are defined would compare other criteria.
    counted = ~np.isnan(sum(layout.summarize(total)[len(SUMMED) :] for total in totals)) & bool(criteria)

    def summarize_both(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        return _share_criteria(layout.summarize(a), layout.summarize(b), counted)

    def compute_difference(total: Floats) -> Floats:
        a, b = summarize_both(total[..., :width], total[..., width:])
        return np.asarray(a - b)

    scales: list[Scale] = ["plain"] * (len(SUMMED) + len(layout.sizes))
    intervals = jackknife_intervals(np.hstack(sums), compute_difference, scales, draws.confidence)
    p_values = _permutation_test(*sums, compute_difference, draws)
    values = summarize_both(*totals)
    kappa_pairs = [int(sizes[chosen].sum()) for chosen in (counted, np.array(layout.binary))]
    counts = [int(sizes.sum()), *kappa_pairs, *[scored] * 3, *sizes.tolist()]
    return [
        Difference(
            name=name,
            a=nan_to_none(values[0][place]),
            b=nan_to_none(values[1][place]),
            difference=nan_to_none(values[0][place] - values[1][place]),
            ci=ConfidenceInterval.from_interval(intervals[place], "jackknife"),
            p_value=p_values[place],
            n=counts[place],
        )
        for place, name in enumerate([*SUMMED, *criteria])
    ]


def _share_criteria(a: Floats, b: Floats, counted: Flags) -> tuple[Floats, Floats]:
    """Return the statistics of both judges, with the mean κ over the criteria whose κ is defined for both."""
    each, mean = slice(len(SUMMED), None), SUMMED.index("mean_kappa")
    shared = ~np.isnan(a[..., each] + b[..., each]) & counted
    for found in (a, b):
        found[..., mean] = ratio(np.where(shared, found[..., each], 0.0).sum(axis=-1), shared.sum(axis=-1))
    return a, b


def _permutation_test(a: Floats, b: Floats, difference: Summary, draws: Draws) -> list[float | None]:
    """Return the two-sided p-value of each statistic, by exchanging the judges item by item at random (Pitman 1937).

    It is the share of exchanges, the observed one included, in which the statistic differs at least as much.
    """
    rng = np.random.default_rng(draws.seed)
    totals, gap = np.hstack([a, b]).sum(axis=0), np.hstack([b - a, a - b])
    seen = difference(totals)
    as_much = np.ones(len(seen))
    known = np.ones(len(seen))
    block = max(1, 500_000 // len(a))
    for start in range(0, draws.replicates, block):
        size = min(block, draws.replicates - start)
        differences = difference(totals + rng.integers(0, 2, (size, len(a))).astype(float) @ gap)
        as_much += (np.abs(differences) >= np.abs(seen) - _ROUNDING).sum(axis=0)
        known += (~np.isnan(differences)).sum(axis=0)
    return [None if np.isnan(s) else float(m / k) for s, m, k in zip(seen, as_much, known, strict=True)]


def _align(a: LabelledRun, b: LabelledRun) -> tuple[LabelledRun, LabelledRun, str | None]:
    """Restrict both runs to common items and pairs; add a note on labelled pairs that a run did not judge."""
    columns: dict[Hashable, Column] = {}
    for run in (a, b):
        for column in run.table.columns:
            columns.setdefault(column.key, replace(column, index=len(columns)))
    items = np.intersect1d(a.table.items, b.table.items)
    first, second = (_renumber(run, columns, items) for run in (a, b))
    labels = replace(first.table.points, judged=np.zeros_like(first.table.points.truth))
    labelled = resolve_abstentions(replace(first.table, points=labels))
    asked, *keys = (points.row * len(columns) + points.column for points in (labelled, first.points, second.points))
    shared, left_out = np.intersect1d(keys[0], keys[1]), None
    if left := len(np.unique(asked)) - len(shared):
        without = [len(np.unique(asked)) - len(np.unique(own)) for own in keys]
        left_out = (
            f"{left} of {len(np.unique(asked))} labelled pairs are left out: run a has no verdict on {without[0]} of "
            f"them, run b on {without[1]}"
        )
    if not len(shared):
        raise InputError("the two runs have no labelled criterion in common that both judged")
    rows = np.full(len(items), -1)
    scored = np.intersect1d(first.scores.rows, second.scores.rows)
    rows[scored] = scored
    made = []
    for run, own in zip((first, second), keys, strict=True):
        table, points, pooled = run.table, run.points.select(np.isin(own, shared)), a.pooled or b.pooled
        if pooled:
            merged, points = pool_columns(table.columns, points)
            table = replace(table, columns=merged)
        made.append(replace(run, table=table, points=points, scores=run.scores.renumber(rows), pooled=pooled))
    return made[0], made[1], left_out


def _renumber(run: LabelledRun, columns: Mapping[Hashable, Column], items: Ints) -> LabelledRun:
    """Return the run restricted to `items`, in their order, with the columns of both runs."""
    moved = np.array([columns[column.key].index for column in run.table.columns], np.int64)
    kept = np.isin(run.table.items, items)
    place = np.where(kept, np.searchsorted(items, run.table.items), -1)

    def move(points: Points) -> Points:
        points = points.select(kept[points.row])
        return replace(points, row=place[points.row], column=moved[points.column])

    table = replace(run.table, columns=tuple(columns.values()), points=move(run.table.points), items=items)
    return replace(run, table=table, points=move(run.points), scores=run.scores.renumber(place))


def _render_lines(found: JudgeComparison) -> Iterator[str]:
    yield f"{pluralize(found.n_items, 'item')} that both judged; {pluralize(found.n_replicates, 'replicate')}"
    whole = (found.accuracy, found.mean_kappa, found.micro_kappa, found.score_error, found.score_bias)
    titles = ("accuracy", "mean kappa", "kappa, binary", "score error", "score bias")
    for title, one in zip(titles, whole, strict=True):
        yield f"  {title:<14} {_render_values(one)}"
    for one in found.per_criterion:
        yield f"  {one.name}: kappa {_render_values(one)}, Holm {show(one.p_holm)}, n={one.n}"
    yield describe_winner(found.accuracy)
    yield from (f"  note: {warning}" for warning in found.warnings)


def _render_values(found: Difference) -> str:
    a, b, difference = show(found.a), show(found.b), show(found.difference, found.ci)
    return f"a {a}, b {b}, a − b {difference}, p {show(found.p_value)}"


def describe_winner(difference: Difference) -> str:
    """Return a sentence on which judge agrees more with the labels, if the interval supports one."""
    ends, p_value = difference.ci, difference.p_value or 0.0
    if ends is None or ends.lower <= 0.0 <= ends.upper or p_value > 1.0 - ends.confidence:
        return "On these items, the difference in agreement between the two runs is not significant."
    return f"{'a' if ends.lower > 0 else 'b'} agrees more with the labels."
