"""A run held against its labels, scored by the rule that the run itself used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionGrader, EvalResult, LengthPenalty, Rubric, RubricDataset, evaluate_sync


@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize": False}, {"length_penalty": LengthPenalty(free_budget=1, max_cap=4, penalty_at_cap=0.3)}],
    ids=["default", "bare sums", "length penalty"],
)
def test_a_perfect_run_has_no_score_error_in_memory_or_from_its_directory(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    check = {"name": "word_count", "parameters": {"at_most": 2}}
    dataset = RubricDataset(
        "Explain.", Rubric([Criterion(weight=7, requirement="Has at most 2 words.", check=check)])
    )
    for number in range(6):
        dataset.add_item(f"Text {number}" + " more" * (number % 2), "", ["UNMET" if number % 2 else "MET"])
    grader = CriterionGrader.of_checks(**settings)
    result = evaluate_sync(dataset, grader, show_progress=False, experiments_dir=tmp_path, experiment_name="run")
    for found in (result, EvalResult.from_experiment(tmp_path / "run")):
        metrics = found.compute_metrics(dataset)
        assert metrics.criterion_accuracy == 1.0
        assert metrics.score_rmse == pytest.approx(0.0, abs=1e-12)
        assert metrics.n_scores == 6
