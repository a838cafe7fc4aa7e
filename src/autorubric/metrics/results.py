"""The result types of the agreement of a run with its labels."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from autorubric.charts.svg import Ranged, plot_intervals
from autorubric.core.display import Displayed, join_charts
from autorubric.metrics.agreement_statistics import MeasuredModel
from autorubric.metrics.criterion_results import (
    CannotAssessStats,
    ConfusionMatrix,
    CoverageStats,
    CriterionMetricsUnion,
    NAStats,
)
from autorubric.metrics.statistic_results import BiasResult, ConfidenceInterval, CorrelationResult, MetricModel
from autorubric.metrics.table import CannotAssessMode, NAMode


class BootstrapResults(MetricModel):
    """Intervals with items as the unit; None if a metric is undefined. The names are those of AutoRubric 1.6.

    Attributes:
        accuracy_ci: of `criterion_accuracy`; see `autorubric.metrics.jackknife.share_interval`.
        kappa_ci: of `mean_kappa`. Where this and the others are None, `warnings` of the metrics say why.
        rmse_ci: of `score_rmse`; like `mae_ci`, from a Bayesian bootstrap with the ends of the scale.
        n_bootstrap: draws of the posteriors.
        confidence_level: the level of the intervals.
        micro_kappa_ci: of `micro_kappa`: from its posterior.
        bias_ci: of the mean bias, by Student's t.
        mae_ci: of `score_mae`.
        method: of `kappa_ci`.

    Example:
        >>> BootstrapResults(accuracy_ci=(0.7, 0.9), kappa_ci=None, rmse_ci=None, n_bootstrap=1000).method
        'bayesian-bootstrap'
    """

    accuracy_ci: tuple[float, float] | None
    kappa_ci: tuple[float, float] | None
    rmse_ci: tuple[float, float] | None
    n_bootstrap: int
    confidence_level: float = 0.95
    micro_kappa_ci: tuple[float, float] | None = None
    bias_ci: tuple[float, float] | None = None
    mae_ci: tuple[float, float] | None = None
    method: str = "bayesian-bootstrap"


class SimulatedCoverage(MetricModel):
    """How often the interval of one statistic covered the true value.

    Attributes:
        name: the name of the statistic.
        covered: the share of intervals that covered the true value.
        above: the share of intervals above the true value.
        below: the share of intervals below the true value.
        width: the mean width.
        given: the share of samples with an interval.
    """

    name: str
    covered: float
    above: float
    below: float
    width: float
    given: float


class CoverageSimulation(MetricModel):
    """How often intervals cover the true values at a run's sample size, by resampling its labelled items.

    Attributes:
        method: how samples are drawn.
        items: items in each sample.
        resamples: how many samples were drawn.
        confidence: the level of the intervals, which the coverage should reach.
        intervals: the coverage of each interval.
    """

    method: str
    items: int
    resamples: int
    confidence: float
    intervals: list[SimulatedCoverage]


class TagMetrics(MeasuredModel):
    """Agreement over the criteria with one tag.

    Attributes:
        tag: the tag.
        n_criteria: how many criteria carry it.
        n_samples: pairs of label and verdict on them.
        accuracy: the share of pairs that agree.
        accuracy_ci, mean_kappa_ci, micro_kappa_ci: with items as the unit, where intervals were asked for.
        mean_kappa: over those of its criteria whose κ is defined; None where criteria are pooled.
        micro_kappa: κ over all its binary pairs.
        majority_baseline: the accuracy of always giving the most frequent label of a criterion, over the same pairs;
            the most frequent of all criteria with the same categories where criteria are pooled.
    """

    tag: str
    n_criteria: int
    n_samples: int
    accuracy: float | None
    accuracy_ci: ConfidenceInterval | None = None
    mean_kappa: float | None = None
    mean_kappa_ci: ConfidenceInterval | None = None
    micro_kappa: float | None = None
    micro_kappa_ci: ConfidenceInterval | None = None
    majority_baseline: float | None = None


class PooledScaleMetrics(MeasuredModel):
    """Agreement over all points of one kind of criterion, for items with their own rubrics.

    Attributes:
        scale_type: the kind.
        n_points: pairs.
        exact_accuracy: the share of pairs that agree.
        value_rmse, value_mae, value_spearman, value_pearson: of the categories' values; None if an abstention is a
            category without one.
        kappa: binary only.
        phi, precision, recall, f1: of MET against the rest, binary only.
        confusion_matrix: rows are the truth.
        n_abstain: labelled points that a side abstained on.
        gwet, balanced_accuracy: binary only; gwet is AC1.
        accuracy_ci, kappa_ci: with items as the unit, where intervals were asked for; of κ binary only.
        coverage_stats: how many labelled points are compared.
        majority_baseline: the share of the most frequent label, of each set of options.
        krippendorff_alpha: among the judges, over all points of the kind: nominal for binary criteria, by the
            options' values (interval) for ordered ones, nominal for others where all have the same options, else
            None. None for one judge.
        n_judges: how many judges.
    """

    scale_type: Literal["binary", "ordinal", "nominal"]
    n_points: int
    exact_accuracy: float | None
    value_rmse: float | None
    value_mae: float | None
    value_spearman: float | None
    value_pearson: float | None
    kappa: float | None = None
    phi: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    confusion_matrix: ConfusionMatrix | None = None
    n_abstain: int = 0
    gwet: float | None = None
    balanced_accuracy: float | None = None
    accuracy_ci: ConfidenceInterval | None = None
    kappa_ci: ConfidenceInterval | None = None
    coverage_stats: CoverageStats | None = None
    majority_baseline: float | None = None
    krippendorff_alpha: float | None = None
    n_judges: int = 1


class JudgeInfluence(MetricModel):
    """The panel without one of its judges.

    Attributes:
        judge_id: the judge left out.
        accuracy_without: the accuracy of the most frequent vote of the others; ties go to the lowest score.
        accuracy_change: the accuracy without the judge minus that with it, over the points that both panels decide;
            above 0, the panel is better without the judge.
        alpha_without: Krippendorff's α among the others, a mean over criteria; None where criteria are pooled.
        n_pairs: the number of points behind the accuracy.
        n_both: the number of points behind the change.
    """

    judge_id: str
    accuracy_without: float | None
    accuracy_change: float | None
    alpha_without: float | None
    n_pairs: int
    n_both: int = 0


class JudgeMetrics(MeasuredModel):
    """The agreement of one judge's own votes with the labels; `kappa_ci` is the interval of `mean_kappa`.

    Attributes:
        judge_id: the judge.
        criterion_accuracy: over all its votes.
        criterion_precision, criterion_recall, criterion_f1: of MET, over binary criteria.
        mean_kappa: the mean over criteria; None where criteria are pooled.
        phi: of MET against the rest.
        confusion_matrix: binary votes and labels as MET, UNMET and CANNOT_ASSESS; failed votes are left out.
        score_rmse, score_mae, score_spearman, score_kendall, score_pearson, bias: of its own scores.
        coverage: `escalated` if it was asked about only a part of the points.
        n_pairs: votes with a label to compare with.
        gwet: AC1, over binary votes.
        coverage_stats: how many of its votes are compared.
        micro_kappa: κ over all its binary votes.
        majority_baseline: the accuracy of always giving the most frequent label of a criterion, over the same pairs;
            the most frequent of all criteria with the same categories where criteria are pooled.
        accuracy_ci, kappa_ci, micro_kappa_ci: of `criterion_accuracy`, `mean_kappa` and `micro_kappa`, by resampling
            items.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, agree, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": text, "ground_truth": ["MET"]} for text in ("Yes", "No", "That depends on it")]
        >>> run = grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [*agree(run, per_judge=True).per_judge]
        ['builtin/offline']
    """

    judge_id: str
    criterion_accuracy: float | None
    criterion_precision: float | None
    criterion_recall: float | None
    criterion_f1: float | None
    mean_kappa: float | None
    phi: float | None = None
    confusion_matrix: ConfusionMatrix | None = None
    score_rmse: float | None
    score_mae: float | None
    score_spearman: CorrelationResult | None
    score_kendall: CorrelationResult | None
    score_pearson: CorrelationResult | None
    bias: BiasResult | None
    coverage: Literal["full", "escalated"] = "full"
    n_pairs: int | None = None
    gwet: float | None = None
    coverage_stats: CoverageStats | None = None
    micro_kappa: float | None = None
    majority_baseline: float | None = None
    accuracy_ci: ConfidenceInterval | None = None
    kappa_ci: ConfidenceInterval | None = None
    micro_kappa_ci: ConfidenceInterval | None = None


class JudgeSelfConsistency(MetricModel):
    """The agreement of a repeatedly asked judge with itself, over all graded items, labelled or not.

    Attributes:
        judge_id: the judge.
        n_judgments: items and criteria with two repeats or more that did not fail.
        n_repeats: repeats in them.
        agreement: the probability that two repeats of one judgment agree.
        agreement_ci: with items as clusters; see `autorubric.metrics.jackknife.share_interval`.
        unanimous: the share of judgments in which all repeats agree.
        variance: the within-judge variance of the value of a verdict or option, without abstentions.
    """

    judge_id: str
    n_judgments: int
    n_repeats: int
    agreement: float | None
    agreement_ci: ConfidenceInterval | None = None
    unanimous: float | None
    variance: float | None


class MetricsResult(Displayed, MeasuredModel):
    """The agreement of a run with its labels. Undefined values are None, never 0.

    Attributes:
        criterion_accuracy: the share of pairs that agree, all criteria alike (micro).
        criterion_precision, criterion_recall, criterion_f1: of MET, over all binary pairs.
        mean_kappa: the mean of the criteria's κ that are defined (macro).
        per_criterion: each criterion; empty where items with their own rubrics are pooled.
        score_rmse, score_mae, score_spearman, score_kendall, score_pearson, bias: of the score against what the
            labels would have scored by the run's own rule.
        bootstrap: intervals, where they were asked for.
        simulation: how often the intervals cover the true values, where it was asked for.
        per_judge: each judge, where asked for.
        n_items: items with labels and a judgment.
        n_criteria: distinct criteria; where they are pooled, the number of points.
        n_binary_criteria, n_ordinal_criteria, n_nominal_criteria: of each kind.
        na_stats: on "not applicable"; None without multi-choice criteria.
        cannot_assess_stats: on CANNOT_ASSESS; None without binary criteria.
        cannot_assess_mode, na_mode: what CANNOT_ASSESS and "not applicable" counted as.
        n_samples: the number of pairs behind `criterion_accuracy`.
        mean_krippendorff_alpha: among the judges, a mean over criteria; where criteria are pooled, see
            `pooled_by_scale`.
        criterion_phi: φ of MET against the rest, over all binary pairs.
        macro_accuracy: the mean of the criteria's accuracies.
        micro_kappa: κ over all binary pairs.
        coverage_stats: how many labelled points are compared.
        pooled_by_scale: where items with their own rubrics are pooled.
        warnings: remarks on what is left out, undefined or uninformative.
        criterion_gwet: AC1 over all binary pairs.
        criterion_balanced_accuracy: over all binary pairs.
        majority_baseline: the accuracy of always giving the most frequent label of a criterion, over the same pairs;
            the most frequent of all criteria with the same categories where criteria are pooled.
        accuracy_ci: of `criterion_accuracy`: where intervals were asked for, by
            `autorubric.metrics.jackknife.share_interval`; else Wilson's with the effective number of items (Kish
            1965) for n, which is wide enough however correlated the criteria of an item are.
        mean_kappa_ci: of `mean_kappa`, where intervals were asked for.
        n_scores: pairs of scores.
        n_kappa_criteria: the number of criteria behind `mean_kappa`.
        score_rule: how verdicts become scores, such as `skip, normalized`.
        without_judge: the panel without each judge, where judges were asked for.
        per_tag: the criteria of each tag together.
        self_consistency: of each judge that was asked repeatedly. Statistics among judges take one vote of each.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, agree, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": text, "ground_truth": ["MET"]} for text in ("Yes", "No", "That depends on it")]
        >>> found = agree(grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp()))
        >>> found.n_items, round(found.criterion_accuracy, 2)
        (3, 0.67)
    """

    criterion_accuracy: float | None
    criterion_precision: float | None
    criterion_recall: float | None
    criterion_f1: float | None
    mean_kappa: float | None
    per_criterion: list[CriterionMetricsUnion]
    score_rmse: float | None
    score_mae: float | None
    score_spearman: CorrelationResult
    score_kendall: CorrelationResult
    score_pearson: CorrelationResult
    bias: BiasResult
    bootstrap: BootstrapResults | None = None
    simulation: CoverageSimulation | None = None
    per_judge: dict[str, JudgeMetrics] | None = None
    n_items: int
    n_criteria: int
    n_binary_criteria: int = 0
    n_ordinal_criteria: int = 0
    n_nominal_criteria: int = 0
    na_stats: NAStats | None = None
    cannot_assess_stats: CannotAssessStats | None = None
    cannot_assess_mode: CannotAssessMode = "exclude"
    na_mode: NAMode = "exclude"
    n_samples: int | None = None
    mean_krippendorff_alpha: float | None = None
    criterion_phi: float | None = None
    macro_accuracy: float | None = None
    micro_kappa: float | None = None
    coverage_stats: CoverageStats | None = None
    pooled_by_scale: list[PooledScaleMetrics] | None = None
    warnings: list[str] = Field(default_factory=list)
    criterion_gwet: float | None = None
    criterion_balanced_accuracy: float | None = None
    majority_baseline: float | None = None
    accuracy_ci: ConfidenceInterval | None = None
    mean_kappa_ci: ConfidenceInterval | None = None
    n_scores: int = 0
    n_kappa_criteria: int = 0
    score_rule: str = "skip, normalized"
    without_judge: list[JudgeInfluence] = Field(default_factory=list)
    per_tag: list[TagMetrics] = Field(default_factory=list)
    self_consistency: list[JudgeSelfConsistency] = Field(default_factory=list)

    def __str__(self) -> str:
        return self.summary()

    def summary(self, *, verbose: bool = False) -> str:
        """Return the metrics as text for human readers.

        Args:
            verbose: include the correlations of scores, the coverage of criteria and the judges.
        """
        from autorubric.metrics.metrics_text import render_summary

        return "\n".join(render_summary(self, verbose=verbose))

    def _build_rows(self) -> list[dict[str, Any]]:
        from autorubric.metrics.metrics_text import build_rows

        return build_rows(self)

    def _select_rows(self) -> list[dict[str, Any]]:
        rows = self._build_rows()
        return [{name: row[name] for name in row if any(each[name] is not None for each in rows)} for row in rows]

    def _render_above(self) -> str:
        rows = [
            Ranged(found.name, found.accuracy, *((ends.lower, ends.upper) if ends else ()))
            for found in self.per_criterion
            for ends in [found.accuracy_ci]
            if found.accuracy is not None
        ]
        title, x_title = "Agreement with the labels by criterion", "share of equal verdicts, with interval"
        return join_charts([plot_intervals(title, rows[:12], x_title)] if rows else [])

    def to_file(self, path: str | Path) -> None:
        """Write all metrics to a JSON file, atomically.

        Raises:
            ValueError: the file cannot be written.
        """
        from autorubric.files import write_atomically

        write_atomically(path, [self.model_dump_json(indent=2), "\n"])
