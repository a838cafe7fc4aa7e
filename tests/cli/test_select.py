"""`autorubric select`, as users type it."""

from __future__ import annotations

import gzip
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.cli.select import print_selection
from autorubric.cli.spending import print_estimate
from autorubric.llm.endpoint_settings import EndpointSettings
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.limits import ModelEstimate
from autorubric.testing import LoopbackEndpoint, ScriptedModel
from autorubric.training.selection import parse_keep
from autorubric.training.selection_summary import Acceptance, BestOfK, Lengths, Selected, SelectionSummary
from tests.cli.in_process import NearEndpoint, finish
from tests.warm_commands import WarmProcess

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
GOOD = "A good answer."
BAD = "A bad one."
RUBRICS = [{"criterion": "Is right.", "points": 6}, {"criterion": "Is good.", "points": 4}]


def judged(body: dict[str, Any]) -> str:
    """MET on 'Is right.' always, on 'Is good.' where the submission says so: 1.0 or 0.6."""
    asked = str(body["messages"])
    met = "Is good." not in asked or GOOD in asked
    return json.dumps({"explanation": "Read.", "criterion_status": "MET" if met else "UNMET"})


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def lines(path: Path, found: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return path


def data(folder: Path, count: int = 3) -> Path:
    made = [{"question": f"Why {n}?", "id": f"q{n}", "rubrics": RUBRICS, "domain": f"d{n % 2}"} for n in range(count)]
    return lines(folder / "final.jsonl", made)


def candidates(folder: Path) -> Path:
    return lines(
        folder / "candidates.jsonl",
        [
            {"id": "q0", "answers": [BAD, GOOD]},
            {"query": "Why 1?", "answers": {"small": BAD, "large": BAD + " Still."}},
            {"id": "q2", "answer": GOOD},
        ],
    )


def test_the_best_above_the_threshold_is_written_for_every_trainer_and_nothing_is_asked_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with LoopbackEndpoint(replier=judged).in_thread() as endpoint:
        command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path)), "-o", str(out)]
        command += ["--judge", f"judge@{endpoint.base_url}"]
        assert run(command) == 0
        asked = endpoint.counts.requests
        assert asked == 5 * 2
        assert run([*command, "--threshold", "0.5", "--keep", "all"]) == 0
        assert endpoint.counts.requests == asked
        assert run(command) == 0
    told = capsys.readouterr().out
    assert "2 of 3 queries have an answer above 0.6; 1 dropped, 0 undecided; 2 answers kept" in told
    assert "3 of 3 queries have an answer above 0.5" in told
    first, second = rows(out / "selected.jsonl")
    assert list(first) == [
        "source", "query", "answer", "sample_id", "rubrics", "rubric_score", "rubric_judge_details"
    ]  # fmt: skip
    assert (first["source"], first["answer"], first["rubric_score"]) == ("d0", GOOD, 1.0)
    assert first["rubrics"] == RUBRICS
    assert [one["verdict"] for one in first["rubric_judge_details"]] == ["MET", "MET"]
    assert (second["query"], second["sample_id"]) == ("Why 2?", "q2-0")
    spoken = [{"role": "user", "content": "Why 0?"}, {"role": "assistant", "content": GOOD}]
    assert rows(out / "chat.jsonl")[0] == {"messages": spoken}
    assert rows(out / "trl_sft.jsonl")[0] == {"prompt": spoken[:1], "completion": spoken[1:]}
    info = json.loads((out / "llamafactory" / "dataset_info.json").read_text())["autorubric_sft"]
    assert rows(out / "llamafactory" / info["file_name"])[0][info["columns"]["messages"]] == spoken
    decisions = rows(out / "decisions.jsonl")
    assert [one["status"] for one in decisions] == ["selected", "dropped", "selected"]
    assert [one["score"] for one in decisions[1]["candidates"]] == [0.6, 0.6]
    summary = json.loads((out / "selection.json").read_text())
    assert [(one["source"], one["share"]) for one in summary["by_source"]] == [("d0", 1.0), ("d1", 0.0)]
    assert summary["by_model"] == {}
    # The two queries that have two: means 0.8 and 0.6, best of two 1.0 and 0.6.
    assert [one["score"] for one in summary["curve"]] == pytest.approx([0.7, 0.8])


def test_the_parquet_file_has_the_released_columns_and_goes_when_nothing_is_kept(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    with LoopbackEndpoint(replier=judged).in_thread() as endpoint:
        command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path))]
        command += ["--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run(command) == 0
        some = pq.read_table(tmp_path / "run" / "selected.parquet")
        assert run([*command, "--threshold", "1"]) == 1
    assert not (tmp_path / "run" / "selected.parquet").exists()
    assert some.column_names == [
        "source", "query", "answer", "sample_id", "rubrics", "rubric_score", "rubric_judge_details"
    ]  # fmt: skip
    assert some.num_rows == 2
    assert some.to_pylist()[0]["rubrics"][0] == {"criterion": "Is right.", "points": 6.0}
    assert json.loads(some.to_pylist()[0]["rubric_judge_details"])[1]["value"] == 1.0


def test_pairs_are_written_for_dpo_and_go_when_they_are_not_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with LoopbackEndpoint(replier=judged).in_thread() as endpoint:
        command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path)), "-o", str(out)]
        command += ["--judge", f"judge@{endpoint.base_url}"]
        assert run([*command, "--keep", "pairs", "--margin", "0.3"]) == 0
        [pair] = rows(out / "trl_dpo.jsonl")
        assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (GOOD, BAD)
        info = json.loads((out / "llamafactory" / "dataset_info.json").read_text())["autorubric_dpo"]
        assert info["ranking"] is True
        [ranked] = rows(out / "llamafactory" / info["file_name"])
        assert ranked["rejected"] == {"role": "assistant", "content": BAD}
        assert run([*command, "--trainer", "chat"]) == 0
    assert not (out / "trl_dpo.jsonl").exists()
    assert not (out / "selected.parquet").exists()
    assert not (out / "llamafactory").exists()
    assert (out / "chat.jsonl").exists()


def test_candidates_are_sampled_once_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answered(body: dict[str, Any]) -> str:
        if len(body["messages"]) == 1:
            return GOOD if body["temperature"] == 0.7 else BAD
        return judged(body)

    with LoopbackEndpoint(replier=answered).in_thread() as endpoint:
        at = f"@{endpoint.base_url}"
        command = ["select", str(data(tmp_path)), "--sample", f"writer{at}", "-k", "3", "--judge", f"judge{at}"]
        command += ["--sample-temperature", "0.7", "--share-equal", "-o", str(tmp_path / "run")]
        assert run([*command, "--dry-run"]) == 0
        assert "writer: 9 calls to make, 0 already recorded" in capsys.readouterr().out
        assert (endpoint.counts.requests, (tmp_path / "run").exists()) == (0, False)
        assert run(command) == 0
        # Three draws a query are three calls; their equal texts share their judgments, as the user says.
        assert endpoint.counts.requests == 3 * 3 + 3 * 2
        assert run(command) == 0
        assert endpoint.counts.requests == 15
        assert run([*command, "--dry-run"]) == 0
        assert "writer: 0 calls to make, 9 already recorded" in capsys.readouterr().out
        assert run([*command, "--start-over"]) == 0
        assert endpoint.counts.requests == 30
        assert run(command) == 0
        assert endpoint.counts.requests == 30
        assert endpoint.received[0].body["messages"][0]["content"].startswith("Why ")
        # Without that each of the equal texts is judged on its own: 2 criteria of 2 more texts for each query.
        assert run([*(word for word in command if word != "--share-equal"), "--replace"]) == 0
        assert endpoint.counts.requests == 30 + 3 * 2 * 2
    assert len(rows(tmp_path / "run" / "selected.jsonl")) == 3


def test_no_longer_answers_are_expected_than_a_model_may_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["select", str(data(tmp_path)), "--sample", "vllm/writer", "-k", "2", "--judge", "builtin/offline"]
    command += ["-o", str(tmp_path / "run"), "--sample-max-tokens", "40", "--dry-run"]
    assert run(command) == 0
    # 3 queries and 2 draws of at most 40 tokens, where 500 would be assumed.
    assert "vllm/writer: 6 calls to make" in (told := capsys.readouterr().out)
    assert ", 240 out," in told


def test_a_failed_judgment_leaves_its_query_undecided_and_the_same_command_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    own = lines(tmp_path / "one.jsonl", [{"id": "q0", "answer": GOOD}, {"id": "q1", "answer": GOOD}])
    with LoopbackEndpoint(replier=judged, faults=["prose", "prose", "prose"]).in_thread() as endpoint:
        command = ["select", str(data(tmp_path, 2)), "--candidates", str(own), "-o", str(out), "-j", "1"]
        command += ["--judge", f"judge@{endpoint.base_url}", "--retry", "0"]
        assert run(command) == 1
        told = capsys.readouterr().out
        assert "1 of 2 queries has an answer above 0.6; 0 dropped, 1 undecided" in told
        assert "retry what failed with:\n  autorubric select" in told
        undecided = next(one for one in rows(out / "decisions.jsonl") if one["status"] == "undecided")
        assert undecided["candidates"][0]["score"] is None
        assert "failed" in undecided["candidates"][0]["failure"]
        before = endpoint.counts.requests
        assert run(command) == 0
        assert endpoint.counts.requests == before + 1
    assert [one["status"] for one in rows(out / "decisions.jsonl")] == ["selected", "selected"]


def test_a_candidate_that_could_not_be_sampled_is_no_bad_candidate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(body: dict[str, Any]) -> str:
        return GOOD if len(body["messages"]) == 1 else judged(body)

    with LoopbackEndpoint(replier=answered, faults=["400-content-filter"]).in_thread() as endpoint:
        at = f"@{endpoint.base_url}"
        command = ["select", str(data(tmp_path, 1)), "--sample", f"writer{at}", "-k", "1", "--judge", f"judge{at}"]
        command += ["-o", str(tmp_path / "run")]
        assert run(command) == 1
        assert "0 dropped, 1 undecided" in capsys.readouterr().out
        assert run(command) == 0
    assert rows(tmp_path / "run" / "decisions.jsonl")[0]["status"] == "selected"


def test_an_answer_cut_off_below_the_ceiling_is_requested_again(tmp_path: Path) -> None:
    with LoopbackEndpoint(replier=lambda body: GOOD, faults=["length"]).in_thread() as endpoint:
        command = ["select", str(data(tmp_path, 1)), "--sample", f"writer@{endpoint.base_url}", "-k", "1"]
        run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")])
        assert endpoint.counts.requests == 2
    [decision] = rows(tmp_path / "run" / "decisions.jsonl")
    assert not decision["candidates"][0]["failure"].startswith("truncated")


def test_an_answer_cut_off_at_the_ceiling_is_not_a_candidate(tmp_path: Path) -> None:
    with LoopbackEndpoint(replier=judged, faults=["length"]).in_thread() as endpoint:
        command = ["select", str(data(tmp_path, 1)), "--sample", f"writer@{endpoint.base_url}", "-k", "1"]
        command += ["--sample-max-tokens", "64", "--max-tokens-ceiling", "64"]
        assert run([*command, "--judge", "builtin/offline", "-o", str(tmp_path / "run")]) == 1
        assert endpoint.counts.requests == 1
    [decision] = rows(tmp_path / "run" / "decisions.jsonl")
    assert decision["status"] == "undecided"
    assert decision["candidates"][0]["failure"].startswith("truncated")


def test_a_budget_ends_the_run_and_a_higher_one_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint(replier=judged).in_thread() as endpoint:
        command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path)), "-j", "1"]
        command += ["--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run"), "--max-tokens", "64"]
        assert run([*command, "--budget-tokens", "5000"]) == 1
        told = capsys.readouterr().out
        unscored = sum(
            one["score"] is None
            for decision in rows(tmp_path / "run" / "decisions.jsonl")
            for one in decision["candidates"]
        )
        assert "budget" in told and f"\n  judge: {unscored} candidates were not reached\n" in told
        assert unscored > 1 and 0 < endpoint.counts.requests < 10
        assert run(command) == 0
        assert endpoint.counts.requests == 10


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--threshold", "1.5"], "threshold 1.5 is outside [0, 1]"),
        (["--keep", "pairs", "--margin", "-1"], "--margin -1.0 is outside [0, 1]"),
        (["--keep", "most"], "keep 'most' is not one of best, all, top-N, pairs"),
        (["--trainer", "trll"], "trainer 'trll' is unknown; did you mean 'trl'?"),
        (["--sample", "openai/gpt-5.1"], "are mutually exclusive"),
        (["--sample-key-env", "MY_KEY"], "or pass --sample MODEL"),
        (["--judge", "openai/gpt-5.1"], "OPENAI_API_KEY"),
        ([], "pass --judge MODEL"),
    ],
)
def test_wrong_flags_are_told_before_anything_is_spent(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    told: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path)), "-o", str(tmp_path / "run")]
    assert run([*command, *flags]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_queries_without_candidates_and_bad_rows_are_named_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": name, "answer": "Yes."} for name in ("q0", "gone", 7.0)]
    own = lines(tmp_path / "few.jsonl", rows)
    command = ["select", str(data(tmp_path, 2)), "--candidates", str(own), "--judge", "builtin/offline"]
    command += ["-o", str(tmp_path / "run")]
    assert run(command) == 2
    told = capsys.readouterr().err
    assert "few.jsonl:2: the data has no query with the id 'gone'" in told
    assert "the id '7.0'; a column of numbers with blanks becomes floats, write its ids as integers" in told
    assert "query 'q1' has no candidates" in told
    # The offline judge abstains on both criteria, so that nothing is kept.
    assert run([*command, "--skip-bad-rows"]) == 1
    assert len(json.loads((tmp_path / "run" / "selection.json").read_text())["skipped"]) == 3
    assert run(["select", str(data(tmp_path, 2)), "--judge", "builtin/offline"]) == 2
    told = capsys.readouterr().err
    assert "pass --candidates FILE, or --sample MODEL" in told and "FILE may be the data itself" in told


def test_a_rubric_of_zero_weights_and_a_file_in_the_place_of_the_directory_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = {"id": "q", "question": "Why?", "rubrics": [{"criterion": "Is right.", "points": 0}]}
    command = ["select", str(lines(tmp_path / "flat.jsonl", [flat])), "--sample", "builtin/offline"]
    command += ["--judge", "builtin/offline", "-o"]
    assert run([*command, str(tmp_path / "run")]) == 2
    assert "flat.jsonl:1: every criterion has weight 0" in capsys.readouterr().err
    (tmp_path / "taken").write_text("mine")
    assert run(["select", str(data(tmp_path)), *command[2:], str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err.count("taken") == 1
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_judge_that_nobody_can_reach_is_wrong_input(tmp_path: Path) -> None:
    command = ["select", str(data(tmp_path)), "--candidates", str(candidates(tmp_path)), "-o", str(tmp_path / "run")]
    assert run([*command, "--judge", "judge@http://127.0.0.1:9/v1", "--retry", "0"]) == 2


def test_a_judge_that_fails_after_paid_answers_is_not_told_as_nothing_spent(tmp_path: Path) -> None:
    with LoopbackEndpoint(replier=lambda body: GOOD).in_thread() as endpoint:
        command = ["select", str(data(tmp_path)), "--sample", f"writer@{endpoint.base_url}", "-k", "1"]
        command += ["--judge", "judge@http://127.0.0.1:9/v1", "--retry", "0", "-o", str(tmp_path / "run")]
        assert run(command) == 1
        assert endpoint.counts.requests == 3
    assert [one["status"] for one in rows(tmp_path / "run" / "decisions.jsonl")] == ["undecided"] * 3


def test_checks_alone_select_without_a_judge(tmp_path: Path) -> None:
    tags = {"verifier": "rule", "function": "CommaChecker", "parameters": {}}
    rubric = [{"criterion": "punctuation:no_comma", "points": 10, "tags": tags}]
    made = lines(tmp_path / "rows.jsonl", [{"question": "Why?", "id": "q", "rubrics": rubric}])
    own = lines(tmp_path / "c.jsonl", [{"id": "q", "answers": ["Well, so.", "So it is."]}])
    assert run(["select", str(made), "--candidates", str(own), "-o", str(tmp_path / "run")]) == 0
    assert rows(tmp_path / "run" / "selected.jsonl")[0]["answer"] == "So it is."


def test_a_killed_selection_goes_on_and_pays_twice_for_nothing_recorded(tmp_path: Path) -> None:
    made, out = data(tmp_path, 12), tmp_path / "run"
    with NearEndpoint("--latency", "fixed:0.05") as endpoint:
        at = f"@{endpoint.base_url}"
        command = [sys.executable, "-m", "autorubric", "select", str(made), "--sample", f"writer{at}", "-k", "2"]
        command += ["--judge", f"judge{at}", "-j", "8", "-o", str(out)]
        chance = random.Random(7)
        for calls in (10, 35):
            running = WarmProcess(command[3:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while endpoint.stats()["requests"] < calls and running.poll() is None:
                time.sleep(0.005 * chance.random())
            running.send_signal(signal.SIGKILL)
            running.communicate()
        done = finish(command)
        assert done.returncode == 0, done.stderr
        requests = endpoint.stats()["requests"]
    # 12 queries: two draws, and two criteria on each of their texts. Only the eight calls in flight at each of
    # two kills can have been asked twice.
    assert 72 <= requests <= 72 + 2 * 8
    assert "12 of 12 queries have an answer above 0.6" in done.stdout
    assert len(rows(out / "selected.jsonl")) == 12


def test_real_answers_of_three_models_are_selected_by_the_offline_judge(tmp_path: Path) -> None:
    packed = (DATA / "arena_hard.jsonl.gz").read_bytes()
    first = [json.loads(line) for line in gzip.decompress(packed).splitlines()[:12]]
    rubric = [{"criterion": "Contains at most 200 words.", "points": 5}, {"criterion": "Is polite.", "points": 1}]
    made = lines(tmp_path / "rows.jsonl", [{**row, "rubrics": rubric} for row in first])
    own = lines(tmp_path / "answers.jsonl", first)
    command = [
        "select",
        str(made),
        "--candidates",
        str(own),
        "--judge",
        "builtin/offline",
        "-o",
        str(tmp_path / "run"),
    ]
    assert run(command) == 0
    kept = rows(tmp_path / "run" / "selected.jsonl")
    assert kept and all(len(row["answer"].split()) <= 200 for row in kept)
    decided = rows(tmp_path / "run" / "decisions.jsonl")
    summary = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert sum(summary["by_model"].values()) == len(kept)
    assert {one["model"] for row in decided for one in row["candidates"]} == set(first[0]["answers"])


def test_the_column_of_answers_is_one_of_the_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = [{"id": "q0", "choices": [{"message": {"content": GOOD}}]}]
    answers = lines(tmp_path / "batch.jsonl", batch)
    words = [
        "select",
        str(data(tmp_path, 1)),
        "--candidates",
        str(answers),
        "--judge",
        "builtin/offline",
        "--dry-run",
    ]
    words += ["-o", str(tmp_path / "kept"), "--dry-run"]
    assert run(words) == 2
    told = "its keys are 'id', 'choices' (choices[0].message.content); name it with --column answer=NAME"
    assert told in capsys.readouterr().err
    assert (
        run([*words, "--column", "answer=choices[0].message.content", "-o", str(tmp_path / "kept"), "--dry-run"]) == 0
    )


def test_shares_of_an_unfinished_selection_show_their_denominators(capsys: pytest.CaptureFixture[str]) -> None:
    total = Acceptance("all", 3, 1, 0, 2)
    curve = (BestOfK(1, 0.5, 1.0, 1),)
    rule = parse_keep("best")
    summary = SelectionSummary(total, (total, total), 1, {}, 2, Lengths(None, None), curve, rule)
    print_selection(Selected(summary, (), 0), [], FailureGroups())
    told = capsys.readouterr().out
    assert "  1: 0.500, 100.0% (over 1 query)\n" in told
    assert "all: 1 of 3 selected, 100.0% of the 1 decided\n" in told


def test_an_estimate_tells_two_roles_of_one_model_apart(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel({})
    rows = [ModelEstimate(model, role="judge"), ModelEstimate(model, role="writer")]
    print_estimate("3 items", rows, EndpointSettings(), "no-run")
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        f"  judge {model.name}",
        f"  writer {model.name}",
    ]
