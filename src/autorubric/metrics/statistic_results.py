"""The published result types of intervals, correlations, bias and distributions."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import ConfigDict

from autorubric.core.display import BriefModel
from autorubric.metrics.intervals import Interval

INSUFFICIENT = "insufficient data"
UNDEFINED = "undefined"


class MetricModel(BriefModel):
    """An immutable result."""

    model_config = ConfigDict(frozen=True)


class ConfidenceInterval(MetricModel):
    """A confidence interval.

    Attributes:
        lower: its lower end.
        upper: its upper end.
        confidence: the share of such intervals that contain the true value.
        method: how it was made: `wilson`, `jackknife`, `jeffreys`, `t`, …

    Example:
        >>> ConfidenceInterval(lower=0.25, upper=0.75).width
        0.5
    """

    lower: float
    upper: float
    confidence: float = 0.95
    method: str = "normal"

    @property
    def width(self) -> float:
        """The difference between the upper and the lower end."""
        return self.upper - self.lower

    @classmethod
    def from_interval(cls, interval: Interval | None, method: str = "normal") -> ConfidenceInterval | None:
        """Return the interval in its published form; None for None."""
        if interval is None:
            return None
        return cls(lower=interval.low, upper=interval.high, confidence=interval.confidence, method=method)


class KappaResult(MetricModel):
    """Cohen's κ with its components.

    Attributes:
        kappa: the coefficient.
        observed_agreement: the share of pairs that agree; near misses count in part if κ is weighted.
        expected_agreement: the agreement expected by chance.
        standard_error: the large-sample standard error of κ.
        ci: the confidence interval.
        interpretation: Landis and Koch's word for κ.
        n_samples: the number of pairs of verdicts.
    """

    kappa: float
    observed_agreement: float
    expected_agreement: float
    standard_error: float | None = None
    ci: ConfidenceInterval | None = None
    interpretation: str
    n_samples: int

    @staticmethod
    def interpret_kappa(kappa: float | None) -> str:
        """Landis and Koch's (1977) word for a κ; `undefined` for None.

        Example:
            >>> KappaResult.interpret_kappa(0.5)
            'moderate'
        """
        if kappa is None:
            return UNDEFINED
        if kappa < 0:
            return "poor (worse than chance)"
        steps = ((0.21, "slight"), (0.41, "fair"), (0.61, "moderate"), (0.81, "substantial"))
        return next((word for limit, word in steps if kappa < limit), "almost perfect")


class CorrelationResult(MetricModel):
    """A correlation.

    Attributes:
        coefficient: in [−1, 1]; None for fewer than three pairs or a constant series.
        p_value: two-sided, for no correlation.
        ci: the confidence interval.
        interpretation: size and sign in words, or why it is undefined.
        n_samples: the number of pairs.
        method: pearson, spearman or kendall.

    Example:
        >>> CorrelationResult(coefficient=0.9, interpretation="very strong", n_samples=20).method
        'spearman'
    """

    coefficient: float | None
    p_value: float | None = None
    ci: ConfidenceInterval | None = None
    interpretation: str
    n_samples: int
    method: str = "spearman"

    @staticmethod
    def interpret_correlation(r: float) -> str:
        """Describe size and sign of a correlation in words.

        Example:
            >>> CorrelationResult.interpret_correlation(-0.75)
            'strong negative'
        """
        steps = ((0.9, "very strong"), (0.7, "strong"), (0.5, "moderate"), (0.3, "weak"))
        size = next((word for limit, word in steps if abs(r) >= limit), "very weak")
        return f"{size} {'negative' if r < 0 else 'positive'}"


class BiasResult(MetricModel):
    """How much higher a judge scores than the truth.

    Attributes:
        mean_bias: the mean of predicted − true.
        std_bias: the standard deviation of the differences (n − 1).
        is_significant: whether the p-value is below 1 − confidence.
        p_value: two-sided, for no bias; None if it is undefined.
        direction: `positive`, `negative`, or `none` within ±0.001.
        effect_size: Cohen's d; None if the differences do not vary.
        ci: the interval of the mean; None if the differences do not vary.
        n_samples: the number of pairs.

    Example:
        >>> from autorubric import systematic_bias
        >>> systematic_bias([0.9, 0.8, 0.9], [0.8, 0.7, 0.6]).direction
        'positive'
    """

    mean_bias: float | None
    std_bias: float | None
    is_significant: bool
    p_value: float | None = None
    direction: Literal["positive", "negative", "none"]
    effect_size: float | None = None
    ci: ConfidenceInterval | None = None
    n_samples: int

    @staticmethod
    def interpret_effect_size(d: float) -> str:
        """Cohen's (1988) word for an effect size.

        Example:
            >>> BiasResult.interpret_effect_size(0.6)
            'medium'
        """
        steps = ((0.2, "negligible"), (0.5, "small"), (0.8, "medium"))
        return next((word for limit, word in steps if abs(d) < limit), "large")


class DistributionResult(MetricModel):
    """The shape of a set of scores; values are None if there are too few scores.

    Attributes:
        n: the number of scores.
        mean: the mean score.
        std: the standard deviation (n − 1).
        variance: the variance (n − 1).
        min: the lowest score.
        max: the highest score.
        median: the median.
        q25: the lower quartile.
        q75: the upper quartile.
        iqr: q75 − q25.
        skewness: for at least three values that are not all equal.
        kurtosis: excess kurtosis, for at least four values that are not all equal.
        histogram: counts, and the edges of the bins.

    Example:
        >>> from autorubric import score_distribution
        >>> found = score_distribution([0.0, 0.5, 1.0])
        >>> found.n, found.mean, found.median
        (3, 0.5, 0.5)
    """

    n: int
    mean: float | None
    std: float | None
    variance: float | None
    min: float | None
    max: float | None
    median: float | None
    q25: float | None
    q75: float | None
    iqr: float | None
    skewness: float | None
    kurtosis: float | None
    histogram: tuple[list[float], list[float]] | None = None


class EMDResult(MetricModel):
    """The distance between two distributions.

    Attributes:
        emd: the earth mover's distance.
        mean_diff: mean of the first − mean of the second, in the same units.
        std_diff: the difference of the standard deviations, likewise.
        bias_direction: `higher` if the first mean is higher by more than 0.01, `lower`, or `none`.
        bias_magnitude: the size of `mean_diff`.
        interpretation: the distance in words.

    Example:
        >>> from autorubric import earth_movers_distance
        >>> earth_movers_distance([0.75, 1.0], [0.25, 0.5]).bias_direction
        'higher'
    """

    emd: float | None
    mean_diff: float | None
    std_diff: float | None
    bias_direction: Literal["higher", "lower", "none"]
    bias_magnitude: float | None
    interpretation: str

    @staticmethod
    def interpret_emd(emd: float) -> str:
        """Describe a distance on a scale of length 1 in words.

        Example:
            >>> EMDResult.interpret_emd(0.07)
            'minor differences'
        """
        steps = ((0.05, "very similar"), (0.10, "minor differences"), (0.20, "moderate differences"))
        return next((word for limit, word in steps if emd < limit), "substantial differences")


class KSTestResult(MetricModel):
    """A Kolmogorov-Smirnov test.

    Attributes:
        statistic: the largest distance of the two distribution functions; None for an empty sample.
        p_value: two-sided.
        is_significant: whether it is below 0.05.

    Example:
        >>> from autorubric import ks_test
        >>> ks_test([0.1, 0.2], [0.8, 0.9]).statistic
        1.0
    """

    statistic: float | None
    p_value: float | None
    is_significant: bool


class BootstrapResult(MetricModel):
    """A bootstrapped statistic.

    Attributes:
        estimate: the value for the data itself.
        ci: the confidence interval.
        standard_error: the standard deviation over replicates.
        n_bootstrap: the number of replicates.
        bootstrap_distribution: the value of each replicate, if kept.

    Example:
        >>> ends = ConfidenceInterval(lower=0.4, upper=0.6)
        >>> BootstrapResult(estimate=0.5, ci=ends, standard_error=0.05, n_bootstrap=1000).ci.upper
        0.6
    """

    estimate: float
    ci: ConfidenceInterval
    standard_error: float
    n_bootstrap: int
    bootstrap_distribution: list[float] | None = None


class MetricWithCI(MetricModel):
    """A named metric and its interval."""

    metric_name: str
    value: float
    ci: ConfidenceInterval
    n_samples: int


class ScoreCorrelationResult(MetricModel):
    """The correlation and the error of scores, compared with true scores."""

    spearman: CorrelationResult
    kendall: CorrelationResult
    pearson: CorrelationResult
    rmse: float
    mae: float
    n_samples: int


class ClassificationReport(MetricModel):
    """The metrics of a classification, by class and on average."""

    accuracy: float
    per_class: dict[str, dict[str, float]]
    macro_avg: dict[str, float]
    weighted_avg: dict[str, float]
    confusion_matrix: list[list[int]]
    labels: list[str]
    n_samples: int


CorrelationMethod: TypeAlias = Literal["pearson", "spearman", "kendall"]
