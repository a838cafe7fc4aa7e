"""Taking over an output directory of the public pipeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]  # makes a `Bench`, see conftest

ITEM = {"title": "Cause", "description": "Names the cause.", "weight": 7}


def public_row(index: int, question: str, step: int, **changes: Any) -> dict[str, Any]:
    """A row as the public pipeline leaves it after a step, made by a model called `old`."""
    row: dict[str, Any] = {"question": question, "id": f"q{index}", "__source_index__": index}
    row["__record_id__"] = f"q{index}"
    fields: list[tuple[int, str, Any]] = [
        (0, "reference", f"reference {index}"),
        (1, "response_a", f"response a {index}"),
        (1, "response_b", f"response b {index}"),
        (2, "rubrics_a", [ITEM]),
        (2, "rubrics_b", [{**ITEM, "title": "B"}]),
        (3, "merged_rubrics", [ITEM]),
        (4, "augmented_rubrics", []),
    ]
    for at, name, value in fields:
        if at <= step:
            row |= {name: value, f"{name}_model": "old"}
    return row | changes


NAMES = ["step0_reference", "step1_responses", "step2_rubrics", "step3_merged", "step4_augmented"]


def leave(out: Path, step: int, rows: list[dict[str, Any]]) -> None:
    out.mkdir(exist_ok=True)
    (out / f"{NAMES[step]}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def leave_all(out: Path, *questions: str, last: int = 4) -> None:
    for step in range(last + 1):
        leave(out, step, [public_row(i, q, step) for i, q in enumerate(questions)])


def test_finished_fields_are_not_asked_again_and_keep_their_models_name(bench: Make) -> None:
    b = bench("one", "two")
    leave_all(b.out, "one", "two")
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 0
    rows = b.rows("step4_augmented.jsonl")
    assert [row["reference"] for row in rows] == ["reference 0", "reference 1"]
    assert {row["merged_rubrics_model"] for row in rows} == {"old"}
    assert len(b.rows()) == 2


def test_what_is_missing_is_asked_and_what_is_there_is_used(bench: Make) -> None:
    b = bench("one", "two")
    leave_all(b.out, "one", "two", last=2)
    assert b.synthesize() == 0
    assert Counter(b.asked) == {"m-merge": 2, "m-augment": 2}
    row = b.rows("step4_augmented.jsonl")[0]
    assert (row["rubrics_a_model"], row["merged_rubrics_model"]) == ("old", "m-merge")


def test_a_second_run_asks_nothing_more(bench: Make) -> None:
    b = bench("one", "two")
    leave_all(b.out, "one", "two", last=2)
    b.synthesize()
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 4


def test_a_changed_question_under_a_known_id_is_noticed_and_asked_anew(
    bench: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    b = bench("one, edited", "two")
    leave_all(b.out, "one", "two")
    assert b.synthesize() == 0
    assert b.endpoint.counts.requests == 7
    assert "sent again because their inputs had changed" in capsys.readouterr().out
    assert [row["question"] for row in b.rows()] == ["one, edited", "two"]


def test_a_field_with_an_error_beside_it_is_asked_again(bench: Make) -> None:
    b = bench("one")
    leave_all(b.out, "one")
    broken = public_row(0, "one", 2, rubrics_b=[], rubrics_b_error="RateLimitError")
    leave(b.out, 2, [broken])
    leave(b.out, 3, [broken | {"merged_rubrics": [ITEM], "merged_rubrics_model": "passthrough"}])
    assert b.synthesize() == 0
    # The merged rubric stood for the first candidate alone, so it and what was evolved from it are made anew.
    assert Counter(b.asked) == {"m-rubric-b": 1, "m-merge": 1, "m-augment": 1}


def test_half_a_character_in_an_imported_value_is_written_as_a_question_mark(bench: Make) -> None:
    b = bench("one")
    leave_all(b.out, "one")
    leave(b.out, 0, [public_row(0, "one", 0, reference="half \ud83d here")])
    assert b.synthesize() == 0
    assert b.rows("step0_reference.jsonl")[0]["reference"] == "half ? here"


def test_an_empty_list_of_evolved_criteria_is_finished_and_any_other_empty_list_is_not(bench: Make) -> None:
    b = bench("one")
    leave_all(b.out, "one")
    leave(b.out, 2, [public_row(0, "one", 2, rubrics_a=[])])
    assert b.synthesize() == 0
    assert Counter(b.asked) == {"m-rubric-a": 1, "m-merge": 1, "m-augment": 1}


def test_what_no_model_made_is_made_anew_from_what_is_there(bench: Make) -> None:
    # The second candidate rubric and both responses are there, so neither stand-in holds any longer.
    b = bench("one", "two")
    leave_all(b.out, "one", "two")
    for step, name, made in ((3, "merged_rubrics", "passthrough"), (4, "augmented_rubrics", "skipped(no responses)")):
        rows = [public_row(i, q, step) for i, q in enumerate(("one", "two"))]
        leave(b.out, step, [rows[0] | {f"{name}_model": made}, rows[1]])
    assert b.synthesize() == 0
    assert Counter(b.asked) == {"m-merge": 1, "m-augment": 1}
    assert [row["merged_rubrics_model"] for row in b.rows("step4_augmented.jsonl")] == ["m-merge", "old"]


def test_refreshing_a_role_asks_it_anew_whatever_was_imported(bench: Make) -> None:
    b = bench("one")
    leave_all(b.out, "one")
    assert b.synthesize("--refresh", "augment") == 0
    assert b.asked == ["m-augment"]


@pytest.mark.parametrize("ids", [False, True])
def test_rows_without_ids_are_known_by_their_question_where_their_line_moved_or_got_an_id(
    bench: Make, ids: bool
) -> None:
    b = bench()
    b.write("new", "one", ids=ids)
    for step in range(5):
        row = public_row(0, "one", step)
        leave(b.out, step, [{k: v for k, v in row.items() if k not in {"id", "__record_id__"}}])
    assert b.synthesize(*([] if ids else ["--id-column", ""])) == 0
    # Line 0 holds another question now; what was made for the old one stands in line 1.
    assert b.endpoint.counts.requests == 7
    rows = b.rows("step4_augmented.jsonl")
    assert [(row["question"], row["merged_rubrics_model"]) for row in rows] == [("new", "m-merge"), ("one", "old")]
    assert [row["question"] for row in b.rows()] == ["new", "one"]


def test_two_rows_with_one_question_keep_what_was_made_for_each(bench: Make) -> None:
    b = bench("one", "one")
    leave_all(b.out, "one", "one")
    assert b.synthesize() == 0
    assert [row["reference"] for row in b.rows("step4_augmented.jsonl")] == ["reference 0", "reference 1"]


def test_rows_that_the_input_does_not_name_stay_in_every_file(bench: Make) -> None:
    b = bench("one")
    leave_all(b.out, "one", "two", "three")
    assert b.synthesize() == 0
    assert [row["question"] for row in b.rows("step2_rubrics.jsonl")] == ["one", "two", "three"]
    assert len(b.rows()) == 3


def test_lines_that_the_public_pipeline_could_not_read_cost_nothing_but_themselves(bench: Make) -> None:
    b = bench("one", "two")
    leave_all(b.out, "one", "two")
    path = b.out / "step0_reference.jsonl"
    lines = path.read_text().splitlines()
    path.write_text(lines[0] + "\n" + lines[1][:20] + "\n")
    assert b.synthesize() == 0
    # The reference of the second row is gone, so it is made anew, and so is what was made from it.
    assert Counter(b.asked) == Counter(["m-reference", "m-rubric-a", "m-rubric-b", "m-merge", "m-augment"])


def test_fields_of_an_input_row_are_taken_as_they_are(bench: Make) -> None:
    b = bench()
    b.input.write_text(json.dumps({"id": "a", "question": "one", "reference": "Given."}) + "\n")
    assert b.synthesize() == 0
    assert "m-reference" not in b.asked
    row = b.rows("step0_reference.jsonl")[0]
    assert (row["reference"], row["reference_model"]) == ("Given.", "input")
