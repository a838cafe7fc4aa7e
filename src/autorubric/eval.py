"""The published name of `autorubric.evaluation`."""

from autorubric.evaluation import (
    EvalConfig,
    EvalResult,
    EvalRunner,
    EvalTimingStats,
    ExperimentManifest,
    ItemResult,
    evaluate,
    evaluate_sync,
    fill_ground_truth,
    fill_ground_truth_sync,
)

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
