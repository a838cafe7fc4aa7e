import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, CriterionVerdict, DataItem, Rubric, RubricDataset
from autorubric.core.judgment import CannotAssessConfig, MultiChoiceVerdict
from autorubric.core.report import CriterionReport, EvaluationReport, Report
from autorubric.core.scoring import ScoreRule
from autorubric.errors import InputError
from autorubric.metrics.corrected import corrected_scores
from autorubric.metrics.example_run import example_run


@dataclass
class Result:
    item_idx: int
    report: EvaluationReport


@dataclass
class Run:
    item_results: Sequence[Any]


def essays(labelled: int, items: int) -> tuple[RubricDataset, list[Report | None]]:
    rubric = Rubric(
        [Criterion(name="Causes", weight=6, requirement="r1"), Criterion(name="Lies", weight=-3, requirement="r2")]
    )
    dataset = RubricDataset("Explain", rubric)
    rng, reports = np.random.default_rng(8), list[Report | None]()
    for number in range(items):
        truth = rng.random(2) < (0.6, 0.2)
        judged = np.where(rng.random(2) < 0.1, ~truth, truth)
        words = [[CriterionVerdict.MET if met else CriterionVerdict.UNMET for met in row] for row in (truth, judged)]
        dataset.add_item(f"s{number}", "", list(words[0]) if number < labelled else None)
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, words[1], strict=True)
        ]
        reports.append(EvaluationReport(score=rubric.compute_score(words[1]), report=entries))
    return dataset, reports


def test_labels_shrink_the_interval_of_score_and_criteria() -> None:
    dataset, reports = essays(60, 600)
    found = corrected_scores(reports, dataset)
    for figures in (found.score, *found.criteria.values()):
        assert (figures.labelled, figures.unlabelled) == (60, 540)
        assert figures.ppi.interval is not None and figures.labels_only.interval is not None
        assert figures.ppi.interval.width < figures.labels_only.interval.width
    assert found.criteria["Lies"].rogan_gladen is not None
    assert found.notes == ()


def test_a_run_and_its_reports_give_the_same() -> None:
    dataset, reports = example_run()
    results = [Result(n, r) for n, r in enumerate(reports) if isinstance(r, EvaluationReport)]
    assert corrected_scores(Run(results), dataset) == corrected_scores(reports, dataset)


def test_labels_are_scored_as_the_run_scored() -> None:
    rubric = Rubric(
        [Criterion(name="a", weight=4, requirement="r1"), Criterion(name="b", weight=6, requirement="r2")]
    )
    dataset = RubricDataset("Explain", rubric)
    for number in range(4):
        dataset.add_item(f"s{number}", "", ["MET", "CANNOT_ASSESS"])
    entries = [
        CriterionReport(**rubric[0].model_dump(), verdict="MET", reason=None),
        CriterionReport(**rubric[1].model_dump(), verdict="CANNOT_ASSESS", reason=None),
    ]
    reports: list[Report | None] = [EvaluationReport(score=1.0, report=entries)] * 4
    # SKIP: 4/4; FAIL: 4/10; bare sum: 4.
    assert corrected_scores(reports, dataset).score.labels_only.value == 1.0
    fail = ScoreRule(CannotAssessConfig.model_validate({"strategy": "fail"}))
    assert corrected_scores(reports, dataset, rule=fail).score.labels_only.value == pytest.approx(0.4)
    bare = corrected_scores(reports, dataset, rule=ScoreRule(normalize=False)).score.labels_only
    assert bare.value == 4.0 and bare.interval is not None and bare.interval.high <= 10.0


def test_a_multi_choice_criterion_is_corrected_on_the_scale_of_its_options() -> None:
    options = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
    criterion = Criterion.model_validate({"name": "depth", "requirement": "r", "options": options})
    dataset, reports = RubricDataset("Explain", Rubric([criterion])), list[Report | None]()
    for number in range(12):
        dataset.add_item(f"s{number}", "", ["Partly"] if number < 6 else None)
        choice = MultiChoiceVerdict(selected_index=2, selected_label="Yes", value=1.0)
        entry = CriterionReport(**criterion.model_dump(), multi_choice_verdict=choice, reason=None)
        reports.append(EvaluationReport(score=1.0, report=[entry]))
    depth = corrected_scores(reports, dataset).criteria["depth"]
    # The judge says "Yes" of all and tells nothing, so that the labels' 0.5 stays.
    assert (depth.raw.value, depth.ppi.value, depth.rogan_gladen) == (1.0, 0.5, None)


def test_items_with_rubrics_of_their_own_have_a_score_but_no_criteria() -> None:
    dataset, reports = example_run()
    own = Rubric([Criterion(requirement=f"own {n}") for n in range(3)])
    items = [replace(item, rubric=own) if n == 5 else item for n, item in enumerate(dataset)]
    entries = [CriterionReport(**c.model_dump(), verdict=CriterionVerdict.MET, reason=None) for c in own]
    of_own = [*reports[:5], EvaluationReport(score=1.0, report=entries)]
    found = corrected_scores(of_own, replace(dataset, items=items))
    assert found.criteria == {} and found.score.labelled == 4


def test_what_is_left_out_is_counted() -> None:
    dataset, reports = example_run()
    failed = EvaluationReport(score=None, report=reports[1].report if reports[1] else None, error="1 failed")
    found = corrected_scores([None, failed, *reports[2:]], dataset)
    assert found.notes == (
        "1 of 6 items have no report with criteria and are left out",
        "1 of 6 items have no score and are left out of the mean score",
        "2 labelled items; the coverage of these intervals was checked for 30 or more",
        "labels whose judgment failed, abstained or was not made count in 'labels alone' and in no correction: "
        "mean score 1 of 3",
    )
    assert found.score.labelled == 2 and found.score.ppi.value is None


def test_a_run_without_ground_truth_or_of_another_dataset_is_refused() -> None:
    dataset, reports = example_run()
    bare = replace(dataset, items=[DataItem(item.submission, item.description) for item in dataset])
    with pytest.raises(InputError, match="no graded item has ground truth"):
        corrected_scores(reports, bare)
    report = reports[0]
    assert isinstance(report, EvaluationReport)
    with pytest.raises(InputError, match="none of the 1 graded items is in the dataset"):
        corrected_scores(Run([Result(9, report)]), dataset)
    assert not math.isnan(report.score or 0.0)


@dataclass
class Of:
    item_idx: int
    report: Report | None
    item: DataItem


def test_a_run_finds_its_items_in_a_dataset_of_another_order() -> None:
    dataset, reports = essays(60, 200)
    run = Run([Of(n, report, item) for n, (report, item) in enumerate(zip(reports, dataset, strict=True))])
    turned = replace(dataset, items=dataset.items[::-1])
    assert corrected_scores(run, turned) == corrected_scores(run, dataset)
