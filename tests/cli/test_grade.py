"""`autorubric grade`, as users type it."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, EnsembleEvaluationReport, EvalResult, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.llm.records.lock import find_lock_holder, run_lock
from autorubric.testing import LoopbackEndpoint
from tests.cli.in_process import NearEndpoint
from tests.processes import start, wait_until
from tests.warm_commands import FRESH

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


def dataset(folder: Path, items: int = 3) -> Path:
    rubric = Rubric(
        [Criterion(name="Short", requirement="Contains at most 5 words."), Criterion(requirement="Is kind.")]
    )
    made = RubricDataset("Explain.", rubric)
    for number in range(items):
        made.add_item(f"Essay number {number}.", f"essay {number}", id=f"e{number}")
    path = folder / "essays.json"
    made.to_file(path)
    return path


def essay_data() -> Path:
    return DATA / "essay_grading_dataset.json"


def test_real_essays_are_graded_end_to_end_and_the_same_command_asks_nothing_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", str(essay_data()), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run([*command, "-f", "csv", "-f", "jsonl"]) == 0
        asked = endpoint.counts.requests
        assert asked == 11 * 5
        assert run(command) == 0
        assert endpoint.counts.requests == asked
    told = capsys.readouterr().out
    assert "11 of 11 items graded" in told
    assert "coverage: 55 of 55 judgments (100.0%)" in told
    # Everything is MET, the pitfall of weight -15 included: (30 + 30 + 12 + 8 - 15) / 80.
    assert EvalResult.from_experiment(out).get_scores() == [0.8125] * 11
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 55
    assert (rows[4]["criterion"], rows[4]["weight"], rows[4]["verdict"]) == ("Errors", "-15.0", "MET")


def test_the_offline_judge_says_first_that_it_is_a_stand_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["grade", str(essay_data()), "--judge", "builtin/offline", "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith("builtin/offline is a stand-in")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["eval_config"]["stand_ins"][0].startswith("builtin/offline is a stand-in")
    assert manifest["status"] == "completed"


def test_a_rubric_and_a_folder_of_texts_are_a_dataset(tmp_path: Path) -> None:
    Rubric([Criterion(requirement="Contains at most 3 words.")]).to_file(tmp_path / "rubric.yaml")
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("Two words.")
    (texts / "b.md").write_text("These are four words.")
    command = ["grade", "--rubric", str(tmp_path / "rubric.yaml"), "--submissions", str(texts)]
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 0
    result = EvalResult.from_experiment(tmp_path / "run")
    assert [(item.item.id, item.report.score) for item in result.item_results] == [("a.txt", 1.0), ("b.md", 0.0)]


def test_what_a_folder_holds_beside_texts_is_named_and_not_dropped_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Rubric([Criterion(requirement="Contains at most 3 words.")]).to_file(tmp_path / "rubric.yaml")
    texts = tmp_path / "texts"
    (texts / "more").mkdir(parents=True)
    (texts / "A.TXT").write_text("Two words.")
    (texts / "essay.docx").write_bytes(b"PK")
    (texts / ".DS_Store").write_bytes(b"")
    command = ["grade", "--rubric", str(tmp_path / "rubric.yaml"), "--submissions", str(texts)]
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 0
    assert [r.item.id for r in EvalResult.from_experiment(tmp_path / "run").item_results] == ["A.TXT"]
    told = f"{texts}: not graded, because they are not .txt or .md files: essay.docx, more\n"
    assert told in capsys.readouterr().err


def test_labels_of_submissions_are_labels_of_the_dataset(tmp_path: Path) -> None:
    Rubric([Criterion(requirement="Contains at most 3 words.")]).to_file(tmp_path / "rubric.yaml")
    (tmp_path / "s.jsonl").write_text('{"submission": "Two words.", "ground_truth": ["UNMET"], "source": "web"}\n')
    command = ["grade", "--rubric", str(tmp_path / "rubric.yaml"), "--submissions", str(tmp_path / "s.jsonl")]
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 0
    (item,) = EvalResult.from_experiment(tmp_path / "run").item_results
    assert (item.item.ground_truth, item.item.metadata) == ([CriterionVerdict.UNMET], {"source": "web"})


def test_every_wrong_row_of_submissions_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Rubric([Criterion(requirement="Contains at most 3 words.")]).to_file(tmp_path / "rubric.yaml")
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"submission": "Two words."}\n{"submission": 5}\n{"said": "hi", "n": 1}\n[]\n'
        '{"submision": "x", "id": [1]}\n{"submission": "x", "rubric": []}\n'
    )
    command = ["grade", "--rubric", str(tmp_path / "rubric.yaml"), "--submissions", str(path)]
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "6 problems" in told
    for line in (
        f"{path}:2: 'submission' must be a string, got int",
        f"{path}:3: has no submission; its keys with a value are said, n",
        f"{path}:4: expected a JSON object, got list",
        f"{path}:5: unknown key 'submision'; did you mean 'submission'?",
        f"{path}:5: 'id' is of type list; expected a string or a number",
        f"{path}:6: 'rubric' cannot be used with --rubric; leave --rubric out to judge each row by its own",
    ):
        assert line in told
    path.write_text('{"submission": "Two words.", "ground_truth": ["UNMET", "MET"]}\n')
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 2
    assert f"{path}:1: Ground truth has 2 values, but rubric has 1 criterion" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["jsonl", "json", "yaml"])
def test_submissions_come_in_every_format(tmp_path: Path, kind: str) -> None:
    Rubric([Criterion(requirement="Contains at most 3 words.")]).to_file(tmp_path / "rubric.json")
    text = {
        "jsonl": '{"submission": "Two words.", "id": 7, "prompt": "Why?"}\n{"submission": "These are four words."}\n',
        "json": '["Two words.", {"submission": "These are four words."}]',
        "yaml": "- Two words.\n- submission: These are four words.\n",
    }[kind]
    (tmp_path / f"s.{kind}").write_text(text)
    command = ["grade", "--rubric", str(tmp_path / "rubric.json"), "--submissions", str(tmp_path / f"s.{kind}")]
    assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 0
    assert EvalResult.from_experiment(tmp_path / "run").get_scores() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to grade; pass DATASET"),
        (["missing.json"], "missing.json"),
        (["{data}"], "criterion 'Short': no check, and no judge is set"),
        (["{data}", "--judge", "nowhere/x"], "nowhere"),
        (["{data}", "--judge", "builtin/offline", "--aggregation", "majorty"], "did you mean 'majority'"),
        (["{data}", "--judge", "builtin/offline", "--calls", "per_items"], "did you mean 'per_item'"),
        (["{data}", "--judge", "builtin/offline", "--judge", "builtin/offline"], "--repeat N asks each judge"),
        (["{data}", "--judge", "builtin/offline", "-f", "xlsx"], "is not one of json, jsonl, csv, parquet"),
        (["{data}", "--judge", "builtin/offline", "--few-shot", "3"], "must be used together"),
        (["{data}", "--judge", "m@http://127.0.0.1:9/v1", "--budget-usd", "1"], "no price is known"),
        (["{data}", "--judge", "m@http://127.0.0.1:9/v1", "--budget-usd", "1", "--dry-run"], "no price is known"),
        (
            ["{data}", "--judge", "builtin/offline", "--cannot-assess", "skipp"],
            "--cannot-assess is 'skipp'",
        ),
        (
            ["{data}", "--judge", "builtin/offline", "--on-failure", "zero"],
            "--on-failure is 'zero'",
        ),
        (["{data}", "--escalate-to", "builtin/offline"], "or pass --judge MODEL"),
        (["{data}", "--judge", "builtin/offline", "--escalate-below", "0.5"], "or pass --escalate-to MODEL"),
        (
            [
                "{data}",
                "--judge",
                "builtin/offline",
                "--escalate-to",
                "m@http://127.0.0.1:9/v1",
                "--escalate-below",
                "2",
            ],
            "expected a number of at most 1",
        ),
        (["{data}", "--judge", "builtin/offline", "--length-penalty", "9,3,1"], "expected FREE,CAP,POINTS"),
    ],
)
def test_wrong_input_is_told_before_anything_is_spent(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(dataset(tmp_path))
    given = [word.replace("{data}", data) for word in arguments]
    assert run(["grade", *given, "-o", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "ledger").exists()


def test_a_mean_score_that_is_too_low_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["grade", str(dataset(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    mean = 0.5
    assert run([*command, "--fail-under", str(mean)]) == 0
    assert run([*command, "--fail-under", "0.5000001"]) == 100
    assert capsys.readouterr().err.endswith("\n--fail-under: the mean score is 0.5, below 0.5000001\n")


def test_a_mean_score_that_is_the_limit_but_for_rounding_is_not_below_it(tmp_path: Path) -> None:
    # Scores of 1, 0.7 and 0.7, whose mean is 0.7999999999999999 in binary.
    short, moon = (("Contains at most 3 words.", 7), ("Mentions the moon.", 3))
    rubric = Rubric([Criterion(requirement=requirement, weight=weight) for requirement, weight in (short, moon)])
    data = RubricDataset("Why?", rubric)
    for text in ("The moon", "The sun", "The wind"):
        data.add_item(text, "")
    data.to_file(tmp_path / "data.json")
    command = ["grade", str(tmp_path / "data.json"), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run([*command, "--fail-under", "0.8"]) == 0
    assert run([*command, "--fail-under", "0.8001"]) == 100


def test_failures_have_status_1_and_the_same_command_mends_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = dataset(tmp_path)
    flags = ["--retry", "0", "-o", str(tmp_path / "run")]
    with LoopbackEndpoint(faults=["prose", "prose", "prose"]).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-j", "1", *flags]
        assert run(command) == 1
        told = capsys.readouterr().out
        assert "2 of 3 items graded" in told
        assert "1 judgment failed: unreadable: the reply holds no JSON object; the reply begins: 'Here is" in told
        assert f"retry what failed with:\n  autorubric grade {source}" in told
        before = endpoint.counts.requests
        assert run(command) == 0
        assert endpoint.counts.requests == before + 1


def test_a_dry_run_makes_no_call_and_counts_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = dataset(tmp_path)
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run([*command, "--dry-run"]) == 0
        assert "judge: 6 calls to make, 0 already recorded" in capsys.readouterr().out
        assert (endpoint.counts.requests, (tmp_path / "run").exists()) == (0, False)
        assert run([*command, "--limit", "2"]) == 0
        assert run([*command, "--dry-run"]) == 0
        assert "judge: 2 calls to make, 4 already recorded" in capsys.readouterr().out
        assert endpoint.counts.requests == 4


def test_a_dry_run_follows_the_reasks_on_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = dataset(tmp_path)
    with LoopbackEndpoint(faults=["prose"]).in_thread() as endpoint:
        command = [
            "grade",
            str(source),
            "--judge",
            f"judge@{endpoint.base_url}",
            "-o",
            str(tmp_path / "run"),
            "-j",
            "1",
        ]
        assert run([*command, "--limit", "2"]) == 0
        assert endpoint.counts.requests == 4 + 1
        assert run([*command, "--dry-run"]) == 0
        assert "judge: 2 calls to make, 4 already recorded" in capsys.readouterr().out
        assert run(command) == 0
        assert endpoint.counts.requests == 4 + 1 + 2


def test_a_judge_that_nobody_can_reach_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["grade", str(dataset(tmp_path)), "--judge", "judge@http://127.0.0.1:9/v1", "--retry", "0"]
    assert run([*command, "-o", str(tmp_path / "run")]) == 2
    assert "127.0.0.1" in capsys.readouterr().err


def test_several_judges_sit_as_a_panel(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        judges = [flag for name in ("a", "b", "c") for flag in ("--judge", f"{name}@{endpoint.base_url}")]
        assert run(["grade", str(dataset(tmp_path)), *judges, "-o", str(tmp_path / "run")]) == 0
        assert endpoint.counts.requests == 3 * 6
    report = EvalResult.from_experiment(tmp_path / "run").item_results[0].report
    assert isinstance(report, EnsembleEvaluationReport)
    assert set(report.judge_scores) == {"a", "b", "c"}


def test_the_summary_says_in_one_line_how_often_judges_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = '{"explanation": "x", "criterion_status": "%s"}'
    rubric = [{"name": "Moon", "requirement": "Names the moon."}, {"name": "Sun", "requirement": "Names the sun."}]
    path = tmp_path / "tides.json"
    items = [{"submission": f"Answer {n}.", "description": ""} for n in range(4)]
    path.write_text(json.dumps({"prompt": "Why?", "rubric": rubric, "items": items}))

    def differs(body: Mapping[str, Any]) -> str:
        text = json.dumps(body)
        return said % ("UNMET" if "the sun" in text and ("Answer 0." in text or "Answer 1." in text) else "MET")

    with (
        LoopbackEndpoint(replier=lambda body: said % "MET").in_thread() as one,
        LoopbackEndpoint(replier=differs).in_thread() as other,
    ):
        judges = ["--judge", f"a@{one.base_url}", "--judge", f"b@{other.base_url}"]
        assert run(["grade", str(path), *judges, "-o", str(tmp_path / "run")]) == 0
    [told] = [row for row in capsys.readouterr().out.splitlines() if "two judges agree" in row]
    # Of eight pairs, two differ: the sun of the first two items.
    assert "two judges agree on 0.750 of 8 pairs of verdicts" in told
    assert "lowest on 'Sun' (0.500)" in told and "95% confidence interval" in told


def test_items_that_abstentions_leave_without_a_score_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(body: Mapping[str, Any]) -> str:
        status = "MET" if "It is two." in str(body["messages"]) else "CANNOT_ASSESS"
        return json.dumps({"explanation": "It reads so.", "criterion_status": status})

    Rubric([Criterion(requirement="States the number.")]).to_file(tmp_path / "rubric.yaml")
    (tmp_path / "s.csv").write_text("id,answer\na,It is two.\nb,Who knows?\nc,Ask again.\n")
    command = ["grade", str(tmp_path / "s.csv"), "--rubric", str(tmp_path / "rubric.yaml")]
    with LoopbackEndpoint(replier=judge).in_thread() as endpoint:
        assert run([*command, "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "3 of 3 items graded\n  mean score 1.000 over 1 item (one item; no interval)\n" in told
    reason = "no criterion could be assessed, or none with a positive weight"
    assert f"  2 graded items without a score: {reason}\n" in told


def test_a_stronger_judge_is_asked_where_the_first_one_abstains(tmp_path: Path) -> None:
    said = '{"explanation": "x", "criterion_status": "%s"}'
    with (
        LoopbackEndpoint(replier=lambda body: said % "CANNOT_ASSESS").in_thread() as weak,
        LoopbackEndpoint(replier=lambda body: said % "MET").in_thread() as strong,
    ):
        judges = ["--judge", f"weak@{weak.base_url}", "--escalate-to", f"strong@{strong.base_url}"]
        assert run(["grade", str(dataset(tmp_path)), *judges, "-o", str(tmp_path / "run")]) == 0
        assert (weak.counts.requests, strong.counts.requests) == (6, 6)
    assert EvalResult.from_experiment(tmp_path / "run").get_scores() == [1.0, 1.0, 1.0]


def test_a_long_submission_loses_points(tmp_path: Path) -> None:
    command = ["grade", str(dataset(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run(command) == 0
    [plain, *_] = EvalResult.from_experiment(tmp_path / "run").get_scores()
    # Three words, one free, two the cap: the full 0.2.
    assert run([*command, "--length-penalty", "1,2,0.2", "--replace"]) == 0
    assert EvalResult.from_experiment(tmp_path / "run").get_scores()[0] == pytest.approx(plain - 0.2)


def ifeval(folder: Path) -> Path:
    """A fifth of IFEval as a dataset: one rubric a prompt, whose criteria carry the instructions as checks."""
    made = RubricDataset(name="ifeval")
    for line in gzip.decompress((DATA / "ifeval.jsonl.gz").read_bytes()).splitlines()[::5]:
        row = json.loads(line)
        criteria = [
            Criterion(name=f"{number} {name}", weight=1, requirement=name, check={"name": name, "parameters": found})
            for number, (name, found) in enumerate(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        ]
        truth: Any = ["MET" if followed else "UNMET" for followed in row["follow_instruction_list"]]
        made.add_item(row["response"], "", truth, Rubric(criteria), prompt=row["prompt"], id=str(row["key"]))
    path = folder / "ifeval.json"
    made.to_file(path)
    return path


def test_checks_alone_reproduce_the_official_verdicts_of_ifeval_without_a_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["grade", str(ifeval(tmp_path)), "-o", str(out)]) == 0
    verdicts = 0
    for result in EvalResult.from_experiment(out).item_results:
        assert isinstance(result.report, EnsembleEvaluationReport)
        assert [found.final_verdict for found in result.report.report or []] == result.item.ground_truth
        verdicts += len(result.item.ground_truth or [])
    assert verdicts == 178
    capsys.readouterr()
    assert run(["agree", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["n_samples"], said["criterion_accuracy"], said["score_mae"]) == (178, 1.0, 0.0)


def until_asked(endpoint: NearEndpoint, count: int) -> None:
    wait_until(lambda: endpoint.stats()["completed_calls"] >= count, "the endpoint was not asked")


def test_a_killed_run_goes_on_where_it_was_and_pays_twice_for_nothing_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = dataset(tmp_path, 40), tmp_path / "run"
    with NearEndpoint("--latency", "lognormal:0.03,0.5") as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out), "-j", "8"]
        for kill in range(1, 4):
            running = start(command)
            until_asked(endpoint, 17 * kill)
            running.send_signal(signal.SIGKILL)
            running.communicate()
            EvalResult.from_experiment(out)
        assert run(command) == 0
        calls = endpoint.calls_by_body()
    assert "40 of 40 items graded" in capsys.readouterr().out
    assert len(calls) == 80
    # Only the eight calls in flight at each of three kills can have been asked twice.
    assert sum(calls.values()) - 80 <= 3 * 8
    result = EvalResult.from_experiment(out)
    assert [item.item_idx for item in result.item_results] == list(range(40))
    assert result.get_scores() == [1.0] * 40


def test_ctrl_c_ends_the_run_in_good_order(tmp_path: Path) -> None:
    source, out = dataset(tmp_path, 30), tmp_path / "run"
    with NearEndpoint("--latency", "lognormal:0.05,0.5") as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out), "-j", "8"]
        running = start(command, **FRESH)
        until_asked(endpoint, 15)
        running.send_signal(signal.SIGINT)
        told, _ = running.communicate(timeout=600)
        assert running.returncode == 130
        assert f"interrupted\nresume with:\n  {shlex.quote(sys.executable)} -m autorubric grade" in told
        assert json.loads((out / "manifest.json").read_text())["error"] == "interrupted"
        worker = out / "ledger" / "shards" / "a-1" / "ledger"
        with run_lock(worker):  # as a worker of a killed run that has not ended yet
            waiting = start(command, **FRESH)
            wait_until(lambda: find_lock_holder(out / "ledger") is not None, "it did not begin")
            waiting.send_signal(signal.SIGINT)
            told = waiting.communicate(timeout=600)[1]
            assert (told.endswith("interrupted\n"), waiting.returncode) == (True, 130), told
        assert run(command) == 0
        assert set(endpoint.calls_by_body().values()) == {1}


def test_own_judge_templates_are_used(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    text = "{% block user %}Read this: {{ submission | fence('text') }}{% endblock %}"
    text += "{% block criterion %} {{ requirement | fence('criterion') }} Give criterion_status.{% endblock %}"
    (folder / "judge_binary.jinja").write_text(text)
    with LoopbackEndpoint().in_thread() as endpoint:
        words = ["grade", str(dataset(tmp_path)), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run([*words, "--prompts", str(folder)]) == 0
        assert all("Read this:" in json.dumps(r.body["messages"]) for r in endpoint.received)
        assert run([*words, "--prompts", str(tmp_path / "nowhere")]) == 2
