"""The published home of what compares distributions of scores."""

from __future__ import annotations

from autorubric.metrics.bias import systematic_bias
from autorubric.metrics.earth_movers import earth_movers_distance, wasserstein_distance
from autorubric.metrics.kolmogorov_smirnov import ks_test
from autorubric.metrics.score_distribution import score_distribution

__all__ = ["earth_movers_distance", "ks_test", "score_distribution", "systematic_bias", "wasserstein_distance"]
