"""The result types, under their published path."""

from autorubric.metrics.criterion_results import *  # noqa: F403
from autorubric.metrics.results import *  # noqa: F403
from autorubric.metrics.statistic_results import *  # noqa: F403
from autorubric.metrics.table import CannotAssessMode, CriterionType, NAMode  # noqa: F401
