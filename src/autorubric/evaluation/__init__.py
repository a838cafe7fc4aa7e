"""Evaluation runs: a dataset and a grader in, a durable result out."""

from autorubric.evaluation.config import EvalConfig
from autorubric.evaluation.experiment import ExperimentManifest
from autorubric.evaluation.fill import fill_ground_truth, fill_ground_truth_sync
from autorubric.evaluation.result import EvalResult, EvalTimingStats, ItemResult
from autorubric.evaluation.runner import EvalRunner, evaluate, evaluate_sync

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
