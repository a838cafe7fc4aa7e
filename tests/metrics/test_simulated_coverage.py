import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, CriterionVerdict, InputError, Rubric, RubricDataset, agree, agree_pairwise
from autorubric.cli.app import run as command
from autorubric.core.report import CriterionReport, EvaluationReport
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.labelled_run import read_labelled_run
from autorubric.metrics.simulated_coverage import simulate_corrections, simulate_coverage

CRITERIA = [
    Criterion(name="Brief", requirement="Is brief.", weight=2),
    Criterion(name="Kind", requirement="Is kind."),
]


def noisy(graded: Callable[..., Any], items: int) -> Any:
    rng, words, made = np.random.default_rng(8), np.array(["UNMET", "MET"]), graded(CRITERIA)
    for _ in range(items):
        truth = rng.integers(0, 2, 2)
        said = np.where(rng.random(2) < 0.2, 1 - truth, truth)
        made.add(words[truth].tolist(), words[said].tolist())
    return made


def test_intervals_of_many_ordinary_items_cover_what_they_state(graded: Callable[..., Any]) -> None:
    made = noisy(graded, 60)
    found = simulate_coverage(read_labelled_run(made.run, made.dataset), Draws(400, seed=1), resamples=150)
    assert (found.items, found.resamples, found.confidence) == (60, 150, 0.95)
    by_name = {one.name: one for one in found.intervals}
    # 95 % of 150 samples has a standard error of 1.8 %.
    for name in ("accuracy", "kappa of Brief", "kappa of Kind", "bias", "MAE", "accuracy of Kind"):
        assert 0.88 <= by_name[name].covered <= 1.0, name
        assert by_name[name].covered + by_name[name].above + by_name[name].below == pytest.approx(1.0)
    half = simulate_coverage(read_labelled_run(made.run, made.dataset), Draws(400, 0.5, seed=1), resamples=150)
    # 50 % ± 3 standard errors of 4.1 %.
    assert {one.name: one for one in half.intervals}["accuracy"].covered == pytest.approx(0.5, abs=0.13)


def test_intervals_of_corrected_scores_cover_what_they_state_and_those_of_a_rare_class_do_not() -> None:
    rng, rubric = np.random.default_rng(8), Rubric(CRITERIA)
    dataset, reports = RubricDataset("Why?", rubric), []
    words = (CriterionVerdict.UNMET, CriterionVerdict.MET)
    for number in range(300):
        # The second criterion is met by one item in ten.
        truth = (rng.random(2) < (0.5, 0.1)).astype(int)
        said = [words[met] for met in np.where(rng.random(2) < 0.1, 1 - truth, truth)]
        dataset.add_item(f"text {number}", "", [words[met] for met in truth] if number < 60 else None)
        entries = [
            CriterionReport(**one.model_dump(), verdict=v, reason="") for one, v in zip(rubric, said, strict=True)
        ]
        reports.append(EvaluationReport(score=rubric.compute_score(said), report=entries))
    found = simulate_corrections(reports, dataset, seed=1, resamples=150)
    by_name = {one.name: one for one in found.intervals}
    assert found.items == 60
    # 95 % of 150 samples has a standard error of 1.8 %.
    for name in (
        "mean score, labels alone",
        "mean score, corrected (PPI)",
        "Brief, corrected (PPI)",
        "Brief, Rogan-Gladen",
    ):
        assert 0.88 <= by_name[name].covered <= 1.0, name
    # The published normal interval is too narrow where few labels are of a class.
    assert by_name["Kind, PPI++"].covered < by_name["Kind, corrected (PPI)"].covered
    assert by_name["mean score, corrected (PPI)"].width < by_name["mean score, labels alone"].width


def test_the_simulation_is_in_the_report_and_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    essays = json.loads((Path(__file__).parents[1] / "data" / "essay_grading_dataset.json").read_text("utf-8"))
    essays["rubric"] = essays["rubric"][2:4]
    for item in essays["items"]:
        item["ground_truth"] = item["ground_truth"][2:4]
    path, graded = tmp_path / "essays.json", tmp_path / "run"
    path.write_text(json.dumps(essays), "utf-8")
    assert command(["grade", str(path), "--judge", "builtin/offline", "--out", str(graded)]) == 0
    capsys.readouterr()
    assert command(["agree", str(graded), "--simulate", "--replicates", "50", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["simulation"]
    assert (whole["method"], whole["items"]) == ("pseudo-population bootstrap", 11)
    assert agree(graded, replicates=50).simulation is None
    assert command(["agree", str(graded), "--simulate", "--pairwise"]) == 2
    assert "--simulate has no effect" in capsys.readouterr().err
    assert command(["agree", str(graded), "--corrected", "--simulate", "--json"]) == 0
    corrected = json.loads(capsys.readouterr().out)["simulation"]
    # Every essay has labels, so that there is nothing to correct.
    assert {one["name"].split(", ")[1] for one in corrected["intervals"]} == {"labels alone"}
    assert command(["agree", str(graded), "--corrected", "--simulate"]) == 0
    assert "coverage of the intervals in 400 samples of 11 items" in capsys.readouterr().out
    with pytest.raises(InputError, match="simulate=True"):
        agree_pairwise(graded, against=graded, simulate=True)
