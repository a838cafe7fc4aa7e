"""Libraries that provide expected values; `tests/warm_workers.py` imports them once for all test workers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

stats: Any = import_module("scipy.stats")
kendalltau: Any = stats.kendalltau
sk: Any = import_module("sklearn.metrics")
cohen_kappa_score: Any = sk.cohen_kappa_score
OLS: Any = import_module("statsmodels.regression.linear_model").OLS
add_constant: Any = import_module("statsmodels.tools").add_constant
inter_rater: Any = import_module("statsmodels.stats.inter_rater")
multipletests: Any = import_module("statsmodels.stats.multitest").multipletests
proportion_confint: Any = import_module("statsmodels.stats.proportion").proportion_confint
krippendorff: Any = import_module("krippendorff")
alpha: Any = krippendorff.alpha
nltk: Any = import_module("nltk")
