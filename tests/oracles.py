"""Libraries whose values ours are compared with, imported when a test first uses one.

Every process of pytest-xdist collects all test files. With these imports at their top, each would take three seconds
longer to begin.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Late:
    """A module, or a function of one, that is imported on its first use."""

    def __init__(self, module: str, name: str = "") -> None:
        self._place = module, name

    def _found(self) -> Any:
        module, name = self._place
        found = import_module(module)
        return getattr(found, name) if name else found

    def __getattr__(self, name: str) -> Any:
        # pytest asks everything in a test file whether it is a fixture.
        if name.startswith(("_", "pytest")):
            raise AttributeError(name)
        return getattr(self._found(), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._found()(*args, **options)


stats: Any = _Late("scipy.stats")
kendalltau: Any = _Late("scipy.stats", "kendalltau")
sk: Any = _Late("sklearn.metrics")
cohen_kappa_score: Any = _Late("sklearn.metrics", "cohen_kappa_score")
OLS: Any = _Late("statsmodels.regression.linear_model", "OLS")
add_constant: Any = _Late("statsmodels.tools", "add_constant")
inter_rater: Any = _Late("statsmodels.stats.inter_rater")
multipletests: Any = _Late("statsmodels.stats.multitest", "multipletests")
proportion_confint: Any = _Late("statsmodels.stats.proportion", "proportion_confint")
krippendorff: Any = _Late("krippendorff")
alpha: Any = _Late("krippendorff", "alpha")
nltk: Any = _Late("nltk")
