"""The stored run that was written from Python, not by a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autorubric import Criterion, CriterionGrader, JudgeSpec, LLMConfig, Rubric
from tests.stored_runs.stand import BASE_URL

TEXTS = ("The moon, because unclear-at-first.", "The moon, cut-off-at-first.", "The moon.", "cut-off-always")


def grade_in_python(folder: Path) -> list[Any]:
    """Score, error and verdicts of each text, by two seats of one model with a cache directory in `folder`."""
    settings: dict[str, Any] = {"api_base": BASE_URL, "temperature": 0.5, "max_retries": 0}
    config = LLMConfig("vllm/strict", cache_enabled=True, cache_dir=folder / "cache", **settings)
    cause = Criterion(name="Cause", weight=3, requirement="Names a cause.")
    rubric = Rubric([cause, Criterion(requirement="Is brief.")])
    grader = CriterionGrader(judges=[JudgeSpec(config, "first"), JudgeSpec(config, "second")])
    reports = [rubric.grade_sync(text, grader, query="Explain the tides.") for text in TEXTS]
    grader.close()
    return [
        {
            "score": report.score,
            "error": report.error,
            "criteria": [one.model_dump(mode="json") for one in report.report or ()],
        }
        for report in reports
    ]
