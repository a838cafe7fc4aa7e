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
]
