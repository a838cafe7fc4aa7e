"""The result types of single criteria, as published, with additions."""

from typing import Literal, TypeAlias

from pydantic import Field

from autorubric.errors import InputError
from autorubric.metrics.agreement_statistics import MeasuredModel
from autorubric.metrics.arrays import nan_to_none, ratio
from autorubric.metrics.statistic_results import ConfidenceInterval, CorrelationResult, MetricModel


class ConfusionMatrix(MetricModel):
    """Counts of pairs: rows are the truth, columns what was judged.

    `tp`, `fn`, `fp`, `tn` and the rates are those of two categories of which the first is MET.

    Attributes:
        matrix: the counts.
        labels: of rows and columns.

    Raises:
        ValueError: a count or rate of two categories is read from another matrix.

    Example:
        >>> table = ConfusionMatrix(matrix=[[8, 2], [1, 9]], labels=["MET", "UNMET"])
        >>> table.tp, table.fnr, table.precision
        (8, 0.2, 0.8888888888888888)
    """

    matrix: list[list[int]]
    labels: list[str]

    @property
    def n_classes(self) -> int:
        """How many categories."""
        return len(self.labels)

    @property
    def total(self) -> int:
        """How many pairs."""
        return sum(map(sum, self.matrix))

    @property
    def tp(self) -> int:
        """Positive on both sides."""
        if len(self.labels) != 2 or self.labels[0] != "MET":
            raise InputError(f"tp, fn, fp, tn and rates need the categories MET and UNMET; these are {self.labels}")
        return self.matrix[0][0]

    @property
    def fn(self) -> int:
        """Positive in truth only."""
        return sum(self.matrix[0]) - self.tp

    @property
    def fp(self) -> int:
        """Positive as judged only."""
        return sum(row[0] for row in self.matrix) - self.tp

    @property
    def tn(self) -> int:
        """Positive on neither side."""
        return self.total - self.tp - self.fn - self.fp

    @property
    def fpr(self) -> float | None:
        """The share of the truly negative that is judged positive; None if there is none."""
        return nan_to_none(ratio(self.fp, self.fp + self.tn))

    @property
    def fnr(self) -> float | None:
        """The share of the truly positive that is not judged so; None if there is none."""
        return nan_to_none(ratio(self.fn, self.tp + self.fn))

    @property
    def precision(self) -> float | None:
        """The share of those judged positive that are; None if none is judged so."""
        return nan_to_none(ratio(self.tp, self.tp + self.fp))

    @property
    def recall(self) -> float | None:
        """The share of the truly positive that is judged so; None if there is none."""
        return nan_to_none(ratio(self.tp, self.tp + self.fn))


class CoverageStats(MetricModel):
    """How many labelled points are compared.

    Attributes:
        n_total: labelled points, those of items without any judgment among them.
        n_covered: those with a category on both sides, abstentions resolved by the mode.
        coverage: n_covered / n_total.
        judge_abstain_rate: share that the judge abstained on.
        gt_abstain_rate: share that the labels abstain on, of items with a judgment.
        union_exclusion_rate: 1 − coverage.
        n_errored: points whose judgment failed.
        error_rate: n_errored / n_total.
        n_not_requested: points whose judgment was not requested, as the run or its budget ended.
    """

    n_total: int
    n_covered: int
    coverage: float | None = None
    judge_abstain_rate: float | None = None
    gt_abstain_rate: float | None = None
    union_exclusion_rate: float | None = None
    n_errored: int = 0
    error_rate: float | None = None
    n_not_requested: int = 0


class NAStats(MetricModel):
    """How judge and labels agree on "not applicable"; failed judgments are left out."""

    na_count_true: int
    na_count_pred: int
    na_kappa: float | None = None
    na_kappa_interpretation: str | None = None
    na_false_positive: int
    na_false_negative: int


class CannotAssessStats(MetricModel):
    """How judge and labels agree on CANNOT_ASSESS; failed judgments are left out."""

    ca_count_true: int
    ca_count_pred: int
    ca_kappa: float | None = None
    ca_kappa_interpretation: str | None = None
    ca_false_positive: int
    ca_false_negative: int


class OptionMetrics(MetricModel):
    """Precision, recall and F1 of one option; None if undefined."""

    label: str
    index: int
    precision: float | None
    recall: float | None
    f1: float | None
    support_true: int
    support_pred: int


class _AnyCriterionMetrics(MeasuredModel):
    """What the results of every kind of criterion have.

    Attributes:
        name: of the criterion.
        index: its place.
        n_samples: pairs of label and verdict.
        kappa_interpretation: Landis and Koch's word for κ, or `undefined`.
        krippendorff_alpha: among the judges; None for one judge.
        fleiss_kappa: among the judges that voted on it, over the items on which all did; None without such.
        is_degenerate: there are pairs, and κ is undefined: labels and verdicts are all one category.
        coverage_stats: how many labelled points are compared.
        weight: of the criterion.
        tags: of the criterion.
        majority_baseline: the share of the most frequent label, the accuracy of always giving it.
        gwet: AC1, or AC2 with quadratic weights for ordered options.
        balanced_accuracy: the mean recall over the labels that occur.
        mcc: Matthews' correlation; None if labels or verdicts are all one category, so that κ is 0 or undefined.
        accuracy_ci: of the accuracy (Wilson).
        kappa_ci: of κ, where intervals were asked for: from its posterior for binary criteria, else by jackknife.
        judge_gwet: AC1 (AC2) among the judges.
        icc: among the judges, ICC(2,1) of the values; ordered options only.
        n_judges: how many judges.
    """

    name: str
    index: int
    n_samples: int
    kappa_interpretation: str
    krippendorff_alpha: float | None = None
    fleiss_kappa: float | None = None
    is_degenerate: bool = False
    coverage_stats: CoverageStats | None = None
    weight: float = 1.0
    tags: list[str] = Field(default_factory=list)
    majority_baseline: float | None = None
    gwet: float | None = None
    balanced_accuracy: float | None = None
    mcc: float | None = None
    accuracy_ci: ConfidenceInterval | None = None
    kappa_ci: ConfidenceInterval | None = None
    judge_gwet: float | None = None
    icc: float | None = None
    n_judges: int = 1


class CriterionMetrics(_AnyCriterionMetrics):
    """Agreement on a binary criterion; MET is the positive category.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, agree, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": text, "ground_truth": ["MET"]} for text in ("Yes", "No", "That depends on it")]
        >>> run = grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [criterion] = agree(run).per_criterion
        >>> criterion.name, round(criterion.accuracy, 2)
        ('Short', 0.67)
    """

    criterion_type: Literal["binary"] = "binary"
    accuracy: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    kappa: float | None
    support_true: int
    support_pred: int
    confusion_matrix: ConfusionMatrix | None = None
    fpr: float | None = None
    fnr: float | None = None
    phi: float | None = None


BinaryCriterionMetrics = CriterionMetrics


class OrdinalCriterionMetrics(_AnyCriterionMetrics):
    """Agreement on a criterion whose options have an order.

    Attributes:
        n_options: options that are scored.
        exact_accuracy: the share of pairs of one option.
        adjacent_accuracy: the share at most one place apart in the order of values.
        weighted_kappa: κ with quadratic weights on the options' values.
        spearman, kendall, rmse, mae: of the values.
        per_option: each option against the rest.
        confusion_matrix: rows are the truth, options as they are declared.
    """

    criterion_type: Literal["ordinal"] = "ordinal"
    n_options: int
    exact_accuracy: float | None
    adjacent_accuracy: float | None
    weighted_kappa: float | None
    spearman: CorrelationResult
    kendall: CorrelationResult
    rmse: float | None
    mae: float | None
    per_option: list[OptionMetrics]
    confusion_matrix: ConfusionMatrix

    @property
    def accuracy(self) -> float | None:
        """The exact accuracy, by the name that binary criteria have for it."""
        return self.exact_accuracy

    @property
    def kappa(self) -> float | None:
        """The weighted κ, by the name that other criteria have for it."""
        return self.weighted_kappa


class NominalCriterionMetrics(_AnyCriterionMetrics):
    """Agreement on a criterion whose options have no order."""

    criterion_type: Literal["nominal"] = "nominal"
    n_options: int
    exact_accuracy: float | None
    kappa: float | None
    per_option: list[OptionMetrics]
    confusion_matrix: ConfusionMatrix

    @property
    def accuracy(self) -> float | None:
        """The exact accuracy, by the name that binary criteria have for it."""
        return self.exact_accuracy


CriterionMetricsUnion: TypeAlias = CriterionMetrics | OrdinalCriterionMetrics | NominalCriterionMetrics
