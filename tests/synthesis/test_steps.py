"""The step files and the export."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric.llm.request import Failure
from autorubric.synthesis.final_files import Exported, build_final_row, export_final, export_row
from autorubric.synthesis.method import Shape, build_plan
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.stage_runner import Row
from autorubric.synthesis.stages import STEP_FILES, Plan, StageOutcome
from autorubric.synthesis.steps import RowStore, list_step_paths, read_rows, write_steps
from autorubric.synthesis.templates import load_synthesis_prompts

Make = Callable[..., Any]  # makes a `Bench`, see conftest

GROUNDS = dict.fromkeys("ab", "reference")
PLAN = build_plan(load_synthesis_prompts(None, full=False), Shape(("response_a", "response_b"), GROUNDS, {}))
ITEM = {"title": "Cause", "description": "Names the cause.", "weight": 7}


def query(index: int, question: str = "Why?", **more: Any) -> Query:
    fields = {**more, "question": question, "id": "", "__source_index__": index, "__record_id__": f"idx:{index}"}
    return Query(index, f"idx:{index}", fields)


def finished(query: Query, plan: Plan = PLAN, **failures: Failure) -> Row:
    row = Row(query, dict(query.fields))
    for stage in plan.stages:
        value: Any = [ITEM] if isinstance(stage.empty, list) else f"{stage.name} text"
        failure = failures.get(stage.name)
        row.record_outcome(stage, StageOutcome(failure=failure) if failure else StageOutcome(value, "m"))
    return row


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def written(directory: Path, queries: list[Query], rows: list[Row]) -> list[list[dict[str, Any]]]:
    with TemporaryFile("w+b") as file:
        store = RowStore(file, PLAN)
        for row in rows:
            store.add(row)
        write_steps(list_step_paths(directory, 4), iter(queries), store)
    return [lines(directory / name) for name in STEP_FILES[:5]]


def exported(directory: Path) -> Exported:
    return export_final(directory, map(export_row, read_rows(directory / STEP_FILES[4])))


def test_each_step_file_adds_its_fields_to_the_row_of_the_step_before(tmp_path: Path) -> None:
    asked = query(0, topic="sky")
    steps = written(tmp_path, [asked], [finished(asked)])
    base = {"topic": "sky", "question": "Why?", "id": "", "__source_index__": 0, "__record_id__": "idx:0"}
    reference = base | {"reference": "reference text", "reference_model": "m"}
    assert steps[0] == [reference]
    responses = {f"response_{x}{end}": v for x in "ab" for end, v in (("", f"response_{x} text"), ("_model", "m"))}
    assert steps[1] == [reference | responses]
    assert list(steps[1][0])[-4:] == ["response_a", "response_a_model", "response_b", "response_b_model"]
    assert steps[4][0]["augmented_rubrics"] == [ITEM]
    assert list(steps[4][0])[:5] == list(base)


def test_rows_come_in_input_order_whatever_the_order_of_finishing(tmp_path: Path) -> None:
    asked = [query(i, f"q{i}") for i in range(4)]
    steps = written(tmp_path, asked, [finished(asked[i]) for i in (2, 0, 3, 1)])
    assert [row["question"] for row in steps[4]] == ["q0", "q1", "q2", "q3"]


def test_a_failed_stage_is_written_with_its_error(tmp_path: Path) -> None:
    asked = query(0)
    steps = written(tmp_path, [asked], [finished(asked, rubrics_b=Failure("server", "500 again"))])
    assert steps[2][0]["rubrics_b"] == []
    assert steps[2][0]["rubrics_b_error"] == "server: 500 again"
    assert "rubrics_b_model" not in steps[2][0]


def test_a_row_that_was_not_reached_stands_in_no_file_of_a_later_step(tmp_path: Path) -> None:
    asked = query(0)
    steps = written(tmp_path, [asked], [finished(asked, rubrics_b=Failure("stopped", "interrupted"))])
    assert [len(rows) for rows in steps] == [1, 1, 0, 0, 0]


def test_a_shorter_input_leaves_the_other_rows_alone(tmp_path: Path) -> None:
    asked = [query(i, f"q{i}") for i in range(5)]
    written(tmp_path, asked, [finished(q) for q in asked])
    steps = written(tmp_path, asked[:2], [finished(q) for q in asked[:2]])
    assert [row["question"] for row in steps[4]] == ["q0", "q1", "q2", "q3", "q4"]
    assert exported(tmp_path).rows == 5


def test_a_step_file_is_replaced_only_if_it_changes(tmp_path: Path) -> None:
    one, two = query(0), query(1, "How?")
    rows = [finished(one), finished(two)]
    written(tmp_path, [one, two], rows)
    paths = [tmp_path / name for name in STEP_FILES[:5]]

    def changed(queries: list[Query], now: list[Row]) -> list[bool]:
        before = [path.stat().st_ino for path in paths]
        written(tmp_path, queries, now)
        return [path.stat().st_ino != number for path, number in zip(paths, before, strict=True)]

    assert not any(changed([one, two], rows))
    assert not any(changed([one, two], rows[:1]))  # the other row is kept
    failing = finished(two, merged_rubrics=Failure("server", "HTTP 503"))
    assert changed([one, two], [rows[0], failing]) == [False, False, False, True, True]
    more = [one, two, query(2, "Who?")]
    assert all(changed(more, [*rows, finished(more[2])]))
    assert [row["question"] for row in lines(paths[4])] == ["Why?", "How?", "Who?"]
    assert all(changed(more[1:], []))  # the row that is not in the input goes to the end
    assert [row["question"] for row in lines(paths[4])] == ["How?", "Who?", "Why?"]


def test_an_interrupted_run_keeps_the_rows_it_did_not_come_to_in_their_place(tmp_path: Path) -> None:
    asked = [query(i, f"q{i}") for i in range(4)]
    written(tmp_path, asked, [finished(q) for q in asked])
    steps = written(tmp_path, asked, [finished(asked[2])])
    assert [row["question"] for row in steps[4]] == ["q0", "q1", "q2", "q3"]


def test_a_row_of_another_question_does_not_stand_in_for_one_that_was_not_reached(tmp_path: Path) -> None:
    written(tmp_path, [query(0, "old")], [finished(query(0, "old"))])
    steps = written(tmp_path, [query(0, "new")], [])
    assert steps[4] == []


def test_a_row_taken_away_in_front_doubles_none_behind_it(bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    # Lines are the keys here, so every row behind moves up, and the last line's row is the one before it now.
    b = bench()
    b.write("zero", "one", "two", ids=False)
    run = ["--id-column", ""]
    assert b.synthesize(*run) == 0
    b.write("one", "two", ids=False)
    assert b.synthesize(*run) == 0
    assert b.endpoint.counts.requests == 21
    for name in ("step0_reference.jsonl", "step4_augmented.jsonl", "final.jsonl"):
        assert [row["question"] for row in b.rows(name)] == ["one", "two"]
    assert "moved to another id or line: 1" in capsys.readouterr().out
    assert b.manifest()["counts"]["replaced"] == {"changed": 2, "moved": 1}


@pytest.mark.parametrize(("first", "second"), [("", "id"), ("id", "")])
def test_rows_that_get_an_id_or_lose_it_stand_once(bench: Make, first: str, second: str) -> None:
    b = bench("one", "two", "three")
    assert b.synthesize("--id-column", first) == 0
    b.write("one", "two")
    assert b.synthesize("--id-column", second) == 0
    assert b.endpoint.counts.requests == 21
    assert [row["question"] for row in b.rows()] == ["one", "two", "three"]


def test_two_ids_with_the_same_question_are_two_rows(bench: Make) -> None:
    b = bench("one")
    assert b.synthesize() == 0
    b.input.write_text(json.dumps({"id": "other", "question": "one"}) + "\n")
    assert b.synthesize() == 0
    assert [(row["id"], row["question"]) for row in b.rows()] == [("other", "one"), ("q0", "one")]


def test_the_scratch_file_is_gone_afterwards(tmp_path: Path) -> None:
    written(tmp_path, [query(0)], [finished(query(0))])
    assert {p.name for p in tmp_path.iterdir()} == set(STEP_FILES[:5])


def test_text_with_line_breaks_stays_one_line_a_row(tmp_path: Path) -> None:
    asked = query(0, "one\ntwo\u2028three\r\n")
    assert written(tmp_path, [asked], [finished(asked)])[0][0]["question"] == "one\ntwo\u2028three\r\n"


def test_the_export_has_the_seeds_schema(tmp_path: Path) -> None:
    asked = query(0, " Why? ")
    written(tmp_path, [asked], [finished(asked)])
    exported(tmp_path)
    table = pq.read_table(tmp_path / "final.parquet")
    assert table.schema == pa.schema(
        [
            ("question", pa.string()),
            ("id", pa.string()),
            ("rubrics", pa.list_(pa.struct([("criterion", pa.string()), ("points", pa.int32())]))),
        ]
    )
    final = {"question": "Why?", "id": "", "rubrics": [{"criterion": "Names the cause.", "points": 7}]}
    assert table.to_pylist() == [final]
    assert lines(tmp_path / "final.jsonl") == [final]


def test_an_export_without_rows_keeps_the_schema(tmp_path: Path) -> None:
    (tmp_path / STEP_FILES[4]).write_text("")
    assert exported(tmp_path).rows == 0
    assert pq.read_table(tmp_path / "final.parquet").schema.names == ["question", "id", "rubrics"]


def item(description: str, weight: int) -> dict[str, Any]:
    return {"title": "T", "description": description, "weight": weight}


def test_the_cap_keeps_evolved_criteria_with_more_points() -> None:
    # 20 base criteria of 5 points and 2 evolved ones of 9: a cap of 20 keeps both evolved ones and the first 18.
    base = [item(f"base {i}", 5) for i in range(20)]
    row = {"question": "q", "merged_rubrics": base, "augmented_rubrics": [item("new 1", 9), item("new 2", 9)]}
    final = build_final_row(row, 20)
    assert final is not None
    kept = [c["criterion"] for c in final["rubrics"]]
    assert kept == [*(f"base {i}" for i in range(18)), "new 1", "new 2"]


def test_duplicates_in_other_spacing_keep_the_higher_points_at_the_first_place() -> None:
    row = {
        "question": "q",
        "merged_rubrics": [item("Mentions  the dose", 3), item("Other", 1)],
        "augmented_rubrics": [item("mentions\nthe dose", 8)],
    }
    final = build_final_row(row)
    assert final is not None
    assert [(c["criterion"].lower().split(), c["points"]) for c in final["rubrics"]] == [
        (["mentions", "the", "dose"], 8),
        (["other"], 1),
    ]


def test_an_id_of_none_is_an_empty_id_and_a_rubric_of_zeros_is_not_exported() -> None:
    final = build_final_row({"question": "q", "id": None, "merged_rubrics": [ITEM]})
    assert final is not None
    assert final["id"] == ""
    assert build_final_row({"question": "q", "merged_rubrics": [item("x", 0)]}) is None


def test_rows_exported_as_they_finish_are_those_of_the_last_step_file(tmp_path: Path) -> None:
    texts = ["Why?", "one\ntwo\u2028", "\u4e3a\u4ec0\u4e48\uff1f", "How?", "When?"]
    asked = [query(place, text) for place, text in enumerate(texts)]
    failed = {2: Failure("server", "500"), 3: Failure("stopped", "interrupted")}
    with TemporaryFile("w+b") as file:
        store = RowStore(file, PLAN, export_row)
        for place in (4, 0, 3, 2, 1):
            store.add(finished(asked[place], PLAN, **({"merged_rubrics": failed[place]} if place in failed else {})))
        paths = list_step_paths(tmp_path, 4)
        write_steps(paths, iter(asked), store)
        made = list(store.read_exported())
        assert paths[4] in store.owned
    assert made == [export_row(row) for row in read_rows(paths[4])]
    # The row that failed is in the file without a rubric; the one that was stopped before its merge is not.
    assert [len(one["rows"]) for one in made] == [1, 1, 0, 1]


def test_a_finished_row_takes_two_numbers_of_memory(tmp_path: Path) -> None:
    with TemporaryFile("w+b") as file:
        store = RowStore(file, PLAN, export_row)
        for place in range(200):  # loads what the first rows need
            store.add(finished(query(place)))
        tracemalloc.start()
        for place in range(200, 2700):
            store.add(finished(query(place)))
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # Two numbers of 8 bytes, an eighth more for growth, and the buffer of the file.
    assert taken < 2500 * 18 + 20_000
