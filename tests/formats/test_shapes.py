"""Rows as their own projects write them, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric.core.criterion import Criterion
from autorubric.errors import InputError
from autorubric.formats import Record, convert, detect, read_records
from autorubric.formats.rubrichub import PARAMETERS
from tests.offenders import each


def read(row: dict[str, Any]) -> Record:
    return detect(row).read(row)


NULLS: dict[str, Any] = dict.fromkeys(PARAMETERS)
RULE = {"function": "NumberOfWords", "parameters": {**NULLS, "num_words": 9.0, "relation": "at least"}}
RELEASED: list[dict[str, Any]] = [
    {
        "criterion": "Does the response address the follow question?\\n\\nDescribe tea.",
        "points": 10,
        "tags": {"function": "", "parameters": NULLS, "verifier": "llm"},
    },
    {"criterion": "length_constraints:number_words", "points": 10, "tags": {**RULE, "verifier": "rule"}},
]
TURN = {"content": "Describe tea.", "role": "user"}


def released() -> dict[str, Any]:
    model = {"ground_truth": "", "rubrics": RELEASED, "style": "rubric"}
    return {
        "prompt": [TURN],
        "data_source": "Instruction_Following",
        "ability": "Instruction_Following",
        "reward_model": model,
        "extra_info": {"prompt": [TURN], "reward_model": model},
        "Rubrics": [{"criterion": one["criterion"], "points": one["points"]} for one in RELEASED],
    }


def test_a_row_of_the_release_is_read_and_written_as_it_is() -> None:
    form = detect(released())
    record = form.read(released())
    assert (form.name, record.domain, record.prompt, record.reference) == (
        "rurl",
        "Instruction_Following",
        "Describe tea.",
        None,
    )
    assert [one.check for one in record.criteria] == [
        None,
        {"name": "NumberOfWords", "parameters": {"num_words": 9, "relation": "at least"}},
    ]
    assert form.write(record) == (released(), (), ())


@each(
    "tags",
    [
        [
            "axis:accuracy",
            "verifier:rule",
            "function:NumberOfWords",
            'parameters:{"num_words": 9, "relation": "at least"}',
        ],
        {**RULE, "verifier": "rule"},
    ],
)
def test_verl_rows_are_read_with_tags_of_either_layout(tags: Any) -> None:
    rubrics = [{"criterion": "At least nine words.", "points": 5, "tags": tags}]
    row = {
        "data_source": "rl",
        "prompt": [TURN],
        "ability": "chat",
        "reward_model": {"style": "rubric", "rubrics": rubrics, "ground_truth": ""},
        "extra_info": {"index": 7, "prompt": [TURN], "reward_model": {"rubrics": rubrics}},
    }
    record = read(row)
    assert record.criteria[0].check == {
        "name": "NumberOfWords",
        "parameters": {"num_words": 9, "relation": "at least"},
    }
    assert record.metadata == {"data_source": "rl", "extra_info": {"index": 7}}
    # Only the mirror, where the reward function of RuscaRL looks.
    del row["reward_model"]["rubrics"]  # type: ignore[attr-defined]
    assert read(row).criteria == record.criteria
    row["reward_model"] = {"style": "rubric", "rubrics": [{**rubrics[0], "points": 4}]}
    with pytest.raises(InputError, match=r"reward_model.rubrics and extra_info.reward_model.rubrics differ"):
        read(row)


def test_healthbench_rows_keep_their_ideal_completion() -> None:
    row = {
        "prompt_id": "p1",
        "prompt": [TURN],
        "rubrics": [{"criterion": "Lies.", "points": -5, "tags": ["axis:accuracy"]}],
        "example_tags": ["theme:hedging"],
        "ideal_completions_data": {
            "ideal_completion": "Tea is a drink.",
            "ideal_completions_group": "g",
            "ideal_completions_ref_completions": ["a"],
        },
    }
    record = read(row)
    assert (record.reference, record.criteria[0].tags) == ("Tea is a drink.", ["axis:accuracy"])
    written = detect(row).write(record).row
    assert {key: written[key] for key in row} == row


@each("key", ["description", "rubric_item", "Ingredient"])
def test_open_instruct_names_a_criterion_in_three_ways(key: str) -> None:
    truth = {"query": "Describe tea.", "rubrics": [{key: "Names a plant.", "weight": 0.5}, {key: "Is brief."}]}
    row = {"messages": [TURN], "ground_truth": json.dumps(truth), "dataset": "general_rubric"}
    record = read(row)
    assert [(one.requirement, one.weight) for one in record.criteria] == [("Names a plant.", 0.5), ("Is brief.", 1.0)]
    assert record.metadata == {}
    with pytest.raises(InputError, match="ground_truth is not valid JSON"):
        read({**row, "ground_truth": "{"})


def test_rar_rubrics_may_be_json_text() -> None:
    rubric = [{"title": "Unit", "description": "Essential Criteria: Names the unit.", "weight": 5}]
    row = {
        "question": "How much?",
        "reference_answer": "4 g",
        "question_source": "ResearchQA",
        "rubric": json.dumps(rubric),
        "rubric_list": ["Essential Criteria: Names the unit."],
        "rubric_count": 1,
    }
    record = read(row)
    assert (record.criteria[0].name, record.metadata) == ("Unit", {"question_source": "ResearchQA"})


def test_choices_of_verifiers_are_options_from_worst_to_best(tmp_path: Path) -> None:
    (tmp_path / "rubric.toml").write_text(
        '[[criteria]]\nname = "depth"\ntext = "How deep?"\nweight = 2\nchoices = ["flat", "fair", "deep"]\n\n'
        '[[criteria]]\nname = "kind"\ntext = "Is it kind?"\nweight = 1.5\nchoices = ["UNMET", "MET"]\n'
    )
    ((_, record),) = read_records(tmp_path / "rubric.toml")
    depth, kind = record.criteria
    assert [(one.label, one.value) for one in depth.options or []] == [("flat", 0.0), ("fair", 0.5), ("deep", 1.0)]
    assert (kind.options, kind.weight) == (None, 1.5)
    convert(tmp_path / "rubric.toml", tmp_path / "rubric.json", "verifiers")
    ((_, again),) = read_records(tmp_path / "rubric.json")
    assert again == record


@each(
    ("entry", "message"),
    [
        ({"name": "a", "text": "b", "weight": -1}, "verifiers needs at least 0"),
        ({"name": "a", "text": "b", "choices": ["one"]}, "at least two strings"),
        ({"name": "a", "text": "b", "choices": ["one", "One"]}, "given twice"),
        ({"name": 5, "text": "b"}, r"criteria\[0\].name is 5; expected a string"),
    ],
)
def test_rubric_files_that_are_wrong_are_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read({"criteria": [entry]})


@pytest.mark.parametrize(
    "shape",
    [
        [{"weight": 5.0, "requirement": "Is brief"}],
        {"rubric": [{"weight": 5.0, "requirement": "Is brief"}]},
        {"sections": [{"criteria": [{"weight": 5.0, "requirement": "Is brief"}]}]},
        {"rubric": {"criteria": [{"weight": 5.0, "requirement": "Is brief"}]}},
    ],
)
def test_a_rubric_alone_is_read_in_every_shape(shape: Any, tmp_path: Path) -> None:
    (tmp_path / "rubric.json").write_text(json.dumps(shape))
    ((_, record),) = read_records(tmp_path / "rubric.json")
    assert record.criteria == (Criterion(weight=5, requirement="Is brief"),)


def test_options_of_a_rubric_go_through_a_rubric_file(tmp_path: Path) -> None:
    options = [{"label": "No", "value": 0.0, "na": False}, {"label": "Yes", "value": 1.0, "na": False}]
    criteria = [{"weight": 5.0, "requirement": "Is it right?", "scale_type": "nominal", "options": options}]
    (tmp_path / "rubric.json").write_text(json.dumps(criteria))
    done = convert(tmp_path / "rubric.json", tmp_path / "rubric.yaml", "llmdc")
    assert not done.lost
    ((_, record),) = read_records(tmp_path / "rubric.yaml")
    assert record.criteria[0].scale_type == "nominal"


def test_feedback_collection_rows_are_read_as_a_scale_of_five() -> None:
    row = {
        "instruction": "the whole prompt",
        "orig_instruction": "Write kindly.",
        "orig_response": "Dear all,",
        "orig_reference_answer": "Dear friends,",
        "orig_criteria": "Is it kind?",
        **{f"orig_score{n}_description": f"Kind to degree {n}." for n in range(1, 6)},
        "orig_feedback": "Fine.",
        "orig_score": "4",
    }
    record = read(row)
    assert (record.prompt, record.answer, record.reference) == ("Write kindly.", "Dear all,", "Dear friends,")
    assert [one.value for one in record.criteria[0].options or []] == [0, 0.25, 0.5, 0.75, 1]
    assert record.metadata == {"instruction": "the whole prompt", "orig_feedback": "Fine.", "orig_score": "4"}
    written = detect(row).write(record).row
    assert {key: value for key, value in written.items() if key in row and key != "instruction"} == {
        key: value for key, value in row.items() if key != "instruction"
    }
    del row["orig_score3_description"]
    with pytest.raises(InputError, match="orig_score3_description is missing"):
        read(row)


def test_fine_tuning_rows_keep_their_score_and_details() -> None:
    row = {
        "source": "Medical",
        "query": "Why?",
        "answer": "So.",
        "sample_id": "s1",
        "rubrics": [{"criterion": "Says why.", "points": 5}],
        "rubric_score": 0.8,
        "rubric_judge_details": '[{"met": true}]',
    }
    record = read(row)
    assert (record.domain, record.answer, record.metadata["rubric_judge_details"]) == (
        "Medical",
        "So.",
        [{"met": True}],
    )
    assert detect(row).write(record, columnar=True) == (row, (), ())


OWN: dict[str, Any] = {
    "submission": "Coal.",
    "description": "short",
    "prompt": "Why?",
    "rubric": [{"name": "Cause", "requirement": "Names a cause."}],
}


def test_an_item_of_ours_keeps_what_is_next_to_its_rubric() -> None:
    def written(row: dict[str, Any]) -> dict[str, Any]:
        return detect(row).write(read(row), carry=False).row

    row = {**OWN, "ground_truth": ["MET"], "metadata": {"source": "exam"}}
    found = written(row)
    # Ground truth and description have keys of their own; reasons that nobody gave are no key.
    assert (found["ground_truth"], found["description"], found["metadata"]) == (["MET"], "short", {"source": "exam"})
    assert "ground_truth_reasons" not in found
    reasons = ["It says coal."]
    assert written({**row, "ground_truth_reasons": reasons})["ground_truth_reasons"] == reasons
    assert "metadata" not in written(OWN)


def test_what_is_wrong_with_an_item_of_ours_has_the_place_of_its_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(OWN) + "\n" + json.dumps({**OWN, "ground_truth": ["MET", "MET"]}) + "\n")
    with pytest.raises(InputError) as error:
        list(read_records(path))
    [problem] = error.value.problems
    assert problem.startswith(f"{path}:2: ") and "Item" not in problem


@each(("dataset", "written"), [("math", "math"), (None, "general_rubric"), (["math", "general"], "general_rubric")])
def test_open_instruct_keeps_the_name_of_a_data_set_and_unwraps_a_list_of_one(dataset: Any, written: str) -> None:
    truth = json.dumps({"query": "Describe tea.", "rubrics": [{"description": "Is brief."}]})
    row = {"messages": [TURN], "ground_truth": [truth], "dataset": dataset}
    record = read(row)
    assert [one.requirement for one in record.criteria] == ["Is brief."]
    assert detect(row).write(record).row["dataset"] == written
    for wrong in ([truth, truth], []):
        with pytest.raises(InputError, match="expected an object with query and rubrics"):
            read({**row, "ground_truth": wrong})


def test_entries_of_a_list_are_counted_from_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([OWN, "Coal."]))
    with pytest.raises(InputError, match=r"rows\.json: entry 2: expected an object, got str"):
        list(read_records(path))
