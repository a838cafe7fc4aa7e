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
        """The number of categories."""
        return len(self.labels)

    @property
    def total(self) -> int:
        """The number of pairs."""
        return sum(map(sum, self.matrix))

    @property
    def tp(self) -> int:
        """True positives: pairs positive in both."""
        if len(self.labels) != 2 or self.labels[0] != "MET":
            raise InputError(f"tp, fn, fp, tn and rates need the categories MET and UNMET; these are {self.labels}")
        return self.matrix[0][0]

    @property
    def fn(self) -> int:
        """False negatives: pairs positive only in the truth."""
        return sum(self.matrix[0]) - self.tp

    @property
    def fp(self) -> int:
        """False positives: pairs positive only as judged."""
        return sum(row[0] for row in self.matrix) - self.tp

    @property
    def tn(self) -> int:
        """True negatives: pairs positive in neither."""
        return self.total - self.tp - self.fn - self.fp

    @property
    def fpr(self) -> float | None:
        """The share of true negatives and false positives that is judged positive; None without any."""
        return nan_to_none(ratio(self.fp, self.fp + self.tn))

    @property
    def fnr(self) -> float | None:
        """The share of the truly positive pairs that is judged negative; None without any."""
        return nan_to_none(ratio(self.fn, self.tp + self.fn))

    @property
    def precision(self) -> float | None:
        """The share of the pairs judged positive that is truly positive; None without any."""
        return nan_to_none(ratio(self.tp, self.tp + self.fp))

    @property
    def recall(self) -> float | None:
        """The share of the truly positive pairs that is judged positive; None without any."""
        return nan_to_none(ratio(self.tp, self.tp + self.fn))


class CoverageStats(MetricModel):
    """The number of labelled points that are compared, and the reasons why others are not.

    Attributes:
        n_total: labelled points, including those of items without any judgment.
        n_covered: points with a category in both label and verdict, after abstentions are resolved by the mode.
        coverage: n_covered / n_total.
        judge_abstain_rate: the share on which the judge abstained.
        gt_abstain_rate: of items with a judgment, the share on which the labels abstain.
        union_exclusion_rate: 1 − coverage.
        n_errored: points whose judgment failed.
        error_rate: n_errored / n_total.
        n_not_requested: points whose judgment was not requested because the run or its budget ended.
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
    """The results that every kind of criterion has.

    Attributes:
        name: the criterion's name.
        index: the criterion's place.
        n_samples: the number of pairs of label and verdict.
        kappa_interpretation: Landis and Koch's word for κ, or `undefined`.
        krippendorff_alpha: α among the judges; None for one judge.
        fleiss_kappa: κ among the judges that voted on the criterion, over items on which all did; None without any.
        is_degenerate: whether κ is undefined because all labels and verdicts are one category.
        coverage_stats: how many labelled points are compared.
        weight: the criterion's weight.
        tags: the criterion's tags.
        majority_baseline: the share of the most frequent label, the accuracy of always giving it.
        gwet: AC1, or AC2 with quadratic weights for ordered options.
        balanced_accuracy: the mean recall over the labels that occur.
        mcc: Matthews' correlation; None if labels or verdicts are all one category, so that κ is 0 or undefined.
        accuracy_ci: the Wilson interval of the accuracy.
        kappa_ci: the interval of κ if requested: from its posterior for binary criteria, else by jackknife.
        judge_gwet: AC1 (AC2) among the judges.
        icc: ICC(2,1) of the values among the judges; ordered options only.
        n_judges: the number of judges.
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
        n_options: the number of options that are scored.
        exact_accuracy: the share of pairs with the same option.
        adjacent_accuracy: the share of pairs at most one place apart in the order of values.
        weighted_kappa: κ with quadratic weights on the options' values.
        spearman, kendall, rmse, mae: computed on the values.
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
        """The exact accuracy, under the name used for binary criteria."""
        return self.exact_accuracy

    @property
    def kappa(self) -> float | None:
        """The weighted κ, under the name used for other criteria."""
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
        """The exact accuracy, under the name used for binary criteria."""
        return self.exact_accuracy


CriterionMetricsUnion: TypeAlias = CriterionMetrics | OrdinalCriterionMetrics | NominalCriterionMetrics
