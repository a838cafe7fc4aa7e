"""Values in a console and in a notebook: one screen, everything escaped, a data frame where pandas is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from autorubric import (
    Criterion,
    CriterionGrader,
    EvalResult,
    LLMConfig,
    Rubric,
    RubricDataset,
    compare_judges,
    compute_metrics,
    evaluate_sync,
)
from autorubric.core.display import tell_apart
from autorubric.metrics import analyze_rubric, corrected_scores

ROOT = Path(__file__).parents[1]
SCREEN = 24 * 80
EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvalResult:
    """What grading 200 items by a check and a judge came to."""
    grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
    folder = tmp_path_factory.mktemp("runs")
    return evaluate_sync(dataset(), grader, experiments_dir=folder, show_progress=False)


def dataset(count: int = 200) -> RubricDataset:
    check = {"name": "word_count", "parameters": {"at_most": 7}}
    rubric = Rubric(
        [
            Criterion(name=f"Short {EVIL}", weight=3, requirement="Has at most 7 words.", check=check),
            Criterion(name="Even", weight=2, requirement="Contains at least 6 words."),
        ]
    )
    made = RubricDataset(f"Why? {EVIL}", rubric, name="whys")
    for number in range(count):
        text = f"So it is, number {number}." if number % 2 else f"So it is and was and shall be, {number}."
        made.add_item(text, f"{EVIL} {number}", ["MET" if number % 2 else "UNMET", "UNMET" if number % 3 else "MET"])
    return made


def long_rubric() -> Rubric:
    requirement = "Names one of the causes. " * 40
    return Rubric([Criterion(name=f"{EVIL} {number}", requirement=requirement) for number in range(60)])


VALUES: dict[str, Callable[[EvalResult], Any]] = {
    "result": lambda result: result,
    "item": lambda result: result.item_results[0],
    "report": lambda result: result.item_results[0].report,
    "metrics": lambda result: compute_metrics(result, dataset()),
    "comparison": lambda result: compare_judges(result, result, dataset(), n_replicates=20, seed=0),
    "corrected": lambda result: corrected_scores(result, dataset()),
    "worth": lambda result: analyze_rubric(result, dataset()),
    "rubric": lambda result: long_rubric(),
    "dataset": lambda result: dataset(),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_fits_one_screen_and_its_table_is_escaped(result: EvalResult, name: str) -> None:
    value = VALUES[name](result)
    assert len(repr(value)) <= SCREEN, repr(value)
    assert len(str(value)) <= SCREEN
    table = value._repr_html_()
    assert ("<ol" if name == "item" else "<table>") in table and "<script" not in table
    assert len(table) < 60_000


def test_results_show_charts_and_items_show_their_texts(result: EvalResult) -> None:
    shown = result._repr_html_()
    # Even items have nine words and meet the second criterion alone; odd ones have five and meet the first.
    assert "<title>0.60: 100</title>" in shown and "<title>0.40: 100</title>" in shown
    # Wilson's: half of the width is 1.96 / (2 √(200 + 1.96²)) = 0.0687.
    assert "<title>Even: 0.500 (0.431 to 0.569)</title>" in shown
    assert shown.count("<svg") == 2 and shown.count("<tr>") == 1 + 8
    measured = compute_metrics(result, dataset())
    assert "<title>Agreement with the labels by criterion</title>" in measured._repr_html_()
    card = result.item_results[1]._repr_html_()
    assert "So it is, number 1." in card and "Has at most 7 words." in card
    # The same template as in the view; item 1 meets the first criterion alone.
    assert re.findall(r'class="verdict (\w+)"', card) == ["met", "met", "unmet", "unmet"]  # each with its label
    assert card.count('<p class="label">') == 2 and "label differs" not in card


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        (
            "result",
            400,
            ["item_idx", "id", "description", "score", "criterion", "verdict", "flags", "verdict_default"],
        ),
        ("report", 2, ["criterion", "requirement", "weight", "verdict", "value", "agreement", "votes", "error"]),
        ("metrics", 3, ["name", "n_samples", "accuracy_micro", "kappa_micro"]),
        ("comparison", 7, ["name", "a", "b", "difference", "ci_lower", "ci_upper", "p_value"]),
        ("corrected", 3, ["name", "raw_value", "ppi_value", "ppi_low", "labelled"]),
        ("worth", 2, ["name", "advice", "pass_rate_value", "pass_rate_low"]),
        ("rubric", 60, ["name", "weight", "requirement", "check"]),
        ("dataset", 200, ["item_idx", "description", "submission", "ground_truth", "prompt"]),
    ],
)
def test_a_value_is_a_data_frame(result: EvalResult, name: str, rows: int, columns: list[str]) -> None:
    frame = VALUES[name](result).to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == rows
    assert set(columns) <= set(frame.columns)


def test_the_lines_say_what_matters(result: EvalResult) -> None:
    line = repr(result)
    assert line.startswith("<EvalResult 'whys-") and "200 of 200 items graded" in line and "mean score" in line
    assert repr(dataset(1)).startswith("<RubricDataset 'whys': 1 item, 1 labelled; prompt \"Why? <script>")
    assert repr(result.item_results[3]).startswith("<ItemResult 3 ")
    # 7 words at most, and at least 6: item 1 has five words, item 0 has nine.
    assert "report=<2 criteria: 1 MET, 1 UNMET>" in repr(result.item_results[1].report)
    brief = Rubric([Criterion(requirement="Is brief")], guidelines="Be fair.")
    assert repr(brief) == "Rubric([Criterion(requirement='Is brief')], guidelines='Be fair.')"


def test_without_pandas_the_message_names_the_extra() -> None:
    code = """
import sys
sys.modules["pandas"] = None
from autorubric import Criterion, Rubric
try:
    Rubric([Criterion(requirement="Is brief")]).to_dataframe()
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout == "to_dataframe() needs pandas; run: pip install 'autorubric-hub[pandas]'\n"


def test_names_told_apart_are_the_same_in_whatever_order_criteria_are_found() -> None:
    causes = [
        ("Cause", f"Names the cause that the reference gives for {what}.") for what in ("tides", "rain", "wind")
    ]
    named = [*causes, ("Cause", "Names a cause."), ("Brief", "Is brief.")]
    names = dict(zip(named, tell_apart(named), strict=True))
    assert len({*names.values()}) == 5
    for order in permutations(named):
        assert tell_apart(order) == [names[one] for one in order]
