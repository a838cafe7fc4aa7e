from datetime import UTC, datetime
from pathlib import Path

import pytest

from autorubric import CriterionVerdict, EvalResult, EvalTimingStats, ItemResult, RubricDataset
from autorubric.core.report import CriterionReport, EvaluationReport
from autorubric.errors import InputError
from autorubric.metrics import analyze_rubric
from autorubric.metrics.corrected import corrected_scores
from autorubric.metrics.label_choice import label_next

ESSAYS = Path(__file__).parents[1] / "data" / "essay_grading_dataset.json"


@pytest.fixture
def essays() -> RubricDataset:
    return RubricDataset.from_file(ESSAYS)


def graded(dataset: RubricDataset) -> EvalResult:
    """A run whose judge says MET wherever the label does, and on every structure."""
    results = []
    for index, item in enumerate(dataset):
        rubric = dataset.get_item_rubric(index)
        said = [
            CriterionVerdict.MET if criterion.name == "Structure" else CriterionVerdict(label)
            for criterion, label in zip(rubric, item.ground_truth or [], strict=True)
        ]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, said, strict=True)
        ]
        report = EvaluationReport(score=rubric.compute_score(said), report=entries)
        results.append(ItemResult(index, item, report, 0.1))
    now = datetime.now(UTC)
    timing = EvalTimingStats.from_durations([0.1] * len(results), 1.0)
    return EvalResult(results, len(results), len(results), 0, None, None, timing, now, now)


def test_graded_essays_have_statistics_for_each_criterion(essays: RubricDataset) -> None:
    rows = {row.name: row for row in analyze_rubric(graded(essays), essays).criteria}
    assert set(rows) == {"Causes", "Effects", "Structure", "Britain", "Errors"}
    assert rows["Structure"].pass_rate.value == 1.0 and rows["Structure"].discrimination.value is None
    assert rows["Causes"].label_agreement.value == 1.0
    # Eleven submissions of one prompt.
    assert analyze_rubric(graded(essays), essays, rollouts=4).group.queries == 1


def test_graded_essays_are_all_labelled_so_nothing_is_to_correct_or_to_ask_for(essays: RubricDataset) -> None:
    run = graded(essays)
    found = corrected_scores(run, essays)
    assert found.score.ppi.reason == "every item is labelled, so there is nothing to correct"
    assert found.score.labels_only.interval is not None
    # Where a person could not say there is a label too: four of them in all.
    with pytest.raises(InputError, match="nothing is left to label"):
        label_next(run, 5, essays)
    items = essays.items[:6]
    for item in items:
        item.ground_truth = None
    asked = label_next(run, 5, essays)
    assert len(asked) == 5 and {request.item for request in asked} <= set(range(6))
