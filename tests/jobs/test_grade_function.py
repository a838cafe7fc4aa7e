"""`autorubric.grade` and its settings, as Python users call it."""

from __future__ import annotations

import asyncio
import inspect
import json
import pwd
import re
import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

import autorubric
from autorubric import Criterion, DataItem, EvalResult, InputError, LLMConfig, Rubric, RubricDataset, RunState, Stop
from autorubric.cli.app import run
from autorubric.errors import ConfigError
from autorubric.jobs.grade import GradeSettings, grade, grade_async
from autorubric.llm.records.ledger import Ledger
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

RUBRIC = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
TEXTS = ["Ice is less dense.", "Because water expands when it freezes into ice."]


def test_every_kind_of_data_is_graded_alike(tmp_path: Path) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    made = RubricDataset("Why does ice float?", RUBRIC, [DataItem(text, "") for text in TEXTS])
    made.to_file(tmp_path / "ice.json")
    rows = [{"query": "Why does ice float?", "submission": text} for text in TEXTS]
    (tmp_path / "rows.csv").write_text("submission\n" + "".join(f"{text}\n" for text in TEXTS))
    calls: list[dict[str, Any]] = [
        {"data": made},
        {"data": tmp_path / "ice.json"},
        {"data": str(tmp_path / "ice.json")},
        {"data": TEXTS, "rubric": RUBRIC},
        {"data": [DataItem(text, "") for text in TEXTS], "rubric": RUBRIC},
        {"data": tmp_path / "rows.csv", "rubric": tmp_path / "rubric.yaml"},
        {"submissions": tmp_path / "rows.csv", "rubric": RUBRIC},
        {"data": rows, "rubric": RUBRIC},
        {"submissions": rows, "rubric": RUBRIC},
        {"submissions": pandas.DataFrame(rows), "rubric": RUBRIC},
        {"data": RUBRIC, "submissions": rows},
        {
            "data": [{"answer": text, "other": "-"} for text in TEXTS],
            "rubric": RUBRIC,
            "column": ["submission=answer"],
        },
        {"data": [{"submission": text, "rubric": RUBRIC.to_dict()} for text in TEXTS]},
    ]
    scores = [
        grade(**call, judge="builtin/offline", out=tmp_path / f"run{number}").get_scores()
        for number, call in enumerate(calls)
    ]
    assert scores == [[1.0, 0.0]] * len(calls)


def test_rows_in_memory_become_the_items_that_a_file_of_them_gives(tmp_path: Path) -> None:
    rows = [
        {"question": "Why?", "response": TEXTS[0], "id": 1, "score": 0.5, "day": date(2026, 1, 2)},
        {"question": "How?", "response": TEXTS[1], "id": 2, "score": None, "day": date(2026, 1, 3)},
    ]
    lines = [{**row, "day": str(row["day"])} for row in rows]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    frame = pandas.DataFrame(rows, index=["x", "y"])
    assert frame["score"].isna().tolist() == [False, True]
    found = []
    for number, data in enumerate((tmp_path / "rows.jsonl", rows, frame, frame.to_dict("records"))):
        out = tmp_path / f"run{number}"
        grade(data, rubric=RUBRIC, judge="builtin/offline", out=out)
        found.append(json.loads((out / "dataset.json").read_text())["items"])
    assert found == found[:1] * 4
    assert [item["metadata"] for item in found[0]] == [{"score": 0.5, "day": "2026-01-02"}, {"day": "2026-01-03"}]


def test_dates_and_decimals_in_memory_are_metadata_whatever_the_submission_is_called(tmp_path: Path) -> None:
    found = []
    for number, column in enumerate(("submission", "response")):
        first = {column: TEXTS[0], "at": datetime(2026, 1, 2, 3), "price": Decimal("1.5")}
        frame = pandas.DataFrame([first, {column: TEXTS[1], "at": None, "price": None}])
        sources: dict[str, Any] = {"frame": frame, "rows": frame.to_dict("records")}
        for kind, data in sources.items():
            result = grade(data, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / f"{kind}{number}")
            found.append([one.item.metadata for one in result.item_results])
    assert found == [[{"at": "2026-01-02T03:00:00", "price": 1.5}, {}]] * 4


def test_whatever_stands_for_nothing_in_memory_is_missing(tmp_path: Path) -> None:
    of_numpy = [kind("nan") for kind in (numpy.float16, numpy.float32, numpy.float64)]
    nothing = [None, float("nan"), *of_numpy, numpy.datetime64("NaT"), Decimal("NaN"), pandas.NA, pandas.NaT]
    with offenders() as case:
        for number, one in enumerate(nothing):
            row = {"submission": TEXTS[0], "id": one, "reference_submission": one, "score": one, "tags": [one]}
            given: dict[str, Any] = {"rows": [row], "frame": pandas.DataFrame([row])}
            for kind, data in given.items():
                with case(f"{one!r} in {kind}"):
                    out = tmp_path / f"{kind}{number}"
                    result = grade(data, rubric=RUBRIC, judge="builtin/offline", out=out)
                    [item] = [held.item for held in result.item_results]
                    assert (item.id, item.reference_submission, item.metadata) == (None, None, {"tags": [None]})


def test_nulls_inside_rows_in_memory_are_read_as_those_of_json_lines(tmp_path: Path) -> None:
    held: dict[str, Any] = {"metadata": {"by": None, "at": {"a": None, "b": [{"c": None}]}}, "more": {"by": None}}
    read: dict[str, Any] = {
        "submission": {**held["metadata"], "more": held["more"]},
        "response": {"at": {"b": [{}]}, "more": {}},
    }
    with offenders() as case:
        for column, metadata in read.items():
            row = {column: TEXTS[0], **held}
            (tmp_path / f"{column}.jsonl").write_text(json.dumps(row))
            given: tuple[Any, ...] = (tmp_path / f"{column}.jsonl", [row])
            for number, data in enumerate(given):
                with case(f"{column} in {data}"):
                    out = tmp_path / f"{column}{number}"
                    grade(data, rubric=RUBRIC, judge="builtin/offline", out=out)
                    [item] = json.loads((out / "dataset.json").read_text())["items"]
                    assert item["metadata"] == metadata


def test_a_bad_row_in_memory_is_refused_as_one_in_a_file_is(tmp_path: Path) -> None:
    table: list[tuple[list[dict[str, Any]], str]] = [
        (
            [{"submission": "So."}, {"submision": "So."}],
            "item 1: unknown key 'submision'; did you mean 'submission'?",
        ),
        (
            [{"submission": "So."}, {"rating": 1}],
            "item 1: has no submission; its keys with a value are rating",
        ),
        ([{"submission": "So."}, {"submission": 5}], "item 1: 'submission' must be a string, got int"),
        (
            [{"submission": "So.", "id": "a"}, {"submission": "No.", "id": "a"}],
            "item 1: the id 'a' is also that of submissions: item 0; make ids unique",
        ),
        ([{"submission": "So.", "ground_truth": ["Perhaps"]}], "item 0: ground_truth[0]: invalid verdict 'Perhaps'"),
        ([{"rating": 1}], "no submission column found; the columns are 'rating'"),
    ]
    wrong = []
    for rows, says in table:
        (tmp_path / "rows.json").write_text(json.dumps(rows))
        said = []
        for data in (tmp_path / "rows.json", rows):
            with pytest.raises(InputError) as caught:
                grade(data, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "run")
            said.append(str(caught.value).replace(str(tmp_path / "rows.json"), "submissions"))
        if said[0] != said[1] or f"submissions: {says}" not in said[0]:
            wrong.append(said)
    assert wrong == []
    assert not (tmp_path / "run").exists()


def test_rows_and_tables_in_memory_without_a_submission_are_refused(tmp_path: Path) -> None:
    table: list[tuple[Any, str]] = [
        ([{"label": None}], "no submission column found; its first row has no value"),
        (
            [{"submission": "So.", "id": "a"}, {"id": "b"}],
            "item 1: has no submission; its keys with a value are id",
        ),
        (LazyFrame(), "data: expected rows, got a LazyFrame; call its collect()"),
    ]
    with offenders() as case:
        for data, says in table:
            with case(says), pytest.raises(InputError, match=re.escape(says)):
                grade(data, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_judge_that_is_no_name_is_refused_with_its_value(tmp_path: Path) -> None:
    config = LLMConfig("judge", api_base="http://localhost:9/v1")
    table: list[tuple[Any, str]] = [
        (config, f"judge is {config!r}; expected names of models; for a configuration or a grader, use evaluate"),
        (["a@http://localhost:9/v1", config], f"{config!r}]; expected names of models; for a configuration or"),
        (None, "judge is None; expected a string or a list of strings"),
    ]
    with offenders() as case:
        for judge, says in table:
            with case(says), pytest.raises(ConfigError, match=re.escape(says)):
                grade(TEXTS, rubric=RUBRIC, judge=judge, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class LazyFrame:
    """A table of polars whose columns are not known: asking for them is a warning."""

    @property
    def columns(self) -> list[str]:
        """Costs more than it seems to."""
        raise AssertionError

    def collect_schema(self) -> None:
        """Looks the columns up."""


async def test_both_twins_work_inside_a_running_loop_and_take_ready_settings(tmp_path: Path) -> None:
    settings = GradeSettings(data=TEXTS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "one")
    assert (await grade_async(settings)).get_scores() == [1.0, 0.0]
    assert grade(settings, out=tmp_path / "two", limit=1).get_scores() == [1.0]


def test_a_run_resumes_without_a_request_and_the_command_resumes_it_too(tmp_path: Path) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    with LoopbackEndpoint().in_thread() as endpoint:
        settings: dict[str, Any] = {"rubric": RUBRIC, "judge": f"judge@{endpoint.base_url}", "out": tmp_path / "run"}
        first = grade(TEXTS, **settings)
        asked = endpoint.counts.requests
        assert asked == 2
        assert grade(TEXTS, **settings).get_scores() == first.get_scores()
        assert endpoint.counts.requests == asked
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    recorded = manifest["eval_config"]
    assert recorded["command"] == "grade"
    assert recorded["judge"] == [settings["judge"]]
    assert recorded["concurrency"] == 256
    assert "progress" not in recorded


def test_results_that_are_left_on_disk_are_the_same(tmp_path: Path) -> None:
    kept = grade(TEXTS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "run")
    left = grade(TEXTS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "run", keep=False)
    assert list(left.item_results) == list(kept.item_results)
    assert left.item_results[-1].report.score == 0.0
    assert EvalResult.from_experiment(tmp_path / "run").get_scores() == left.get_scores()


def test_progress_is_told_from_the_start_to_the_end(tmp_path: Path) -> None:
    states: list[RunState] = []
    grade(TEXTS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "run", progress=states.append)
    assert (states[0].finished, states[0].rows) == (0, 2)
    assert states[0].stand_ins[0].startswith("builtin/offline is a stand-in")
    assert states[-1].finished == 2


def test_a_run_that_is_stopped_keeps_what_was_answered_and_resumes(tmp_path: Path) -> None:
    stop, texts = Stop(), [f"Text {number}." for number in range(20)]

    def after_some(state: RunState) -> None:
        if state.finished:
            stop()

    with LoopbackEndpoint(latency="fixed:0.1").in_thread() as endpoint:
        settings: dict[str, Any] = {
            "rubric": RUBRIC,
            "judge": f"judge@{endpoint.base_url}",
            "out": tmp_path / "run",
            "concurrency": 2,
        }
        stopped = grade(texts, **settings, stop=stop, progress=after_some)
        assert stopped.stopped == "interrupted"
        assert 0 < stopped.successful_items < 20
        assert grade(texts, **settings).successful_items == 20
        assert endpoint.counts.requests == 20


@pytest.mark.parametrize("fault", ["503", "reset"])  # of these, only a reset may have been billed
def test_a_run_that_is_stopped_does_not_retry_calls_in_flight(tmp_path: Path, fault: str) -> None:
    stop = Stop()

    def stop_and_fail(body: dict[str, Any]) -> str:
        stop()
        return fault

    with LoopbackEndpoint(latency="fixed:0.2", faults=stop_and_fail).in_thread() as endpoint:
        judge = f"judge@{endpoint.base_url}"
        stopped = grade(TEXTS, rubric=RUBRIC, judge=judge, out=tmp_path / "run", stop=stop, concurrency=2)
        assert endpoint.counts.requests <= 2
    assert (stopped.stopped, stopped.successful_items, stop.abandoned) == ("interrupted", 0, 0)


def test_a_run_that_is_stopped_counts_the_calls_that_it_has_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are still being written when the last item ends, as on a slow disk."""
    commit, stop = Ledger._commit, Stop()

    def commit_slowly(ledger: Ledger, things: list[Any]) -> None:
        time.sleep(0.3)
        commit(ledger, things)

    def stop_in_flight(state: RunState) -> None:
        if endpoint.counts.requests:
            stop()

    monkeypatch.setattr(Ledger, "_commit", commit_slowly)
    stop.within = 0.2
    with LoopbackEndpoint(latency="fixed:60").in_thread() as endpoint:
        judge = f"judge@{endpoint.base_url}"
        stopped = grade(TEXTS, rubric=RUBRIC, judge=judge, out=tmp_path / "run", stop=stop, progress=stop_in_flight)
        sent = endpoint.counts.requests
    calls = f"{sent} call" + "s" * (sent > 1)
    assert stopped.stopped == f"interrupted; {calls} in flight abandoned, to be sent again on resume"
    assert stopped.summary is not None
    assert [(total.calls, total.failed) for total in stopped.summary.totals] == [(sent, sent)]
    assert json.loads((tmp_path / "run" / "manifest.json").read_bytes())["calls"] == sent > 0


def test_a_dry_run_makes_no_request_and_writes_nothing(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        found = grade(TEXTS, rubric=RUBRIC, judge=f"judge@{endpoint.base_url}", out=tmp_path / "run", dry_run=True)
        assert endpoint.counts.requests == 0
    assert found.estimate is not None
    assert [(row.calls, row.recorded) for row in found.estimate] == [(2, 0)]
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_is_refused_by_name_before_anything_is_spent(tmp_path: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"judg": "m"}, "unknown setting 'judg'; did you mean 'judge'?"),
        ({"concurrency": 0}, "concurrency is 0; expected a number of at least 1"),
        ({"concurrency": True}, "concurrency is True; expected a number, not true or false"),
        ({"aggregation": "majorty"}, "aggregation is 'majorty'; did you mean 'majority'?"),
        ({"api_key_env": "sk-planted-0123456789abcdef"}, "api_key_env is not the name of an environment variable"),
        ({"judge": ["m", "m"]}, "judge m is given more than once; repeat=N"),
        ({"evidence": True}, "evidence has no effect without judge=MODEL; leave it out, or pass judge=MODEL"),
        (
            {"data": 5},
            "data is 5; expected a RubricDataset, a path, a DataFrame, or a list of texts, rows or DataItems",
        ),
        ({"data": [], "rubric": RUBRIC}, "submissions: the list is empty"),
        ({"data": pandas.DataFrame({"text": []}), "rubric": RUBRIC}, "submissions: the list is empty"),
        (
            {"data": pandas.DataFrame([["So.", "No."]], columns=["submission"] * 2), "rubric": RUBRIC},
            "data: the DataFrame has two columns named 'submission'; rename one",
        ),
        (
            {"data": ["So.", 3], "rubric": RUBRIC},
            "data: item 1 is of type int; expected a string, a mapping or a DataItem",
        ),
        ({"data": [{"submission": "So."}]}, "submissions: 1 of 1 rows have no rubric; pass --rubric FILE"),
        (
            {"data": [{"submission": "So."}, DataItem("So.", "")], "rubric": RUBRIC},
            "item 1: expected a mapping with 'submission', got DataItem; a list contains rows or DataItems, not both",
        ),
        (
            {"data": RubricDataset("Why?", RUBRIC, [DataItem("So.", "")]), "submissions": TEXTS},
            "leave --rubric and --submissions out",
        ),
        (
            {"data": TEXTS, "submissions": TEXTS, "rubric": RUBRIC},
            "submissions are given twice, as data and by --submissions; leave one of them out",
        ),
        (
            {"data": [{"submission": "So."}], "submissions": TEXTS},
            "submissions are given twice, as data and by --submissions; leave one of them out",
        ),
        (
            {"data": [{"submission": "So.", "x": {"image": b"\xff"}}], "rubric": RUBRIC},
            "item 0: 'x' contains bytes that are not UTF-8; leave it out, or write it as text",
        ),
        ({"data": RUBRIC}, "nothing to grade"),
        ({"data": RUBRIC, "rubric": RUBRIC, "submissions": TEXTS}, "the rubric is given twice"),
        ({"data": None, "submissions": RubricDataset("Why?", RUBRIC, [])}, "a RubricDataset is passed as data"),
        (
            {"data": TEXTS, "rubric": [{"requirement": "Is brief.", "weigth": 3}]},
            "weigth: unknown key 'weigth'; did you mean 'weight'?",
        ),
        ({"data": TEXTS, "rubric": 5}, "rubric is 5; expected a Rubric, its criteria, or the path of one"),
        ({"data": TEXTS}, "pass rubric= for submissions without their own rubric"),
        (
            {"log_prompts": True},
            "no effect without log_json=FILE; leave it out, or pass log_json=FILE",
        ),
        ({"length_penalty": "5"}, "expected FREE,CAP,POINTS"),
    ]
    wrong = []
    for given, says in table:
        with pytest.raises(InputError) as caught:
            grade(**{"data": TEXTS, "out": tmp_path / "run", **given})
        if says not in str(caught.value) or "sk-planted" in str(caught.value):
            wrong.append((given, str(caught.value)))
    assert wrong == []
    assert not (tmp_path / "run").exists()


def test_a_refused_key_is_an_error_and_leaves_no_directory(tmp_path: Path) -> None:
    with LoopbackEndpoint(faults=["401"] * 9).in_thread() as endpoint, pytest.raises(InputError, match="401"):
        grade(TEXTS, rubric=RUBRIC, judge=f"judge@{endpoint.base_url}", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_signature_names_every_setting_and_asyncio_sees_a_coroutine_function() -> None:
    parameters = inspect.signature(grade).parameters
    assert next(iter(parameters)) == "data"
    assert set(parameters) == set(GradeSettings.model_fields)
    assert parameters["concurrency"].default == 256
    assert inspect.signature(grade_async).parameters.keys() == parameters.keys()
    assert grade.__name__ == "grade"
    assert "Grade submissions criterion by criterion" in (grade.__doc__ or "")
    assert asyncio.iscoroutinefunction(grade_async)


def test_a_command_line_wins_over_the_config_file_and_both_over_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    conf = tmp_path / "conf"
    conf.mkdir()
    RubricDataset("Why?", RUBRIC, [DataItem(text, "") for text in TEXTS]).to_file(conf / "ice.json")
    (conf / "grade.yaml").write_text("data: ice.json\nout: ../run\njudge: builtin/offline\nlimit: 2\nformat: [csv]\n")
    assert run(["grade", "--config", "conf/grade.yaml", "--limit", "1"]) == 0
    assert len(EvalResult.from_experiment(tmp_path / "run").item_results) == 1
    assert (tmp_path / "run/results.csv").exists()
    (conf / "bad.toml").write_text('data = "ice.json"\njudg = "m"\nconcurrency = 0\n')
    assert run(["grade", "--config", "conf/bad.toml"]) == 2
    told = capsys.readouterr().err
    assert "conf/bad.toml: unknown key 'judg'; did you mean 'judge'?" in told
    assert "conf/bad.toml: concurrency is 0; " in told
    assert run(["grade", "--config", "conf/grade.yaml", "--temperature", "nan"]) == 2
    assert "--temperature is nan; expected a finite number" in capsys.readouterr().err


def test_a_required_argument_may_be_in_the_config_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "graded"
    grade(TEXTS, rubric=RUBRIC, prompt="Why?", judge="builtin/offline", out=out)
    (tmp_path / "select.toml").write_text('data = "graded"\nout = "selection"\nthreshold = 0.5\n')
    assert run(["select", "--config", str(tmp_path / "select.toml")]) == 0
    assert (tmp_path / "selection" / "decisions.jsonl").exists()
    assert run(["select"]) == 2
    assert "DATA is missing: Queries with rubrics" in capsys.readouterr().err


def test_selecting_from_a_result_and_rewarding_agree_with_the_commands(tmp_path: Path) -> None:
    result = grade(TEXTS, rubric=RUBRIC, prompt="Why?", judge="builtin/offline", out=tmp_path / "graded")
    chosen = autorubric.select(result, out=tmp_path / "selection", threshold=0.5)
    assert chosen.written is not None
    assert (chosen.candidates, chosen.written.summary.answers) == (2, 1)
    rewards = autorubric.reward(TEXTS, rubric=RUBRIC, judge="builtin/offline", out=tmp_path / "rewards")
    assert [one.value for one in rewards] == [1.0, 0.0]
    assert [found.rule for found in autorubric.lint(RUBRIC)] == ["criteria-count"]
    assert autorubric.status(tmp_path / "graded").state == "completed"


def test_the_function_is_a_name_of_the_package() -> None:
    assert autorubric.grade is grade
    assert autorubric.grade_async is grade_async
    assert ConfigError.__name__ == "ConfigError"


def test_json_lines_without_a_readable_row_are_reported_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"id": "a", "submission": "Yes.", "x": NaN}\n{"id": "b", "submission": "No.", "x": NaN}\n')
    rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
    with pytest.raises(InputError, match=r"answers\.jsonl:1: x is nan"):
        grade(path, rubric=rubric, judge="builtin/offline", out=tmp_path / "run")


async def test_runs_of_one_event_loop_wait_for_each_other_and_let_it_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rubric": RUBRIC, "judge": "builtin/offline", "out": tmp_path / "run"}
    found = await asyncio.gather(*(grade_async(TEXTS[:count], **settings, wait=True) for count in (1, 2)))
    assert [result.get_scores() for result in found] == [[1.0], [1.0, 0.0]]


def test_a_tilde_is_the_home_directory_wherever_a_directory_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    rubric = Rubric([Criterion(requirement="Is kind.")])
    dataset = RubricDataset("Say hello.", rubric, items=[DataItem("Hello", "")])
    (work / "grade.yaml").write_text("data: ~/rows.jsonl\nout: ~/config\njudge: builtin/offline\n")
    grade(dataset, judge="builtin/offline", out="~/out")
    dataset.to_file(home / "rows.jsonl")
    assert run(["grade", "--config", "grade.yaml"]) == 0
    grader = autorubric.CriterionGrader(judge_model_config=LLMConfig("builtin/offline"), run_dir="~/cache")
    autorubric.evaluate_sync(
        dataset, grader, experiments_dir="~/experiments", experiment_name="e", show_progress=False
    )
    rubric.grade_sync("Hello", grader)
    cached = LLMConfig("builtin/offline", cache_enabled=True, cache_dir="~/replies")
    rubric.grade_sync("Hello", autorubric.CriterionGrader(judge_model_config=cached))
    stored = EvalResult.from_experiment("~/experiments/e")
    assert (stored.get_scores(), stored.experiment_dir) == ([0.0], home / "experiments" / "e")
    assert autorubric.status("~/out").state == "completed"
    rubric.to_file("~/rubric.yaml")
    dataset.to_file("~/dataset.json")
    LLMConfig("builtin/offline").to_yaml("~/judge.yaml")
    assert Rubric.from_file("~/rubric.yaml") == rubric
    assert RubricDataset.from_file("~/dataset.json") == dataset
    assert LLMConfig.from_yaml("~/judge.yaml").model == "builtin/offline"
    made = {"cache", "config", "experiments", "out", "replies", "rows.jsonl"}
    made |= {"rubric.yaml", "dataset.json", "judge.yaml"}
    assert {path.name for path in home.iterdir()} == made
    assert [path.name for path in work.iterdir()] == ["grade.yaml"]


def test_a_tilde_without_a_home_directory_is_refused_and_the_name_of_nobody_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grade(
        ["Hello"], rubric=Rubric([Criterion(requirement="Is kind.")]), judge="builtin/offline", out="~nobody-here/a"
    )
    assert autorubric.status("~nobody-here/a").state == "completed"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    for read in (autorubric.status, Rubric.from_file):
        with pytest.raises(InputError, match=r"~/a\.yaml: the home directory is not known; set HOME"):
            read("~/a.yaml")
