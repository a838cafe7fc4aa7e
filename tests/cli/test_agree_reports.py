"""What `autorubric agree` says of runs in which something is missing, equal or named twice."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset
from autorubric.cli.agreement_report import TableReport, show_agreement, show_analysis
from autorubric.cli.labels import show_corrected
from autorubric.core.report import CriterionReport, EvaluationReport, Report
from autorubric.metrics import analyze_rubric, compute_metrics
from autorubric.metrics.corrected import corrected_scores
from autorubric.metrics.label_choice import read_pairs

WORDS = {"1": CriterionVerdict.MET, "0": CriterionVerdict.UNMET, "?": CriterionVerdict.CANNOT_ASSESS}


def run_of(
    names: Sequence[str | None], rows: Sequence[tuple[str | None, str | None]], *, tags: bool = False
) -> tuple[RubricDataset, list[Report | None]]:
    """A dataset and its reports: of each item what the judge says of each criterion and what the labels say."""
    rubric = Rubric(
        [
            Criterion(name=name, requirement=f"r{place}", tags=[f"tag of {name}"] if tags else [])
            for place, name in enumerate(names)
        ]
    )
    dataset, reports = RubricDataset("Explain.", rubric), list[Report | None]()
    for number, (judged, labels) in enumerate(rows):
        dataset.add_item(f"text {number}", "", None if labels is None else [WORDS[mark] for mark in labels])
        said = None if judged is None else [WORDS[mark] for mark in judged]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, said or (), strict=said is not None)
        ]
        report = None if said is None else EvaluationReport(score=rubric.compute_score(said), report=entries)
        reports.append(report)
    return dataset, reports


def results_of(reports: Sequence[Report | None]) -> Any:
    results = [SimpleNamespace(item_idx=n, report=report, error=None) for n, report in enumerate(reports)]
    return SimpleNamespace(item_results=results)


def agreement(reports: Sequence[Report | None], dataset: RubricDataset, by: str) -> Any:
    return show_agreement(compute_metrics(results_of(reports), dataset, bootstrap=True, n_bootstrap=10, seed=0), by)


def corrected(reports: Sequence[Report | None], dataset: RubricDataset, confidence: float) -> Any:
    return show_corrected(corrected_scores(reports, dataset, confidence=confidence), confidence)


def analysis(reports: Sequence[Report | None], dataset: RubricDataset) -> Any:
    return show_analysis(analyze_rubric(reports, dataset, rollouts=2), 2)


def draw_rows(shown: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(shown.render("csv"))))


def test_a_bias_that_is_the_same_on_every_item_has_no_interval_and_no_sentence() -> None:
    # The judge finds both criteria met, the labels the second alone: 1 and 0.5, twice.
    dataset, reports = run_of(["a", "b"], [("11", "01"), ("11", "01")])
    shown = agreement(reports, dataset, "criterion")
    assert shown.above[2] == "score error (MAE) 0.500, bias 0.500 over 2 items"
    assert not [line for line in shown.below if "too high" in line]
    assert "note: no interval for the bias: all score differences are equal" in shown.below


def test_an_interval_of_kappa_across_a_limit_has_the_number_of_items_that_would_halve_it() -> None:
    alike, apart = [("1", "1"), ("0", "0")], [("1", "0"), ("0", "1")]
    for rows, items in ((alike * 4 + apart, 40), (alike * 30 + apart * 5, 280), (alike * 30, 0), (apart * 30, 0)):
        dataset, reports = run_of(["a"], rows)
        told = [line for line in agreement(reports, dataset, "criterion").below if "too wide" in line]
        whole = f"The interval of mean kappa is too wide for a conclusion; about {items} labelled items in all would"
        assert [line.startswith(whole) for line in told] == [True] * bool(items), (len(rows), told)


def test_names_that_meet_lose_no_row() -> None:
    dataset, reports = run_of(
        ["C2", None, "mean score"], [("100", "100"), ("110", "110"), ("101", None), ("100", None)]
    )
    found = draw_rows(corrected(reports, dataset, 0.95))
    # Shares as judged: the mean score is (1 + 2 + 2 + 1) / 3 / 4, then 4, 1 and 1 of 4.
    assert [(row["metric"], round(float(row["as judged"]), 9)) for row in found] == [
        ("mean score", 0.5),
        ("C2", 1.0),
        ("C2 (C2)", 0.25),
        ("mean score", 0.25),
    ]
    assert list(corrected_scores(reports, dataset).criteria) == ["C2", "C2 (C2)", "mean score"]
    assert read_pairs(reports, dataset).find_name(4) == "C2 (C2)"


def test_the_judges_figure_is_of_all_judged_items_and_counts_what_it_rests_on() -> None:
    # On the second item the label abstains, on the fourth the judge.
    dataset, reports = run_of(["a", "b"], [("11", "11"), ("01", "?1"), ("01", None), ("?1", None)])
    found = {row["metric"]: row for row in draw_rows(corrected(reports, dataset, 0.95))}
    assert float(found["a"]["as judged"]) == pytest.approx(1 / 3)
    assert (found["a"]["n"], found["a"]["labels"]) == ("3", "1")
    assert (found["b"]["n"], found["b"]["labels"]) == ("4", "2")
    # 1, 0.5, 0.5 and, without what the judge left open, 1.
    assert float(found["mean score"]["as judged"]) == pytest.approx(0.75)


def test_labels_that_all_abstain_are_told() -> None:
    dataset, reports = run_of(["a", "b"], [("11", "??"), ("01", "??"), ("01", None)])
    shown = corrected(reports, dataset, 0.95)
    found = {row["metric"]: row for row in draw_rows(shown)}
    assert float(found["a"]["as judged"]) == pytest.approx(1 / 3)
    # 1, 0.5 and 0.5.
    assert float(found["mean score"]["as judged"]) == pytest.approx(2 / 3)
    assert shown.below[1:] == [
        "note: mean score, a, b: every label is an abstention (CANNOT_ASSESS, not applicable) "
        "or has no verdict to compare with",
        "note: no 'labels alone' estimate for mean score, a, b; no 'corrected (PPI)' estimate for mean score, a, b; "
        "no 'Rogan-Gladen' estimate for a, b; no 'PPI++' estimate for mean score, a, b: no label can be used",
    ]


def test_labels_on_which_the_judge_abstains_count_among_the_labels_alone() -> None:
    dataset, reports = run_of(["a", "b"], [("11", "10"), ("?1", "11"), ("00", "01"), ("01", None)])
    shown = corrected(reports, dataset, 0.95)
    found = {row["metric"]: row for row in draw_rows(shown)}
    # The labels of a are 1, 1 and 0; the judge has a verdict on two of these items.
    assert float(found["a"]["labels alone"]) == pytest.approx(2 / 3)
    assert [note for note in shown.below if "failed" in note] == [
        "note: labels whose judgment failed, abstained or was not made count in 'labels alone' and in no correction: "
        "a 1 of 3"
    ]


def test_one_note_for_each_reason_names_the_figures_that_are_missing() -> None:
    dataset, reports = run_of(["a", "b"], [("11", "10"), ("00", "00"), ("10", "11")])
    # Every item is labelled; the labels of both criteria have either verdict.
    assert corrected(reports, dataset, 0.95).below[2:] == [
        "note: no 'corrected (PPI)' estimate for mean score, a, b; no 'Rogan-Gladen' estimate for a, b; "
        "no 'PPI++' estimate for mean score, a, b: every item is labelled, so there is nothing to correct"
    ]
    dataset, reports = run_of(["a", "b"], [("11", "10"), ("01", None)])
    shown = corrected(reports, dataset, 0.999)
    assert shown.above[0].startswith("1 item with labels, 1 without; 99.9% confidence intervals;")
    assert shown.below[1:] == [
        "note: 1 labelled item; the coverage of these intervals was checked for 30 or more",
        "note: no 'labels alone' interval for mean score: 1 score; an interval needs 2",
        "note: no 'corrected (PPI)' estimate for mean score: 1 label; a correction needs 3",
        "note: no 'corrected (PPI)' estimate for a, b; no 'PPI++' estimate for mean score, a, b: 1 label; a "
        "correction needs 2",
        "note: no 'Rogan-Gladen' estimate for a: no label is UNMET",
        "note: no 'Rogan-Gladen' estimate for b: no label is MET",
    ]


def test_tags_of_equal_kappa_have_the_least_accuracy_first() -> None:
    # The judge finds all met, so that both κ are 0; labels say so of 3 in 4 of "a" and of 1 in 4 of "b".
    dataset, reports = run_of(["a", "b"], [("11", "11"), ("11", "10"), ("11", "10"), ("11", "00")], tags=True)
    shown = agreement(reports, dataset, "tag")
    found = [(row["tag"], float(row["mean kappa"]), float(row["accuracy"])) for row in draw_rows(shown)]
    assert found == [("tag of b", 0.0, 0.25), ("tag of a", 0.0, 0.75)]


def test_the_analysis_of_criteria_says_what_it_left_out() -> None:
    dataset, reports = run_of(["a", "b"], [("11", None), ("01", None), ("10", None), (None, None), (None, None)])
    first = reports[0]
    assert isinstance(first, EvaluationReport)
    reports[0] = first.model_copy(update={"score": None})
    shown = analysis(reports, dataset)
    assert shown.below == [
        "",
        "note: 2 of 5 items have no report with criteria and are left out",
        "note: 1 of 5 items have no score and are left out of the groups",
    ]
    assert json.loads(shown.render("json"))["notes"] == [note.removeprefix("note: ") for note in shown.below[1:]]
    assert analysis(reports[1:3], RubricDataset("Explain.", dataset.rubric, dataset.items[1:3])).below == ()


def test_columns_line_up_behind_wide_characters() -> None:
    rows = [{"criterion": "剂量", "n": 1}, {"criterion": "Doses", "n": 2}]
    # A Chinese character is two columns wide, so 剂量 takes four of the nine of "criterion".
    assert TableReport(rows, {}).render("text") == "  criterion  n\n  剂量       1\n  Doses      2"
