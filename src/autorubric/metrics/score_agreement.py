"""The agreement of scores with what the labels would have scored."""

from __future__ import annotations

from typing import Any

import numpy as np

from autorubric.metrics.bias import systematic_bias
from autorubric.metrics.correlation import correlation
from autorubric.metrics.error_size import mae, rmse
from autorubric.metrics.score_pairs import ScorePairs

_PLACES = 12


def score_agreement(pairs: ScorePairs, confidence: float = 0.95) -> dict[str, Any]:
    """The fields of a result that are about scores, by name."""
    judged, true = pairs.judged, pairs.true
    # Sums in another order differ in their last digits: scores that are equal on paper are ties.
    ranked = np.round(judged, _PLACES), np.round(true, _PLACES)
    return {
        "score_rmse": rmse(judged, true),
        "score_mae": mae(judged, true),
        "score_spearman": correlation(*ranked, "spearman", confidence),
        "score_kendall": correlation(*ranked, "kendall", confidence),
        "score_pearson": correlation(judged, true, "pearson", confidence),
        "bias": systematic_bias(judged, true, confidence=confidence),
    }
