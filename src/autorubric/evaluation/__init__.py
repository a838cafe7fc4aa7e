"""Evaluation runs: a dataset and a grader in, a durable result out. Names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "config": ("EvalConfig",),
    "experiment": ("ExperimentManifest",),
    "fill": ("fill_ground_truth", "fill_ground_truth_sync"),
    "result": ("EvalResult", "EvalTimingStats", "ItemResult"),
    "runner": ("EvalRunner", "evaluate", "evaluate_sync"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
