"""Judge-human agreement of a graded run with the labels of its items."""

from dataclasses import replace

import numpy as np

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.agreement_statistics import measure
from autorubric.metrics.agreement_sums import ColumnAgreement, measure_columns
from autorubric.metrics.arrays import Floats, Ints, nan_to_none, ratio
from autorubric.metrics.confusion import count_pairs
from autorubric.metrics.criterion_results import CannotAssessStats, ConfusionMatrix, CriterionMetricsUnion, NAStats
from autorubric.metrics.intervals import check_confidence, wilson_interval
from autorubric.metrics.jackknife import Draws, check_draws, count_effective_items
from autorubric.metrics.labelled_run import (
    LabelledRun,
    PerItemMetrics,
    compare_abstentions,
    measure_coverage,
    read_labelled_run,
    resolve_abstentions,
)
from autorubric.metrics.per_criterion import build_part, measure_criteria, measure_scales
from autorubric.metrics.results import (
    BootstrapResults,
    JudgeInfluence,
    JudgeMetrics,
    JudgeSelfConsistency,
    MetricsResult,
    TagMetrics,
)
from autorubric.metrics.scores import compare_scores, describe_rule, pair_scores
from autorubric.metrics.self_consistency import SelfConsistency
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.table import (
    ABSENT,
    ABSTAINED,
    FAILED,
    CannotAssessMode,
    GradedRun,
    NAMode,
    Table,
    check_modes,
)


def compute_metrics(  # noqa: PLR0913 (published signature)
    eval_result: GradedRun,
    dataset: RubricDataset,
    *,
    bootstrap: bool = False,
    n_bootstrap: int = 1000,
    per_judge: bool = False,
    cannot_assess: CannotAssessMode = "exclude",
    na_mode: NAMode = "exclude",
    confidence_level: float = 0.95,
    seed: int | None = None,
    per_item_metrics: PerItemMetrics = "auto",
) -> MetricsResult:
    """Compute judge-human agreement: how well the verdicts of a run match the labels of its items.

    Args:
        eval_result: the run: any object with `item_results`.
        dataset: the items with their ground truth.
        bootstrap: whether to compute confidence intervals.
        n_bootstrap: the number of draws from posteriors.
        per_judge: also measure each judge of a panel, and the panel without each judge.
        cannot_assess: whether a pair with CANNOT_ASSESS is left out (`exclude`), counts as UNMET (`as_unmet`), or
            CANNOT_ASSESS is a separate category (`as_category`).
        na_mode: likewise for options that are not applicable; `as_unmet` counts them as the option that scores least.
        confidence_level: the level of all confidence intervals.
        seed: for reproducible intervals.
        per_item_metrics: `pooled` pools the criteria of items with their own rubrics by kind, `per_criterion`
            lists every distinct criterion; `auto` pools where the dataset has no rubric and the items' rubrics
            differ.

    Raises:
        InputError: the run's items or criteria differ from the dataset's, a judge voted twice on one criterion of an
            item, no pair is left, or an argument is wrong.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> from types import SimpleNamespace as Run
        >>> dataset, reports = example_run()
        >>> results = [Run(item_idx=place, report=report, error=None) for place, report in enumerate(reports)]
        >>> found = compute_metrics(Run(item_results=results), dataset)
        >>> round(found.criterion_accuracy, 3), round(found.mean_kappa, 3), found.n_items
        (0.833, 0.667, 4)
    """
    check_confidence(confidence_level)
    draws = check_draws("n_bootstrap", n_bootstrap, confidence_level, seed) if bootstrap else None
    run = read_labelled_run(eval_result, dataset, check_modes(cannot_assess, na_mode), per_item_metrics)
    return measure_run(run, confidence_level, draws, per_judge=per_judge)


def measure_run(run: LabelledRun, confidence: float, draws: Draws | None, *, per_judge: bool) -> MetricsResult:
    """Compute all statistics of the labelled items of a run, with intervals if `draws` is given."""
    table, points = run.table, run.points
    whole = measure_columns(run, np.ones(len(table.columns), bool), draws)
    each = [] if run.pooled else measure_criteria(run, confidence, whole.intervals)
    averaged = np.array([(metrics.accuracy, metrics.krippendorff_alpha) for metrics in each], float).reshape(-1, 2)
    macro_accuracy, mean_alpha = ratio(np.nansum(averaged, axis=0), (~np.isnan(averaged)).sum(axis=0))
    kinds = [column.kind for column in table.columns]
    accuracy_ci = whole.intervals.get("accuracy")
    if draws is None:  # each item counts as one observation: never too narrow, however correlated its criteria are
        worth = count_effective_items(np.bincount(points.row).astype(float))
        wilson = wilson_interval((whole.values["accuracy"] or 0.0) * worth, worth, confidence)
        accuracy_ci = ConfidenceInterval.from_interval(wilson, "wilson")
    found = whole.intervals | {"accuracy": accuracy_ci}
    ends = {name: None if interval is None else (interval.lower, interval.upper) for name, interval in found.items()}
    return MetricsResult(
        **MetricsResult.to_fields(whole.values),
        **compare_scores(run.scores, confidence),
        n_kappa_criteria=sum(criterion.kappa is not None for criterion in each),
        macro_accuracy=nan_to_none(macro_accuracy),
        mean_krippendorff_alpha=nan_to_none(mean_alpha),
        mean_kappa=whole.values["mean_kappa"],
        accuracy_ci=accuracy_ci,
        mean_kappa_ci=whole.intervals.get("mean_kappa"),
        per_criterion=each,
        pooled_by_scale=measure_scales(run, draws) if run.pooled else None,
        bootstrap=draws
        and BootstrapResults(
            accuracy_ci=ends["accuracy"],
            kappa_ci=ends["mean_kappa"],
            rmse_ci=ends["rmse"],
            n_bootstrap=draws.replicates,
            confidence_level=draws.confidence,
            micro_kappa_ci=ends["kappa"],
            bias_ci=ends["bias"],
            mae_ci=ends["mae"],
        ),
        per_judge=measure_judges(run, confidence, draws) if per_judge else None,
        without_judge=leave_out_judges(run) if per_judge else [],
        per_tag=_measure_tags(run, draws) if any(column.criterion.tags for column in table.columns) else [],
        n_items=len(table.items),
        n_criteria=len(points) if run.pooled else len(table.columns),
        n_binary_criteria=kinds.count("binary"),
        n_ordinal_criteria=kinds.count("ordinal"),
        n_nominal_criteria=kinds.count("nominal"),
        na_stats=compare_abstentions(table, NAStats),
        cannot_assess_stats=compare_abstentions(table, CannotAssessStats),
        cannot_assess_mode=run.table.modes.cannot_assess,
        na_mode=run.table.modes.na,
        n_samples=len(points),
        coverage_stats=measure_coverage(table.points, len(points), run.lost),
        n_scores=len(run.scores.rows),
        score_rule=describe_rule(run.scores.rule),
        self_consistency=[_convert_consistency(judge, confidence) for judge in table.consistency],
        warnings=[*run.warnings, *_collect_notes(run, each, whole)],
    )


def _collect_notes(run: LabelledRun, each: list[CriterionMetricsUnion], whole: ColumnAgreement) -> list[str]:
    """Return notes on what the statistics leave out, and on statistics that are undefined or uninformative."""
    items, labelled, scores = len(run.table.items), len(run.table.points), len(run.scores.rows)
    failed, skipped = (int((run.table.points.judged == code).sum()) for code in (FAILED, ABSENT))
    abstained = labelled - failed - skipped - len(run.points)
    values = len(np.unique(run.scores.true))
    undefined = [metrics.name for metrics in each if metrics.kappa is None and metrics.n_samples]
    constant = [metrics.name for metrics in each if metrics.kappa is not None and metrics.mcc is None]
    empty = [metrics.name for metrics in each if not metrics.n_samples]
    known = whole.values | {"bias": 0.0 if scores else None}
    missing = {name for name, found in whole.intervals.items() if found is None and known.get(name) is not None}
    fixed = "it is the same, or undefined, if any one item is left out"
    notes = (
        (failed, f"{failed} of {labelled} labelled judgments failed and are left out"),
        (skipped, f"{skipped} of {labelled} labelled judgments were not made and are left out"),
        (abstained, f"{abstained} of {labelled} labelled judgments are left out: the judge or the label abstains"),
        (items - scores, f"{items - scores} of {items} items have no score or no true score"),
        (values == 1, "scores by labels have 1 distinct value; correlations are not informative"),
        (values == 2, "scores by labels have 2 distinct values; correlations are not informative"),
        (undefined, f"kappa is undefined where all labels and verdicts are one category: {', '.join(undefined)}"),
        (constant, f"kappa is 0 where all labels, or all verdicts, are one category: {', '.join(constant)}"),
        (empty, f"no pair of label and verdict: {', '.join(empty)}"),
        ("mean_kappa" in missing, f"no interval for the mean kappa: {fixed}"),
        ("kappa" in missing, f"no interval for the kappa of all binary pairs: {fixed}"),
        ("bias" in missing and scores == 1, "no interval for the bias: there is only one score"),
        ("bias" in missing and scores > 1, "no interval for the bias: all score differences are equal"),
    )
    return [*run.scores.warnings, *(sentence for applies, sentence in notes if applies)]


def _measure_tags(run: LabelledRun, draws: Draws | None) -> list[TagMetrics]:
    """Return the agreement over the criteria of each tag, by name of the tag."""
    columns = run.table.columns
    made = []
    for tag in sorted({tag for column in columns for tag in column.criterion.tags or ()}):
        tagged = np.array([tag in (column.criterion.tags or ()) for column in columns], bool)
        found = measure_columns(run, tagged, draws)
        made.append(
            TagMetrics(
                tag=tag,
                n_criteria=int(tagged.sum()),
                n_samples=int(tagged[run.points.column].sum()),
                mean_kappa=found.values["mean_kappa"],
                accuracy_ci=found.intervals.get("accuracy"),
                mean_kappa_ci=found.intervals.get("mean_kappa"),
                micro_kappa_ci=found.intervals.get("kappa"),
                **TagMetrics.to_fields(found.values),
            )
        )
    return made


def _convert_consistency(judge: SelfConsistency, confidence: float) -> JudgeSelfConsistency:
    """Convert a judge's self-consistency to its published form."""
    return JudgeSelfConsistency(
        judge_id=judge.judge_id,
        n_judgments=judge.judgments,
        n_repeats=judge.repeats,
        agreement=judge.agreement,
        agreement_ci=ConfidenceInterval.from_interval(judge.compute_interval(confidence), "wilson"),
        unanimous=judge.unanimous_share,
        variance=judge.variance,
    )


def measure_judges(run: LabelledRun, confidence: float, draws: Draws | None) -> dict[str, JudgeMetrics]:
    """Measure the agreement of each judge, by id; refuse judges with gaps that no cascade explains."""
    table = run.table
    if not table.escalated:
        _refuse_gaps(table)
    found = {}
    for place, judge in enumerate(table.judges):
        votes = table.points.votes[place]
        own = replace(table, points=replace(table.points, judged=votes))
        asked = table.points.select(votes > ABSENT)
        pairs = resolve_abstentions(own)
        scores = pair_scores(table, table.judge_scores[place], votes)
        every = np.ones(len(table.columns), bool)
        measured = measure_columns(replace(run, table=own, points=pairs, scores=scores), every, draws)
        fields = compare_scores(scores, confidence)
        found[judge] = JudgeMetrics(
            judge_id=judge,
            mean_kappa=measured.values["mean_kappa"],
            **JudgeMetrics.to_fields(measured.values),
            **(fields if len(scores.judged) else dict.fromkeys(fields)),  # all None without scores
            confusion_matrix=_count_verdicts(own),
            coverage="full" if len(asked) == len(table.points) or not table.escalated else "escalated",
            n_pairs=len(pairs),
            coverage_stats=measure_coverage(replace(asked, judged=asked.votes[place]), len(pairs)),
            accuracy_ci=measured.intervals.get("accuracy"),
            kappa_ci=measured.intervals.get("mean_kappa"),
            micro_kappa_ci=measured.intervals.get("kappa"),
        )
    return found


def _count_verdicts(table: Table) -> ConfusionMatrix | None:
    """Return the confusion matrix of binary votes and labels, with abstentions as a category; None without votes."""
    points = table.points
    chosen = points.select(table.is_binary[points.column] & (points.judged > FAILED))
    if not len(chosen):
        return None
    truth, judged = (np.where(codes == ABSTAINED, 2, codes) for codes in (chosen.truth, chosen.judged))
    counts = count_pairs(truth, judged, 3)
    return ConfusionMatrix(matrix=counts.tolist(), labels=["MET", "UNMET", "CANNOT_ASSESS"])


def _refuse_gaps(table: Table) -> None:
    """Refuse judges that voted on only some items of a criterion, because their metrics are not comparable."""
    problems = []
    every = np.bincount(table.points.column, minlength=len(table.columns))
    for judge, votes in zip(table.judges, table.points.votes, strict=True):
        asked = np.bincount(table.points.column[votes > ABSENT], minlength=len(table.columns))
        part = np.flatnonzero((asked > 0) & (asked < every))
        if len(part):
            column = int(part[0])
            problems.append(
                f"judge {judge!r} voted on {table.columns[column].name!r} for {asked[column]} of {every[column]} "
                "items; metrics per judge need the same judges on every item"
            )
    if problems:
        raise InputError(problems)


def leave_out_judges(run: LabelledRun) -> list[JudgeInfluence]:
    """Measure the panel without each judge, by the most frequent vote; empty for fewer than three judges."""
    table = run.table
    if len(table.judges) < 3:
        return []
    whole = _mark_correct(table, np.arange(len(table.judges)))
    found = []
    for place, judge in enumerate(table.judges):
        others = np.delete(np.arange(len(table.judges)), place)
        without = _mark_correct(table, others)
        compared, both = without[~np.isnan(without)], (without - whole)[~np.isnan(without - whole)]
        found.append(
            JudgeInfluence(
                judge_id=judge,
                accuracy_without=float(compared.mean()) if len(compared) else None,
                accuracy_change=float(both.mean()) if len(both) else None,
                alpha_without=None if run.pooled else _compute_mean_alpha(table, others),
                n_pairs=len(compared),
                n_both=len(both),
            )
        )
    return found


def _mark_correct(table: Table, judges: Ints) -> Floats:
    """Return 1 for each point where the most frequent vote of some judges is the label, else 0; NaN if undecided."""
    # The votes are replaced by indices of points, to find the points that `resolve_abstentions` keeps.
    places = np.arange(len(table.points))[None]
    panel = replace(table.points, judged=_find_most_frequent(table, table.points.votes[judges]), votes=places)
    pairs = resolve_abstentions(replace(table, points=panel))
    found = np.full(len(table.points), np.nan)
    found[pairs.votes[0]] = pairs.truth == pairs.judged
    return found


def _find_most_frequent(table: Table, votes: Ints) -> Ints:
    """Return the most frequent category of each point; ties go to the lowest score or to a non-abstention."""
    best = np.full(votes.shape[1], FAILED, np.int64)
    best[(votes == ABSTAINED).any(axis=0)] = ABSTAINED
    most = np.zeros(votes.shape[1], np.int64)
    for column in table.columns:
        here = np.flatnonzero(table.points.column == column.index)
        cost = column.values if column.criterion.weight >= 0 else -column.values
        # From the worst category up: a better one needs more votes to replace it.
        for code in np.argsort(cost, kind="stable"):
            count = (votes[:, here] == code).sum(axis=0)
            more = here[count > most[here]]
            best[more] = code
            most[here] = np.maximum(most[here], count)
    return best


def _compute_mean_alpha(table: Table, judges: Ints) -> float | None:
    """Krippendorff's α among the given judges, averaged over criteria."""
    alphas = []
    for column in table.columns:
        raw = table.points.select(table.points.column == column.index)
        part = build_part(column, raw.select(slice(0)), raw.votes[judges])
        alpha = measure(part).get("krippendorff_alpha")
        alphas += [] if alpha is None else [alpha]
    return float(np.mean(alphas)) if alphas else None
