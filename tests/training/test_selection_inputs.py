"""Queries with rubrics, and candidates, as files hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, DataItem, Rubric, RubricDataset, grade
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.formats import read_records
from autorubric.formats.rubrichub import RUBRICHUB
from autorubric.training.candidates import CandidateAnswer, read_candidates, read_graded_run
from autorubric.training.queries import RubricQuery, read_queries, read_turns

RUBRICS = [{"criterion": "Names a cause.", "points": 3}]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def query(name: str, text: str) -> RubricQuery:
    return RubricQuery(name, ({"role": "user", "content": text},), rubric_from(RUBRICS, "here"))


def test_final_jsonl_and_final_parquet_hold_the_same_queries(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"question": "Why?", "id": "q1", "rubrics": RUBRICS},
        {"question": "How?", "id": "q2", "rubrics": RUBRICS},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "final.parquet")
    from_lines = read_queries(lines(tmp_path / "final.jsonl", rows)).queries
    from_table = read_queries(tmp_path / "final.parquet").queries
    assert [(q.id, q.text, q.rubric) for q in from_lines] == [(q.id, q.text, q.rubric) for q in from_table]
    assert from_lines[0].rubric[0].weight == 3


def test_a_conversation_of_the_final_file_is_asked_as_one(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    turns.append({"role": "user", "content": "And then?"})
    final = lines(tmp_path / "final.jsonl", [{"question": json.dumps(turns), "id": "1", "rubrics": RUBRICS}])
    assert [query.turns for query in read_queries(final).queries] == [tuple(turns)]
    [(_, record)] = read_records(final)
    assert record.prompt == turns
    assert json.loads(RUBRICHUB.write(record).row["question"]) == turns


def test_an_id_of_two_queries_with_answers_is_refused(tmp_path: Path) -> None:
    asked = [("1", "Why?"), ("1", "Why?"), ("1", "How?"), ("2", "Who?"), ("2", "Why?")]
    rows = [{"id": name, "question": text, "answer": "So.", "rubrics": RUBRICS} for name, text in asked]
    found = read_queries(lines(tmp_path / "rows.jsonl", rows))
    assert [(one.text, len(one.answers)) for one in found.queries] == [("Why?", 2), ("Who?", 1)]
    told = [
        f"{tmp_path}/rows.jsonl:{n}: id '{name}' is already used on line {first}"
        for n, name, first in ((3, 1, 1), (5, 2, 4))
    ]
    assert found.problems == [f"{one}; ids must be unique" for one in told]


def test_a_verl_row_and_a_healthbench_row_are_read_as_conversations(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    turns.append({"role": "user", "content": "Why?"})
    verl = {"prompt": turns, "ability": "chat", "reward_model": {"rubrics": RUBRICS, "ground_truth": ""}}
    healthbench = {"prompt_id": "h1", "prompt": turns, "rubrics": RUBRICS}
    named = {"prompt": [{"role": "user", "content": "Who?", "name": "Ann"}], "rubrics": RUBRICS}
    first, second, third = read_queries(lines(tmp_path / "rows.jsonl", [verl, healthbench, named])).queries
    assert (first.id, first.source, second.id) == ("row-1", "chat", "h1")
    assert first.text == "user: Hi\n\nassistant: Yes?\n\nuser: Why?"
    assert third.text == "Who?"


def test_calls_of_tools_that_are_not_in_the_usual_form_are_text() -> None:
    call = {"function": {"name": "look_up", "arguments": "{}"}}
    other: list[Any] = [[call, 5], 5, [{"function": "x"}], [json.dumps(call)]]
    for calls, content in (([call], "Wait."), *((one, None) for one in other)):
        said = {"role": "assistant", "content": "Wait.", "tool_calls": calls}
        _, turn, _ = read_turns(
            [{"role": "user", "content": "Why?"}, said, {"role": "tool", "content": "So."}], "here"
        )
        assert ("tool_calls" in turn) == (content is not None), calls
        assert turn["content"] == content or turn["content"].startswith("Wait.\ncalls "), calls


def test_tools_are_definitions_and_part_of_the_query(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    bare = [tool["function"] for tool in tools]  # as in files of ShareGPT
    held: list[tuple[Any, Any]] = [
        (tools, tools),
        (json.dumps(tools), tools),
        (bare, tools),
        (["look_up"], None),
        ("a spade", None),
    ]
    for kind in ("response", "submission"):  # a row with `submission` is an item of a dataset
        for given, expected in held:
            row = {"question": "[]", "rubrics": RUBRICS, kind: "So.", "tools": given}
            [query] = read_queries(lines(tmp_path / "rows.jsonl", [row])).queries
            assert (query.text, query.tools) == ("[]", expected), (kind, given)
        rows = [{"question": "Why?", "rubrics": RUBRICS, kind: "So.", "tools": each} for each in ([], tools, tools)]
        found = read_queries(lines(tmp_path / "rows.jsonl", rows)).queries
        assert [(one.tools, len(one.answers)) for one in found] == [(None, 1), (tools, 2)], kind


def test_items_of_one_prompt_are_answers_to_one_query(tmp_path: Path) -> None:
    dataset = RubricDataset("Explain.", Rubric([Criterion(requirement="Is brief")]), name="essays")
    dataset.add_item("One.", "a", id="a")
    dataset.add_item("Two.", "b", id="b")
    dataset.to_file(tmp_path / "essays.json")
    dataset.to_file(tmp_path / "essays.jsonl")
    for name in ("essays.json", "essays.jsonl"):
        [found] = read_queries(tmp_path / name).queries
        assert (found.answers, found.source) == ((("a", "One."), ("b", "Two.")), "essays")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"question": "Why?", "id": "q"}, "no rubric"),
        ({"question": "Why?", "rubrics": []}, "no rubric"),
        ({"question": " ", "rubrics": RUBRICS}, "no query"),
        ({"rubrics": RUBRICS}, "no query; expected one of question, query, prompt, messages"),
        ({"question": "Why?", "rubrics": [{"criterion": "", "points": 1}]}, "rubric[0].criterion is ''"),
        ({"question": "Why?", "rubrics": [{"criterion": "x", "points": "ten"}]}, "rubric[0].points is 'ten'"),
        ({"question": "Why?", "rubrics": 7}, "a rubric is a list of criteria"),
        ({"messages": [{"role": "assistant", "content": "Hm"}], "rubrics": RUBRICS}, "ends with the assistant"),
        (
            {"prompt": "<image>What is it?", "images": ["a.jpg"], "rubrics": RUBRICS},
            "'prompt' refers to files in 'images' with <image>; expected text alone",
        ),
    ],
)
def test_a_row_that_is_wrong_is_named_with_its_line(tmp_path: Path, row: Any, told: str) -> None:
    found = read_queries(lines(tmp_path / "data.jsonl", [{"question": "Fine?", "rubrics": RUBRICS}, row]))
    assert len(found.queries) == 1
    [problem] = found.problems
    assert "data.jsonl:2" in problem and told in problem


def test_an_id_that_stands_twice_is_named(tmp_path: Path) -> None:
    rows = [{"question": text, "id": 7, "rubrics": RUBRICS} for text in ("a", "b")]
    assert "id '7' is already used on line 1" in read_queries(lines(tmp_path / "data.jsonl", rows)).problems[0]


def test_rule_criteria_become_checks_with_the_nulls_of_a_struct_dropped() -> None:
    tags = {"verifier": "rule", "function": "NumberOfWords", "parameters": {"num_words": 3.0, "N": None}}
    rubric = rubric_from([{"criterion": "length:words", "points": 10, "tags": tags}], "here")
    assert rubric[0].check == {"name": "NumberOfWords", "parameters": {"num_words": 3.0}}
    legacy = ["verifier:rule", "function:NumberOfWords", 'parameters:{"num_words": 3}']
    assert rubric_from([{"criterion": "x", "points": 1, "tags": legacy}], "here")[0].check is not None
    assert rubric_from([{"criterion": "x", "points": 1, "tags": ["axis:accuracy"]}], "here")[0].tags == [
        "axis:accuracy"
    ]


def test_rar_rows_json_texts_and_our_own_criteria_are_rubrics() -> None:
    [rar] = rubric_from([{"title": "Cause", "description": "Names a cause.", "weight": 5}], "here")
    assert (rar.name, rar.requirement, rar.weight) == ("Cause", "Names a cause.", 5)
    assert len(rubric_from(json.dumps({"rubrics": RUBRICS}), "here")) == 1
    assert rubric_from({"criteria": [{"requirement": "Is brief"}], "guidelines": "Be fair."}, "x").guidelines


def test_candidates_are_found_by_id_or_by_text_one_or_several_a_row(tmp_path: Path) -> None:
    queries = [query("q1", "Why?"), query("q2", "How?")]
    rows = [
        {"id": "q1", "answer": "Because.", "model": "m"},
        {"question": "How?", "answers": {"small": "So.", "large": "Thus."}},
        {"query": "Why?", "responses": ["Since."]},
        {"id": "q2", "response": "Slowly.", "sample_id": "mine"},
        {"id": "q1", "completion": [{"role": "assistant", "content": "As is."}]},  # as `select` writes it for TRL
    ]
    problems: list[str] = []
    found = read_candidates(lines(tmp_path / "c.jsonl", rows), queries, problems)
    assert not problems
    assert found == [
        CandidateAnswer("q1", "Because.", "q1-0", "m"),
        CandidateAnswer("q2", "So.", "q2-0", "small"),
        CandidateAnswer("q2", "Thus.", "q2-1", "large"),
        CandidateAnswer("q1", "Since.", "q1-1", ""),
        CandidateAnswer("q2", "Slowly.", "mine", ""),
        CandidateAnswer("q1", "As is.", "q1-2", ""),
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "q9", "answer": "x"}, "no query with the id 'q9'"),
        ({"query": "When?", "answer": "x"}, "no such query: 'When?'"),
        ({"answer": "x"}, "has no query"),
        ({"id": "q1"}, "has no answer"),
        ({"id": "q1", "answer": " "}, "'answer' is blank"),
        ({"id": "q1", "answers": []}, "'answers' is empty"),
        ({"id": "q1", "answers": ["x", ""]}, "'answers[1]' is blank"),
        (
            {"id": "q1", "answers": {"small": "x", "large": None}},
            "'answers['large']' is of type NoneType; expected a string",
        ),
        ({"id": "q1", "answer": 7}, "is of type int; expected a string"),
    ],
)
def test_a_candidate_that_is_wrong_is_named_with_its_line(tmp_path: Path, row: Any, told: str) -> None:
    problems: list[str] = []
    assert read_candidates(lines(tmp_path / "c.jsonl", [row]), [query("q1", "Why?")], problems) == []
    assert "c.jsonl:1" in problems[0] and told in problems[0]


def test_a_text_that_two_queries_share_needs_an_id(tmp_path: Path) -> None:
    problems: list[str] = []
    both = [query("q1", "Why?"), query("q2", "Why?")]
    read_candidates(lines(tmp_path / "c.jsonl", [{"query": "Why?", "answer": "x"}]), both, problems)
    assert "identify one of them by its id" in problems[0]


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_queries(tmp_path / "data.parquet")


def test_candidates_in_parquet_are_those_in_lines(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries = [query("q1", "Why?"), query("q2", "为什么？")]
    rows: list[dict[str, Any]] = [
        {"id": "q1", "answers": {"small": "So."}},
        {"id": "q1", "answers": {"large": "Because."}},
        {"query": "为什么？", "answer": "因为。", "sample_id": "s7"},
    ]
    columns = ("id", "answers", "query", "answer", "sample_id")
    filled = [{name: row.get(name) for name in columns} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled), tmp_path / "c.parquet")
    problems: list[str] = []
    from_table = read_candidates(tmp_path / "c.parquet", queries, problems)
    assert from_table == read_candidates(lines(tmp_path / "c.jsonl", rows), queries, problems)
    assert [(c.query, c.answer, c.sample_id, c.model) for c in from_table] == [
        ("q1", "So.", "q1-0", "small"),
        ("q1", "Because.", "q1-1", "large"),
        ("q2", "因为。", "s7", ""),
    ]
    assert not problems


def test_candidates_come_in_any_kind_of_file_and_usual_column(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text('ID;Output\nq1;"So;\nthat"\n')
    notes: list[str] = []
    [found] = read_candidates(tmp_path / "c.txt", [query("q1", "Why?")], [], None, notes)
    assert (found.query, found.answer) == ("q1", "So;\nthat")
    assert [note.partition(": ")[2] for note in notes] == [
        "column 'ID' is read as the id",
        "column 'Output' is read as the submission",
    ]
    talk = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    rows = [{"messages": talk}, {"messages": talk[:1], "answers": {"m": "No."}}]
    told = read_candidates(lines(tmp_path / "c.jsonl", rows), [query("q1", "Why?")], [])
    assert told == [CandidateAnswer("q1", "So.", "q1-0", ""), CandidateAnswer("q1", "No.", "q1-1", "m")]
    (tmp_path / "c.csv").write_text("id,output,generation\nq1,a,b\n")
    with pytest.raises(
        InputError, match="may be column 'output' or 'generation'; choose one with --column submission=NAME"
    ):
        read_candidates(tmp_path / "c.csv", [query("q1", "Why?")], [])


def test_rows_of_the_ruft_release_are_answers_to_their_query(tmp_path: Path) -> None:
    def row(text: str, answer: str, sample: str) -> dict[str, Any]:
        return {"source": "chat", "query": text, "answer": answer, "sample_id": sample, "rubrics": RUBRICS}

    rows = [row("Why?", "So.", "a-0"), row("How?", "Thus.", "b-0"), row("Why?", "Because.", "a-1")]
    first, second = read_queries(lines(tmp_path / "ruft.jsonl", rows)).queries
    assert (first.id, first.source, first.answers) == ("row-1", "chat", (("a-0", "So."), ("a-1", "Because.")))
    assert (second.id, second.answers) == ("row-2", (("b-0", "Thus."),))


@pytest.mark.filterwarnings("ignore:.*items.jsonl has changed since")
def test_a_graded_run_gives_candidates_with_their_models_scores_and_failures(tmp_path: Path) -> None:
    rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
    items = [
        DataItem("So it is.", "", id="a", metadata={"model": "m1"}),
        DataItem("Because that is how it has always been.", "", metadata={"model": 3}),
        DataItem("No.", ""),
    ]
    grade(RubricDataset("Why?", rubric, items), judge="builtin/offline", out=tmp_path / "run")

    def found() -> list[tuple[str, str, float | None, str | None]]:
        scored = read_graded_run(tmp_path / "run").scored
        return [(one.candidate.sample_id, one.candidate.model, one.score, one.failure) for one in scored]

    assert found() == [("a", "m1", 1.0, None), ("item-1", "", 0.0, None), ("item-2", "", 1.0, None)]
    path = tmp_path / "run" / "items.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[0]["report"]["score"] = None
    lines(path, records)
    assert found()[0] == ("a", "m1", None, "abstained: no criterion with a positive weight could be assessed")
    records[0]["error"] = "timeout: none"
    lines(path, records)
    assert found()[0] == ("a", "m1", None, "timeout: none")
    records[0] |= {"error": None, "report": {**records[0]["report"], "score": 1.5}}
    lines(path, records)
    with pytest.raises(InputError, match=r"item 0 has the score 1\.5; expected 0 to 1"):
        found()
