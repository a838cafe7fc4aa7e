"""`autorubric select` from a grading run, and where nothing is kept."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset, convert
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint

CALL = {"type": "function", "function": {"name": "look_up", "arguments": {"word": "tide"}}}
GOOD, FAIR, POOR = "A good answer.", "A fair answer.", "A poor answer."


def judged(body: dict[str, Any]) -> str:
    """With weights 6, 3 and 1: GOOD scores 1.0, FAIR 0.6 and POOR 0.1."""
    asked = str(body["messages"])
    met = "Is kind." in asked or GOOD in asked or ("Is right." in asked and FAIR in asked)
    met = met and not ("Is kind." in asked and FAIR in asked)
    return json.dumps({"explanation": "Read.", "criterion_status": "MET" if met else "UNMET"})


def graded(folder: Path, *flags: str, status: int = 0, at_once: str = "1", **endpoint: Any) -> Path:
    """The directory of a grading run over three answers to one prompt and one to another."""
    rubric = Rubric(
        [
            Criterion(name="Right", weight=6, requirement="Is right."),
            Criterion(name="Clear", weight=3, requirement="Is clear."),
            Criterion(name="Kind", weight=1, requirement="Is kind."),
        ]
    )
    made = RubricDataset(rubric=rubric, name="talk")
    for number, (prompt, text) in enumerate((("Why?", FAIR), ("How?", POOR), ("Why?", GOOD), ("Why?", POOR))):
        made.add_item(text, "", id=f"a{number}", prompt=prompt)
    made.to_file(folder / "talk.json")
    with LoopbackEndpoint(replier=judged, **endpoint).in_thread() as served:
        command = [
            "grade",
            str(folder / "talk.json"),
            "--judge",
            f"judge@{served.base_url}",
            "--retry",
            "0",
            "-j",
            at_once,
        ]
        assert run([*command, *flags, "-o", str(folder / "graded")]) == status
    return folder / "graded"


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_grading_run_is_selected_from_with_its_scores_and_no_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = graded(tmp_path), tmp_path / "kept"
    # The endpoint is gone: a call would fail.
    assert run(["select", str(source), "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert "1 of 2 queries has an answer above 0.6; 1 dropped, 0 undecided; 1 answer kept" in told
    [kept] = rows(out / "selected.jsonl")
    assert (kept["query"], kept["answer"], kept["rubric_score"], kept["sample_id"]) == ("Why?", GOOD, 1.0, "a2")
    assert [one["verdict"] for one in kept["rubric_judge_details"]] == ["MET", "MET", "MET"]
    why, how = rows(out / "decisions.jsonl")
    assert [(one["sample_id"], one["score"]) for one in why["candidates"]] == [("a0", 0.6), ("a2", 1.0), ("a3", 0.1)]
    assert (how["id"], how["status"]) == ("a1", "dropped")
    assert run(["select", str(source), "-o", str(out), "--keep", "pairs", "--trainer", "trl"]) == 0
    [pair] = rows(out / "trl_dpo.jsonl")
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (GOOD, POOR)
    assert not (out / "selected.jsonl").exists()


def test_a_score_counts_as_the_run_made_it(tmp_path: Path) -> None:
    # Three words, of which none is free: every answer loses 0.5.
    source = graded(tmp_path, "--length-penalty", "1,2,0.5")
    assert run(["select", str(source), "-o", str(tmp_path / "kept"), "--threshold", "0.4"]) == 0
    why, _ = rows(tmp_path / "kept" / "decisions.jsonl")
    assert [one["score"] for one in why["candidates"]] == pytest.approx([0.1, 0.5, 0.0])


def test_where_nothing_is_kept_the_distribution_says_what_would_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = graded(tmp_path), tmp_path / "kept"
    assert run(["select", str(source), "-o", str(out), "--keep", "all"]) == 0
    assert (out / "selected.parquet").exists()
    capsys.readouterr()
    assert run(["select", str(source), "-o", str(out), "--keep", "all", "--threshold", "1"]) == 1
    told = capsys.readouterr().out
    # Of 0.1, 0.1, 0.6 and 1.0 the quartiles are 0.1, 0.35 and 0.6 + 0.1 = 0.7 by linear interpolation.
    assert "scores of 4 candidates: min 0.100, quartiles 0.100, 0.350 and 0.700, max 1.000" in told
    assert "candidates by score: 0.1-0.2: 2, 0.6-0.7: 1, 0.9-1.0: 1" in told
    assert "--threshold 0.9 would keep 1 answer to 1 query" in told
    assert "--threshold 0.5 would keep 2 answers to 1 query" in told
    assert "--threshold 0 would keep 4 answers to 2 queries" in told
    # What the earlier selection wrote is gone, and nothing empty is in its place.
    assert sorted(path.name for path in out.iterdir()) == ["decisions.jsonl", "manifest.json", "selection.json"]
    assert json.loads((out / "selection.json").read_text())["spread"]["tenths"] == [0, 2, 0, 0, 0, 0, 1, 0, 0, 1]


def test_a_selection_that_grades_and_keeps_nothing_writes_no_empty_file_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graded(tmp_path)
    with LoopbackEndpoint(replier=judged).in_thread() as served:
        command = ["select", str(tmp_path / "talk.json"), "--judge", f"judge@{served.base_url}", "--threshold", "1"]
        assert run([*command, "-o", str(tmp_path / "kept")]) == 1
    assert "scores of 4 candidates" in capsys.readouterr().out
    assert not list((tmp_path / "kept").glob("*.parquet")) and not (tmp_path / "kept" / "selected.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--judge", "m", "--temperature", "0.5"], "--judge, --temperature: "),
        (["--sample", "m", "-k", "2"], "--sample, -k: "),
        (["--start-over"], "--start-over: "),
        (["--dry-run"], "--dry-run: "),
    ],
)
def test_flags_that_judge_or_sample_are_refused_with_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], names: str
) -> None:
    shutil.copytree(Path(__file__).parents[1] / "stored_runs" / "grade" / "run", tmp_path / "graded")
    assert run(["select", str(tmp_path / "graded"), *words, "-o", str(tmp_path / "kept")]) == 2
    told = capsys.readouterr().err
    assert names in told and "is a finished grading run" in told and "dataset.json to grade again" in told
    assert not (tmp_path / "kept").exists()


@pytest.mark.filterwarnings("ignore:.*items.jsonl has changed since")
def test_an_answer_that_no_judge_could_assess_is_no_failure_to_retry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = graded(tmp_path)
    records = rows(source / "items.jsonl")
    records[0]["report"]["score"] = None
    (source / "items.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    capsys.readouterr()
    assert run(["select", str(source), "-o", str(tmp_path / "kept")]) == 0
    told = capsys.readouterr().out
    assert "no score for 1 candidate; see 'failure' in decisions.jsonl" in told and "retry" not in told


def test_a_run_of_synthesis_is_named_with_its_rubrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "rubrics"
    source.mkdir()
    (source / "manifest.json").write_text('{"kind": "synthesis"}')
    assert run(["select", str(source), "--sample", "m", "-o", str(tmp_path / "kept")]) == 2
    wanted = f"run of synthesis, with its rubrics in {source / 'final.jsonl'}; expected a run of `autorubric grade`"
    assert wanted in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("at_once", ["1", "4"])  # with 4, several items may have begun
def test_a_run_that_has_not_finished_is_refused_with_the_command_that_finishes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at_once: str
) -> None:
    source = graded(tmp_path, "--budget-tokens", "9000", "--max-tokens", "64", at_once=at_once, status=1)
    capsys.readouterr()
    assert run(["select", str(source), "-o", str(tmp_path / "kept")]) == 2
    told = capsys.readouterr().err
    assert "the run has not finished" in told
    advised = re.search(
        r"of 4 items are graded; finish it with a budget of ([\d,]+) tokens \(estimated: \d of 4 are", told
    )
    assert advised is not None
    command = told[told.index("autorubric grade ") :].split()
    assert command.count("--budget-tokens") == 1
    assert command[command.index("--budget-tokens") + 1] == advised[1].replace(",", "")


def test_an_item_with_a_failed_judgment_is_undecided_also_where_the_run_scored_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = graded(tmp_path, "--on-failure", "skip", faults=["400-content-filter"], status=1)
    assert run(["select", str(source), "-o", str(tmp_path / "kept"), "--threshold", "0.05"]) == 1
    told = capsys.readouterr().out
    assert "retry what failed, then select again:" in told
    why, how = rows(tmp_path / "kept" / "decisions.jsonl")
    assert why["candidates"][0]["score"] is None and why["chosen"] == ["a2"]
    assert how["chosen"] == ["a1"]


def test_a_directory_that_holds_another_run_or_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "manifest.json").write_text('{"kind": "synthesis"}')
    assert run(["select", str(tmp_path / "made"), "-o", str(tmp_path / "kept")]) == 2
    assert "is a run of synthesis" in capsys.readouterr().err
    source = graded(tmp_path)
    assert run(["select", str(source), "-o", str(source)]) == 2
    assert "pass another --out" in capsys.readouterr().err


def test_a_conversation_keeps_its_turns_and_calls_of_tools_in_the_files_of_trainers(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "tide"}'}}
    told = [
        {"role": "tool", "tool_call_id": id, "content": text} for id, text in (("1", "the moon"), ("2", "the sun"))
    ]
    turn = {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "2"}]}
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Why?"}, turn, *told]
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    row = {"messages": asked, "tools": tools, "rubrics": [{"criterion": "Contains at most 5 words.", "points": 1}]}
    messages = [asked[0], {**turn, "content": ""}, *told]
    for name in ("response", "submission"):  # a row with `submission` is an item of a dataset
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({**row, name: text}) + "\n" for text in ("So.", "Thus.", "a b c d e f g")))
        run_dir, judge = tmp_path / f"{name}-run", ("--judge", "builtin/offline")
        assert run(["grade", str(path), *judge, "--out", str(run_dir)]) == 0
        for data, more in ((path, judge), (run_dir, ())):
            out = tmp_path / f"{name}-{data.suffix}-selected"
            assert run(["select", str(data), *more, "--keep", "pairs", "--out", str(out)]) == 0
            where = f"{name}, {data.name}"
            answer = {"role": "assistant", "content": "So."}
            assert _read_one(out / "chat.jsonl") == {"messages": [*messages, answer], "tools": tools}, where
            assert _read_one(out / "trl_sft.jsonl") == {"prompt": messages, "completion": [answer], "tools": tools}
            pair = _read_one(out / "trl_dpo.jsonl")
            assert (pair["prompt"], pair["tools"]) == (messages, tools), where
            # LlamaFactory: calls are JSON text in a turn of their own, arguments are values, results are one turn.
            called = {
                "role": "function",
                "content": json.dumps([{"name": "look_up", "arguments": {"word": "tide"}}] * 2),
            }
            results = "the moon\n</tool_response>\n<tool_response>\nthe sun"
            turns = [asked[0], called, {"role": "tool", "content": results}]
            sft, dpo = (_read_one(out / "llamafactory" / file) for file in ("sft.jsonl", "dpo.jsonl"))
            assert sft == {"messages": [*turns, answer], "tools": json.dumps(tools)}, where
            assert (dpo["messages"], dpo["chosen"]) == (turns, answer), where
            info = json.loads((out / "llamafactory" / "dataset_info.json").read_text())["autorubric_sft"]
            assert (info["tags"]["observation_tag"], info["tags"]["function_tag"]) == ("tool", "function")
            assert info["columns"] == {"messages": "messages", "tools": "tools"}


@pytest.mark.parametrize("column", ["messages", "question"])
@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        (
            [
                {"role": "assistant", "content": None, "tool_calls": [CALL | {"id": "c1"}]},
                {"role": "tool", "tool_call_id": "c1", "content": "the moon"},
            ],
            [
                {"role": "assistant", "content": "", "tool_calls": [CALL | {"id": "c1"}]},
                {"role": "tool", "content": "the moon", "tool_call_id": "c1"},
            ],
        ),
        (
            [
                {"from": "function_call", "value": json.dumps(CALL["function"])},
                {"from": "observation", "value": "the moon"},
            ],
            [{"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "the moon"}],
        ),
        (
            [
                {"role": "assistant", "content": "", "function_call": CALL["function"]},
                {"role": "function", "name": "look_up", "content": "the moon"},
            ],
            [
                {"role": "assistant", "content": "", "tool_calls": [CALL]},
                {"role": "tool", "content": "the moon", "name": "look_up"},
            ],
        ),
    ],
    ids=["OpenAI", "ShareGPT", "OpenAI before tools"],
)
def test_calls_of_tools_go_from_synthesis_through_the_final_files_to_trainers(
    tmp_path: Path, turns: list[dict[str, Any]], kept: list[dict[str, Any]], column: str
) -> None:
    user = {"role": "user", "content": "Why the tide?"}
    asked = {"from": "human", "value": "Why the tide?"} if "from" in turns[0] else user
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    path, out, offline = tmp_path / "rows.jsonl", tmp_path / "out", "builtin/offline"
    path.write_text(json.dumps({"id": "t", column: [asked, *turns], "tools": tools}) + "\n")
    assert run(["synthesize", str(path), "--models", offline, "--profile", "full", "-o", str(out)]) == 0
    for name in ("final.jsonl", "final.parquet", "final_full.jsonl", "final_full.parquet"):
        chosen = tmp_path / name
        words = ["--sample", offline, "-k", "1", "--judge", offline, "--threshold", "0", "-o", str(chosen)]
        assert run(["select", str(out / name), *words]) == 0
        row = _read_one(chosen / "trl_sft.jsonl")
        assert (row["prompt"], row["tools"]) == ([user, *kept], tools), name
    told = json.dumps([user, *kept])
    assert _read_one(out / "final.jsonl") | {"rubrics": []} == {
        "question": told,
        "id": "t",
        "rubrics": [],
        "tools": json.dumps(tools),
    }
    made = convert(out / "final.jsonl", target=tmp_path / "verl.jsonl", to="verl")
    assert dict(made.carried) == {"prompt": 1, "metadata.tools": 1}
    assert run(["synthesize", str(path), "--models", offline, "--profile", "full", "-o", str(out)]) == 0


def _read_one(path: Path) -> Any:
    [line] = path.read_text(encoding="utf-8").splitlines()
    return json.loads(line)
