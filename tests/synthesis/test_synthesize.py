"""The main job, end to end, against a real endpoint on this machine."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from autorubric import synthesize, synthesize_async
from autorubric.runs.blocks import BLOCK, Feed, feed
from autorubric.synthesis.run_summary import SynthesisResult
from autorubric.testing import FAULTS, Completion, sized_replies

Make = Callable[..., Any]  # makes a `Bench`, see conftest


def test_queries_become_rubrics_with_seven_calls_each(bench: Make) -> None:
    b = bench("Why is the sky blue?", "Why is grass green?")
    assert b.synthesize() == 0
    assert Counter(b.asked) == Counter(
        {f"m-{s}": 2 for s in ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment")}
    )
    final = b.rows()
    assert [(row["id"], row["question"]) for row in final] == [
        ("q0", "Why is the sky blue?"),
        ("q1", "Why is grass green?"),
    ]
    assert all(row["rubrics"] for row in final)
    assert pq.read_table(b.out / "final.parquet").to_pylist() == final
    assert b.manifest()["status"] == "completed"


def test_the_same_command_again_asks_nothing_and_changes_no_file(bench: Make) -> None:
    b = bench("one", "two")
    b.synthesize()
    names = [p.name for p in b.out.iterdir() if p.suffix in {".jsonl", ".parquet"}]
    before = {name: (b.out / name).read_bytes() for name in names}
    requests = b.endpoint.counts.requests
    assert b.manifest()["counts"]["calls_this_session"] == 14
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == requests == 14
    assert b.manifest()["counts"]["calls_this_session"] == 0
    assert {name: (b.out / name).read_bytes() for name in names} == before


def test_rows_carry_the_models_that_made_them(bench: Make) -> None:
    b = bench("one")
    b.synthesize()
    (row,) = b.rows("step4_augmented.jsonl")
    models = {key: value for key, value in row.items() if key.endswith("_model")}
    assert models == {
        "reference_model": "m-reference",
        "response_a_model": "m-response-a",
        "response_b_model": "m-response-b",
        "rubrics_a_model": "m-rubric-a",
        "rubrics_b_model": "m-rubric-b",
        "merged_rubrics_model": "m-merge",
        "augmented_rubrics_model": "m-augment",
    }


def test_an_edited_question_is_asked_anew_and_the_others_are_not(bench: Make) -> None:
    b = bench("one", "two")
    b.synthesize()
    b.write("one", "two, edited")
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 14 + 7
    assert [row["question"] for row in b.rows()] == ["one", "two, edited"]


def test_a_row_put_in_front_is_the_only_one_that_is_asked(bench: Make) -> None:
    b = bench()
    b.write("one", "two", ids=False)
    run = ["--id-column", ""]
    assert b.synthesize(*run) == 0
    b.write("zero", "one", "two", ids=False)
    assert b.synthesize(*run) == 0
    assert b.endpoint.counts.requests == 14 + 7
    assert [row["question"] for row in b.rows()] == ["zero", "one", "two"]


class Broken:
    """Lets requests of one model fail until it is mended."""

    def __init__(self, model: str, fault: str = "500") -> None:
        self.model, self.fault, self.mended = model, fault, False

    def __call__(self, body: dict[str, Any]) -> str | None:
        return self.fault if body["model"] == self.model and not self.mended else None


def test_a_column_that_gives_way_to_a_stages_value_is_told(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench()
    b.input.write_text(json.dumps({"id": "q0", "question": "one", "reference": ["gold"]}) + "\n")
    assert b.synthesize() == 0
    assert "input columns replaced by generated ones: reference 1" in capsys.readouterr().out
    assert b.manifest()["counts"]["overwritten"] == {"reference": 1}


def test_a_failed_candidate_rubric_is_repaired_and_merged_by_the_next_run(bench: Make) -> None:
    broken = Broken("m-rubric-b")
    b = bench("one", faults=broken)
    assert b.synthesize() == 1
    (row,) = b.rows("step3_merged.jsonl")
    assert row["merged_rubrics_model"] == "passthrough"
    assert row["rubrics_b"] == []
    (unfinished,) = b.rows("unfinished.jsonl")
    assert (unfinished["record_id"], list(unfinished["failures"])) == ("q0", ["rubrics_b"])
    broken.mended = True
    asked = len(b.asked)
    assert b.synthesize() == 0
    assert b.asked[asked:] == ["m-rubric-b", "m-merge", "m-augment"]
    (row,) = b.rows("step3_merged.jsonl")
    assert row["merged_rubrics_model"] == "m-merge"
    assert "rubrics_b_error" not in row
    assert not (b.out / "unfinished.jsonl").exists()


def test_a_failed_response_is_repaired_and_evolution_catches_up(bench: Make) -> None:
    broken = Broken("m-response-b")
    b = bench("one", faults=broken)
    assert b.synthesize() == 1
    (row,) = b.rows("step4_augmented.jsonl")
    assert (row["augmented_rubrics"], row["augmented_rubrics_model"]) == ([], "skipped(no responses)")
    assert len(b.rows()) == 1
    broken.mended = True
    assert b.synthesize() == 0
    (row,) = b.rows("step4_augmented.jsonl")
    assert row["augmented_rubrics_model"] == "m-augment"
    assert row["response_b"]


def test_a_failed_call_costs_no_more_than_its_retries(bench: Make) -> None:
    b = bench("one", faults=Broken("m-reference"))
    assert b.synthesize("--retry", "2") == 1
    assert Counter(b.asked) == {"m-reference": 3, "m-response-a": 1, "m-response-b": 1}


def test_a_request_that_is_filtered_is_not_tried_again_and_fails_its_row_alone(bench: Make) -> None:
    def filtered(body: dict[str, Any]) -> str | None:
        return "400-content-filter" if "zebra" in json.dumps(body) else None

    b = bench("one", "zebra", faults=filtered)
    assert b.synthesize() == 1
    assert [row["question"] for row in b.rows()] == ["one"]
    assert b.endpoint.counts.by_status[400] == 3  # reference, response_a and response_b of the second row
    assert b.rows("unfinished.jsonl")[0]["record_id"] == "q1"


def test_a_wrong_key_costs_one_request_and_ends_the_run(
    bench: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFERENCE_API_KEY", "wrong")
    b = bench(*(f"q{i}" for i in range(50)), key="right")
    for slot in ("RESPONSE_A", "RESPONSE_B", "RUBRIC_A", "RUBRIC_B", "MERGE", "AUGMENT"):
        monkeypatch.setenv(f"{slot}_API_KEY", "wrong")
    assert b.synthesize() == 2
    assert b.endpoint.counts.requests == 1
    assert "m-reference: HTTP 401" in capsys.readouterr().err


def test_an_address_where_nothing_answers_ends_the_run_at_once(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    b = bench(*(f"q{i}" for i in range(20)))
    slots = ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment")
    nowhere = [word for slot in slots for word in (f"--{slot}-base-url", "http://127.0.0.1:9/v1")]
    assert b.synthesize(*nowhere) == 2
    assert b.synthesize("--merge-base-url", "http://127.0.0.1:9/v1") == 1
    assert b.endpoint.counts.requests < 20 * 7
    assert "check the address http://127.0.0.1:9/v1, and that the server is running" in capsys.readouterr().err


def test_a_model_the_endpoint_does_not_have_ends_the_run(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench(*(f"q{i}" for i in range(50)), faults={"404": 1.0})
    assert b.synthesize() == 2
    assert b.endpoint.counts.requests <= 3
    assert "does not exist" in capsys.readouterr().err


def test_an_unreadable_rubric_is_asked_again_with_what_was_wrong(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = sized_replies()

    def stubborn_once(body: dict[str, Any]) -> str | Completion:
        if body["model"] == "m-rubric-a" and len(body["messages"]) == 2:
            return "I would look at three to five things."
        return replies(body)

    b = bench("one", replier=stubborn_once)
    assert b.synthesize() == 0
    again = [r.body["messages"] for r in b.endpoint.received if r.body["model"] == "m-rubric-a"]
    assert [len(messages) for messages in again] == [2, 4]
    assert again[1][2] == {"role": "assistant", "content": "I would look at three to five things."}
    assert "holds no JSON array" in again[1][3]["content"]
    # A dry run finds the reply to the second request as a run does, so nothing is left.
    capsys.readouterr()
    assert b.synthesize("--dry-run") == 0
    assert re.search(r"\n  total +0 ", capsys.readouterr().out)


def test_an_empty_rubric_is_a_failure_that_is_asked_a_bounded_number_of_times(bench: Make) -> None:
    replies = sized_replies()
    b = bench("one", replier=lambda body: '{"criteria": []}' if body["model"] == "m-merge" else replies(body))
    assert b.synthesize() == 1
    assert Counter(b.asked)["m-merge"] == 3
    (row,) = b.rows("step3_merged.jsonl")
    assert row["merged_rubrics_error"].startswith("unreadable: the reply holds no criterion")


def test_a_truncated_rubric_is_never_salvaged(bench: Make) -> None:
    replies = sized_replies()

    def cut(body: dict[str, Any]) -> str | Completion:
        said = replies(body)
        return Completion(str(said)[:-40], "length") if body["model"] == "m-rubric-a" else said

    b = bench("one", replier=cut)
    assert b.synthesize() == 1
    (row,) = b.rows("step2_rubrics.jsonl")
    assert row["rubrics_a_error"].startswith("truncated")


def test_a_query_that_looks_like_a_template_stays_text(bench: Make) -> None:
    query = "What do {{ reference }}, <<reference>> and {|response1|} stand for?"
    b = bench(query)
    assert b.synthesize() == 0
    assert all(query in json.dumps(r.body["messages"], ensure_ascii=False) for r in b.endpoint.received)
    assert b.rows()[0]["question"] == query


def test_half_characters_in_a_reply_do_not_lose_the_run(bench: Make) -> None:
    replies = sized_replies()
    b = bench("one", replier=lambda body: "half \ud83d here" if body["model"] == "m-reference" else replies(body))
    assert b.synthesize() == 0
    assert b.rows("step0_reference.jsonl")[0]["reference"] == "half \ufffd here"


def test_another_model_is_asked_anew_under_its_own_name(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench("one")
    b.synthesize()
    flags = ["--merge-model", "m-other"]
    assert b.synthesize(*flags) == 0
    assert b.asked[7:] == ["m-other"]
    assert b.rows("step4_augmented.jsonl")[0]["merged_rubrics_model"] == "m-other"
    assert "the model of merge changed from m-merge to m-other" in capsys.readouterr().err


def test_refreshing_a_role_asks_it_anew_once(bench: Make) -> None:
    b = bench("one", "two")
    b.synthesize()
    assert b.synthesize("--refresh", "rubric_a") == 0
    assert Counter(b.asked[14:])["m-rubric-a"] == 2
    requests = b.endpoint.counts.requests
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == requests


def test_until_a_step_writes_the_files_so_far_and_a_later_run_goes_on(bench: Make) -> None:
    b = bench("one")
    assert b.synthesize("--until", "rubrics") == 0
    written = {p.name for p in b.out.iterdir() if p.suffix == ".jsonl"}
    assert written == {"step0_reference.jsonl", "step1_responses.jsonl", "step2_rubrics.jsonl"}
    assert b.endpoint.counts.requests == 5
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 7


@pytest.mark.parametrize(("kept", "files"), [("latest", {"step4_augmented.jsonl"}), ("none", set[str]())])
def test_fewer_step_files_give_the_same_final_files(bench: Make, kept: str, files: set[str]) -> None:
    b = bench("one", "two", "three")
    limits = [f"--{name}-max-tokens=400" for name in ("ref", "response", "rubric", "merge", "augment")]
    # The budget ends the first run early; what it finished is exported, and its last rows are kept until all are.
    assert b.synthesize(*limits, "--step-files", kept, "--budget-tokens", "12000") == 1
    assert {p.name.lstrip(".") for p in b.out.glob("*step*.jsonl")} == {"step4_augmented.jsonl"}
    assert b.synthesize(*limits, "--step-files", kept, "--budget-tokens", "1000000") == 0
    assert {p.name for p in b.out.glob("*step*.jsonl")} == files
    final = [(b.out / name).read_bytes() for name in ("final.jsonl", "final.parquet")]
    assert len(b.rows()) == 3
    assert b.synthesize(*limits) == 0  # all five, without a request
    assert b.endpoint.counts.requests == 21
    assert len(list(b.out.glob("step*.jsonl"))) == 5
    assert [(b.out / name).read_bytes() for name in ("final.jsonl", "final.parquet")] == final
    b.write("another")
    assert b.synthesize() == 2  # an input without any of the queries is another run


def test_a_dry_run_asks_nothing_writes_nothing_and_counts_what_is_left(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    b = bench("one", "two", "three")
    assert b.synthesize("--dry-run") == 0
    assert b.endpoint.counts.requests == 0
    assert not b.out.exists()
    assert "21" in capsys.readouterr().out.split("total")[1]
    b.synthesize("--limit", "1")
    b.synthesize("--dry-run")
    assert "14" in capsys.readouterr().out.split("total")[1]


def test_rows_that_are_left_out_are_not_said_to_have_failed(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench("one", " ")
    assert b.synthesize("--skip-bad-rows") == 1
    told = capsys.readouterr().out
    assert "1 of 1 query finished" in told
    assert "correct and add the rows left out with:" in told
    assert "retry what failed" not in told


def test_a_shorter_input_keeps_what_was_there(bench: Make) -> None:
    b = bench("one", "two", "three")
    b.synthesize()
    b.write("one")
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 21
    assert [row["question"] for row in b.rows()] == ["one", "two", "three"]


def test_a_wrong_column_or_path_leaves_every_file_as_it_was(bench: Make, tmp_path: Path) -> None:
    b = bench("one")
    b.synthesize()
    before = {p: p.read_bytes() for p in b.out.glob("*.jsonl")}
    assert b.synthesize("--question-column", "qestion") == 2
    b.input.rename(tmp_path / "elsewhere.jsonl")
    assert b.synthesize() == 2
    assert {p: p.read_bytes() for p in b.out.glob("*.jsonl")} == before


def test_an_endpoint_without_response_formats_is_asked_in_words(bench: Make) -> None:
    b = bench("one", "two", rejects=["response_format"])
    assert b.synthesize() == 0
    assert len(b.rows()) == 2


def test_a_directory_under_a_file_is_one_problem(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench("one")
    assert b.synthesize("--out", str(b.input / "deep" / "out")) == 2
    assert capsys.readouterr().err == f"autorubric: {b.input} is not a directory; pass another --out\n"


def test_a_token_budget_is_never_overrun_and_a_higher_one_goes_on(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    b = bench(*(f"q{i}" for i in range(10)))
    limits = ["--ref-max-tokens", "400", "--response-max-tokens", "400", "--rubric-max-tokens", "900"]
    limits += ["--merge-max-tokens", "900", "--augment-max-tokens", "900"]
    assert b.synthesize(*limits, "--budget-tokens", "30000") == 1
    used = b.endpoint.counts.prompt_tokens + b.endpoint.counts.completion_tokens
    assert 0 < used <= 30000
    printed = capsys.readouterr()
    assert "budget of 30,000 tokens reached" in printed.out
    assert "failed" not in printed.err  # what was not asked yet is no failure
    done = b.endpoint.counts.requests
    assert b.synthesize(*limits, "--budget-tokens", "10000000") == 0
    assert b.endpoint.counts.requests == 10 * 7
    assert done < 10 * 7


def test_a_budget_in_dollars_needs_a_price(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench("one")
    assert b.synthesize("--budget-usd", "5") == 2
    assert "m-reference" in capsys.readouterr().err
    assert b.endpoint.counts.requests == 0


def test_export_only_writes_the_files_from_what_is_recorded(bench: Make) -> None:
    b = bench("one", "two")
    b.synthesize()
    for path in b.out.glob("*.jsonl"):
        path.unlink()
    assert b.synthesize("--export-only") == 0
    assert b.endpoint.counts.requests == 14
    assert len(b.rows()) == 2


def test_the_command_that_goes_on_after_an_export_is_one_that_asks(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    b = bench("one")
    assert b.synthesize("--export-only") == 1
    printed = capsys.readouterr().out
    assert "request what is missing with:" in printed
    assert "--export-only" not in printed + b.manifest()["again"]


def test_a_key_reaches_the_endpoint_and_no_file(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-planted-5e1f"
    for slot in ("REFERENCE", "RESPONSE_A", "RESPONSE_B", "RUBRIC_A", "RUBRIC_B", "MERGE", "AUGMENT"):
        monkeypatch.setenv(f"{slot}_API_KEY", key)
    b = bench("one", key=key, faults=Broken("m-merge"))
    assert b.synthesize() == 1
    found = [p for p in b.out.rglob("*") if p.is_file() and key.encode() in p.read_bytes()]
    assert found == []


def test_faults_of_every_kind_end_in_rows_or_reasons_and_a_healthy_run_finishes_them(bench: Make) -> None:
    names = ("500", "502", "503", "529", "reset", "truncated-body", "html", "prose", "broken-json", "empty", "null")
    assert set(names) <= set(FAULTS)
    rates = dict.fromkeys(names, 0.2 / len(names))
    b = bench(*(f"query {i}" for i in range(15)), faults=rates, seed=3)
    fast = ["--retry", "0"]
    status = b.synthesize(*fast)
    listed = b.rows("unfinished.jsonl") if status else []
    finished = {row["__record_id__"] for row in b.rows("step4_augmented.jsonl")} - {r["record_id"] for r in listed}
    assert len(listed) + len(finished) == 15
    for _ in range(10):
        if status == 0:
            break
        status = b.synthesize(*fast)
    assert status == 0
    assert len(b.rows()) == 15


def test_a_conversation_is_a_query_of_the_basic_method_too(bench: Make) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Why?"},
    ]
    b = bench()
    b.input.write_text(json.dumps({"id": "q0", "question": turns}) + "\n")
    assert b.synthesize() == 0
    assert len(b.asked) == 7
    assert json.loads(b.rows()[0]["question"]) == turns
    assert b.synthesize() == 0
    assert len(b.asked) == 7


async def test_a_worker_reads_the_queries_of_a_lost_block_again(tmp_path: Path) -> None:
    """Block 1 has the last two of 66 queries; block 0, of a worker that was lost, comes after it."""
    words: list[dict[str, Any]] = []
    own = Feed(lambda **word: words.append(word))
    queries = [f"Why is star {n} bright?" for n in range(BLOCK + 2)]

    async def work() -> SynthesisResult:
        feed.set(own)
        for block in (1, 0, None):
            own.give(block)
        return await synthesize_async(queries, models="builtin/offline", out=tmp_path / "run")

    result = await asyncio.create_task(work())
    assert result.complete
    assert [word for word in words if "done" in word] == [{"done": 1}, {"done": 0}]


def test_a_result_says_why_the_run_ended_early(tmp_path: Path) -> None:
    ended = synthesize(["Why?"], models="builtin/offline", out=tmp_path / "ended", budget_tokens=10)
    whole = synthesize(["Why?"], models="builtin/offline", out=tmp_path / "whole")
    assert ended.stopped is not None and ended.stopped.startswith("budget of 10 tokens reached")
    assert "stopped: budget of 10 tokens reached" in repr(ended)
    assert whole.stopped is None and "stopped" not in repr(whole)


def test_rows_added_during_a_run_are_left_to_the_next_one(tmp_path: Path) -> None:
    queries, out = tmp_path / "queries.jsonl", tmp_path / "out"
    queries.write_text('{"query": "Why is the sky blue?"}\n{"query": "Why is grass green?"}\n')

    def grow(state: Any) -> None:
        if not state.finished and queries.stat().st_size < 1000:
            with queries.open("a") as file:
                file.writelines(f'{{"query": "Why is number {n} here?"}}\n' for n in range(50))

    for progress, rows in ((grow, 2), (None, 52)):
        result = synthesize(queries, models="builtin/offline", out=out, progress=progress)
        assert result.summary is not None
        assert (result.complete, result.summary.rows, result.summary.finished) == (True, rows, rows)
