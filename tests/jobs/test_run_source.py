"""The results of runs in Python: as the run of other functions, and in other processes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from autorubric import (
    Criterion,
    EvalResult,
    InputError,
    Rubric,
    agree,
    compare,
    drift,
    grade,
    label_status,
    merge,
    report,
    select,
    show,
    status,
    synthesize,
)
from autorubric.errors import ConfigError
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

RUBRIC = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
ROWS = [
    {"submission": text, "ground_truth": {"Short": label}}
    for text, label in (("Ice is less dense.", "MET"), ("Because water expands when it freezes.", "UNMET"))
]


# The calls are a program that a type checker has to accept, too.
def test_a_function_of_a_run_takes_its_directory_as_path_or_text_or_its_result(tmp_path: Path) -> None:
    graded = grade(ROWS, rubric=RUBRIC, prompt="Why?", judge="builtin/offline", out=tmp_path / "graded")
    selected = select(graded, out=tmp_path / "selected")
    written = synthesize(["Why does ice float?"], models="builtin/offline", out=tmp_path / "written")
    with offenders() as case:
        for run in (graded, tmp_path / "graded", str(tmp_path / "graded")):
            with case(repr(run)):
                accuracy = agree(run).criterion_accuracy
                assert accuracy == 1.0
                assert compare(run, against=run).accuracy.difference == 0.0
                assert (status(run).row_counts.done, show(run, item="1").index, show(run, item=1).index) == (2, 1, 1)
                assert (label_status(run).pairs, report(run).path) == (0, None)
        with case("other results"):
            assert [status(written).state, status(selected).state] == ["completed", "completed"]
        with case("the rubric of a query"):
            assert show(written).texts["query"] == "Why does ice float?"


def test_what_is_no_run_is_refused_with_the_value(tmp_path: Path) -> None:
    expected = "expected a run directory, or the result of a run that has one"
    dry = grade(ROWS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "dry", dry_run=True)
    with offenders() as case:
        for given, shown in ((3, "3"), ("", "''"), (dry, r"<EvalResult: dry run of 2 items, 2 calls, \$0.00>")):
            with case(shown), pytest.raises(ConfigError, match=f"^run is {shown}; {expected}$"):
                status(given)  # type: ignore[arg-type]
        with case("nothing to merge"), pytest.raises(InputError, match=r"^no run directories\npass each shard"):
            merge([])
        with case("a text where drift expects one"), pytest.raises(InputError, match="no-such-run does not exist"):
            drift("no-such-run")


def test_a_result_whose_cost_is_unknown_is_the_same_in_another_process(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        result = grade(ROWS, rubric=RUBRIC, judge=f"judge@{endpoint.base_url}", out=tmp_path / "graded")
    with offenders() as case:
        for name, again in (("pickle", pickle.loads(pickle.dumps(result))), ("copy", copy.deepcopy(result))):
            with case(name):
                assert isinstance(again, EvalResult)
                assert f"{again.total_completion_cost}" == "unknown"
                assert again.total_completion_cost == None  # noqa: E711 (an unknown cost is equal to it)
                assert again.item_results == result.item_results
