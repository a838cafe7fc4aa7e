"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from autorubric import Criterion, CriterionOption
from autorubric.core.judgment import AggregatedMultiChoiceVerdict
from autorubric.core.report import EnsembleCriterionReport, EnsembleEvaluationReport
from autorubric.pytest_plugin import format_verdicts

ROOT = Path(__file__).parents[1]

TESTS = """
import pytest
from autorubric.pytest_plugin import assert_rubric

SHORT = [
    {"name": "Short", "weight": 3, "requirement": "Contains at most 5 words."},
    {
        "name": "Greets",
        "weight": 1,
        "requirement": "Says hello",
        "check": {"name": "contains", "parameters": {"phrases": ["Hello"]}},
    },
]

@pytest.mark.rubric
def test_holds():
    assert assert_rubric("Hello there.", SHORT, judge="builtin/offline").score == 1.0

@pytest.mark.rubric
async def test_too_low():
    assert_rubric("Hello to all of you, my dear friends.", SHORT, judge="builtin/offline", at_least=0.5)

def test_unmarked():
    assert_rubric("Hello", SHORT[1:])
"""


def pytest_with(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_texts.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "autorubric.pytest_plugin", "-p", "pytest_asyncio.plugin"]
    return subprocess.run(
        [*command, "--strict-markers", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_score_that_is_too_low_fails_with_the_table_of_verdicts(tmp_path: Path) -> None:
    told = pytest_with(tmp_path).stdout
    assert "1 failed, 2 passed" in told
    # UNMET of weight 3, MET of weight 1: 1 / 4.
    assert "AssertionError: score 0.25, expected at least 0.50" in told
    assert "Short   weight 3  UNMET" in told
    assert "Greets  weight 1  MET    found" in told
    assert "__tracebackhide__" not in told


def test_an_abstention_and_a_failure_are_told_apart_in_the_table() -> None:
    options = [CriterionOption(label="No", value=0.0), CriterionOption(label="Yes", value=1.0)]
    tone = Criterion(name="Tone", requirement="How kind is it?", options=options)
    nothing = AggregatedMultiChoiceVerdict(value=0.0, aggregated_value=0.0, na=True)
    entries = [
        EnsembleCriterionReport(
            criterion=tone, final_verdict=None, final_reason="No way to tell.", final_multi_choice_verdict=nothing
        ),
        EnsembleCriterionReport(criterion=tone, final_verdict=None, final_reason=None, error="server: HTTP 500"),
    ]
    first, second = format_verdicts(EnsembleEvaluationReport(score=None, report=entries)).splitlines()
    assert first == "  Tone  weight 10  CANNOT_ASSESS  No way to tell."
    assert second == "  Tone  weight 10  FAILED         server: HTTP 500"


def test_tests_that_ask_a_model_can_be_left_out(tmp_path: Path) -> None:
    assert "1 passed, 2 deselected" in pytest_with(tmp_path, "-m", "not rubric").stdout


def test_the_plugin_imports_nothing_heavy_into_every_test_run() -> None:
    code = "import sys, autorubric.pytest_plugin; print(sorted({'pydantic', 'aiohttp', 'jinja2'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
