"""The module of AutoRubric 1.6 for evaluation: datasets graded in their own directory."""

from autorubric.runs.manifest import ExperimentManifest
from autorubric.runs.plan import EvalConfig
from autorubric.runs.result import EvalResult, ItemResult
from autorubric.runs.runner import EvalRunner, evaluate, evaluate_sync, fill_ground_truth, fill_ground_truth_sync
from autorubric.runs.summary import EvalTimingStats

__all__ = [
    "EvalConfig",
    "EvalResult",
    "EvalRunner",
    "EvalTimingStats",
    "ExperimentManifest",
    "ItemResult",
    "evaluate",
    "evaluate_sync",
    "fill_ground_truth",
    "fill_ground_truth_sync",
]
