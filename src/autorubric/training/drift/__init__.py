"""How a reward moves while a policy trains against it."""

from autorubric.training.drift.course import Drift, drift_of
from autorubric.training.drift.saturation import CriterionDrift
from autorubric.training.drift.warnings import warnings_of
from autorubric.training.drift.windows import Gap, Window

__all__ = ["CriterionDrift", "Drift", "Gap", "Window", "drift_of", "warnings_of"]
