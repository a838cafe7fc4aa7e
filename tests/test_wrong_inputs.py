"""What people write wrongly by hand, and the sentence that they read."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import (
    CannotAssessConfig,
    Criterion,
    CriterionGrader,
    CriterionOption,
    DataItem,
    LengthPenalty,
    LLMConfig,
    Rubric,
    RubricDataset,
    agree,
    grade,
    lint,
    reward,
    synthesize,
)
from autorubric.cli.app import run
from autorubric.jobs.grade import GradeSettings
from autorubric.training.rewarder import make_rewarder, rewards_now
from tests.offenders import each, offenders

BRIEF = {"requirement": "Is brief."}
RUBRIC = Rubric.from_dict([BRIEF])
YES_NO = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
AN_OPTION = 'expected an option, such as {"label": "Partly", "value": 0.5}'
OPTIONS = 'expected a list of options, such as [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]'
CHECK = 'expected a check with its parameters, such as {"name": "word_count", "parameters": {"at_most": 80}}'
ANY: Callable[[Any], Any] = lambda value: value  # noqa: E731 (hides a wrong type from mypy)
FIRST = "Invalid criterion at index 0:\n  "


def option(**fields: Any) -> list[Any]:
    """Options of which the first is wrong."""
    return [{"label": "No", "value": 0, **fields}, YES_NO[1]]


CRITERIA: list[tuple[dict[str, Any], str]] = [
    ({"options": ["bad", "ok"]}, f"options[0]: {AN_OPTION}, got 'bad'\n  options[1]: {AN_OPTION}, got 'ok'"),
    ({"options": {"bad": 0, "ok": 1}}, f"options: {OPTIONS}, got {{'bad': 0, 'ok': 1}}"),
    ({"options": "bad, ok"}, f"options: {OPTIONS}, got 'bad, ok'"),
    ({"options": 3}, f"options: {OPTIONS}, got 3"),
    ({"options": [{"label": "No"}, YES_NO[1]]}, "options[0].value: missing; the keys are 'label'"),
    ({"options": option(value="x")}, "options[0].value: expected a number, got 'x'"),
    ({"options": option(value="1_000")}, "options[0].value: expected a number, got '1_000'"),
    ({"options": option(value=2)}, "options[0]: Option value must be in [0, 1], got 2.0"),
    ({"options": option(label=1)}, "options[0].label: expected a string, got 1"),
    ({"options": option(label=" ")}, "options[0]: an option needs a label that is not blank"),
    ({"options": option(na="maybe")}, "options[0].na: expected true or false, got 'maybe'"),
    ({"options": YES_NO[:1]}, "Multi-choice criterion must have at least 2 options"),
    ({"check": "word_count"}, f"check: {CHECK}, got 'word_count'"),
    ({"check": ["word_count"]}, f"check: {CHECK}, got ['word_count']"),
    ({"check": {"parameters": {}}}, 'check has no name; expected {"name": "…", "parameters": {…}}'),
    ({"check": {"name": 3}}, "check has the name 3; expected the name of a check"),
    ({"check": {"name": "a", "parameters": 3}}, "check has parameters of type int; expected a mapping"),
    (
        {"check": {"name": "word_count", "at_most": 3}},
        "unknown key 'at_most' in check; what a check takes is under 'parameters'",
    ),
    ({"weight": "high"}, "weight: expected a number, got 'high'"),
    ({"weight": True}, "weight: expected a number, got true"),
    ({"weight": float("nan")}, "weight: expected a finite number, got nan"),
    ({"weight": [1]}, "weight: expected a number, got [1]"),
    ({"weight": None}, "weight: expected a number, got None"),
    ({"weight": 1e13}, "weight: expected a number of at most 1e+12, got 10000000000000.0"),
    ({"wieght": 3}, "wieght: unknown key 'wieght'; did you mean 'weight'?"),
    ({"requirement": 3}, "requirement: expected a string, got 3"),
    ({"requirement": " "}, "requirement is empty; state what the submission must satisfy"),
    ({"name": 3}, "name: expected a string, got 3"),
    ({"tags": "style"}, "tags: expected a list of strings, got 'style'"),
    ({"tags": [1]}, "tags[0]: expected a string, got 1"),
    ({"scale_type": "interval"}, "scale_type: expected 'ordinal' or 'nominal', got 'interval'"),
    ({"metadata": "x"}, "metadata: expected a mapping, got 'x'"),
]


@each(("fields", "message"), CRITERIA)
def test_a_wrong_criterion_is_told_in_plain_english(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(FIRST + message)) as told:
        Rubric.from_dict([{**BRIEF, **fields}])
    check_plain(str(told.value))


def graded(**given: Any) -> Any:
    """A call of `grade` in which something is wrong."""
    settings = {"rubric": RUBRIC, "judge": "builtin/offline", "out": "never", **given}
    return grade(settings.pop("data", ["A text."]), **settings)


def checked(**parameters: Any) -> Any:
    """A rubric with a check whose parameters are wrong."""
    check = {"name": parameters.pop("name", "word_count"), "parameters": parameters}
    return graded(rubric=Rubric.from_dict([{**BRIEF, "check": check}]), judge=())


def from_text(read: Callable[[str], Any], name: str, content: Any) -> Any:
    """What is read from a file with this content."""
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read(name)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Criterion.model_validate({}), "missing"),
    (lambda: Criterion(requirement="x", options=["bad", "ok"]), f"{AN_OPTION}, got 'bad'"),
    (lambda: Criterion(requirement="x", check="word_count"), f"{CHECK}, got 'word_count'"),
    (lambda: CriterionOption(label="x", value="y"), "expected a number, got 'y'"),
    (lambda: LengthPenalty(free_budget="x"), "expected a whole number, got 'x'"),
    (lambda: LengthPenalty(free_budget=6, max_cap=1), "max_cap=1 is below free_budget=6; expected at least as much"),
    (lambda: LengthPenalty(exponent=-1), "expected a number above 0, got -1"),
    (lambda: CannotAssessConfig(strategy="ignore"), "expected 'skip', 'zero', 'partial' or 'fail', got 'ignore'"),
    (lambda: CannotAssessConfig(partial_credit=3), "expected a number of at most 1, got 3"),
    (lambda: from_text(Rubric.from_file, "r.yaml", "- {requirement: a, check: b}"), f"r.yaml: {FIRST}check: {CHECK}"),
    (
        lambda: graded(rubric=from_text(Path, "f.json", [{"criterion": "a", "points": 5, "check": "word_count"}])),
        f"f.json: rubric[0]: check: {CHECK}, got 'word_count'",
    ),
    (
        lambda: graded(rubric=from_text(Path, "g.json", [{"criterion": "a", "points": 5, "options": ["b", "c"]}])),
        f"g.json: rubric[0]: options[0]: {AN_OPTION}, got 'b'",
    ),
    (lambda: checked(at_most="five"), "check 'word_count': parameter 'at_most' is 'five'; expected a whole number"),
    (lambda: checked(at_most=-5), "parameter 'at_most' is -5; expected a number of at least 0"),
    (lambda: checked(atmost=5), "check 'word_count': unknown parameter 'atmost'; did you mean 'at_most'?"),
    (lambda: checked(name="json_schema", schema="x"), "parameter 'schema' is 'x'; expected a mapping"),
    (lambda: reward(**ANY({"ot": "x"})), "unknown setting 'ot'; did you mean 'out'?"),
    (lambda: GradeSettings(**ANY({"wrong": 1})), "unknown setting 'wrong'; expected one of out, wait, "),
    (
        lambda: rewards_now(make_rewarder("builtin/offline"), ANY(["ice"])),
        "a sample is of type str; expected Sample",
    ),
    (lambda: DataItem(ANY(3), "d"), "'submission' must be a string, got int"),
    (lambda: DataItem("x", "d", ground_truth=ANY("MET")), "ground_truth must be a list of verdicts, got str"),
    (
        lambda: from_text(RubricDataset.from_file, "d.json", {"prompt": "p", "rubric": [BRIEF], "items": 3}),
        "d.json: 'items' must be a list, got int",
    ),
    (lambda: graded(data=[{"submission": 3}]), "submissions: item 0: 'submission' must be a string, got int"),
    (lambda: graded(data=[3]), "data: item 0 is of type int; expected a string, a mapping or a DataItem"),
    (lambda: graded(judge=3), "judge is 3; expected a string or a list of strings"),
    (
        lambda: graded(judge=CriterionGrader(judge_model_config="builtin/offline")),
        "judge is <CriterionGrader default>; expected names of models; for a configuration or a grader, use evaluate",
    ),
    (lambda: graded(column=3), "column is 3; expected a string or a list of strings"),
    (lambda: graded(concurrency="many"), "concurrency is 'many'; expected a whole number"),
    (lambda: graded(concurrency=0), "concurrency is 0; expected a number of at least 1"),
    (lambda: graded(concurrency=True), "concurrency is True; expected a number, not true or false"),
    (lambda: graded(limit=1.5), "limit is 1.5; expected a whole number"),
    (lambda: graded(budget_usd="5 dollars"), "budget_usd is '5 dollars'; expected a number"),
    (lambda: graded(evidence="perhaps"), "evidence is 'perhaps'; expected true or false"),
    (lambda: graded(evidence="no"), "evidence is 'no'; expected true or false"),
    (lambda: graded(start_over=1), "start_over is 1; expected true or false"),
    (lambda: graded(api_key="k"), "unknown setting 'api_key'; put the API key into an environment variable, and its"),
    (lambda: graded(progress=True), "progress is True; expected a function"),
    (lambda: graded(stop=3), "stop is 3; expected an object of the class Stop"),
    (lambda: graded(out=3), "out is 3; expected the path of a file or directory"),
    (lambda: graded(conccurrency=4), "unknown setting 'conccurrency'; did you mean 'concurrency'?"),
    (lambda: graded(calls="each"), "calls: 'each' is unknown; expected one of per_criterion, per_item"),
    (lambda: graded(quorum=2), "quorum=2 is more than the number of judges, 1"),
    (lambda: graded(few_shot=2), "few_shot=N and training_data=FILE must be used together"),
    (
        lambda: graded(judge=(), evidence=True),
        "evidence has no effect without judge=MODEL; leave it out",
    ),
    (lambda: graded(judge=(), prefix_first=False), "prefix_first=False has no effect without judge=MODEL"),
    (lambda: graded(aggregation="mean"), "aggregation is 'mean'; expected one of majority, weighted"),
    (
        lambda: graded(prices=from_text(Path, "p.yaml", "gpt: cheap\n")),
        "p.yaml: gpt: expected 'input' and 'output' in dollars per million tokens",
    ),
    (lambda: agree("nowhere", confidence=95), "confidence is 95; expected a number below 1"),
    (lambda: synthesize(["Why?"], models=3), "models is 3; expected a string"),
    (lambda: lint([RUBRIC, Criterion(**BRIEF)]), "expected a list of Rubrics or a list of criteria, got both in one"),
    (lambda: lint(ANY(3)), "data is 3; expected a Rubric, a list of Rubrics, criteria, a RubricDataset, rows with"),
    (
        lambda: LLMConfig("openai/gpt-5.1", temperature=ANY("hot")),
        "has temperature='hot'; expected a number from 0 to 2",
    ),
]


def test_a_wrong_argument_or_file_is_told_in_plain_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with offenders() as case:
        for call, message in CALLS:
            with case(message), pytest.raises(ValueError, match=re.escape(message)) as told:
                call()
            check_plain(str(told.value))


def test_a_wrong_flag_is_told_in_plain_english(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, value, expected in (("-j", "many", "a whole number"), ("--timeout", "long", "a number")):
        assert run(["grade", "essays.json", flag, value]) == 2
        told = capsys.readouterr().err
        assert f"expected {expected}, got '{value}'" in told
        check_plain(told)


def check_plain(message: str) -> None:
    """No words of pydantic, except the frame that it puts around the errors of a constructor."""
    assert not re.search(
        r"[Ii]nput should|valid (string|number|integer|dictionary|list)|input_type|https?://", message
    )
    assert not re.search(r"type=(?!value_error\])|Value error|validat(?!ion errors? for)", message)
