"""The agreement of scores with what the labels would have scored."""

from __future__ import annotations

from typing import Any

from autorubric.metrics.bias import systematic_bias
from autorubric.metrics.correlation import correlation
from autorubric.metrics.error_size import mae, rmse
from autorubric.metrics.score_pairs import ScorePairs


def score_agreement(pairs: ScorePairs, confidence: float = 0.95) -> dict[str, Any]:
    """The fields of a result that are about scores, by name."""
    judged, true = pairs.judged, pairs.true
    return {
        "score_rmse": rmse(judged, true),
        "score_mae": mae(judged, true),
        "score_spearman": correlation(judged, true, "spearman", confidence),
        "score_kendall": correlation(judged, true, "kendall", confidence),
        "score_pearson": correlation(judged, true, "pearson", confidence),
        "bias": systematic_bias(judged, true, confidence=confidence),
    }
